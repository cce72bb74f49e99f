"""Types of settings that say which values they take: ``lr: Positive = 2e-3``.

A range stands beside the type of a field, once. It is checked before anything is built, the
sentence that refuses a value is made from it, and `plot-attractors settings` prints it.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar, get_args, get_origin

__all__ = [
    "Bits", "Cost", "Count", "Depth", "Features", "NonNegative", "Positive", "Range", "Seed",
    "Share", "Side", "Size", "Width", "range_of", "setting",
]  # fmt: skip

T = TypeVar("T")

FINITE = 1e6  # where a float has no other bound: beyond, sums of squares leave single precision


@dataclass(frozen=True)
class Range:
    """Numbers from low to high, low itself only where it is not `above` low.

    >>> 0.5 in Range(0, 1), 0 in Range(0, 1, above=True), str(Range(0, 1)), str(Range(1))
    (True, False, 'from 0 to 1', '1 or more')
    """

    low: float = -math.inf
    high: float = math.inf
    above: bool = False

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high and not (self.above and value == self.low)

    def __str__(self) -> str:
        low, high = (f"{end:,g}" if end < 1e5 else f"{end:,.0f}" for end in (self.low, self.high))
        if self.low == -math.inf:
            return f"{high} or less" if self.high < math.inf else "of any size"
        if self.high == math.inf:
            return f"above {low}" if self.above else f"{low} or more"
        return f"above {low} and at most {high}" if self.above else f"from {low} to {high}"


Count = Annotated[int, Range(0, 10**9)]  # of updates, or of what may be left out
Size = Annotated[int, Range(1, 10**6)]  # of a batch
Width = Annotated[int, Range(1, 2**14)]  # of a layer or a latent space
Features = Annotated[int, Range(0, 2**14)]  # of a state; 0: none
Depth = Annotated[int, Range(1, 20)]  # generations of a tree
Bits = Annotated[int, Range(1, 2**20)]  # of a vector
Side = Annotated[int, Range(8, 128)]  # pixels of an image's side
Seed = Annotated[int, Range(0, 2**63 - 1)]
Positive = Annotated[float, Range(0, FINITE, above=True)]
NonNegative = Annotated[float, Range(0, FINITE)]
Share = Annotated[float, Range(0, 1)]
Cost = Annotated[float, Range(-100, 100)]  # nats of a token


def range_of(annotation: Any) -> tuple[Any, Range | None]:
    """The plain type of an annotation, and what beside it bounds its values."""
    if get_origin(annotation) is not Annotated:
        return annotation, None
    plain, *beside = get_args(annotation)
    return plain, next((one for one in beside if isinstance(one, Range)), None)


def setting(default: T, meaning: str) -> T:
    """A field of a Config: ``lr: Positive = setting(2e-3, "learning rate")``."""
    return dataclasses.field(default=default, metadata={"meaning": meaning})  # type: ignore[return-value]
