"""Bayes' rule over the expressions of a grammar: by listing them, by chains, or by a guide."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from plot_attractors.data import DataSet
from plot_attractors.gflownet import TrajectoryBalance
from plot_attractors.language_of_thought import (
    GrammarModel,
    grammar_inputs,
    in_use,
    measure,
    total_variation,
)
from plot_attractors.ranges import Size, setting
from plot_attractors.training import At, Phase, Schedule, clipped_update, cosine


@dataclass(frozen=True)
class Config:
    draw_by: Literal["exact", "chain", "guide"] = setting(
        "exact",
        "how the model draws its sentences: from the exact posterior, by Metropolis-Hastings, "
        "or from a guide that builds an expression rule by rule, and is trained",
    )
    batches: Size = setting(100, "that are measured, where nothing is learned")
    batch: Size = setting(256, "inputs of a batch")
    steps: Size = setting(100, "proposals that a chain makes before its expression is read")
    chains: Size = setting(256, "independent chains of an input that are measured")
    updates: Size = setting(6000, "of the guide")
    particles: Size = setting(8, "expressions of each input in an update")

    def inert(self, model: Any = None) -> dict[str, str]:
        """Settings that have no effect beside the others, and why; of a model's Config, too."""
        own = {
            "batches": ("exact", "chain"), "steps": ("chain",), "chains": ("chain",),
            "updates": ("guide",), "particles": ("guide",), "units": ("guide",),
        }  # fmt: skip
        return {
            name: f"it is of draw_by={' or '.join(ways)}"
            for name, ways in own.items()
            if self.draw_by not in ways
        }


LR = 2e-3  # Adam's learning rate, falling by a cosine


PRESETS: dict[str, dict[str, Any]] = {
    "full": {},
    "demo": {"updates": 1500},
    "paths": {},
    "chains": {"draw_by": "chain", "batches": 10, "batch": 16},
    "guide": {"draw_by": "guide", "batch": 64},
    "smoke": {
        "batches": 2, "batch": 16, "steps": 20, "chains": 16, "updates": 20, "particles": 4,
    },
}  # fmt: skip


def build(model: GrammarModel, data: DataSet, c: Config) -> Schedule:
    """P(expression | x) ∝ P(expression) P(x | expression), from which the model draws sentences."""
    inputs = grammar_inputs(model, data, c.batch)
    model.draw_by(c.draw_by, c.steps if c.draw_by == "chain" else 0)
    if c.draw_by == "guide":
        return train_guide(model, inputs, c)

    @torch.no_grad()
    def measured(_: At) -> dict[str, float]:
        """Of chains also the total variation of their last states from the posterior, and that of
        exact draws.
        """
        x = inputs(c.batch)
        distances = {}
        if c.draw_by == "chain":
            p = model.posterior(x).log_p.exp()
            chains = model.chain_draws(x, c.chains, c.steps)
            distances["total_variation"] = total_variation(model, chains, p)
            exact = model.exact_draws(x, c.chains)
            distances["total_variation_of_exact_draws"] = total_variation(model, exact, p)
        return {**measure(model, x), **distances}

    phase = Phase("measure", 0, c.batches, measured)
    return Schedule(model, [phase], {}, lambda: in_use(model, inputs(256)))


def train_guide(model: GrammarModel, inputs: Any, c: Config) -> Schedule:
    """Trajectory balance on a Pyro model and guide, each input a trajectory of its own."""
    if model.builder is None:
        raise ValueError(
            "this inference program trains a guide, and this model has none: set the units of its "
            "perceptrons, as by --set units=128"
        )
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
        distance = (log_q.exp() - log_p.exp()).abs().sum(-1).mean() / 2
        shares = in_use(model, inputs(256))
        return {**shares, **measure(model, x), "total_variation": float(distance)}

    phase = Phase("train", 0, c.updates, train)
    return Schedule(model, [phase], {"optimizer": optimizer}, summary)
