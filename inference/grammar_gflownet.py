"""A GFlowNet over the expressions of a grammar: a guide builds them rule by rule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from plot_attractors.data import DataSet
from plot_attractors.gflownet import TrajectoryBalance
from plot_attractors.language_of_thought import GrammarModel, grammar_inputs, in_use, measure
from plot_attractors.ranges import Size
from plot_attractors.training import At, Phase, Schedule, clipped_update, cosine


@dataclass(frozen=True)
class Config:
    updates: Size = 6000
    batch: Size = 64  # inputs in an update
    particles: Size = 8  # expressions of each


LR = 2e-3  # Adam's learning rate, falling by a cosine


PRESETS: dict[str, dict[str, Any]] = {
    "full": {},
    "demo": {"updates": 1500},
    "smoke": {"updates": 20, "batch": 16, "particles": 4},
}


def build(model: GrammarModel, data: DataSet, c: Config) -> Schedule:
    """Trajectory balance on a Pyro model and guide, each input a trajectory of its own; the model
    draws its sentences from the guide.
    """
    inputs = grammar_inputs(model, data, c.batch)
    if model.builder is None:
        raise ValueError(
            "this inference program trains a guide, and this model has none: set the units of its "
            "perceptrons, as by --set units=128"
        )
    model.draw_by("guide")
    balance = TrajectoryBalance(
        c.particles,
        log_z=model.builder.log_z,
        batch_plate="inputs",
        loss="huber",
        behaviour=model.behaviour,
    )
    optimizer = torch.optim.Adam(model.builder.parameters(), lr=LR, fused=True)

    def train(at: At) -> dict[str, Tensor]:
        optimizer.param_groups[0]["lr"] = LR * cosine(at.progress)
        loss = balance.differentiable_loss(model.model, model.guide, inputs(c.batch))
        clipped_update(optimizer, model.builder.parameters(), loss)
        return {"loss": loss.detach()}

    @torch.no_grad()
    def summary() -> dict[str, float]:
        """Total variation of the guide from the exact posterior, on up to 64 inputs.

        As many inputs as have 50,000 expressions in all; with the measures of the posterior.
        """
        x = inputs(max(1, min(64, 50_000 // len(model.derivations))))
        log_p = model.posterior(x).log_p
        rules = model.derivations.expand(len(x), -1, -1)
        log_q = model.builder.of_input(x[:, None]).log_prob(rules).double()
        total_variation = (log_q.exp() - log_p.exp()).abs().sum(-1).mean() / 2
        shares = in_use(model, inputs(256))
        return {**shares, **measure(model, x), "total_variation": float(total_variation)}

    phase = Phase("train", 0, c.updates, train)
    return Schedule(model, [phase], {"optimizer": optimizer}, summary)
