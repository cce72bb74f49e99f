"""Exact Bayes: the posterior over all expressions of a grammar, by listing them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from plot_attractors.data import DataSet
from plot_attractors.language_of_thought import GrammarModel, grammar_inputs, in_use, measure
from plot_attractors.ranges import Size
from plot_attractors.training import Phase, Schedule, per_rank


@dataclass(frozen=True)
class Config:
    batches: Size = 100  # nothing is learned: batches whose evidence and posterior are measured
    batch: Size = 256  # inputs of each


PRESETS: dict[str, dict[str, Any]] = {
    "full": {},
    "demo": {},
    "smoke": {"batches": 2, "batch": 16},
}
PRESETS_OF = {"table_grammar": {"full": {"batches": 10}, "demo": {"batches": 2}}}


def build(model: GrammarModel, data: DataSet, c: Config) -> Schedule:
    """P(expression | x) ∝ P(expression) P(x | expression), from which the model draws sentences."""
    inputs = grammar_inputs(model, data, c.batch)
    model.draw_by("exact")
    phase = Phase("enumerate", 0, c.batches, lambda _: measure(model, inputs(per_rank(c.batch))))
    return Schedule(model, [phase], {}, lambda: in_use(model, inputs(256)))
