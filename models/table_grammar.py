"""A Bayesian language of thought on your own table: conjunctions of its columns."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from typing import Annotated, Any, ClassVar

import torch

from plot_attractors.data import BinaryTable
from plot_attractors.language import Language
from plot_attractors.language_of_thought import (
    BitObjects,
    GrammarModel,
    ProbabilisticGrammar,
    literals,
)
from plot_attractors.model.bits import filled
from plot_attractors.ranges import Range, Size, Width

MOST_CELLS = 50_000_000  # expressions × rows whose truth is tabled


@dataclass(frozen=True)
class Config:
    literals: Size = 3  # most columns in a conjunction, each as it is or negated
    # probability that a column of an input is not as in the row that it shows
    noise: Annotated[float, Range(0, 0.5, above=True)] = 0.02
    # inputs are drawn from what the expression is true of (Tenenbaum 1999)
    size_principle: bool = True
    units: Width = 128  # of the guide's perceptrons, which inference grammar_gflownet trains

    INFERENCE: ClassVar[str] = "enumeration"
    DATA: ClassVar[str] = "table"


PRESETS: dict[str, dict[str, Any]] = {
    "full": {},
    "demo": {},
    "smoke": {"literals": 2, "units": 32},
}


def build(config: Config, data: BinaryTable) -> GrammarModel:
    """expression → conjunction of up to `literals` columns or negated columns, all equally likely,
    such as milk ∧ ¬aquatic; true of the training rows that are so.

    Raises ValueError where the expressions are too many to table what they are true of.
    """
    c, n = config, data.bits
    most = min(c.literals, n)
    count = sum(comb(n, k) * 2**k for k in range(most + 1))
    rows = filled(data.rows(data.members["train"])).unique(dim=0)
    if count * len(rows) > MOST_CELLS:
        raise ValueError(
            f"{count:,} conjunctions of up to {most} of {n} columns, on {len(rows):,} different "
            "rows, are too many: lower literals, or name columns in ignore"
        )
    grammar = literals(data.columns, most)
    return GrammarModel(
        grammar,
        ProbabilisticGrammar(grammar, grammar.uniform),
        Language((2,) * n, min_length=0, max_length=most),
        # the column, and its negation: where a value is missing neither is true
        truth=torch.stack([rows == 1, rows == 0], -1).flatten(1),
        objects=BitObjects(rows * (1 - 2 * c.noise) + c.noise),
        size_principle=c.size_principle,
        units=c.units,
    )
