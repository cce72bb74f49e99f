"""Figures of perturbations: how far states end from where they started, and what they mean."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from plot_attractors.plots.style import BLUE, CRIMSON, GREEN, GREY, ORANGE, plain

TARGETS = {"original": "Original ẑ_s", "nearest": "Nearest ẑ_n"}
STARTS = {
    "used": ("sentences in use, equally often", BLUE),
    "sampled": ("as often as they are sampled", ORANGE),
}
COLUMNS = 3  # panels in a row


def draw_distances(table: pd.DataFrame, critical: Mapping[str, Any]) -> Figure:
    """Percentiles of distances against the norm, and the critical perturbation, a row of
    ``critical.csv``.
    """
    figure = Figure(figsize=(10.5, 4.8), layout="constrained")
    panels = figure.subplots(1, 2, sharex=True, sharey=True)
    levels = table.filter(regex=r"^p\d+$")
    numbers = levels.to_numpy(float)
    low, high, largest = numbers.min(), numbers.max(), float(table["norm"].max())
    norm, reason = critical["critical"], critical["reason"]
    alone = isinstance(reason, str)  # an empty cell is read as NaN
    for axes, (target, title) in zip(panels, TARGETS.items(), strict=True):
        _draw_norms(axes, largest)
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter("")
        axes.set_ylim(0.8 * max(low, high / 1e4), 1.25 * high)
        if math.isfinite(norm):
            if not alone:
                band = critical["low"], min(critical["high"], largest)
                axes.axvspan(*band, color=GREEN, alpha=0.2, linewidth=0)
            axes.axvline(norm, color=GREEN, linewidth=1.6)
        _draw_percentiles(axes, table.loc[table["target"] == target, ["norm", *levels.columns]])
        axes.set_title(title)
    left = panels[0]
    left.set_ylabel("distance after 5T steps")
    if math.isfinite(norm):
        interval = f"[{critical['low']:.3g}, {critical['high']:.3g}]"
        note = f"critical perturbation {norm:.3g} {'(one sentence)' if alone else interval}"
        left.set_title(note, loc="right", fontsize=9, color=GREEN)
    else:
        note = "no critical perturbation:\n" + textwrap.fill(str(reason), 44)
        left.text(0.03, 0.97, note, transform=left.transAxes, va="top", fontsize=9, color=GREEN)
    return figure


def _draw_norms(axes: Axes, largest: float, least: float = 1 / 50) -> None:
    """A square-root axis of norms up to the largest; `least` of it is the first tick after 0."""
    ticks = [digit * 10.0**power for power in range(-6, 7) for digit in (1, 2, 5)]
    axes.set_xscale("function", functions=(np.sqrt, np.square))
    axes.set_xlim(0, largest)
    axes.set_xticks([0.0, *(x for x in ticks if least * largest <= x <= largest)])
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("‖ν‖, norm of the perturbation")


def _draw_percentiles(axes: Axes, table: pd.DataFrame) -> None:
    """A line for each percentile against the norm, named at its end where the names have room."""
    bottom, top = np.log(axes.get_ylim())
    taken: list[float] = []
    percentiles = [int(name[1:]) for name in table.columns[1:]]
    # the median first, then the outer ones
    for p in sorted(percentiles, key=lambda p: (p != 50, -abs(p - 50))):
        y = table[f"p{p}"]
        median = p == 50
        colour = CRIMSON if median else BLUE
        look: Any = {"linestyle": "--", "linewidth": 2.2} if median else {"linewidth": 0.9}
        axes.plot(table["norm"], y, color=colour, zorder=3 if median else 2, **look)
        height = float((np.log(max(y.iloc[-1], 1e-12)) - bottom) / (top - bottom))
        if 0 <= height <= 1 and all(abs(height - other) > 0.03 for other in taken):
            taken.append(height)
            place: Any = {"transform": axes.transAxes, "va": "center", "fontsize": 8}
            axes.text(1.01, height, "median" if median else f"{p} %", color=colour, **place)


def draw_meanings(table: pd.DataFrame, noise: float) -> Figure:
    """The rows of ``summary.csv``; `noise` is the distance of exact samples, ε√d."""
    figure = Figure(figsize=(10.5, 5), layout="constrained")
    left, right = figure.subplots(1, 2)
    dots = {"marker": "o", "markersize": 4}
    for start, (name, colour) in STARTS.items():
        part = table[table["start"] == start]

        def draw(axes: Axes, x: str, y: str, label: str, **look: Any) -> None:
            axes.plot(part[x], part[y], color=colour, label=f"{label}: {name}", **look)  # noqa: B023

        band = part["factor"], part["recovered_low"], part["recovered_high"]
        left.fill_between(*band, color=colour, alpha=0.2, linewidth=0)
        draw(left, "factor", "recovered", "same meaning", **dots)
        draw(left, "factor", "nearest_same", "nearest of the same", linestyle=":")
        draw(left, "factor", "settled", "any meaning", linestyle="--")
        draw(right, "norm", "distance_to_start", "to the start", **dots)
        draw(right, "norm", "distance_to_nearest", "to the nearest", linestyle="--")
    left.axvline(1, color=GREY, linestyle=":", label="half way to another meaning")
    left.set(ylim=(0, 1.03), xlim=(0, table["factor"].max()), title="Back at an embedding")
    left.set_xlabel("size of the perturbation, in half distances to another meaning")
    left.set_ylabel("share of states after 5T steps")
    right.axhline(noise, color="black", linestyle=":", label="exact samples, ε√d")
    right.set(xlim=(0, None), ylim=(0, None), title="Distance from embeddings")
    right.set_xlabel("median ‖ν‖, size of the perturbation")
    right.set_ylabel("median distance after 5T steps")
    for axes in (left, right):
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14))
    return figure


def draw_features(table: pd.DataFrame, critical: float) -> Figure:
    """A panel for the sentence and each feature, from ``features.csv``, with the critical norm."""
    parts = [part for _, part in table.groupby("feature", sort=False, dropna=False)]
    lines = math.ceil(len(parts) / COLUMNS)
    figure = Figure(figsize=(10.5, 0.6 + 3 * lines), layout="constrained")
    panels = figure.subplots(lines, COLUMNS, squeeze=False).flatten()
    for axes, part in zip(panels, parts, strict=False):
        x, first = part["norm"], part.iloc[0]
        _draw_norms(axes, float(x.max()), 1 / 12)
        if math.isfinite(critical):
            axes.axvline(critical, color=GREEN, linewidth=1.6, label="critical perturbation")
        axes.fill_between(x, part["low"], part["high"], color=BLUE, alpha=0.2, linewidth=0)
        line: Any = {"color": BLUE, "marker": "o", "markersize": 3}
        axes.plot(x, part["value"], label="states after 5T steps", **line)
        label = "random pairs of sentences"
        axes.axhline(first["random"], color=GREY, linestyle="--", label=label)
        own, number = first["kind"] == "sentence", first["kind"] == "continuous"
        axes.set_title("the sentence itself" if own else plain(str(first["feature"])))
        axes.set_ylabel("RMS difference" if number else "share of states")
        axes.set_ylim(0, None if number else 1.03)
    for axes in panels[len(parts) :]:
        axes.set_visible(False)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure
