"""The sampler's probabilities of sentences against the exact posterior's, and their distances."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import LinearSegmentedColormap, LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from plot_attractors.plots.parts import note, steps_name
from plot_attractors.plots.style import BLUE, GREEN, RED, add_scale
from plot_attractors.split_names import split_name

LEAST = 1e-4  # least probability in the figure; smaller ones are drawn there
WHITE_TO_BLUE = LinearSegmentedColormap.from_list("counts", ["#DCEBF5", BLUE, "#00233A"])


def plot(tables: Mapping[str, Any]) -> dict[str, Figure]:
    """Figure ``calibration`` from ``summary.csv``, ``inputs.csv`` and ``pairs.npz``.

    A row of probabilities and one of distances for each split; more than two splits two by two.
    """
    summary, inputs, pairs = (tables[n] for n in ("summary.csv", "inputs.csv", "pairs.npz"))
    splits, times = list(summary["split"].unique()), list(summary["steps"].unique())
    across = 2 if len(splits) > 2 else 1
    down = -(-len(splits) // across)
    figure = Figure(figsize=(3.9 * len(times) * across, 7 * down), layout="constrained")
    parts = figure.subfigures(down, across, squeeze=False).flat
    for part, split in zip(parts, splits, strict=False):
        grid = part.subplots(2, len(times), squeeze=False, height_ratios=[1.25, 1], sharey="row")
        norm = LogNorm(1, max(10.0, int(pairs[f"{split} size"]) / 10))
        for column, steps in enumerate(times):
            here, of = (
                table[(table["split"] == split) & (table["steps"] == steps)]
                for table in (summary, inputs)
            )
            here = here.set_index("statistic")
            image = _draw_probabilities(grid[0, column], pairs[f"{split} {steps}"], here, norm)
            name = "" if column else f"{split_name(split)}, "
            grid[0, column].set_title(name + steps_name(steps, summary))
            _draw_distances(grid[1, column], of, here)
        grid[0, 0].set_ylabel("sampler q̂(s | x)")
        first = grid[1, 0]
        first.set_ylabel("inputs")
        first.yaxis.set_major_locator(MaxNLocator(6, integer=True))
        first.set_ylim(top=1.3 * first.get_ylim()[1])  # room for the notes
        add_scale(grid[0, -1], image, "pairs", shrink=0.85)
    return {"calibration": figure}


def _draw_probabilities(
    axes: Axes, pairs: np.ndarray, here: pd.DataFrame, norm: LogNorm
) -> PolyCollection:
    low = np.log10(LEAST)
    p, q, times = pairs  # of one pair in many places, and of many that are too small to tell apart
    p, q = (np.repeat(part, times.astype(int)) for part in (p, q))
    image = axes.hexbin(
        p, q, xscale="log", yscale="log", gridsize=45, norm=norm, cmap=WHITE_TO_BLUE,
        extent=(low, 0, low, 0), mincnt=1, linewidths=0.1,
    )  # fmt: skip
    axes.plot([LEAST, 1], [LEAST, 1], color=RED, linewidth=1.5, linestyle="--")
    axes.set(xlim=(0.8 * LEAST, 1), ylim=(0.8 * LEAST, 1), aspect="equal")
    axes.set_xlabel("exact posterior π(s | x)")
    if "slope" in here.index:
        slope = here.loc["slope"]
        text = f"slope {slope['value']:.2f} (exact draws {slope['floor']:.2f})"
        note(axes, text, "left", top=0.96)
    return image


def _draw_distances(axes: Axes, inputs: pd.DataFrame, here: pd.DataFrame) -> None:
    tv, floor = (float(here[column]["tv"]) for column in ("value", "floor"))
    bins = np.linspace(0, 1, 33).tolist()
    exact: dict[str, Any] = {"color": GREEN, "linestyle": ":"}
    axes.hist(inputs["tv_exact"], bins=bins, histtype="step", linewidth=1.6, **exact)
    axes.hist(inputs["tv"], bins=bins, color=BLUE, alpha=0.75)
    axes.axvline(tv, ymax=0.77, color="black", linewidth=1.5)
    axes.axvline(floor, ymax=0.77, linewidth=1.5, **exact)
    axes.set(xlim=(0, 1), xlabel="total variation, q̂ to π, of an input")
    note(axes, f"sampler, mean {tv:.3f}", color=BLUE, fontsize=9)
    note(axes, f"exact draws, mean {floor:.3f}", top=0.88, color=GREEN, fontsize=9)
    if "tv_extrapolated" in here.index and not np.isnan(here["value"]["tv_extrapolated"]):
        value, error = (here["value"][f"tv_extrapolated{end}"] for end in ("", "_se"))
        note(axes, f"extrapolated {value:.3f} ± {error:.3f}", top=0.8, fontsize=9)
