"""The number game (Tenenbaum 1999): which numbers from 1 to 100 does a program accept, of which
some are shown?

    python examples/number_game.py 16 8 2 64
"""

from __future__ import annotations

import sys

import pyro
import torch
from torch import Tensor

from plot_attractors.language_of_thought import (
    Grammar,
    ProbabilisticGrammar,
    exact_posterior,
    examples,
)

N = torch.arange(1, 101)
GRAMMAR = Grammar(
    {
        "set": (
            ("even", N % 2 == 0),
            ("square", N.sqrt() % 1 == 0),
            ("power of number", lambda k: (k ** torch.arange(1, 7) == N[:, None]).any(-1)),
            ("multiple of number", lambda k: N % k == 0),
            ("from decade to decade", lambda low, high: (low <= N) & (high >= N)),
            ("not set", torch.logical_not),
            ("( set and set )", torch.logical_and, 0.5),
            ("( set or set )", torch.logical_or, 0.5),
        ),
        "number": tuple((str(k), k) for k in (2, 3, 4, 5, 10)),
        "decade": tuple((str(k), k) for k in range(10, 101, 30)),
    },
    max_rules=6,
)


def program(shown: Tensor) -> None:
    """A set, and numbers from it; one in a hundred is any number."""
    rules = pyro.sample("expression", ProbabilisticGrammar(GRAMMAR))
    law = examples(GRAMMAR.value(rules), len(shown), outliers=0.01)
    pyro.sample("numbers", law, obs=shown - 1)


if __name__ == "__main__":
    shown = torch.tensor([*map(int, sys.argv[1:])] or [16, 8, 2, 64])
    log_p = exact_posterior(program, shown).log_p
    best = log_p.topk(5)
    for p, rules in zip(best.values.exp(), GRAMMAR.derivations[best.indices], strict=True):
        print(f"{p:.3f}  {GRAMMAR.text(rules)}")
    accepted = log_p.exp() @ GRAMMAR.value(GRAMMAR.derivations).double()
    print("probably also:", *(N[accepted > 0.5].tolist()))
