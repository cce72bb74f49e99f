"""Reference games of a sender and a receiver, by the Gumbel-Softmax or by REINFORCE."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch

from plot_attractors.baselines import (
    Candidates,
    EmergentCommunication,
    check_distractors,
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

INPUTS = 1000  # of each split whose sentences the receiver is tested on
CLIP = 1.0  # global gradient norm


@dataclass(frozen=True)
class Config:
    # the game
    batch: int = 128  # targets in an update; 1 + distractors or more
    distractors: int = 49  # among which the receiver looks for the target
    # from the target: in some bit, or in the class
    distractors_differ: Literal["input", "class"] = "input"
    # the training
    training: Literal["gumbel_softmax", "reinforce"] = "gumbel_softmax"
    updates: int = 10000
    # of the Gumbel-Softmax, first and last; falls geometrically
    temperature: tuple[float, float] = (2.0, 0.5)
    # the receiver reads whole tokens, and only the gradient is relaxed
    straight_through: bool = True
    entropy_weight: float = 0.01  # of the sender's entropy under REINFORCE
    lr: float = 1e-3  # Adam's learning rate, falling


PRESETS: dict[str, dict[str, Any]] = {
    "full": {},
    "paper": {},
    "demo": {"updates": 1500},
    "smoke": {"updates": 40, "batch": 32, "distractors": 9},
}


class ReferenceGames(Inference):
    """Every update is a game: each input of a batch is a target, the others are its distractors."""

    def __init__(self, model: EmergentCommunication, data: DataSet, config: Config) -> None:
        phases = [Phase(config.training, 0, config.updates)]
        super().__init__(require_model(model, EmergentCommunication), data, phases)
        c = self.config = config
        check_distractors(c.batch, c.distractors)
        if min(c.temperature) <= 0:
            raise ValueError(f"temperatures must be above 0, not {c.temperature}")
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
        c = self.config
        return batch, draw_candidates(batch.x, batch.y, c.distractors, c.distractors_differ)

    @property
    def temperature(self) -> float:
        """τ of the Gumbel-Softmax at this update."""
        first, last = self.config.temperature
        return float(first * (last / first) ** self.progress)

    def gumbel_softmax(self) -> dict[str, float]:
        """One update by the gradient of the receiver's loss through the relaxed sentence."""
        batch, candidates = self.game(self.config.batch)
        temperature = self.temperature
        sentences = self.model.sender(batch.x)
        s = sentences.relaxed_sample(temperature, self.config.straight_through)
        loss = choose(self.model.receiver(s, batch.x), candidates).loss
        return self._update(loss.mean(), loss, candidates) | {"temperature": temperature}

    def reinforce(self) -> dict[str, float]:
        """One update, of the sender by the score function, of the receiver by its gradient."""
        batch, candidates = self.game(self.config.batch)
        loss, losses = reinforce_loss(
            self.model.sender(batch.x),
            lambda s: choose(self.model.receiver(s, batch.x), candidates).loss,
            self.config.entropy_weight,
        )
        return self._update(loss, losses, candidates)

    def _update(
        self, loss: torch.Tensor, losses: torch.Tensor, candidates: Candidates
    ) -> dict[str, float]:
        for group in self.optimizer.param_groups:
            group["lr"] = self.config.lr * cosine(self.progress)
        clipped_update(self.optimizer, self.parameters, loss, CLIP)
        return {
            "game_loss": float(losses.detach().mean()),
            "distractors": float(candidates.present[:, 1:].sum(-1).float().mean()),
        }

    @torch.no_grad()
    def summary(self) -> dict[str, float]:
        """The receiver's accuracy in each split, on sentences drawn from the sender; their entropy
        in nats; and how many sentences and tokens are in use.

        Distractors come from the target's split; a split with too few has no accuracy.
        """
        found: dict[str, float] = {}
        n = max(INPUTS, 2 * self.config.distractors)
        for split in self.data.splits:
            batch, candidates = self.game(n, split)
            s = self.model.describe(batch.x).s[:, 0]
            choice = choose(self.model.receiver(s, batch.x), candidates)
            if candidates.present.all():
                found[f"receiver_accuracy_{split}"] = float(choice.right.mean())
            if split == "train":
                found["sender_entropy"] = float(-self.model.sender(batch.x).log_prob(s).mean())
        s = self.model.describe(self.data.batch(USAGE_INPUTS).x.to(self.model.device)).s[:, 0]
        return found | usage(self.model.language, s)


def build(model: EmergentCommunication, data: DataSet, config: Config) -> ReferenceGames:
    """Sender and receiver learn together from games (Section *Comparison models*)."""
    return ReferenceGames(model, data, config)
