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
from plot_attractors.ranges import Bits, Depth, Seed, Width
from plot_attractors.runs import registry

tree_grammar = registry.load("models", "tree_grammar")

load_data = tree_grammar.load_data  # the tree, and exemplars of its nodes drawn on the fly


@dataclass(frozen=True)
class Config:
    depth: Depth = 6  # D, generations of the tree
    bits: Bits = 128  # N, bits of a vector
    # hold out one prototype a generation from the third on, with its descendants
    hold_out: bool = True
    hold_out_seed: Seed = 0  # which ones
    # what a conjunction is true of: nodes of all generations, or leaves
    meaning: Literal["nodes", "leaves"] = "nodes"
    # inputs are drawn from what the expression is true of (Tenenbaum 1999)
    size_principle: bool = True
    units: Width = 128  # of the guide's perceptrons, which inference grammar_gflownet trains

    INFERENCE: ClassVar[str] = "enumeration"

    inert = tree_grammar.Config.inert


PRESETS: dict[str, dict[str, Any]] = {
    "full": {},
    "demo": {},
    "smoke": {"depth": 3, "bits": 16, "units": 32},
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
    objects = data.depths == c.depth if c.meaning == "leaves" else data.depths > 0
    return GrammarModel(
        grammar,
        ProbabilisticGrammar(grammar, grammar.uniform),  # ∅, left and right equally likely
        Language((2,) * c.depth, min_length=0),
        # left and right of every branch
        truth=one_hot(data.paths[objects] + 1, 3)[..., 1:].flatten(1),
        objects=BitObjects(data.probabilities[objects]),
        size_principle=c.size_principle,
        units=c.units,
    )
