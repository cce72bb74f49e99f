"""What every data set hands to a program: a batch of inputs with their classes and labels."""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

__all__ = ["Batch", "DataSet", "check_size", "check_split", "draw"]


class Batch(NamedTuple):
    """A batch of n inputs.

    - ``x``: (n, *input_shape) float32: (n, bits) of 0s and 1s, or images (n, channels, side, side)
    from 0 to 1;
    - ``y``: (n,) int64, the class (a node of the tree, a combination) or the row of the table that
    an input comes from;
    - ``labels``: (n, F) int64, one column for each of the data set's ``label_names``, -1 where
    unspecified.
    """

    x: Tensor
    y: Tensor
    labels: Tensor


@runtime_checkable
class DataSet(Protocol):
    """What a program may ask of its data; drawing uses torch's global random number generator."""

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Of one input: (bits,) of a vector of 0s and 1s, or (channels, side, side) of an image."""

    @property
    def label_names(self) -> tuple[str, ...]:
        """Names of the F label columns."""

    @property
    def splits(self) -> tuple[str, ...]:
        """``("train", "held_out")``, ``("train",)`` where nothing is held out, or other names after
        "train".
        """

    def batch(self, n: int, split: str = "train") -> Batch:
        """n inputs drawn independently from a split."""


def check_size(n: int) -> None:
    """Refuse a batch size that is no positive whole number."""
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise ValueError(f"the number of inputs to draw must be a positive whole number, not {n!r}")


def check_split(split: str, members: dict[str, Tensor]) -> Tensor:
    """The classes or rows of a split, out of those that the data set has."""
    if split not in members:
        raise ValueError(
            f"unknown split {split!r}: this data set has {' and '.join(map(repr, members))}"
        )
    return members[split]


def draw(members: Tensor, n: int) -> Tensor:
    """n of the members, uniformly and with replacement, by torch's global generator."""
    return members[torch.randint(len(members), (n,))]
