"""Reference games between a speaker and a listener, by the Gumbel-Softmax or by REINFORCE."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch

from plot_attractors.baselines import (
    Candidates,
    EmergentCommunication,
    choose,
    draw_candidates,
    reinforce_loss,
)
from plot_attractors.data import Batch, DataSet
from plot_attractors.training.em import (
    USAGE_INPUTS,
    Inference,
    Phase,
    clipped_update,
    cosine,
    require_model,
    usage,
)

INPUTS = 1000  # of each split whose sentences the listener is tested on


@dataclass(frozen=True)
class Config:
    # the game
    batch: int = 128  # targets in an update; 1 + distractors or more
    distractors: int = 49  # among which the listener looks for the target
    # from the target: in some bit, or in the class the training
    distractors_differ: Literal["input", "class"] = "input"
    training: Literal["gumbel_softmax", "reinforce"] = "gumbel_softmax"
    updates: int = 10000
    temperature: tuple[float, float] = (
        2.0,
        0.5,
    )  # of the Gumbel-Softmax, first and last; falls geometrically
    # the listener reads whole tokens, and only the gradient is relaxed
    straight_through: bool = True
    entropy_weight: float = 0.01  # of the speaker's entropy under REINFORCE
    lr: float = 1e-3  # Adam's learning rate, falling
    clip: float = 1.0  # global gradient norm


PRESETS: dict[str, dict[str, Any]] = {
    "full": {},
    "paper": {},
    "demo": {"updates": 1500},
    "smoke": {"updates": 40, "batch": 32, "distractors": 9},
}


class ReferenceGames(Inference):
    """Every update is a game: each input of a batch is a target, the others are its distractors."""

    def __init__(self, model: EmergentCommunication, data: DataSet, config: Config) -> None:
        super().__init__(
            require_model(model, EmergentCommunication),
            data,
            [Phase(config.training, 0, config.updates)],
        )
        c = self.config = config
        if c.batch <= c.distractors:
            raise ValueError(
                f"a batch of {c.batch} has no {c.distractors} distractors for each of its inputs: "
                f"set batch to "
                f"{c.distractors + 1} or more, or distractors to {c.batch - 1} or less"
            )
        if min(c.temperature) <= 0:
            raise ValueError(
                f"temperatures of the Gumbel-Softmax must be above 0, not {c.temperature}"
            )
        if c.entropy_weight < 0:
            raise ValueError(f"entropy_weight must be 0 or more, not {c.entropy_weight}")
        if hasattr(data, "check_batch"):
            data.check_batch(c.batch)
        self.parameters = list(model.parameters())
        self.optimizer = torch.optim.Adam(self.parameters, lr=c.lr)
        self.stateful["optimizer"] = self.optimizer

    def game(self, n: int, split: str = "train") -> tuple[Batch, Candidates]:
        """n targets on the model's device, and the candidates among which each is looked for."""
        batch = Batch(*(part.to(self.model.device) for part in self.data.batch(n, split)))
        return batch, draw_candidates(
            batch.x, batch.y, self.config.distractors, self.config.distractors_differ
        )

    @property
    def temperature(self) -> float:
        """τ of the Gumbel-Softmax at this update."""
        first, last = self.config.temperature
        return float(first * (last / first) ** self.progress)

    def gumbel_softmax(self) -> dict[str, float]:
        """One update by the gradient of the listener's loss through the relaxed sentence."""
        batch, candidates = self.game(self.config.batch)
        s = self.model.speaker(batch.x).relaxed_sample(
            self.temperature, self.config.straight_through
        )
        choice = choose(self.model.listener(s, batch.x), candidates)
        return self._update(choice.loss.mean(), choice.loss, candidates) | {
            "temperature": self.temperature
        }

    def reinforce(self) -> dict[str, float]:
        """One update of the speaker by the score function and of the listener by its loss's
        gradient.
        """
        batch, candidates = self.game(self.config.batch)
        loss, losses = reinforce_loss(
            self.model.speaker(batch.x),
            lambda s: choose(self.model.listener(s, batch.x), candidates).loss,
            self.config.entropy_weight,
        )
        return self._update(loss, losses, candidates)

    def _update(
        self, loss: torch.Tensor, losses: torch.Tensor, candidates: Candidates
    ) -> dict[str, float]:
        for group in self.optimizer.param_groups:
            group["lr"] = self.config.lr * cosine(self.progress)
        clipped_update(self.optimizer, self.parameters, loss, self.config.clip)
        return {
            "game_loss": float(losses.detach().mean()),
            "distractors": float(candidates.present[:, 1:].sum(-1).float().mean()),
        }

    @torch.no_grad()
    def summary(self) -> dict[str, float]:
        """The share of targets that the listener finds, in each split, given sentences drawn from
        the speaker; and how many sentences and tokens these are.

        Distractors come from the target's split. A split that does not have as many as in training
        has no accuracy.
        """
        found: dict[str, float] = {}
        n = max(INPUTS, 2 * self.config.distractors)
        for split in self.data.splits:
            batch, candidates = self.game(n, split)
            s = self.model.describe(batch.x).s[:, 0]
            choice = choose(self.model.listener(s, batch.x), candidates)
            if candidates.present.all():
                found[f"listener_accuracy_{split}"] = float(choice.right.mean())
            if split == "train":
                found["speaker_entropy"] = float(-self.model.speaker(batch.x).log_prob(s).mean())
        s = self.model.describe(self.data.batch(USAGE_INPUTS).x.to(self.model.device)).s[:, 0]
        return found | usage(self.model.language, s)


def build(model: EmergentCommunication, data: DataSet, config: Config) -> ReferenceGames:
    """Speaker and listener learn together from games with 49 distractors (Section *Comparison
    models*).
    """
    return ReferenceGames(model, data, config)
