"""Exact Bayes: the posterior over all expressions of a grammar, by listing them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from plot_attractors.data import DataSet
from plot_attractors.language_of_thought import GrammarModel, grammar_inputs, in_use, measure
from plot_attractors.ranges import Size
from plot_attractors.training import Phase, Schedule


@dataclass(frozen=True)
class Config:
    batches: Size = 100  # nothing is learned: batches whose evidence and posterior are measured
    batch: Size = 256  # inputs of a batch

    def inert(self, model: Any = None) -> dict[str, str]:
        """Settings of a model's Config that have no effect on this program, and why."""
        return {"units": "the guide is not trained: grammar_gflownet trains it"}


PRESETS: dict[str, dict[str, Any]] = {
    "full": {},
    "demo": {},
    "smoke": {"batches": 2, "batch": 16},
    "conjunctions/full": {"batches": 10},  # of the columns of a table, which are many
    "conjunctions/demo": {"batches": 2},
}


def build(model: GrammarModel, data: DataSet, c: Config) -> Schedule:
    """P(expression | x) ∝ P(expression) P(x | expression), from which the model draws sentences."""
    inputs = grammar_inputs(model, data, c.batch)
    model.draw_by("exact")
    phase = Phase("enumerate", 0, c.batches, lambda _: measure(model, inputs(c.batch)))
    return Schedule(model, [phase], {}, lambda: in_use(model, inputs(256)))
