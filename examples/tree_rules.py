"""A language of thought on a tree with or, not and intervals, which sentences are translated into:

plot-attractors analyze runs/hbv compare_language_of_thought --set grammar=examples/tree_rules.py
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from plot_attractors.data import HierarchicalBinaryVectors
from plot_attractors.language_of_thought import (
    BitObjects,
    Grammar,
    GrammarModel,
    ProbabilisticGrammar,
)


@dataclass(frozen=True)
class Config:
    levels: int = 3  # of the parts that are joined

    INFERENCE: ClassVar[str] = "grammar"
    DATA: ClassVar[str] = "hbv"


PRESETS: dict[str, dict[str, Any]] = {"full": {}, "demo": {}, "smoke": {"levels": 1}}


def build(config: Config, data: HierarchicalBinaryVectors) -> GrammarModel:
    """expression → path | (part ∨ part) | (part ∧ ¬part) | part…part, all nodes from the leftmost
    leaf of the one to the rightmost of the other; a value is true or false of each node.
    """
    nodes = data.paths  # (nodes, D): 0 left, 1 right, −1 where a path has ended
    below = ((nodes[:, None] == nodes) | (nodes[:, None] < 0)).all(-1)  # [k, j]: j is below k
    halves = 0.5 ** torch.arange(1, data.depth + 1)
    start = (nodes == 1).float() @ halves  # each node's leaves are from start to end, of 0 to 1
    end = start + 0.5**data.depths

    def between(a: Tensor, b: Tensor) -> Tensor:
        left = start.masked_fill(~a, 1).min()
        return (start >= left) & (end <= end.masked_fill(~b, 0).max())

    names = data.class_names
    grammar = Grammar(
        {
            "expression": (
                ("path", None),
                ("( part ∨ part )", lambda a, b: a | b),
                ("( part ∧ ¬ part )", lambda a, b: a & ~b),
                ("( part … part )", between),
            ),
            "path": list(zip(names, below, strict=True)),
            "part": [
                pair
                for pair, depth in zip(zip(names, below, strict=True), data.depths, strict=True)
                if depth <= config.levels
            ],
        }
    )
    return GrammarModel(
        grammar, ProbabilisticGrammar(grammar), objects=BitObjects(data.probabilities)
    )
