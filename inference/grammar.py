"""Bayes' rule over the expressions of a grammar: by listing them, or by chains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch

from plot_attractors.data import DataSet
from plot_attractors.language_of_thought import GrammarModel, in_use, measure, total_variation
from plot_attractors.ranges import Size, setting
from plot_attractors.training import At, Phase, Schedule, require_model


@dataclass(frozen=True)
class Config:
    draw_by: Literal["exact", "chain"] = setting(
        "exact",
        "how the model draws its sentences: from the exact posterior, or by Metropolis-Hastings",
    )
    batches: Size = setting(100, "that are measured")
    batch: Size = setting(256, "inputs of a batch")
    steps: Size = setting(100, "proposals that a chain makes before its expression is read")
    chains: Size = setting(256, "independent chains of an input that are measured")

    def inert(self, model: Any = None) -> dict[str, str]:
        """Settings that have no effect beside the others, and why; of a model's Config, too."""
        own = ("steps", "chains") if self.draw_by != "chain" else ()
        return dict.fromkeys(own, "it is of draw_by=chain")


PRESETS: dict[str, dict[str, Any]] = {
    "full": {},
    "demo": {},
    "paths": {},
    "chains": {"draw_by": "chain", "batches": 10, "batch": 16},
    "smoke": {"batches": 2, "batch": 16, "steps": 20, "chains": 16},
}


def build(model: GrammarModel, data: DataSet, c: Config) -> Schedule:
    """P(expression | x) ∝ P(expression) P(x | expression), from which the model draws sentences."""
    if require_model(model, GrammarModel).device.type != "cpu":
        raise ValueError("grammars are built on the processor only: leave --device out")
    model.steps.fill_(c.steps if c.draw_by == "chain" else 0)

    @torch.no_grad()
    def measured(_: At) -> dict[str, float]:
        """Of chains also the total variation of their last states from the posterior, and that of
        exact draws.
        """
        x = data.batch(c.batch).x
        distances = {}
        if c.draw_by == "chain":
            p = model.posterior(x).log_p.exp()
            chains = model.chain_draws(x, c.chains, c.steps)
            distances["total_variation"] = total_variation(model, chains, p)
            exact = model.exact_draws(x, c.chains)
            distances["total_variation_of_exact_draws"] = total_variation(model, exact, p)
        return {**measure(model, x), **distances}

    phase = Phase("measure", 0, c.batches, measured)
    return Schedule(model, [phase], {}, lambda: in_use(model, data.batch(256).x))
