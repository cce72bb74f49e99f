"""Metropolis-Hastings over the expressions of a grammar, by subtree regeneration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from plot_attractors.data import DataSet
from plot_attractors.language_of_thought import (
    GrammarModel,
    grammar_inputs,
    in_use,
    measure,
    sentence_shares,
)
from plot_attractors.ranges import Size
from plot_attractors.training import At, Phase, Schedule


@dataclass(frozen=True)
class Config:
    steps: Size = 100  # proposals that a chain makes before its expression is read
    batches: Size = 10  # batches on which chains are measured against enumeration
    batch: Size = 16  # inputs of a batch
    chains: Size = 256  # independent chains of an input

    def inert(self, model: Any = None) -> dict[str, str]:
        """Settings of a model's Config that have no effect on this program, and why."""
        return {"units": "the guide is not trained: grammar_gflownet trains it"}


PRESETS: dict[str, dict[str, Any]] = {
    "full": {},
    "demo": {"batches": 2},
    "smoke": {"batches": 2, "batch": 4, "chains": 16, "steps": 20},
}


def build(model: GrammarModel, data: DataSet, c: Config) -> Schedule:
    """The model draws each sentence from a chain of its own, that starts at the prior."""
    inputs = grammar_inputs(model, data, c.batch)
    model.draw_by("chain", c.steps)

    @torch.no_grad()
    def chains(_: At) -> dict[str, float]:
        """Total variation of the chains' last states from the posterior, and of exact draws."""
        x = inputs(c.batch)
        p = model.posterior(x).log_p.exp()
        distances = {}
        for name, rules in (
            ("total_variation", model.chain_draws(x, c.chains, c.steps)),
            ("total_variation_of_exact_draws", model.exact_draws(x, c.chains)),
        ):
            distances[name] = float((sentence_shares(model, rules) - p).abs().sum(-1).mean() / 2)
        return {**measure(model, x), **distances}

    phase = Phase("chains", 0, c.batches, chains)
    return Schedule(model, [phase], {}, lambda: in_use(model, inputs(256)))
