"""Metropolis-Hastings over the expressions of a grammar, by subtree regeneration."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from plot_attractors.data import DataSet
from plot_attractors.language_of_thought import GrammarInference, GrammarModel, sentence_shares
from plot_attractors.training.em import Phase


@dataclass(frozen=True)
class Config:
    steps: int = 100  # proposals that a chain makes before its expression is read
    batches: int = 10  # batches on which chains are measured against enumeration
    batch: int = 16  # inputs of each
    chains: int = 256  # independent chains of an input


PRESETS: dict[str, dict[str, Any]] = {
    "full": {},
    "demo": {"batches": 2},
    "smoke": {"batches": 2, "batch": 4, "chains": 16, "steps": 20},
}


def build(model: GrammarModel, data: DataSet, config: Config) -> GrammarMCMC:
    """The model draws each sentence from a chain of its own, that starts at the prior."""
    return GrammarMCMC(model, data, config)


class GrammarMCMC(GrammarInference):
    """Chains that start at the prior, and how far from the posterior they are after `steps`."""

    def __init__(self, model: GrammarModel, data: DataSet, config: Config) -> None:
        super().__init__(model, data, [Phase("chains", 0, config.batches)], config.batch)
        self.config = c = config
        for name in ("steps", "chains", "batches"):
            if getattr(c, name) < 1:
                raise ValueError(f"{name} must be 1 or more, not {getattr(c, name)}")
        model.draw = partial(model.chain_draws, steps=config.steps)

    @torch.no_grad()
    def chains(self) -> dict[str, float]:
        """Total variation of the chains' last states from the posterior, and of exact draws."""
        x, model = self.inputs(self.batch), self.model
        p = model.posterior(x).log_p.exp()
        found = {}
        for name, rules in (
            ("total_variation", model.chain_draws(x, self.config.chains, self.config.steps)),
            ("total_variation_of_exact_draws", model.exact_draws(x, self.config.chains)),
        ):
            found[name] = float((sentence_shares(model, rules) - p).abs().sum(-1).mean() / 2)
        return {**self.measure(x), **found}
