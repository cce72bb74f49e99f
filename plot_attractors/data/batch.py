"""What every data set hands to a program: a batch of inputs, and what is known of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

__all__ = [
    "Batch", "Channels", "DataSet", "Feature", "Labelled", "Members", "is_real",
    "split_rows",
]  # fmt: skip


class Batch(NamedTuple):
    """A batch of n inputs.

    - ``x``: (n, *input_shape) float32, bits of 0 and 1, pixels from 0 to 1, or real numbers;
    - ``y``: (n,) int64, the class, combination or row that an input comes from;
    - ``labels``: (n, F) int64, a column for each of the ``label_names``, −1 where unspecified.
    """

    x: Tensor
    y: Tensor
    labels: Tensor


@runtime_checkable
class DataSet(Protocol):
    """What a program may ask of its data; drawing uses torch's global random number generator."""

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Of one input: (D,) of a vector, or (channels, side, side) of an image."""

    @property
    def label_names(self) -> tuple[str, ...]:
        """Names of the F label columns."""

    @property
    def splits(self) -> tuple[str, ...]:
        """ "train" first, then the held-out splits, if any."""

    def batch(self, n: int, split: str = "train") -> Batch:
        """n inputs drawn independently from a split."""


class Feature(NamedTuple):
    """A feature of inputs.

    - ``outcomes``: names of the values of a categorical feature; none of a continuous one;
    - ``coordinates``: a point for each outcome, where outcomes lie in a space, as colours do.
    """

    name: str
    outcomes: tuple[str, ...] = ()
    coordinates: tuple[tuple[float, ...], ...] = ()

    @property
    def categorical(self) -> bool:
        return bool(self.outcomes)

    @property
    def colours(self) -> tuple[str, ...]:
        """Of outcomes that are colours (r, g, b): "#rrggbb", dark enough on white; else none."""
        return tuple(_legible(place) for place in self.coordinates if len(place) == 3)

    def mean_place(self, p: Tensor) -> Tensor:
        """(…, axes) the mean coordinates of the outcomes, by probabilities p (…, outcomes)."""
        return p @ torch.tensor(self.coordinates, dtype=p.dtype, device=p.device)

    @property
    def columns(self) -> int:
        """Numbers that a prediction of it takes: a probability for each outcome, or a mean."""
        return len(self.outcomes) or 1


def _legible(rgb: tuple[float, ...]) -> str:
    light = sum(part * weight for part, weight in zip(rgb, (0.299, 0.587, 0.114), strict=True))
    scale = 255 * min(1.0, 0.62 / max(light, 1e-6))
    return "#" + "".join(f"{round(part * scale):02x}" for part in rgb)


@runtime_checkable
class Labelled(Protocol):
    """A data set that knows features of its inputs."""

    @property
    def features(self) -> tuple[Feature, ...]:
        """The F features; none where nothing is known of the inputs but themselves."""

    @property
    def ordered(self) -> bool:
        """Whether a feature makes sense only after those before it, as the levels of a tree do."""

    def feature_values(self, batch: Batch) -> Tensor:
        """(n, F) float32: number of the outcome, or value of a continuous feature; NaN: missing."""


class Members:
    """A data set made of numbered members (classes, combinations or rows), some held out.

    `members` has for each split the numbers of its members, (n,) int64 in increasing order. A data
    set says what its inputs are by `at`; by ``as_inputs(array)``, of new ones as in a file; and by
    ``read(path, names)``, of files other than arrays.
    """

    members: dict[str, Tensor]
    features: tuple[Feature, ...]
    weights: Tensor | None = None  # (N,) in proportion to which members are drawn
    ordered = False  # whether a feature makes sense only after those before it

    @property
    def label_names(self) -> tuple[str, ...]:
        """Names of the features."""
        return tuple(feature.name for feature in self.features)

    @property
    def splits(self) -> tuple[str, ...]:
        """ "train" first, then the held-out splits, if any."""
        return tuple(self.members)

    def at(self, y: Tensor) -> Batch:
        """The inputs of these numbers (n,); exemplars that are drawn are drawn anew."""
        raise ValueError(f"inputs of {type(self).__name__} have no numbers: give an array")

    def batch(self, n: int, split: str = "train") -> Batch:
        """n inputs of a split, see `draw`."""
        return self.at(self.draw(n, split))

    def draw(self, n: int, split: str = "train") -> Tensor:
        """(n,) members of a split, with replacement, uniformly or in proportion to `weights`;
        ValueError where the split is unknown.
        """
        if split not in self.members:
            known = " and ".join(map(repr, self.members))
            raise ValueError(f"unknown split {split!r}: this data set has {known}")
        members = self.members[split]
        if self.weights is None:
            return members[torch.randint(len(members), (n,))]
        return members[torch.multinomial(self.weights[members], n, replacement=True)]


class Channels:
    """What is described of features (F,): a colour by its channels R, G and B, 0 or 1 each, as in
    the paper's seven features of a sprite; other features as they are.

    ``features``: those (K,) that are described; ``places``: of each of the F the coordinates of the
    outcomes, where it is a colour; ``apart``: whether it is.
    """

    def __init__(self, features: Sequence[Feature]) -> None:
        self.places = [torch.tensor(f.coordinates) for f in features]
        self.apart = [places.shape[1:] == (3,) for places in self.places]
        rgb = tuple(Feature(name, ("0", "1")) for name in "RGB")
        parts = (rgb if apart else (f,) for f, apart in zip(features, self.apart, strict=True))
        self.features = sum(parts, ())

    def values(self, values: Tensor) -> Tensor:
        """(…, K) of the described features, from values (…, F)."""
        columns = []
        for column, apart, places in zip(values.unbind(-1), self.apart, self.places, strict=True):
            known = places[column.nan_to_num().long()] if apart else column[..., None]
            columns.append(torch.where(column.isnan()[..., None], torch.nan, known))
        return torch.cat(columns, -1)


def is_real(data: object) -> bool:
    """Whether inputs are vectors of real numbers, and neither of bits nor images."""
    return bool(getattr(data, "real", False))


def split_rows(held_out: Tensor) -> dict[str, Tensor]:
    """The members of the splits "train" and "held_out", if any, by a mask (rows,)."""
    rows = {"train": ~held_out, "held_out": held_out}
    return {name: mask.nonzero().flatten() for name, mask in rows.items() if mask.any()}
