"""Bayes' rule over the expressions of a grammar, by listing them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from plot_attractors.data import DataSet
from plot_attractors.language_of_thought import GrammarModel, in_use, measure
from plot_attractors.ranges import Size, setting
from plot_attractors.training import Phase, Schedule, require_model


@dataclass(frozen=True)
class Config:
    batches: Size = setting(20, "that are measured")
    batch: Size = setting(256, "inputs of a batch")


PRESETS: dict[str, dict[str, Any]] = {
    "full": {},
    "demo": {},
    "paths": {},
    "smoke": {"batches": 2, "batch": 16},
}


def build(model: GrammarModel, data: DataSet, c: Config) -> Schedule:
    """P(expression | x) ∝ P(expression) P(x | expression), from which the model draws sentences."""
    if require_model(model, GrammarModel).device.type != "cpu":
        raise ValueError("grammars are built on the processor only: leave --device out")
    phase = Phase("measure", 0, c.batches, lambda _: measure(model, data.batch(c.batch).x))
    return Schedule(model, [phase], {}, lambda: in_use(model, data.batch(256).x))
