"""Grammars with meanings, of the examples, against plain Python: every expression read as a tree,
evaluated on sets and loops, and Bayes' rule by sums.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyro
import pytest
import torch
from torch import Tensor

from plot_attractors.language_of_thought import (
    Grammar,
    ProbabilisticGrammar,
    exact_posterior,
    labels,
)

from ..small import module_at

EXAMPLES = Path(__file__).parents[2] / "examples"


numbers = module_at(EXAMPLES / "number_game.py")


def read(
    grammar: Grammar, rules: Iterator[int], mean: Callable[[str, list[Any]], Any]
) -> tuple[Any, float]:
    """The meaning of the next subtree, by its rule's text and the meanings inside, and its prior
    probability.
    """
    rule = next(rules)
    left, right = grammar.rules[rule]
    alternatives = [float(w) for w, n in zip(grammar.weights, grammar.left, strict=True)
                    if n == grammar.left[rule]]  # fmt: skip
    p, inside = float(grammar.weights[rule]) / sum(alternatives), []
    for _ in (s for s in right if s in grammar.nonterminals):
        value, q = read(grammar, rules, mean)
        inside.append(value)
        p *= q
    return mean(f"{left}: {' '.join(right)}", inside), p


def brute_force(grammar: Grammar, mean: Any, likelihood: Callable[[Any], float]) -> Tensor:
    """P(expression | data) of all derivations."""
    joint = []
    for row in grammar.derivations.tolist():
        value, p = read(grammar, iter(row), mean)
        joint.append(p * likelihood(value))
    total = sum(joint)
    return torch.tensor([p / total for p in joint], dtype=torch.float64)


# -- the number game


def mean_of_numbers(text: str, inside: list[Any]) -> Any:
    kind, _, side = text.partition(": ")
    every = range(1, 101)
    if kind in ("number", "decade"):
        return int(side)
    words = side.split()
    return {
        "even": lambda: {n for n in every if n % 2 == 0},
        "square": lambda: {k * k for k in range(1, 11)},
        "power": lambda k: {k**e for e in range(1, 7) if k**e <= 100},
        "multiple": lambda k: {n for n in every if n % k == 0},
        "from": lambda low, high: {n for n in every if low <= n <= high},
        "not": lambda s: set(every) - s,
        "and": lambda a, b: a & b,
        "or": lambda a, b: a | b,
    }[words[2] if words[0] == "(" else words[0]](*inside)


def test_the_number_game() -> None:
    shown = [16, 8, 2, 64]

    def likelihood(numbers: set[int]) -> float:
        inside = [0.99 * (n in numbers) / max(1, len(numbers)) + 0.01 / 100 for n in shown]
        return math.prod(inside)

    expected = brute_force(numbers.GRAMMAR, mean_of_numbers, likelihood)
    result = exact_posterior(numbers.program, torch.tensor(shown)).log_p.exp()
    torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-9)
    assert numbers.GRAMMAR.text(numbers.GRAMMAR.derivations[result.argmax()]) == "power of 2"


def test_data_that_no_expression_explains_are_refused() -> None:
    grammar = Grammar({"S": [("yes", [True, True]), ("no", [True, False])]})

    def program(y: Tensor) -> None:
        rules = pyro.sample("expression", ProbabilisticGrammar(grammar))
        pyro.sample("y", labels(grammar.value(rules)), obs=y)

    with pytest.raises(ValueError, match="No expression explains the data"):
        exact_posterior(program, torch.zeros(2))
