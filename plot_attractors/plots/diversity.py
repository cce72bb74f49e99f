"""Entropies of single inputs, and what their mean depends on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from plot_attractors.plots.parts import note, write
from plot_attractors.plots.style import BLUE, GREEN, GREY, LIGHT_BLUE, RED
from plot_attractors.split_names import split_name

NAMES = {"model": "model", "exact": "exact posterior", "one sentence": "one sentence and its noise"}
COLOURS = {"model": BLUE, "exact": GREEN, "one sentence": GREY}
LOWEST = -300.0  # nats; lower entropies are drawn there, so that a few do not hide the others
NOTHING = "−∞: sentences of an input coincide"
BELOW: dict[str, Any] = {
    "loc": "upper center", "bbox_to_anchor": (0.5, -0.16), "ncols": 2, "fontsize": 8,
}  # fmt: skip


def plot(tables: Mapping[str, Any]) -> dict[str, Figure]:
    """Figure ``diversity`` from ``summary.csv``, ``entropies.csv``, ``dependence.csv`` and, where
    there is one, ``paper.csv``.
    """
    summary, entropies = tables["summary.csv"], tables["entropies.csv"]
    paper = tables["paper.csv"].iloc[0] if "paper.csv" in tables else None
    splits, first = list(summary["split"].unique()), summary.iloc[0]
    of_points = f"N = {first['n']}, k = {first['k']}"
    rows = math.ceil(len(splits) / 2)
    figure = Figure(figsize=(11, 4.1 * (rows + 1)), layout="constrained")
    grid = figure.subplots(rows + 1, 2)
    panels, (size, sharpness) = grid[:rows].flatten(), grid[rows]
    bins = _bins(entropies["entropy"], paper)
    for axes, split in zip(panels, splits, strict=False):
        of, numbers = (table[table["split"] == split] for table in (entropies, summary))
        _draw_entropies(axes, of, numbers.set_index("samples"), bins, paper)
        axes.set_title(f"{split_name(split)}, {first['dimensions']} dimensions, {of_points}")
    for axes in panels[len(splits) :]:
        axes.set_axis_off()
    table = tables["dependence.csv"]
    table = table[table["split"] == splits[0]].replace(-np.inf, np.nan)
    _draw_size(size, table[table["temperature"] == 1], summary[summary["split"] == splits[0]])
    size.set_title(f"Number of samples and neighbour, {split_name(splits[0])}")
    _draw_sharpness(sharpness, table, first)
    sharpness.set_title(f"Sharpness of the decoder, {of_points}")
    for axes in (size, sharpness):
        axes.legend(**BELOW)
        axes.minorticks_off()
        axes.set_ylabel("mean entropy, nats")
        if paper is not None:
            axes.axhline(paper["mean"], color=RED, linewidth=1.2)
            place: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "xytext": (-2, -3)}
            place |= {"textcoords": "offset points", "ha": "right", "va": "top"}
            axes.annotate("paper", (1, paper["mean"]), **place, color=RED, fontsize=9)
        if table["mean"].isna().all():
            write(axes, NOTHING)
    return {"diversity": figure}


def _bins(entropy: pd.Series[float], paper: pd.Series[float] | None) -> np.ndarray:
    values = list(entropy.clip(lower=LOWEST)) + (
        [] if paper is None else [paper["low"], paper["high"]]
    )
    return np.linspace(min(values) - 1, max(values) + 1, 41)


def _draw_entropies(
    axes: Axes,
    entropies: pd.DataFrame,
    summary: pd.DataFrame,
    bins: np.ndarray,
    paper: pd.Series[float] | None,
) -> None:
    for index, (name, row) in enumerate(summary.iterrows()):
        entropy = entropies.loc[entropies["samples"] == name, "entropy"]
        look: dict[str, Any] = {"color": COLOURS[str(name)]}
        if name == "model":
            look |= {"alpha": 0.6}
        else:
            line = ":" if name == "exact" else "-"
            look |= {"histtype": "step", "linewidth": 1.8, "linestyle": line}
        axes.hist(entropy[np.isfinite(entropy)].clip(lower=LOWEST), bins=bins.tolist(), **look)
        text = f"{NAMES[str(name)]}: {_range(row)}, σ {row['sigma']:.3f}"
        if row["share_negative_infinity"] > 0:
            text += f"; −∞ for {row['share_negative_infinity']:.0%}"
        note(axes, text, "left", 0.97 - 0.075 * index, color=COLOURS[str(name)])
    if paper is not None:
        axes.axvline(paper["mean"], ymax=0.72, color=RED, linewidth=1.5)
        axes.axvspan(paper["low"], paper["high"], ymax=0.72, color=RED, alpha=0.08, linewidth=0)
        text = f"paper: {_range(paper)}, σ {paper['sigma']}"
        note(axes, text, "left", 0.97 - 0.075 * len(summary), color=RED)
    axes.set_ylim(top=1.5 * axes.get_ylim()[1])  # room for the notes
    axes.set_xlim(bins[0], bins[-1])
    axes.set_xlabel("entropy of the predictions for an input, nats")
    axes.set_ylabel("inputs")
    if not np.isfinite(entropies["entropy"]).any():
        write(axes, NOTHING)


def _range(row: pd.Series[float]) -> str:
    text = f"{row['mean']:.1f} [{row['low']:.1f}, {row['high']:.1f}]"
    return text.replace("inf", "∞").replace("-", "−")


def _draw_size(axes: Axes, table: pd.DataFrame, summary: pd.DataFrame) -> None:
    """Mean entropy over N: of the model for every k, of its controls for the usual k."""
    filled = summary.set_index("samples")["filled"]
    usual, d = summary[["k", "dimensions"]].iloc[0]
    neighbours = sorted(table["k"].unique())
    by = ["samples", "k", "points"]
    for _, part in table.groupby(by, sort=False):
        name, k, points = part[by].iloc[0]
        logarithmic = points == "log-probabilities"
        if name != "model" and (k != usual or logarithmic):
            continue
        label = f"{NAMES[name]}, k = {k}"
        if logarithmic:
            label += ", log-probabilities"
        elif k == usual and np.isfinite(filled[name]):
            label += f", fills {filled[name]:.1f} of {d}"
        look: dict[str, Any] = {"color": COLOURS[name] if k == usual else LIGHT_BLUE}
        look["linestyle"] = ":" if logarithmic else "-"
        look |= {"marker": "os^Dv"[neighbours.index(k) % 5], "markersize": 5}
        axes.plot(part["n"], part["mean"], label=label, **look)
    axes.set_xscale("log", base=2)
    sizes = sorted(table["n"].unique())
    axes.set_xticks(sizes, [str(n) for n in sizes])
    axes.set_xlabel("N, sentences of an input")


def _draw_sharpness(axes: Axes, table: pd.DataFrame, first: pd.Series) -> None:
    for column in ("n", "k"):
        table = table[table[column] == first[column]]
    table = table[table["points"] == "probabilities"].sort_values("temperature")
    for name, part in table.groupby("samples", sort=False):
        look: dict[str, Any] = {"color": COLOURS[str(name)], "label": NAMES[str(name)]}
        axes.plot(part["temperature"], part["mean"], marker="o", **look)
    axes.set_xscale("log", base=2)
    temperatures = sorted(table["temperature"].unique())
    axes.set_xticks(temperatures, [f"{t:g}" for t in temperatures])
    axes.set_xlabel("temperature: sharper, 1 as trained, softer")
