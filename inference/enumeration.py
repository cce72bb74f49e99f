"""Exact Bayes: the posterior over all expressions of a grammar, by listing them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from plot_attractors.data import DataSet
from plot_attractors.language_of_thought import GrammarInference, GrammarModel
from plot_attractors.training.em import Phase


@dataclass(frozen=True)
class Config:
    batches: int = 100  # nothing is learned: batches whose evidence and posterior are measured
    batch: int = 256  # inputs of each


PRESETS: dict[str, dict[str, Any]] = {
    "full": {},
    "demo": {},
    "smoke": {"batches": 2, "batch": 16},
}


def build(model: GrammarModel, data: DataSet, config: Config) -> Enumeration:
    """The model draws its sentences from the enumerated posterior."""
    return Enumeration(model, data, config)


class Enumeration(GrammarInference):
    """P(expression | x) ∝ P(expression) P(x | expression), normalised by a sum over all of them."""

    def __init__(self, model: GrammarModel, data: DataSet, config: Config) -> None:
        super().__init__(model, data, [Phase("enumerate", 0, config.batches)], config.batch)
        model.draw = model.exact_draws

    def enumerate(self) -> dict[str, float]:
        """The exact posterior of one batch."""
        return self.measure(self.inputs(self.batch))
