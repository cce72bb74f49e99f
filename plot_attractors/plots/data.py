"""Figures of data sets: a tree of classes, a table, coloured sprites, a user's images."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from plot_attractors.plots.parts import (
    MOST_NAMED,
    draw_bars,
    draw_images,
    name_columns,
    whole_numbers,
)
from plot_attractors.plots.style import BLUE, GREY, ORANGE, RED, add_scale, plain

# by 2 * exemplar + prototype
SHADES = ListedColormap(["black", "#5C5C5C", "#BDBDBD", "white"])
SHADE_NAMES = ("both 0", "only prototype 1", "only exemplar 1", "both 1")
MOST_VALUES = 20  # values of a label or feature that are drawn
MOST_LABELS = 6  # labels drawn; all are in the csv
SPRITES = {  # rows, title
    "train": (6, "A  Training"),
    "position": (5, "B  Held out: one cell"),
    "position+colour": (5, "C  Held out: yellow in another cell"),
    "position+shape": (5, "D  Held out: magenta ellipses"),
}


def plot(tables: Mapping[str, Any]) -> dict[str, Figure]:
    """Figure ``data``, ``table``, ``vectors``, ``sprites`` or ``images``, by which arrays there
    are.
    """
    draw = {
        "data": _plot_tree, "table": _plot_table, "vectors": _plot_vectors,
        "sprites": _plot_sprites, "images": _plot_images,
    }  # fmt: skip
    return {name: of(tables) for name, of in draw.items() if f"{name}.npz" in tables}


def _plot_tree(tables: Mapping[str, Any]) -> Figure:
    classes, arrays = tables["summary.csv"], tables["data.npz"]
    prototypes, of = arrays["prototypes"], arrays["classes"]
    figure = Figure(figsize=(12, 15), layout="constrained")
    grid = figure.add_gridspec(3, 2, height_ratios=[0.55, 1, 1])
    _draw_tree(figure.add_subplot(grid[0, :]), classes, prototypes, arrays["parents"])

    axes = figure.add_subplot(grid[1, 0], title="B  Prototypes")
    look: dict[str, Any] = {"aspect": "auto", "interpolation": "nearest", "vmin": 0}
    axes.imshow(prototypes, cmap="gray", vmax=1, **look)
    _mark_classes(axes, classes)

    copies = len(of) // len(classes)
    axes = figure.add_subplot(grid[1, 1])
    number = "One exemplar" if copies == 1 else f"{copies} exemplars"
    axes.set_title(f"C  {number} of each class")
    axes.imshow(2 * arrays["exemplars"] + prototypes[of], cmap=SHADES, vmax=3, **look)
    if copies > 1:
        lines = np.arange(copies, len(of), copies) - 0.5
        axes.hlines(lines, -0.5, prototypes.shape[1] - 0.5, color=BLUE, linewidth=0.8)
    _mark_classes(axes, classes.iloc[of])
    patches = [
        Patch(facecolor=SHADES(k), edgecolor=GREY, label=SHADE_NAMES[k]) for k in (3, 0, 2, 1)
    ]
    place: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.1), "ncols": 4}
    axes.legend(handles=patches, **place)

    axes = figure.add_subplot(grid[2, 0])
    samples = f"{int(arrays['samples']):,} training exemplars"
    axes.set_title(f"D  Correlation of the bits ({samples})")
    _draw_correlation(axes, arrays["correlation"], "bit")

    axes = figure.add_subplot(grid[2, 1], title="E  Probability that a bit is 1")
    image = axes.imshow(arrays["probabilities"], cmap="viridis", vmax=1, **look)
    _mark_classes(axes, classes)
    add_scale(axes, image, "probability")
    return figure


def _draw_tree(
    axes: Axes, classes: pd.DataFrame, prototypes: np.ndarray, parents: np.ndarray
) -> None:
    # A node stands over the middle of its prototype's 1s, the root over the middle of all bits.
    bits = prototypes.shape[1]
    across = prototypes @ np.arange(bits) / prototypes.sum(1)
    down, red, root = classes["depth"].to_numpy(), classes["held_out"].to_numpy() == 1, parents < 0
    middle, depth = (bits - 1) / 2, int(down.max())
    above = np.where(root, middle, across[parents]), np.where(root, 0, down[parents])
    segments = np.stack([np.stack(above, 1), np.stack([across, down], 1)], 1)
    thin = max(0.25, 1.2 - 0.1 * depth)
    # Markers of a generation shrink with the room that its nodes have, from 8 points to a dot.
    size = np.clip(400 / 2.0**down, np.where(red, 2.0, 0.8), 8) ** 2
    axes.scatter([middle], [0], s=64, color=GREY, zorder=3)
    for mask, line, colour, marker, order, name in (
        (~red, GREY, BLUE, "o", 1, "training class"),
        (red, RED, RED, "s", 2, "held-out class"),
    ):
        lines = LineCollection(list(segments[mask]), colors=line, linewidths=thin, zorder=order)
        axes.add_collection(lines)
        if mask.any():
            look: dict[str, Any] = {"color": colour, "marker": marker, "zorder": order + 2}
            axes.scatter(across[mask], down[mask], s=size[mask], linewidths=0, label=name, **look)
    axes.set(title="A  Tree of classes", xlim=(-0.5, bits - 0.5), ylim=(depth + 0.4, -0.4))
    axes.set(yticks=range(depth + 1), ylabel="depth", xticks=[])
    axes.spines[:].set_visible(False)
    legend = axes.legend(loc="upper right", fontsize=10)
    for handle in legend.legend_handles:
        if handle is not None and hasattr(handle, "set_sizes"):
            handle.set_sizes([50])


def _mark_classes(axes: Axes, classes: pd.DataFrame) -> None:
    """Label the rows of an image by depth, where there is room, and mark held-out ones on its left
    edge.
    """
    rows = classes.reset_index(drop=True)
    middles = rows.reset_index().groupby("depth")["index"].mean().sort_index(ascending=False)
    ticks: dict[Any, float] = {}
    for depth, middle in middles.items():
        if not ticks or min(ticks.values()) - middle > len(rows) / 44:
            ticks[depth] = middle
    whole_numbers(axes)
    axes.set_yticks(list(ticks.values()), list(map(str, ticks)), fontsize=8)
    axes.set(ylabel="depth of the class", xlabel="bit")
    marked = rows.index[rows["held_out"] == 1]
    bars = [[(-0.008, row - 0.5), (-0.008, row + 0.5)] for row in marked]
    look: dict[str, Any] = {"clip_on": False, "capstyle": "butt", "colors": RED, "linewidths": 5}
    collection = LineCollection(bars, transform=axes.get_yaxis_transform(), **look)
    axes.add_collection(collection, autolim=False)
    axes.tick_params(axis="y", length=0, pad=9)


def _draw_correlation(axes: Axes, matrix: np.ndarray, name: str) -> None:
    bound = max(0.1, float(np.abs(matrix).max()))
    image = axes.imshow(matrix, cmap="RdBu_r", vmin=-bound, vmax=bound, interpolation="nearest")
    whole_numbers(axes)
    add_scale(axes, image, "Pearson r")
    axes.set(xlabel=name, ylabel=name)


def _plot_table(tables: Mapping[str, Any]) -> Figure:
    summary = tables["summary.csv"]

    def draw_ones(axes: Axes, rows: int) -> None:
        axes.set_title(f"A  Share of 1s in each column ({rows:,} rows)")
        if len(summary) <= MOST_NAMED:
            draw_bars(axes, summary["column"], summary["mean"])
            axes.set(xlim=(0, 1), xlabel="share of 1s")
        else:
            axes.plot(np.arange(1, len(summary) + 1), np.sort(summary["mean"]), color=BLUE)
            axes.set(ylim=(0, None), xlabel="columns in increasing order", ylabel="share of 1s")

    return _plot_columns(tables, tables["table.npz"], draw_ones, "that vary most")


def _plot_vectors(tables: Mapping[str, Any]) -> Figure:
    shares = np.cumsum(tables["components.csv"]["share"])

    def draw_components(axes: Axes, rows: int) -> None:
        axes.set_title(f"A  Variance of the first principal components ({rows:,} rows)")
        axes.plot(np.arange(len(shares) + 1), [0, *shares], color=BLUE, marker=".")
        axes.set(ylim=(0, 1), xlabel="components", ylabel="share of the variance, in sum")
        axes.grid(linewidth=0.4)

    return _plot_columns(tables, tables["vectors.npz"], draw_components, "that come first")


def _plot_columns(
    tables: Mapping[str, Any],
    arrays: Mapping[str, Any],
    draw: Callable[[Axes, int], None],
    kept: str,
) -> Figure:
    """What is drawn in A, the correlation of the columns that are kept, and labels."""
    summary, labels = tables["summary.csv"], tables["labels.csv"]
    shown = list(labels["label"].unique())[:MOST_LABELS]
    rows = 1 + (len(shown) + 1) // 2
    figure = Figure(figsize=(12, 6.5 + 4.2 * (rows - 1)), layout="constrained")
    grid = figure.add_gridspec(rows, 2, height_ratios=[6.5] + [4.2] * (rows - 1))

    draw(figure.add_subplot(grid[0, 0]), int(arrays["rows"]))
    count, axes = len(arrays["correlation"]), figure.add_subplot(grid[0, 1])
    which = f" (the {count} {kept}, of {len(summary):,})" if count < len(summary) else ""
    axes.set_title(f"B  Correlation of the columns{which}")
    _draw_correlation(axes, arrays["correlation"], "column")
    if name_columns(axes, names := list(arrays["columns"])):
        axes.set_yticks(range(len(names)), [plain(str(name)) for name in names], fontsize=7)
        axes.set_ylabel("")

    for place, name in enumerate(shown):
        axes = figure.add_subplot(grid[1 + place // 2, place % 2])
        axes.set_title(f"{'CDEFGH'[place]}  Label {plain(str(name))}")
        of = labels[labels["label"] == name]
        _draw_counts(axes, of["value"], of["rows"], "rows")
    return figure


def _draw_counts(axes: Axes, values: pd.Series, counts: pd.Series, name: str) -> None:
    """Bars of the commonest values, and of the others together."""
    counts = counts.sort_values(ascending=False, kind="stable")
    names, few = list(values[counts.index]), MOST_VALUES - 1
    lengths = list(counts)
    if len(counts) > MOST_VALUES:
        names = [*names[:few], f"{len(counts) - few:,} others"]
        lengths = [*lengths[:few], sum(lengths[few:])]
    draw_bars(axes, names, lengths)
    axes.set_xlabel(name)


def _plot_sprites(tables: Mapping[str, Any]) -> Figure:
    arrays = tables["sprites.npz"]
    splits = list(tables["summary.csv"]["split"])
    heights = [4.3, 3.6 if len(splits) > 1 else 0.5, 5.8]
    figure = Figure(figsize=(12, sum(heights) + 0.3), layout="constrained")
    shape: dict[str, Any] = {"squeeze": False, "height_ratios": heights, "hspace": 0.02}
    top, middle, bottom = figure.subfigures(3, 1, **shape)[:, 0]
    for part, of_part in ((top, splits[:1]), (middle, splits[1:])):
        for k, split in enumerate(of_part):
            axes = part.add_subplot(1, len(of_part), k + 1)
            rows, title = SPRITES[split]
            draw_images(axes, arrays[split], rows)
            axes.set_title(title)
    if len(splits) == 1:
        middle.text(0.5, 0.5, "nothing is held out", ha="center")

    left, right = bottom.subfigures(1, 2, wspace=0.02)
    above, below = left.subfigures(2, 1, height_ratios=[1.1, 1])
    axes = above.add_subplot(title="E  Shapes and sizes")
    draw_images(axes, arrays["shapes"], 3)
    _draw_places(right.add_subplot(), arrays["places"], int(arrays["cell"]), arrays["held_out"])

    noise, channels = below.subplots(1, 2)
    noise.set_title("G  Noise of the colours")
    noise.imshow(arrays["swatches"], aspect="auto", interpolation="nearest")
    noise.set_yticks(range(len(arrays["colours"])), arrays["colours"], fontsize=9)
    noise.set(xticks=[], xlabel="images, from little noise to much")
    bins, look = np.linspace(0, 1, 41), {"density": True, "alpha": 0.7}
    for name, colour in (("on", BLUE), ("off", ORANGE)):
        channels.hist(arrays[name], bins=bins, color=colour, label=f"channel {name}", **look)
    channels.set(title="H  Channels", xlabel="brightness", ylabel="density", xlim=(0, 1))
    channels.legend(frameon=False)
    return figure


def _draw_places(axes: Axes, places: np.ndarray, cell: int, held_out: np.ndarray) -> None:
    """Percentages of centres of training images, their margins, and the cells that are held out."""
    height, width = places.shape
    axes.set_title("F  Centres of training images", y=1.17)
    seen = np.where(places > 0, places, np.nan)
    image = axes.imshow(seen, cmap="Blues", vmin=0, interpolation="nearest")
    for place in range(cell, width, cell):
        axes.axhline(place - 0.5, color="white", linewidth=1)
        axes.axvline(place - 0.5, color="white", linewidth=1)
    for (x, y), colour, name in zip(cell * held_out - 0.5, (RED, ORANGE), "BC", strict=False):
        frame: dict[str, Any] = {"fill": False, "edgecolor": colour, "linewidth": 2.5}
        axes.add_patch(Rectangle((x, y), cell, cell, **frame))
        axes.text(x + 0.4, y + 1.6, name, color=colour, fontweight="bold", fontsize=12)
    along = axes.inset_axes((0, 1.02, 1, 0.14))
    down = axes.inset_axes((1.02, 0, 0.14, 1))
    along.bar(np.arange(width), places.sum(0), color=BLUE, width=0.9)
    down.barh(np.arange(height), places.sum(1), color=BLUE, height=0.9)
    along.set_xlim(axes.get_xlim())
    down.set_ylim(axes.get_ylim())
    for margin in (along, down):
        margin.set_axis_off()
    axes.set(xlabel="x, number of the position", ylabel="y, number of the position")
    add_scale(axes, image, "percent of training images", location="bottom", pad=0.03)


def _plot_images(tables: Mapping[str, Any]) -> Figure:
    summary, features, arrays = (tables[n] for n in ("summary.csv", "features.csv", "images.npz"))
    shown = list(zip(arrays["names"], arrays["categorical"], strict=True))[: MOST_LABELS + 2]
    rows = (len(shown) + 1) // 2
    heights = [4.7, 2.0 if len(summary) > 1 else 0.05, 3.2, 3.4 * rows or 0.05]
    figure = Figure(figsize=(12, sum(heights)), layout="constrained")
    parts = figure.subfigures(4, 1, squeeze=False, height_ratios=heights)[:, 0]
    for part, (split, number) in zip(parts, summary.to_numpy(), strict=False):
        axes, some = part.add_subplot(), arrays[split]
        draw_images(axes, some, -(-len(some) // 16))
        title = "A  Training" if split == "train" else "B  Held out"
        axes.set_title(f"{title} ({len(some):,} of {number:,})")
    panels = parts[2].subplots(1, 2)
    for axes, name, title in zip(
        panels, ("mean", "deviation"), ("C  Mean", "D  Standard deviation"), strict=True
    ):
        draw_images(axes, arrays[name], 1)
        axes.set_title(f"{title} of a pixel")
    grid = parts[3].subplots(rows, 2, squeeze=False).flatten() if rows else []
    for k, (axes, (name, categorical)) in enumerate(zip(grid, shown, strict=False)):
        of = features[features["feature"].astype(str) == name].dropna()
        axes.set_title(f"{'EFGHIJKL'[k]}  {plain(name)}")
        if categorical:
            _draw_counts(axes, of["value"], of["images"], "images")
        else:
            axes.hist(of["value"].astype(float), weights=of["images"], bins=30, color=BLUE)
            axes.set_ylabel("images")
    for axes in grid[len(shown) :]:
        axes.set_axis_off()
    return figure
