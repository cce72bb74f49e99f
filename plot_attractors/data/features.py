"""Features of inputs: what analyses ask about them, categorical or continuous."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from plot_attractors.data.batch import Batch

__all__ = ["Channels", "Feature", "Labelled"]


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
    def kind(self) -> str:
        """Its name in tables: categorical or continuous."""
        return "categorical" if self.categorical else "continuous"

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


class Channels:
    """What is described of features (F,): a colour by its channels R, G and B, 0 or 1 each, as in
    the paper's seven features of a sprite; other features as they are.

    ``features``: those (K,) that are described; ``apart``: which of the F are colours; ``places``:
    the coordinates of the outcomes of each.
    """

    def __init__(self, features: Sequence[Feature]) -> None:
        self.apart = [{len(place) for place in f.coordinates} == {3} for f in features]
        self.places = [torch.tensor(f.coordinates) for f in features]
        described: list[Feature] = []
        for f, apart in zip(features, self.apart, strict=True):
            described += [Feature(name, ("0", "1")) for name in "RGB"] if apart else [f]
        self.features = tuple(described)

    def values(self, values: Tensor) -> Tensor:
        """(…, K) of the described features, from values (…, F)."""
        columns = []
        for column, apart, places in zip(values.unbind(-1), self.apart, self.places, strict=True):
            known = places[column.nan_to_num().long()] if apart else column[..., None]
            columns.append(torch.where(column.isnan()[..., None], torch.nan, known))
        return torch.cat(columns, -1)


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
