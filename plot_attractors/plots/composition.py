"""Figures of the analysis ``composition``: how sentences are understood, and tokens of outcomes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from plot_attractors.plots.features import by_kind, draw_panels
from plot_attractors.plots.style import (
    BLUE,
    CLASS_COLOURS,
    CRIMSON,
    GREY,
    RED,
    add_scale,
    plain,
)
from plot_attractors.split_names import split_name

BARS = {"sampled": (-0.28, RED), "composed": (0.0, BLUE)}


def draw(table: pd.DataFrame) -> Figure:
    """From ``summary.csv``: accuracy and RMSE of each source."""
    handles: list[Any] = [
        Patch(color=colour, label=f"{source} sentence") for source, (_, colour) in BARS.items()
    ]
    if (table["source"] == "best").any():
        control = "composed, meanings exchanged"
        handles += [
            Line2D([], [], color=GREY, marker="x", linestyle="-", label=control),
            Line2D([], [], color="black", linewidth=2, label="best of all sentences"),
        ]
    guess = {"linestyle": "--", "linewidth": 1, "label": "without a look"}
    handles.append(Line2D([], [], color="black", **guess))  # type: ignore[arg-type]
    return draw_panels(by_kind(table), _draw_bars, handles, 2.9)


def _draw_bars(axes: Axes, part: pd.DataFrame) -> None:
    x = np.arange(part["feature"].nunique())
    sources = {str(source): of for source, of in part.groupby("source")}
    for source, (shift, colour) in BARS.items():
        of = sources[source]
        axes.bar(x + shift, of["value"], width=0.26, color=colour)
        axes.vlines(x + shift, of["low"], of["high"], color="black", linewidth=1)
    if "shuffled" in sources:
        of = sources["shuffled"]
        axes.vlines(x + 0.23, of["low"], of["high"], color=GREY, linewidth=1.5)
        axes.plot(x + 0.23, of["value"], color=GREY, marker="x", linestyle="none")
    if "best" in sources:
        best = sources["best"]["value"]
        axes.hlines(best, x - 0.13, x + 0.13, color="black", linewidth=2)
    guess: dict[str, Any] = {"color": "black", "linestyle": "--", "linewidth": 1}
    axes.hlines(sources["sampled"]["chance"], x - 0.45, x + 0.4, **guess)


def draw_tokens(added: pd.DataFrame, branches: pd.DataFrame | None) -> Figure:
    """From ``added.csv`` and, of a tree, ``branches.csv``: the token of each outcome."""
    table = added[added["split"] == "train"]
    outcomes = table.groupby(["feature", "outcome"], sort=False, dropna=False)["contexts"]
    counts = np.stack([of.to_numpy() for _, of in outcomes])
    names = [f"{plain(f'{f} {o}')} ({of.sum()})" for (f, o), of in outcomes]
    height = max(3.5, 0.9 + 0.27 * len(counts))
    figure = Figure(figsize=(10.5, height), layout="constrained")
    if branches is None:
        axes = figure.subplots()
    else:
        left, axes = figure.subplots(1, 2, width_ratios=[1.35, 1])
        _draw_tree(left, branches)
    share = counts / counts.sum(1, keepdims=True)
    image = axes.imshow(share, cmap="Greys", vmin=0, vmax=1, aspect="auto")
    tokens = list(table["token"])[: counts.shape[1]]
    many = max(1, (len(tokens) - 1) // 26)
    axes.set_xticks(range(0, len(tokens), many), tokens[::many])
    axes.set_yticks(range(len(names)), names)
    axes.set(xlabel="token added", title=f"Token by outcome, {split_name('train')}")
    add_scale(axes, image, "share of contexts", shrink=0.6)
    return figure


def _draw_tree(axes: Axes, branches: pd.DataFrame) -> None:
    """Every branch's token, placed as in the tree."""

    def place(path: str) -> tuple[float, int]:
        return sum((1 if b == "R" else -1) * 0.5 ** (d + 1) for d, b in enumerate(path)), -len(path)

    columns = (branches[name] for name in ("path", "token", "group", "held_out"))
    for path, token, group, held_out in zip(*columns, strict=True):
        (x, y), (parent_x, parent_y) = place(path), place(path[:-1])
        axes.plot([parent_x, x], [parent_y, y], color=GREY, linewidth=0.8, zorder=1)
        colour = GREY if group < 0 else CLASS_COLOURS[group % len(CLASS_COLOURS)]
        axes.scatter(
            x, y, s=230, marker="s" if held_out else "o", color=colour,
            edgecolor=CRIMSON if held_out else colour, linewidth=2, zorder=2,
        )  # fmt: skip
        ink = "black" if np.dot(to_rgb(colour), (0.299, 0.587, 0.114)) > 0.5 else "white"
        axes.text(x, y, token, color=ink, ha="center", va="center_baseline", fontsize=9, zorder=3)
    deepest = branches["path"].str.len().max()
    axes.set(xlim=(-1.02, 1.02), ylim=(-deepest - 0.4, 0.15))
    axes.set_yticks(range(-1, -deepest - 1, -1), [f"branch {d}" for d in range(1, deepest + 1)])
    axes.set_xticks([])
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.tick_params(length=0)
    axes.set_title("Token added for each branch, left and right")
