"""Reference games of a sender and a receiver, by the Gumbel-Softmax or by REINFORCE."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from plot_attractors.baselines import (
    Candidates,
    EmergentCommunication,
    check_distractors,
    choose,
    draw_candidates,
    reinforce_loss,
)
from plot_attractors.data import Batch, DataSet
from plot_attractors.language import USAGE_INPUTS, usage
from plot_attractors.ranges import NonNegative, Positive, Size
from plot_attractors.training import (
    At,
    Phase,
    Scalar,
    Schedule,
    clipped_update,
    cosine,
    input_source,
    require_model,
    set_lr,
)

INPUTS = 1000  # of each split whose sentences the receiver is tested on


@dataclass(frozen=True)
class Config:
    # the game
    batch: Size = 128  # targets in an update; 1 + distractors or more
    distractors: Size = 49  # among which the receiver looks for the target
    # from the target: in some bit, or in the class
    distractors_differ: Literal["input", "class"] = "input"
    # the training
    training: Literal["gumbel_softmax", "reinforce"] = "gumbel_softmax"  # how the sender learns
    updates: Size = 10000  # updates of the game
    # temperature of the Gumbel-Softmax, first and last; falls geometrically
    temperature: tuple[Positive, Positive] = (2.0, 0.5)
    # the receiver reads whole tokens, and only the gradient is relaxed
    straight_through: bool = True
    entropy_weight: NonNegative = 0.01  # weight of the sender's entropy under REINFORCE
    lr: Positive = 1e-3  # Adam's learning rate, falling

    def inert(self) -> dict[str, str]:
        """Settings that have no effect beside the others, and why."""
        relaxed = "temperature", "straight_through"
        names = ("entropy_weight",) if self.training == "gumbel_softmax" else relaxed
        return dict.fromkeys(names, f"training={self.training}")


PRESETS: dict[str, dict[str, Any]] = {
    "full": {},
    "paper": {},
    "demo": {"updates": 1500},
    "smoke": {"updates": 40, "batch": 32, "distractors": 9},
}


def build(model: EmergentCommunication, data: DataSet, c: Config) -> Schedule:
    """Sender and receiver learn together from games (Section *Comparison models*): each input of a
    batch is a target, the others are its distractors.
    """
    inputs = input_source(data, require_model(model, EmergentCommunication))
    check_distractors(c.batch, c.distractors)
    parameters = list(model.parameters())
    optimizer = torch.optim.Adam(parameters, lr=c.lr, fused=True)

    def game(n: int, split: str = "train") -> tuple[Batch, Candidates]:
        """n targets on the model's device, and the candidates among which each is looked for."""
        batch = Batch(*(part.to(model.device) for part in data.batch(n, split)))
        return batch, draw_candidates(batch.x, batch.y, c.distractors, c.distractors_differ)

    def update(at: At, loss: Tensor, losses: Tensor, candidates: Candidates) -> dict[str, Scalar]:
        set_lr(c.lr * cosine(at.progress), optimizer)
        clipped_update(optimizer, parameters, loss)
        return {
            "game_loss": losses.detach().mean(),
            "distractors": candidates.present[:, 1:].sum(-1).float().mean(),
        }

    def gumbel_softmax(at: At) -> dict[str, Scalar]:
        """One update by the gradient of the receiver's loss through the relaxed sentence."""
        batch, candidates = game(c.batch)
        first, last = c.temperature
        temperature = float(first * (last / first) ** at.progress)
        s = model.sender(batch.x).relaxed_sample(temperature, c.straight_through)
        loss = choose(model.receiver(s, batch.x), candidates).loss
        return update(at, loss.mean(), loss, candidates) | {"temperature": temperature}

    def reinforce(at: At) -> dict[str, Scalar]:
        """One update, of the sender by the score function, of the receiver by its gradient."""
        batch, candidates = game(c.batch)
        loss, losses = reinforce_loss(
            model.sender(batch.x),
            lambda s: choose(model.receiver(s, batch.x), candidates).loss,
            c.entropy_weight,
        )
        return update(at, loss, losses, candidates)

    @torch.no_grad()
    def summary() -> dict[str, float]:
        """The receiver's accuracy in each split, on sentences drawn from the sender; their entropy
        in nats; and how many sentences and tokens are in use.

        Distractors come from the target's split; a split with too few has no accuracy.
        """
        numbers: dict[str, float] = {}
        for split in data.splits:
            batch, candidates = game(max(INPUTS, 2 * c.distractors), split)
            s = model.describe(batch.x).s[:, 0]
            choice = choose(model.receiver(s, batch.x), candidates)
            if candidates.present.all():
                numbers[f"receiver_accuracy_{split}"] = float(choice.right.mean())
            if split == "train":
                numbers["sender_entropy"] = float(-model.sender(batch.x).log_prob(s).mean())
        return numbers | usage(model.language, model.describe(inputs(USAGE_INPUTS)).s[:, 0])

    training = {"gumbel_softmax": gumbel_softmax, "reinforce": reinforce}[c.training]
    phase = Phase(c.training, 0, c.updates, training)
    return Schedule(model, [phase], {"optimizer": optimizer}, summary)
