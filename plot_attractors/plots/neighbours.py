"""Figure of neighbours: features at the embeddings of sentences that share a basin."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from plot_attractors.plots.parts import dot
from plot_attractors.plots.style import BLUE, CLASS_COLOURS, CRIMSON, GREEN, GREY, ORANGE, plain

FEW_COLOURS = (BLUE, ORANGE, GREEN)


def draw_neighbours(
    pairs: Mapping[str, np.ndarray], summary: pd.DataFrame, ends: Mapping[str, Any]
) -> Figure:
    """The arrays and tables of the analysis, `ends` the row of ``ends.csv``."""
    shown = str(pairs["shown"])
    found: list[Any] = summary[summary["pairs"] == shown].to_dict("records")
    # the columns of each feature, in the order of the rows
    names, first = np.unique(pairs["feature"], return_index=True)
    features = [np.flatnonzero(pairs["feature"] == name) for name in names[first.argsort()]]
    outcomes = [tuple(filter(None, pairs["outcome"][part].tolist())) for part in features]
    lines, columns = math.ceil(len(features) / 3), min(3, len(features))
    figure = Figure(figsize=(10.5, 0.8 + 3.5 * lines), layout="constrained")
    panels = figure.subplots(lines, columns, squeeze=False).flatten()
    shared = len(set(outcomes)) == 1
    for axes, part, names_of, row in zip(panels, features, outcomes, found, strict=False):
        colours = _colours(pairs["colour"][part].tolist())
        axes.set_title(plain(str(pairs["feature"][part[0]])))
        if math.isnan(row["r"]):
            note, place = textwrap.fill(row["reason"], 34), {"transform": axes.transAxes}
            axes.text(0.05, 0.95, note, va="top", fontsize=9, **place)
            axes.set(xticks=[], yticks=[])
        else:
            original, other = pairs["original"][:, part], pairs["other"][:, part]
            _draw_pairs(axes, original, other, colours, row, categorical=bool(names_of))
        what = "probability" if names_of else "prediction"
        axes.set(xlabel=f"{what} at ẑ_s", ylabel=f"{what} at ẑ_n")
        if names_of and not shared:
            axes.legend(handles=_handles(names_of, colours), loc="lower right", fontsize=8)
    for axes in panels[len(features) :]:
        axes.set_visible(False)
    if shared and outcomes[0]:
        handles = _handles(outcomes[0], _colours(pairs["colour"][features[0]].tolist()))
        figure.legend(handles=handles, loc="outside lower center", ncols=8)
    count = {name: part["n"].iloc[0] for name, part in summary.groupby("pairs")}
    headline = (
        f"{ends['elsewhere']:.0%} of {ends['trajectories']} states end nearest to another "
        f"embedding, {count['near']} of these nearer to ẑ_s than the median state."
    )
    if shown == "all":
        headline += f"\nSince that is too few: all {count['all']} that end elsewhere."
    figure.suptitle(headline, x=0.01, ha="left", fontsize=10)
    return figure


def _draw_pairs(
    axes: Axes,
    a: np.ndarray,
    b: np.ndarray,
    colours: Sequence[str],
    row: Mapping[str, Any],
    *,
    categorical: bool,
) -> None:
    """Points of predictions a and b (n, k), the diagonal, the line of best fit, and r."""
    dots: Any = {"s": 12, "alpha": 0.45, "linewidths": 0, "rasterized": True}
    for k, colour in enumerate(colours):
        axes.scatter(a[:, k], b[:, k], color=colour, **dots)
    low, high = (0.0, 1.0) if categorical else (min(a.min(), b.min()), max(a.max(), b.max()))
    room = 0.03 * (high - low)
    ends = np.array([low - room, high + room])
    axes.plot(ends, ends, color=GREY, linewidth=0.9, zorder=0)
    line = row["intercept"] + row["slope"] * ends
    axes.plot(ends, line, color=CRIMSON, linestyle="--", linewidth=1.8)
    axes.set_xlim(*ends)
    axes.set_ylim(ends[0], ends[1] + 8 * room)  # room for the note
    note = (
        f"r = {row['r']:.2f} [{row['r_low']:.2f}, {row['r_high']:.2f}]\n"
        f"random pairs {row['r_random']:.2f}"
    )
    if categorical:
        axes.set_yticks([0, 0.2, 0.4, 0.6, 0.8, 1])
        if not math.isnan(row["r_within"]):
            note += f"; within outcomes {row['r_within']:.2f}"
    axes.text(0.03, 0.98, note, transform=axes.transAxes, va="top", fontsize=8.5)


def _colours(own: Sequence[str]) -> list[str]:
    """The outcomes' own colours, or others where they have none."""
    if own[0]:
        return list(own)
    colours = FEW_COLOURS if len(own) <= len(FEW_COLOURS) else CLASS_COLOURS
    return [colours[k % len(colours)] for k in range(len(own))]


def _handles(outcomes: Sequence[str], colours: Sequence[str]) -> list[Line2D]:
    return [dot(colour, plain(name)) for name, colour in zip(outcomes, colours, strict=True)]
