"""Kinship: relations of a family are matrices; a composition binds a variable, and a closure is a
bounded recursion.

    python examples/kinship.py
"""

from __future__ import annotations

import pyro
import torch
from torch import Tensor

from plot_attractors.language_of_thought import (
    Grammar,
    ProbabilisticGrammar,
    exact_posterior,
    labels,
)

PEOPLE = ("Ada", "Bo", "Cleo", "Dan", "Eve", "Finn", "Gia", "Hal", "Ivy", "Jon")
FEMALE = torch.tensor([name in ("Ada", "Cleo", "Eve", "Gia", "Ivy") for name in PEOPLE])
CHILDREN = {"Ada": "CD", "Bo": "CD", "Cleo": "EF", "Dan": "G", "Eve": "HI", "Gia": "J"}
PARENT = torch.tensor(
    [[child[0] in CHILDREN.get(parent, "") for child in PEOPLE] for parent in PEOPLE]
)  # (x, y): x is a parent of y


def composed(r: Tensor, s: Tensor) -> Tensor:
    """∃z r(x, z) ∧ s(z, y)."""
    return (r.float() @ s.float()) > 0


def closure(r: Tensor) -> Tensor:
    """r, r of r, r of r of r, …: paths of up to 16 steps."""
    for _ in range(4):
        r = r | composed(r, r)
    return r


GRAMMAR = Grammar(
    {
        "relation": (
            ("parent", PARENT),
            ("inverse relation", lambda r: r.T),
            ("( relation of relation )", composed),
            ("( relation or relation )", torch.logical_or),
            ("female relation", lambda r: r & FEMALE[:, None]),
            ("other relation", lambda r: r & ~torch.eye(len(r), dtype=torch.bool)),
            ("closure relation", closure),
        )
    },
    max_rules=6,
)


def program(pairs: Tensor, told: Tensor) -> None:
    """A relation, and labels of pairs of people (n, 2), one in twenty of them a guess."""
    rules = pyro.sample("expression", ProbabilisticGrammar(GRAMMAR))
    law = labels(GRAMMAR.value(rules)[..., pairs[:, 0], pairs[:, 1]], noise=0.05)
    pyro.sample("labels", law, obs=told)


if __name__ == "__main__":
    pairs = torch.cartesian_prod(torch.arange(len(PEOPLE)), torch.arange(len(PEOPLE)))
    for name, relation in {
        "grandmother": composed(PARENT, PARENT) & FEMALE[:, None],
        "sister": composed(PARENT.T, PARENT) & FEMALE[:, None] & ~torch.eye(len(PEOPLE)).bool(),
        "ancestor": closure(PARENT),
    }.items():
        log_p = exact_posterior(program, pairs, relation.flatten().float()).log_p
        best = log_p.topk(2)
        for p, rules in zip(best.values.exp(), GRAMMAR.derivations[best.indices], strict=True):
            print(f"{name:12} {p:.3f}  {GRAMMAR.text(rules)}")
