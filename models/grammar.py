"""A Bayesian language of thought with given primitives, of a tree, sprites or your own table."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from typing import Annotated, Any, ClassVar, Literal

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from plot_attractors.data import BinaryTable, ColouredSprites, HierarchicalBinaryVectors
from plot_attractors.data.sprites import COLOURS, SHAPES
from plot_attractors.language import Language
from plot_attractors.language_of_thought import (
    BitObjects,
    Grammar,
    GrammarModel,
    ProbabilisticGrammar,
    SpriteObjects,
    conjunctions,
    literals,
    paths,
)
from plot_attractors.model.bits import filled
from plot_attractors.ranges import Range, Size, setting

MOST_CELLS = 50_000_000  # expressions × rows, or × features of sentences, that are tabled


@dataclass(frozen=True)
class Config:
    expressions: Literal["conjunctions", "paths", "rules"] = setting(
        "conjunctions",
        "conjunctions, in which every feature may be left open; of a tree also paths from its "
        "root; of a table also rules, its columns and negated columns joined by ∧ and ∨",
    )
    prior: Literal["uniform", "indifferent"] = setting(
        "uniform",
        "conjunctions and paths are all equally likely, or the alternatives of every rule of "
        "the grammar are, so that short expressions are likelier",
    )
    size_principle: bool = setting(True, "inputs are drawn from what is true (Tenenbaum 1999)")
    meaning: Literal["nodes", "leaves", "node"] = setting(
        "nodes",
        "of a tree, what an expression is true of: nodes of all generations, or leaves; a path "
        "also of its end alone (the posterior over the classes that made the data)",
    )
    sizes: Size = setting(3, "of sprites: kinds of sizes that have tokens")
    literals: Size = setting(3, "of a table: most columns, each as it is or negated")
    noise: Annotated[float, Range(0, 0.5, above=True)] = setting(
        0.02, "of a table: probability that a column of an input is not as in the row that it shows"
    )

    INFERENCE: ClassVar[str] = "grammar"


OWN = {  # settings of one kind of data
    HierarchicalBinaryVectors: ("meaning",), ColouredSprites: ("sizes",),
    BinaryTable: ("literals", "noise"),
}  # fmt: skip
PRESETS: dict[str, dict[str, Any]] = {
    "full": {},
    "paths": {"expressions": "paths"},
    "smoke": {},
    "dsprites/smoke": {"sizes": 2},
    "table/smoke": {"literals": 2},
}


def build(config: Config, data: Any) -> GrammarModel:
    """Expressions of what is known of the data, held-out classes included: this learner knows its
    primitives.

    Raises ValueError for other data, for settings and expressions of other data, and where
    expressions are too many to table what they are true of.
    """
    c = config
    kind = next((kind for kind in OWN if isinstance(data, kind)), None)
    for name in (name for of, names in OWN.items() if of is not kind for name in names):
        if getattr(c, name) != getattr(Config, name):
            raise ValueError(f"the setting {name!r} has no effect on these data: leave it out")
    if kind is HierarchicalBinaryVectors and c.expressions != "rules":
        parts = of_tree(c, data)
    elif kind is ColouredSprites and c.expressions == "conjunctions":
        parts = of_sprites(c, data)
    elif kind is BinaryTable and c.expressions != "paths":
        parts = of_table(c, data)
    else:
        raise ValueError(
            "a grammar has conjunctions or paths of hierarchical binary vectors, conjunctions of "
            f"coloured sprites, and conjunctions or rules of a table, not {c.expressions} of these "
            "data"
        )
    grammar = parts["grammar"]
    given = c.prior == "indifferent" or c.expressions == "rules"
    prior = ProbabilisticGrammar(grammar, grammar.log_p if given else grammar.uniform)
    return GrammarModel(prior=prior, size_principle=c.size_principle, **parts)


def of_tree(c: Config, data: HierarchicalBinaryVectors) -> dict[str, Any]:
    """Path → ∅ | left path | right path, at most D levels; or expression → branch1 … branchD,
    branchk → ∅ | left | right: the 3^D sentences of D pairs. An input shows a node of which the
    expression is true.

    With meaning "leaves", the size principle and the uniform prior, the number of levels left open
    is Geometric(½), cut at D, of a path, and Binomial(D, ⅓) of a conjunction, whatever the input.
    """
    exact = c.meaning == "node"
    if exact and c.expressions != "paths":
        raise ValueError("meaning=node is of paths, whose end is a node: set expressions=paths")
    if c.expressions == "paths":
        grammar = paths(data.depth, below_root=exact)
    else:
        branches = enumerate(data.label_names, 1)
        grammar = conjunctions({name: (f"left{k}", f"right{k}") for k, name in branches})
    objects = data.depths == data.depth if c.meaning == "leaves" else data.depths > 0
    return {
        "grammar": grammar,
        "language": Language((2,) * data.depth, min_length=int(exact)),
        # left and right of every level
        "truth": one_hot(data.paths[objects] + 1, 3)[..., 1:].flatten(1),
        "objects": BitObjects(data.probabilities[objects]),
        "exact": exact,
    }


def of_sprites(c: Config, data: ColouredSprites) -> dict[str, Any]:
    """Expression → colour shape size x y, each → ∅ | one of its tokens: 3,200 expressions."""
    objects = SpriteObjects(data, c.sizes)
    numbered = zip(("size", "x", "y"), objects.outcomes[2:], strict=True)
    values = {name: [f"{name}{k}" for k in range(1, n + 1)] for name, n in numbered}
    kinds = zip(objects.kinds.unbind(-1), objects.outcomes, strict=True)
    return {
        "grammar": conjunctions({"colour": COLOURS, "shape": SHAPES, **values}),
        "language": Language(objects.outcomes, min_length=0),
        "truth": torch.cat([one_hot(kind, n) for kind, n in kinds], -1),
        "objects": objects,
    }


def of_table(c: Config, data: BinaryTable) -> dict[str, Any]:
    """Expression → conjunction of up to `literals` columns or negated columns, such as milk ∧
    ¬aquatic, true of the training rows that are so; or rules, see `rules_of`.
    """
    n, rules = data.bits, c.expressions == "rules"
    most = c.literals if rules else min(c.literals, n)
    rows = filled(data.rows(data.members["train"])).unique(dim=0)
    if rules:
        count = sum((2 * n) ** k * 2 ** (k - 1) for k in range(1, most + 1))
    else:
        count = sum(comb(n, k) * 2**k for k in range(most + 1))
    # sentences of rules have a feature for each of them at each place
    width = 2 * most * (2 * n + 3) if rules else 2 * n
    if count * max(len(rows), width) > MOST_CELLS:
        raise ValueError(
            f"{count:,} expressions of up to {most} of {n} columns, on {len(rows):,} different "
            "rows, are too many: lower literals, or name columns in ignore"
        )
    objects = BitObjects(rows * (1 - 2 * c.noise) + c.noise)
    if rules:
        names = ["_".join(name.split()) for name in data.columns]
        return {"grammar": rules_of(names, rows, 2 * most), "objects": objects}
    return {
        "grammar": literals(data.columns, most),
        "language": Language((2,) * n, min_length=0, max_length=most),
        # the column, and its negation: where a value is missing neither is true
        "truth": torch.stack([rows == 1, rows == 0], -1).flatten(1),
        "objects": objects,
    }


def rules_of(names: list[str], rows: Tensor, max_rules: int) -> Grammar:
    """Expression → literal, (literal ∧ expression) or (literal ∨ expression), each as likely:
    shorter ones are likelier. A value (rows,) is of which rows they are true.
    """
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
