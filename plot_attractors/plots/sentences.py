"""Figures of the analysis ``sentences`` of bits: classes, their tokens, sentences and bits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from plot_attractors.plots.parts import name_columns
from plot_attractors.plots.style import BLUE, GREY, RED, add_scale, plain, tree_layout

BOUND = 2.0  # standard deviations of a real-valued column; what is farther has the same colour
MOST_ROWS = 44  # classes in the figure with sentences


def draw_classes(tables: Mapping[str, Any]) -> dict[str, Figure]:
    """``sentences``, and ``all_classes`` where a tree is too large for the first."""
    classes: pd.DataFrame = tables["classes.csv"]
    shown = _shown(classes)
    figures = {"sentences": _draw(tables, shown, named=True)}
    if len(shown) < len(classes) and _is_tree(classes):
        figures["all_classes"] = _draw(tables, np.arange(len(classes)), named=False)
    return figures


def _is_tree(classes: pd.DataFrame) -> bool:
    return bool((classes["depth"] > 0).any())


def _shown(classes: pd.DataFrame) -> np.ndarray:
    """Generations of the tree as long as there is room, or the largest classes."""
    n, depth = len(classes), classes["depth"].to_numpy()
    if n <= MOST_ROWS:
        return np.arange(n)
    if _is_tree(classes):
        above = np.searchsorted(depth, np.arange(1, depth.max() + 2))  # nodes above each depth
        return np.arange(int(above[above <= MOST_ROWS].max()))
    return np.sort(np.argsort(-classes["inputs"].to_numpy(), kind="stable")[:MOST_ROWS])


def _draw(tables: Mapping[str, Any], shown: np.ndarray, named: bool) -> Figure:
    classes, bits = tables["classes.csv"], tables["bits.npz"]
    share = tables["tokens.csv"].pivot(index="class", columns="token", values="sampler")
    tokens = list(tables["tokens.csv"]["token"].unique())
    part = classes.iloc[shown]
    rows, tree = len(shown), _is_tree(classes)
    place = tree_layout(part["parent"].to_numpy()) if tree else np.arange(rows)
    order = shown[np.argsort(place)]
    height = max(3.0, 1.6 + rows * (0.21 if named else 0.085))
    widths = [2.4 if tree else 0.05, max(1.5, 0.22 * len(tokens)), 1.9 if named else 0.05, 2.6, 2.6]
    figure = Figure(figsize=(sum(widths) + 2.0, height), layout="constrained")
    grid = figure.subplots(1, 5, sharey=True, width_ratios=widths)
    grid[0].set_ylim(rows - 0.4, -1.6 if tree else -0.6)
    for axes in grid:
        axes.tick_params(left=False)
    labels = [plain(str(classes["path"][k])) for k in order] if named else []
    if tree:
        _draw_tree(grid[0], part, place, labels)
    else:
        grid[0].set_axis_off()
        grid[1].tick_params(labelleft=True)
        grid[1].set_yticks(range(rows), labels)

    shared: dict[str, Any] = {"vmin": 0, "vmax": 1, "aspect": "auto", "interpolation": "nearest"}
    extent = (-0.5, len(tokens) - 0.5, rows - 0.5, -0.5)
    image = grid[1].imshow(share[tokens].loc[order], cmap="viridis", extent=extent, **shared)
    starts = np.cumsum(bits["groups"])[:-1] - 0.5
    grid[1].vlines(starts, -0.5, rows - 0.5, color="white", linewidth=1.5)
    every = max(1, len(tokens) // 16)
    grid[1].set_xticks(range(0, len(tokens), every), tokens[::every])
    grid[1].set_title("tokens")
    if named:
        sentences = tables["sentences.csv"]
        top = sentences[sentences["rank"] == 1].set_index("class").loc[order]
        for row, (s, p) in enumerate(zip(top["sentence"], top["sampler"], strict=True)):
            grid[2].text(0.0, row, plain(s, 22), va="center", fontsize=9)
            grid[2].text(1.0, row, f"{p:.0%}", va="center", ha="right", fontsize=9, color=GREY)
        grid[2].set_title("most frequent sentence")
    grid[2].set_axis_off()
    real = bool(bits["real"])
    noun = "column" if real else "bit"
    for axes, title in ((grid[3], "decoded"), (grid[4], "meant")):
        extent = (0.5, bits[title].shape[1] + 0.5, rows - 0.5, -0.5)
        look = shared | (
            {"vmin": -BOUND, "vmax": BOUND, "cmap": "RdBu_r"} if real else {"cmap": "gray"}
        )
        axes.imshow(bits[title][order], extent=extent, **look)
        axes.set(title=f"{noun}s {title}", xlabel=noun)
        if not name_columns(axes, bits["columns"], first=1.0):
            axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    for axes in grid[1:]:
        axes.spines[:].set_visible(False)
    add_scale(grid[4], image, "share with the token", shrink=min(1.0, 3 / height), aspect=14)
    return figure


def _draw_tree(axes: Axes, part: pd.DataFrame, place: np.ndarray, labels: list[str]) -> None:
    depth, parents, red = (part[name].to_numpy() for name in ("depth", "parent", "held_out"))
    up = np.where(parents < 0, -1, place[parents])  # the root stands above the first row
    corners = [
        [(d - 1, u), (d - 1, row), (d, row)] for d, u, row in zip(depth, up, place, strict=True)
    ]
    axes.add_collection(LineCollection(corners, colors=GREY, linewidths=0.8, zorder=1))
    size = 26 if labels else 9
    axes.scatter([0], [-1], s=size, color=GREY, zorder=2)
    for chosen, colour, marker in ((red == 0, BLUE, "o"), (red > 0, RED, "s")):
        look: dict[str, Any] = {"color": colour, "marker": marker, "linewidths": 0, "zorder": 2}
        axes.scatter(depth[chosen], place[chosen], s=size, **look)
    axes.set_xlim(-0.2, depth.max() + (1.6 if labels else 0.3))
    for row, d in zip(place, depth, strict=True) if labels else ():
        axes.text(d + 0.2, row, labels[int(row)], va="center", fontsize=8)
    axes.set(xticks=range(int(depth.max()) + 1), yticks=[], xlabel="depth", title="tree of classes")
    axes.spines[:].set_visible(False)
