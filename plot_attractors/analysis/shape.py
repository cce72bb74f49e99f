"""The shape of an analysis: what it needs of a run, its tables by split, its panels."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from plot_attractors.analysis.probes import is_described
from plot_attractors.analysis.sampling import BITS, is_listed, kind_of_inputs
from plot_attractors.data import Batch
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.model.protocols import decodes_sentences
from plot_attractors.runs import Run

__all__ = [
    "ATTRACTORS", "CATEGORIES", "DESCRIBED", "LISTED", "PLANE", "SENTENCES_OF_BITS", "Needs",
    "by_split", "needs_inputs", "panels",
]  # fmt: skip


@dataclass(frozen=True)
class Needs:
    """What an analysis needs of a run: `words` name it, `met` tells whether a run has it."""

    words: str
    met: Callable[[Run], bool]

    def __and__(self, other: Needs) -> Needs:
        met = lambda run: self.met(run) and other.met(run)  # noqa: E731
        return Needs(f"{self.words}, and {other.words}", met)


ATTRACTORS = Needs("a model with attractors", lambda run: isinstance(run.model, AttractorModel))
LISTED = Needs(
    "a model with attractors whose sentences can be listed", lambda run: is_listed(run.model)
)
DESCRIBED = Needs("a model that samples sentences, of data with labels", is_described)
CATEGORIES = Needs(
    "data with a categorical label",
    lambda run: any(f.categorical for f in getattr(run.data, "features", ())),
)
PLANE = Needs("two or more latent dimensions", lambda run: run.model.latent >= 2)
SENTENCES_OF_BITS = Needs(
    "vectors of bits, decoded as Bernoulli by a model that samples sentences",
    lambda run: decodes_sentences(run.model) and kind_of_inputs(run) == BITS,
)


def needs_inputs(*kinds: str) -> Needs:
    """Inputs of one of the `kind_of_inputs`."""
    return Needs(f"inputs that are {' or '.join(kinds)}", lambda run: kind_of_inputs(run) in kinds)


def by_split(run: Run, inputs: int, measure: Callable[[Batch], pd.DataFrame]) -> pd.DataFrame:
    """Rows of `inputs` from each split of the data, the split in the first column."""
    parts = []
    for split in run.data.splits:
        part = measure(run.data.batch(inputs, split))
        parts.append(part.assign(split=split)[["split", *part]])
    return pd.concat(parts, ignore_index=True)


def panels(
    n: int, columns: int = 2, size: tuple[float, float] = (5.5, 4.1)
) -> tuple[Figure, list[Axes]]:
    """A figure of n panels of a size, inches, in rows of so many columns."""
    rows = math.ceil(n / columns)
    figure = Figure(figsize=(columns * size[0], rows * size[1]), layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False).flatten())
    for empty in axes[n:]:
        empty.set_axis_off()
    return figure, axes[:n]
