"""A Bayesian language of thought on sprites: colour, shape, size, x, y specified or left open."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import cat
from torch.nn.functional import one_hot

from plot_attractors.data import ColouredSprites
from plot_attractors.data.dsprites import COLOURS
from plot_attractors.data.sprites import SHAPES
from plot_attractors.language import Language
from plot_attractors.language_of_thought import (
    GrammarModel,
    ProbabilisticGrammar,
    SpriteObjects,
    conjunctions,
)
from plot_attractors.ranges import Size, Width


@dataclass(frozen=True)
class Config:
    sizes: Size = 3  # kinds of sizes that have tokens
    # inputs are drawn from what the expression is true of (Tenenbaum 1999)
    size_principle: bool = True
    units: Width | None = None  # of the guide of grammar_gflownet; none: there is no guide

    INFERENCE: ClassVar[str] = "enumeration"
    DATA: ClassVar[str] = "dsprites"


PRESETS: dict[str, dict[str, Any]] = {
    "full": {},
    "demo": {},
    "smoke": {"sizes": 2},
}


def build(config: Config, data: ColouredSprites) -> GrammarModel:
    """expression → colour shape size x y, each → ∅ | one of its tokens: 3,200 expressions."""
    c = config
    objects = SpriteObjects(data, c.sizes)
    grammar = conjunctions(
        {
            "colour": COLOURS,
            "shape": SHAPES,
            "size": [f"size{k}" for k in range(1, c.sizes + 1)],
            "x": [f"x{k}" for k in range(1, objects.outcomes[3] + 1)],
            "y": [f"y{k}" for k in range(1, objects.outcomes[4] + 1)],
        }
    )
    kinds = zip(objects.kinds.unbind(-1), objects.outcomes, strict=True)
    return GrammarModel(
        grammar,
        ProbabilisticGrammar(grammar, grammar.uniform),
        language=Language(objects.outcomes, min_length=0),
        truth=cat([one_hot(kind, n) for kind, n in kinds], -1),
        objects=objects,
        size_principle=c.size_principle,
        units=c.units,
    )
