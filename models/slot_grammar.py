"""A Bayesian language of thought on a tree: each branch left, right, or left open."""

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
    conjunctions,
)
from plot_attractors.ranges import Width


@dataclass(frozen=True)
class Config:
    # what a conjunction is true of: nodes of all generations, or leaves
    meaning: Literal["nodes", "leaves"] = "nodes"
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
    """expression → branch1 … branchD, branchk → ∅ | left | right: the 3^D sentences of D pairs.

    The branches are given, held-out nodes included: this learner knows its primitives. With meaning
    "leaves" and the size principle, the number of branches left open is Binomial(D, ⅓), whatever
    the input.
    """
    c = config
    grammar = conjunctions(
        {name: (f"left{k}", f"right{k}") for k, name in enumerate(data.label_names, 1)}
    )
    objects = data.depths == data.depth if c.meaning == "leaves" else data.depths > 0
    return GrammarModel(
        grammar,
        ProbabilisticGrammar(grammar, grammar.uniform),  # ∅, left and right equally likely
        language=Language((2,) * data.depth, min_length=0),
        # left and right of every branch
        truth=one_hot(data.paths[objects] + 1, 3)[..., 1:].flatten(1),
        objects=BitObjects(data.probabilities[objects]),
        size_principle=c.size_principle,
        units=c.units,
    )
