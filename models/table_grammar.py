"""A Bayesian language of thought on your own table: conjunctions of its columns, or rules."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor

from plot_attractors.data import BinaryTable
from plot_attractors.language import Language
from plot_attractors.language_of_thought import (
    BitObjects,
    Grammar,
    GrammarModel,
    ProbabilisticGrammar,
    literals,
)
from plot_attractors.model.bits import filled
from plot_attractors.ranges import Range, Size, Width

MOST_CELLS = 50_000_000  # expressions × rows, or × features of sentences, that are tabled


@dataclass(frozen=True)
class Config:
    literals: Size = 3  # most columns in an expression, each as it is or negated
    disjunctions: bool = False  # literals are joined by ∧ and ∨, not by ∧ alone
    # probability that a column of an input is not as in the row that it shows
    noise: Annotated[float, Range(0, 0.5, above=True)] = 0.02
    # inputs are drawn from what the expression is true of (Tenenbaum 1999)
    size_principle: bool = True
    units: Width | None = None  # of the guide of grammar_gflownet; none: there is no guide

    INFERENCE: ClassVar[str] = "enumeration"
    DATA: ClassVar[str] = "table"


PRESETS: dict[str, dict[str, Any]] = {
    "full": {},
    "demo": {},
    "smoke": {"literals": 2},
}


def build(config: Config, data: BinaryTable) -> GrammarModel:
    """expression → conjunction of up to `literals` columns or negated columns, all equally likely,
    such as milk ∧ ¬aquatic; true of the training rows that are so. With `disjunctions`, expression
    → literal, (literal ∧ expression) or (literal ∨ expression), each as likely: shorter ones are
    likelier.

    Raises ValueError where the expressions are too many to table what they are true of.
    """
    c, n = config, data.bits
    most = c.literals if c.disjunctions else min(c.literals, n)
    rows = filled(data.rows(data.members["train"])).unique(dim=0)
    if c.disjunctions:
        count = sum((2 * n) ** k * 2 ** (k - 1) for k in range(1, most + 1))
    else:
        count = sum(comb(n, k) * 2**k for k in range(most + 1))
    # sentences of rules have a feature for each of them at each place
    width = 2 * most * (2 * n + 3) if c.disjunctions else 2 * n
    if count * max(len(rows), width) > MOST_CELLS:
        raise ValueError(
            f"{count:,} expressions of up to {most} of {n} columns, on {len(rows):,} different "
            "rows, are too many: lower literals, or name columns in ignore"
        )
    objects = BitObjects(rows * (1 - 2 * c.noise) + c.noise)
    rest: Any = {"objects": objects, "size_principle": c.size_principle, "units": c.units}
    if c.disjunctions:
        grammar = rules_of(["_".join(name.split()) for name in data.columns], rows, 2 * most)
        return GrammarModel(grammar, ProbabilisticGrammar(grammar), **rest)
    grammar = literals(data.columns, most)
    return GrammarModel(
        grammar,
        ProbabilisticGrammar(grammar, grammar.uniform),
        language=Language((2,) * n, min_length=0, max_length=most),
        # the column, and its negation: where a value is missing neither is true
        truth=torch.stack([rows == 1, rows == 0], -1).flatten(1),
        **rest,
    )


def rules_of(names: list[str], rows: Tensor, max_rules: int) -> Grammar:
    """Literals of columns, joined by ∧ and ∨; a value (rows,) is of which rows they are true."""
    columns = [
        (f"{sign}{name}", rows[:, k] == bit)
        for k, name in enumerate(names)
        for sign, bit in (("", 1), ("¬", 0))
    ]
    joined = (
        ("( literal ∧ expression )", torch.logical_and),
        ("( literal ∨ expression )", torch.logical_or),
    )
    alternatives = {"expression": (("literal", None), *joined), "literal": columns}
    return Grammar(alternatives, max_rules=max_rules)
