"""A Bayesian language of thought on hierarchical binary vectors: paths from the tree's root."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from torch.nn.functional import one_hot

from plot_attractors.data import HierarchicalBinaryVectors
from plot_attractors.language import Language
from plot_attractors.language_of_thought import (
    BitObjects,
    GrammarModel,
    ProbabilisticGrammar,
    paths,
)
from plot_attractors.ranges import Width


@dataclass(frozen=True)
class Config:
    # what a path is true of: its end and all nodes below, the leaves below, or its end alone (the
    # posterior over the 126 classes that made the data)
    meaning: Literal["nodes", "leaves", "node"] = "nodes"
    # all expressions equally likely, or the alternatives of every level, so that short expressions
    # are likelier
    prior: Literal["uniform", "indifferent"] = "uniform"
    # inputs are drawn from what the expression is true of (Tenenbaum 1999)
    size_principle: bool = True
    units: Width | None = None  # of the guide of grammar_gflownet; none: there is no guide

    INFERENCE: ClassVar[str] = "enumeration"
    DATA: ClassVar[str] = "hbv"


PRESETS: dict[str, dict[str, Any]] = {
    "full": {},
    "demo": {},
    "smoke": {},
}


def build(config: Config, data: HierarchicalBinaryVectors) -> GrammarModel:
    """path → ∅ | left path | right path, at most D levels; an input shows a node of which the path
    is true.

    The tree is given, its held-out nodes included: this learner knows its primitives. With meaning
    "leaves", the size principle and the uniform prior, the number of levels left open is
    Geometric(½), cut at D, whatever the input.
    """
    c = config
    grammar = paths(data.depth, "below_root" if c.meaning == "node" else "anywhere")
    log_p = grammar.uniform if c.prior == "uniform" else grammar.log_p
    objects = data.depths == data.depth if c.meaning == "leaves" else data.depths > 0
    return GrammarModel(
        grammar,
        ProbabilisticGrammar(grammar, log_p),
        language=Language((2,) * data.depth, min_length=int(c.meaning == "node")),
        # left and right of every level
        truth=one_hot(data.paths[objects] + 1, 3)[..., 1:].flatten(1),
        objects=BitObjects(data.probabilities[objects]),
        exact=c.meaning == "node",
        size_principle=c.size_principle,
        units=c.units,
    )
