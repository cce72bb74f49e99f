"""Features of inputs: what analyses ask about them, categorical or continuous."""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

from torch import Tensor

from plot_attractors.data.batch import Batch

__all__ = ["Feature", "Labelled"]


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
