"""Boolean concepts of sets of things, with noisy labels: "no other is of its colour" quantifies
over the others of a thing's set, which are an axis.

    python examples/boolean_concepts.py
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

VALUES = {"colour": ("blue", "green"), "shape": ("square", "circle"), "size": ("small", "large")}
SETS = (
    ("blue square small", "green square large", "green circle large", "green square small"),
    ("green circle small", "blue circle large", "blue circle small", "blue square large"),
)
THINGS = [(k, thing.split()) for k, things in enumerate(SETS) for thing in things]
FEATURES = torch.tensor([[*map(tuple.index, VALUES.values(), thing)] for _, thing in THINGS])
SAME = FEATURES[:, None] == FEATURES  # (things x, things y, features)
NUMBER = torch.tensor([k for k, _ in THINGS])  # of a thing's set, in which the others are
OTHER = (NUMBER[:, None] == NUMBER) & ~torch.eye(len(THINGS), dtype=torch.bool)
GRAMMAR = Grammar(
    {
        "set": (
            *((word, FEATURES[:, k] == v) for k, words in enumerate(VALUES.values())
              for v, word in enumerate(words)),
            ("not set", torch.logical_not),
            ("( set and set )", torch.logical_and),
            ("( set or set )", torch.logical_or),
            ("some other is of the same feature", lambda same: (same & OTHER).any(-1)),
            ("all others that are set are of the same feature",
             lambda those, same: (same | ~those | ~OTHER).all(-1)),
        ),
        "feature": tuple((name, SAME[..., k]) for k, name in enumerate(VALUES)),
    },
    max_rules=5,
)  # fmt: skip


def program(shown: Tensor, told: Tensor) -> None:
    """A set, and labels of the things `shown` by their numbers; a tenth of labels are guesses."""
    rules = pyro.sample("expression", ProbabilisticGrammar(GRAMMAR))
    law = labels(GRAMMAR.value(rules)[..., shown], noise=0.1)
    pyro.sample("labels", law, obs=told)


if __name__ == "__main__":
    shown = torch.arange(len(THINGS))
    told = (~(SAME[..., 0] & OTHER).any(-1)).float()  # no other is of its colour
    for (k, thing), label in zip(THINGS, told.tolist(), strict=True):
        print(f"set {k + 1}:", *thing, "yes" if label else "no")
    log_p = exact_posterior(program, shown, told).log_p
    best = log_p.topk(5)
    for p, rules in zip(best.values.exp(), GRAMMAR.derivations[best.indices], strict=True):
        print(f"{p:.3f}  {GRAMMAR.text(rules)}")
