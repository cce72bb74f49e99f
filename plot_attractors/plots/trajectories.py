"""The figure of trajectories: two panels in a plane, and distances to embeddings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from plot_attractors.plots.parts import dot, note
from plot_attractors.plots.style import (
    BLUE,
    CLASS_COLOURS,
    CRIMSON,
    GREY,
    LIGHT_GREY,
    PURPLE,
    plain,
)


def draw_trajectories(planes: Mapping[str, np.ndarray], table: pd.DataFrame) -> Figure:
    """Panels A and B, and distances.

    Args:
        planes: ``A`` and ``B``, (times, B, 2) states; ``embeddings`` (S, 2); ``titles``;
            ``classes``, ``names`` and ``colours`` of the inputs of A; ``steps``, T; ``noise``, the
            distance of exact samples to their embedding.
        table: ``summary.csv`` of the analysis.
    """
    figure = Figure(figsize=(12, 8.2), layout="constrained")
    grid = figure.add_gridspec(2, 2, height_ratios=[1.9, 1])
    points, steps, noise = planes["embeddings"], int(planes["steps"]), float(planes["noise"])
    for column, name in enumerate("AB"):
        axes = figure.add_subplot(grid[0, column])
        z = planes[name]
        size, alpha, order = (7, 0.45, 1) if name == "A" else (16, 0.8, 3)
        look: Any = {"color": CRIMSON, "alpha": alpha, "linewidths": 0}
        axes.scatter(points[:, 0], points[:, 1], s=size, zorder=order, **look)
        colours = _colours(planes) if name == "A" else GREY
        look = {"colors": colours, "linewidths": 0.8, "alpha": 0.8, "zorder": 2}
        axes.add_collection(LineCollection(list(z.transpose(1, 0, 2)), **look), autolim=False)
        for states, colour, order in ((z[-1], BLUE, 3), (z[0], "black", 4)):
            look = {"color": colour, "edgecolors": "white", "linewidths": 0.4, "zorder": order}
            axes.scatter(states[:, 0], states[:, 1], s=20, **look)
        shares = table[table["panel"] == name].iloc[0]
        axes.set_title(f"{name}  {planes['titles']['AB'.index(name)]}")
        axes.set_xlabel(f"first component ({shares['variance1']:.0%} of these states' variance)")
        axes.set_ylabel(f"second component ({shares['variance2']:.0%})")
        # B is a part of A, enlarged
        _set_bounds(axes, z, points if name == "A" else points[:0])
        if name == "A" and len(planes["names"]):
            legend: Any = {"fontsize": 8, "handlelength": 1, "borderpad": 0.2, "labelspacing": 0.3}
            axes.legend(handles=_class_handles(planes), **legend)
    axes = figure.add_subplot(grid[1, :])
    for name, colour in (("A", BLUE), ("B", PURPLE)):
        part = table[table["panel"] == name]
        band = part["t"], part["low"], part["high"]
        axes.fill_between(*band, color=colour, alpha=0.2, linewidth=0)
        axes.plot(part["t"], part["distance"], color=colour, label=f"states of panel {name}")
    axes.axhline(noise, color="black", linestyle=":", label="exact samples, N(ẑ, ε²)")
    axes.axvline(steps, color=GREY, linewidth=0.8)
    axes.set_ylim(0, 1.12 * axes.get_ylim()[1])  # room for the legend
    axes.text(steps, axes.get_ylim()[1], " T", va="top", color=GREY)
    axes.set(xlim=(0, table["t"].max()), title="C  Distance to the nearest embedding")
    axes.set(xlabel="step t", ylabel="median distance")
    axes.legend(ncols=3, loc="upper right")
    figure.legend(handles=_handles(), loc="outside upper center", ncols=4)
    return figure


def draw_settling(table: pd.DataFrame, steps: int) -> Figure:
    """When inputs settle, and how that goes with the entropy of their sentences.

    Args:
        table: ``settling.csv`` of the analysis.
        steps: T.
    """
    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for column, label, colour in (
        ("last_change", "nearest sentence changes no more", BLUE),
        ("arrival", "within 2 ε√d of an embedding for good", PURPLE),
    ):
        left.ecdf(table[column], color=colour, label=label)
    left.set(xlim=(0, steps), ylim=(0, 1.3), xlabel="step t", ylabel="share of inputs")
    left.set_yticks([0, 0.25, 0.5, 0.75, 1])
    left.set_title("A  Settled by step t")
    left.legend(loc="upper left")
    middle = table["last_change"]
    halves = np.abs(np.stack([middle - table["last_change_q1"], table["last_change_q3"] - middle]))
    look: Any = {"fmt": "o", "markersize": 4, "color": BLUE, "ecolor": LIGHT_GREY, "elinewidth": 1}
    right.errorbar(table["entropy"], middle, yerr=halves, **look)
    right.set(ylim=(0, steps), xlabel="entropy of P(s | x), nats", ylabel="step of the last change")
    right.set_title("B  Open inputs and clear ones")
    if middle.nunique() > 1 and table["entropy"].nunique() > 1:
        note(right, f"ρ = {table['entropy'].corr(middle, method='spearman'):.2f}")
    return figure


def _palette(planes: Mapping[str, np.ndarray]) -> tuple[str, ...]:
    return tuple(planes["colours"].tolist()) or CLASS_COLOURS


def _colours(planes: Mapping[str, np.ndarray]) -> list[str]:
    """Of each input of panel A, that of its class."""
    palette = _palette(planes)
    return [palette[k % len(palette)] for k in planes["classes"].tolist()]


def _class_handles(planes: Mapping[str, np.ndarray]) -> list[Line2D]:
    named = zip(_palette(planes), planes["names"].tolist(), strict=False)
    return [Line2D([], [], color=colour, label=plain(name, 16)) for colour, name in named]


def _handles() -> list[Line2D]:
    return [
        dot("black", "initial state z0"),
        Line2D([], [], color=GREY, linewidth=1, label="trajectory"),
        dot(BLUE, "state after T steps"),
        dot(CRIMSON, "embedding ẑ of a sentence in use"),
    ]


def _set_bounds(axes: Any, z: np.ndarray, points: np.ndarray) -> None:
    """Limits that hold states (times, B, 2) and points (n, 2)."""
    everything = np.concatenate([z.reshape(-1, 2), points])
    margin = 0.04 * np.ptp(everything, axis=0)
    (left, bottom), (right, top) = everything.min(0) - margin, everything.max(0) + margin
    axes.set(xlim=(left, right), ylim=(bottom, top))
