"""Figures of the analysis ``compare_language_of_thought``, one for each split."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap, PowerNorm
from matplotlib.figure import Figure, SubFigure
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from plot_attractors.plots.parts import error, write
from plot_attractors.plots.style import (
    BLUE,
    CRIMSON,
    GREEN,
    GREY,
    LIGHT_BLUE,
    LIGHT_GREY,
    ORANGE,
    PURPLE,
)
from plot_attractors.split_names import split_name

NODE, PATHS, LEARNED = "node", "paths", "learned"
COLOURS = {NODE: "black", PATHS: ORANGE, "leaf paths": GREEN, "slots": PURPLE}
MARKERS = {NODE: "D", PATHS: "o", "leaf paths": "^", "slots": "s"}
NO_LEAVES = "no exemplars of leaves among the inputs"
WHITE_TO_BLUE = LinearSegmentedColormap.from_list("mass", ["#FFFFFF", LIGHT_BLUE, BLUE, "#00233A"])


def draw(split: str, tables: Mapping[str, pd.DataFrame]) -> Figure:
    """Of one split, from ``summary.csv``, ``specificity.csv``, ``translations.csv`` and
    ``examples.csv``.
    """
    of = {name: table[table["split"] == split] for name, table in tables.items()}
    summary = of["summary.csv"].fillna({"baseline": "", "feature": ""})
    levels = [f for f in summary["feature"].unique() if f not in ("", NODE)]
    figure = Figure(figsize=(11, 11.5), layout="constrained")
    rows = figure.subfigures(3, 1, squeeze=False, height_ratios=[3.1, 3.4, 3.1])
    top, middle, bottom = rows[:, 0]
    title = f"What is understood of an input, {split_name(split)}"
    top.suptitle(title, x=0.01, ha="left", fontsize=11)
    _draw_examples(top, of["examples.csv"], len(levels))
    left, right = middle.subplots(1, 2)
    _draw_divergence(left, summary, levels)
    _draw_accuracy(right, summary, levels)
    left, right = bottom.subplots(1, 2, width_ratios=[1, 1.15])
    _draw_specificity(left, of["specificity.csv"], len(levels))
    _draw_residuals(right, of["translations.csv"])
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # found once, not again for each file
    return figure


def _draw_examples(figure: SubFigure, table: pd.DataFrame, depth: int) -> None:
    examples = list(table.groupby("example", sort=False))
    row = figure.subplots(1, len(examples), squeeze=False)[0]
    image = None
    for axes, (title, part) in zip(row, examples, strict=True):
        node = part["input"].iloc[0]
        image = _draw_trees(axes, part, node, depth)
        axes.set_title(f"{title}: {node}  (JS {part['js'].iloc[0]:.2f} bits)", fontsize=10)
    row[0].set_ylabel("model    level    paths")
    if image is not None:
        label = "P(path goes through)"
        figure.colorbar(image, ax=list(row), label=label, shrink=0.9, pad=0.01, aspect=25)


def _draw_trees(axes: Axes, part: pd.DataFrame, node: str, depth: int) -> AxesImage:
    """Two trees as nested boxes, roots at 0, the grammar's upwards and the model's downwards."""
    level = part["node"].str.len()
    levels = range(1, depth + 1)
    above, below = (
        [np.repeat(part.loc[level == d, name], 2 ** (depth - d)) for d in levels]
        for name in ("paths", "model")
    )
    image = axes.imshow(
        np.stack([*above[::-1], *below]), cmap=WHITE_TO_BLUE, norm=PowerNorm(0.6, 0, 1),
        extent=(0, 1, -depth, depth), aspect="auto", interpolation="nearest",
    )  # fmt: skip
    sides = [
        ((k / 2**d, sign * (d - 1)), (k / 2**d, sign * d))
        for sign in (1, -1)
        for d in levels
        for k in range(2**d)
    ]
    floors = [((0, y), (1, y)) for y in range(-depth, depth + 1)]
    grid = LineCollection(sides + floors, colors=LIGHT_GREY, linewidths=0.3)
    axes.add_collection(grid, autolim=False)
    left = sum(0.5 ** (d + 1) for d, branch in enumerate(node) if branch == "R")
    for bottom in (len(node) - 1, -len(node)):
        frame = Rectangle(
            (left, bottom), 0.5 ** len(node), 1, fill=False, edgecolor=CRIMSON, linewidth=1.4,
            zorder=4, clip_on=False,
        )  # fmt: skip
        axes.add_patch(frame)
    axes.axhline(0, color="black", linewidth=1)
    axes.set_xticks([])
    ticks = [*range(-depth, 0), *range(1, depth + 1)]
    axes.set_yticks([t - 0.5 * np.sign(t) for t in ticks], [str(abs(t)) for t in ticks], fontsize=7)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    return image


def _error_bars(axes: Axes, x: np.ndarray, part: pd.DataFrame, **options: Any) -> None:
    look: dict[str, Any] = {"capsize": 0, "markersize": 5, "linewidth": 1.4, **options}
    axes.errorbar(x, part["value"].to_numpy(), error(part), **look)


def _draw_divergence(axes: Axes, summary: pd.DataFrame, levels: list[str]) -> None:
    names, x = [*levels, NODE], np.arange(len(levels) + 1)
    rows = summary.query("measure == 'js' and inputs == 'all' and reading == 'heard'")
    learned, between = rows[rows["source"] == LEARNED], rows[rows["source"] != LEARNED]
    shown = [name for name in COLOURS if (learned["baseline"] == name).any()]
    tables = {o: learned[learned["baseline"] == o].set_index("feature").loc[names] for o in shown}
    ranges = between.groupby("feature")["value"]
    low, high = ranges.min().loc[names], ranges.max().loc[names]
    axes.bar(x, high - low, 0.8, low, color=LIGHT_BLUE, alpha=0.25, label="between grammars")
    floor = np.max([of["floor"] for of in tables.values()], axis=0)
    axes.bar(x, floor, 0.8, color=GREY, alpha=0.6, label="finite draws")
    shuffled = np.mean([of["shuffled"] for of in tables.values()], axis=0)
    axes.hlines(shuffled, x - 0.4, x + 0.4, color=GREY, linestyle=":", label="another input")
    for k, (name, of) in enumerate(tables.items()):
        at = x + 0.16 * (k - (len(shown) - 1) / 2)
        marks = {"color": COLOURS[name], "marker": MARKERS[name], "linestyle": "none"}
        _error_bars(axes, at, of, label=f"model and {name}", **marks)
    axes.set_xticks(x, [*(str(k + 1) for k in range(len(levels))), "node"])
    axes.set(xlabel="level of the tree, and the node", ylabel="divergence, bits")
    axes.set(ylim=(-0.015, 1.02), title="How far apart the answers are, all inputs")
    axes.legend(loc="upper left", fontsize=8, ncols=2, columnspacing=1.2)


def _draw_accuracy(axes: Axes, summary: pd.DataFrame, levels: list[str]) -> None:
    x = np.arange(len(levels))
    axes.set_title("How often the likeliest branch is right, exemplars of leaves")
    axes.set_xticks(x, [str(k + 1) for k in x])
    axes.set(xlabel="level of the tree", ylabel="share right")
    rows = summary[(summary["inputs"] == "leaves") & (summary["n"] > 0)]
    if rows.empty:
        write(axes, NO_LEAVES)
        return

    def of(source: str, measure: str, reading: str) -> pd.DataFrame:
        chosen = rows["source"].eq(source) & rows["measure"].eq(measure)
        return rows[chosen & rows["reading"].eq(reading)].set_index("feature").loc[levels]

    ceiling = of(NODE, "accuracy", "literal")["value"]
    axes.plot(x, ceiling, color="black", marker="_", markersize=14, label="Bayes ceiling")
    series = (
        (PATHS, "accuracy", ORANGE, "paths, pooled"),
        (PATHS, "accuracy_one", ORANGE, "paths, one expression"),
        (LEARNED, "accuracy", BLUE, "model, pooled"),
        (LEARNED, "accuracy_one", BLUE, "model, one sentence"),
    )
    for k, (source, measure, colour, label) in enumerate(series):
        one = measure == "accuracy_one"
        _error_bars(
            axes, x + 0.12 * (k - 1.5), of(source, measure, "heard"),
            color=colour, marker="o" if one else "s", linestyle=":" if one else "-",
            markerfacecolor="white" if one else colour, label=label,
        )  # fmt: skip
    axes.set_ylim(0, 1.03)
    axes.legend(loc="lower left", fontsize=8)


def _draw_specificity(axes: Axes, table: pd.DataFrame, depth: int) -> None:
    axes.set_title("Levels left open, exemplars of leaves")
    axes.set(xlabel="levels left open by the nearest path", ylabel="share of sentences")
    of = table.query("measure == 'open' and inputs == 'leaves' and baseline == @PATHS")
    if of.empty:
        write(axes, NO_LEAVES)
        return
    axes.bar(of["value"], of["learned"], 0.8, color=BLUE, alpha=0.75, label="model")
    axes.plot(of["value"], of["grammar"], color=ORANGE, marker="o", linewidth=1.6, label="paths")
    guess: dict[str, Any] = {"color": "black", "linestyle": "--", "linewidth": 1.2}
    axes.plot(of["value"], of["geometric"], label="Geometric(½)", **guess)
    axes.set(xticks=range(depth + 1), ylim=(None, 1.12 * axes.get_ylim()[1]))
    axes.legend(loc="upper right", ncols=3, columnspacing=1.2)


def _draw_residuals(axes: Axes, table: pd.DataFrame) -> None:
    controls = {
        "scrambled": ("--", "paths, levels\ndealt anew"),
        "dealt": (":", "paths, trans-\nlations dealt anew"),
    }
    handles: list[Any] = []
    for name, of in table.groupby("baseline", sort=False):
        colour = COLOURS[str(name)]
        _draw_share(axes, of["residual"], of["usage"], color=colour, linewidth=1.8)
        handles.append(Line2D([], [], color=colour, linewidth=1.8, label=str(name)))
    of = table[table["baseline"] == PATHS]
    for column, (line, label) in controls.items():
        options: dict[str, Any] = {"color": ORANGE, "linestyle": line, "linewidth": 1.2}
        _draw_share(axes, of[column], of["usage"], **options)
        handles.append(Line2D([], [], label=label, **options))
    axes.legend(handles=handles, loc="center left", bbox_to_anchor=(1, 0.5), fontsize=8)
    axes.set_xscale("symlog", linthresh=0.05)
    axes.set(xlim=(0, None), ylim=(0, 1.02))
    axes.set_xlabel("distance of a sentence from its expression, bits (sum over levels)")
    axes.set(ylabel="share of sentences", title="How well sentences translate")


def _draw_share(axes: Axes, distance: pd.Series, usage: pd.Series, **options: Any) -> None:
    """The share of what is sampled that is at most so far."""
    order = distance.to_numpy().argsort(kind="stable")
    x, share = distance.to_numpy()[order], usage.to_numpy()[order].cumsum()
    axes.step([x[0], *x], [0, *share], where="post", **options)
