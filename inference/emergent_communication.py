"""Reference games of a sender and a receiver, by the straight-through Gumbel-Softmax."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from plot_attractors import training
from plot_attractors.baselines import EmergentCommunication, choose, draw_candidates
from plot_attractors.data import DataSet
from plot_attractors.language import USAGE_INPUTS, usage
from plot_attractors.ranges import Positive, Size, setting

INPUTS = 1000  # of each split whose sentences the receiver is tested on


@dataclass(frozen=True)
class Config:
    batch: Size = setting(128, "targets in an update; 1 + distractors or more")
    distractors: Size = setting(49, "among which the receiver looks for the target")
    updates: Size = setting(10000, "updates of the game")
    temperature: tuple[Positive, Positive] = setting(
        (2.0, 0.5), "first and last; falls geometrically"
    )
    lr: Positive = setting(1e-3, "Adam's learning rate, falling")

    def __post_init__(self) -> None:
        if self.batch <= self.distractors:
            raise ValueError(
                f"a batch of {self.batch} has no {self.distractors} distractors for each input: "
                f"set batch to {self.distractors + 1} or more, or distractors to less"
            )


PRESETS: dict[str, dict[str, Any]] = {
    "full": {},
    "demo": {"updates": 1500},
    "smoke": {"updates": 40, "batch": 32, "distractors": 9},
}


def build(model: EmergentCommunication, data: DataSet, c: Config) -> training.Schedule:
    """Sender and receiver learn together from games (Section *Comparison models*): each input of a
    batch is a target, the others are its distractors.
    """
    inputs = training.input_source(data, training.require_model(model, EmergentCommunication))
    parameters = list(model.parameters())
    optimizer = torch.optim.Adam(parameters, lr=c.lr, fused=True)

    def train(at: training.At) -> dict[str, training.Scalar]:
        """One update by the gradient of the receiver's loss through the relaxed sentence."""
        x = inputs(c.batch)
        candidates = draw_candidates(x, c.distractors)
        first, last = c.temperature
        temperature = float(first * (last / first) ** at.progress)
        s = model.sender(x).relaxed_sample(temperature)
        loss = choose(model.receiver(s, x), candidates).loss
        training.set_lr(c.lr * training.cosine(at.progress), optimizer)
        training.clipped_update(optimizer, parameters, loss.mean())
        return {
            "game_loss": loss.detach().mean(),
            "distractors": candidates.present[:, 1:].sum(-1).float().mean(),
            "temperature": temperature,
        }

    @torch.no_grad()
    def summary() -> dict[str, float]:
        """The receiver's accuracy in each split, on sentences drawn from the sender; their entropy
        in nats; and how many sentences and tokens are in use.

        Distractors come from the target's split; a split with too few has no accuracy.
        """
        numbers: dict[str, float] = {}
        for split in data.splits:
            x = data.batch(max(INPUTS, 2 * c.distractors), split).x.to(model.device)
            candidates = draw_candidates(x, c.distractors)
            s = model.describe(x).s[:, 0]
            choice = choose(model.receiver(s, x), candidates)
            if candidates.present.all():
                numbers[f"receiver_accuracy_{split}"] = float(choice.right.mean())
            if split == "train":
                numbers["sender_entropy"] = float(-model.sender(x).log_prob(s).mean())
        return numbers | usage(model.language, model.describe(inputs(USAGE_INPUTS)).s[:, 0])

    phase = training.Phase("gumbel_softmax", 0, c.updates, train)
    return training.Schedule(model, [phase], {"optimizer": optimizer}, summary)
