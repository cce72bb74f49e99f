"""The data figure: the tree, its prototypes and exemplars, correlations and bit probabilities; or a table's columns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from plot_attractors.data import BinaryTable, HierarchicalBinaryVectors
from plot_attractors.figures import BLUE, GREY, RED, add_scale, plain, save

if TYPE_CHECKING:
    from plot_attractors.runs import Run

__all__ = ["CAPTIONS", "TITLE", "analyze"]

TITLE = "Data"
CAPTIONS = {
    "data": (
        "Hierarchical binary vectors. (A) The tree of classes below the root; held-out classes are red squares. "
        "(B) Prototypes, one class a row, generation by generation; white is 1, black is 0, and the red strip marks "
        "held-out classes. (C) Exemplars drawn from the classes of (B): white and black where exemplar and prototype "
        "agree on 1 and 0, light grey where only the exemplar is 1, dark grey where only the prototype is 1. "
        "(D) Pearson correlation of the bits over exemplars of the training classes, the diagonal left out. "
        "(E) The probability that each bit of a class's exemplars is 1."
    ),
    "table": (
        "The table that the model was trained on. (A) Share of 1s in each column, over all rows; where there are many "
        "columns, in increasing order. (B) Pearson correlation of the columns over all rows, the diagonal left out; of "
        "a wide table, the columns that vary most. Further panels: the number of rows with each value of a label."
    ),
}

# By 2 * exemplar + prototype: both 0, only the prototype 1, only the exemplar 1, both 1.
SHADES = ListedColormap(["black", "#5C5C5C", "#BDBDBD", "white"])
SHADE_NAMES = ("both 0", "only prototype 1", "only exemplar 1", "both 1")
SAMPLES = 20_000  # exemplars behind the correlation matrix
ROWS = 42  # rows of exemplars to fill when classes are few
MOST_COLUMNS = 256  # columns of a table in its correlation matrix
MOST_NAMED = 40  # columns or values that are drawn with their names
MOST_LABELS = 6  # label columns drawn; all are in the csv


def analyze(run: Run, out: Path) -> None:
    """Draw the data of a run into ``out``.

    For hierarchical binary vectors: ``data.png``, ``data.svg`` and ``summary.csv`` (class, depth, held_out, ones,
    path; the path is a letter, L or R, for each branch). For a table: ``table.png``, ``table.svg``, ``summary.csv``
    (column, ones, mean) and ``labels.csv`` (label, value, rows). Exemplars come from torch's global generator.
    Raises ValueError for any other data set. Source: the paper's figures of the data set and of its bit probabilities.
    """
    data = run.data
    if isinstance(data, HierarchicalBinaryVectors):
        _summarise_tree(data).to_csv(out / "summary.csv", index=False)
        save(_draw_tree_figure(data), out / "data")
    elif isinstance(data, BinaryTable):
        ones = data.x.sum(0, dtype=torch.int64).numpy()
        summary = pd.DataFrame({"column": data.columns, "ones": ones, "mean": ones / len(data.x)})
        summary.to_csv(out / "summary.csv", index=False)
        labels = _count_labels(data)
        labels.to_csv(out / "labels.csv", index=False)
        save(_draw_table_figure(data, summary, labels), out / "table")
    else:
        raise ValueError(
            f"the data figure needs hierarchical binary vectors or a table, not {type(data).__name__}: "
            "leave this analysis out"
        )


def _summarise_tree(data: HierarchicalBinaryVectors) -> pd.DataFrame:
    held_out = np.zeros(len(data.depths), dtype=int)
    held_out[data.held_out_classes.numpy()] = 1
    return pd.DataFrame(
        {
            "class": np.arange(len(data.depths)),
            "depth": data.depths.numpy(),
            "held_out": held_out,
            "ones": data.prototypes.sum(1).int().numpy(),
            "path": data.class_names,
        }
    )


def _draw_tree_figure(data: HierarchicalBinaryVectors) -> Figure:
    figure = Figure(figsize=(12, 15), layout="constrained")
    grid = figure.add_gridspec(3, 2, height_ratios=[0.55, 1, 1])
    held_out = torch.zeros(len(data.depths), dtype=torch.bool)
    held_out[data.held_out_classes] = True

    _draw_tree(figure.add_subplot(grid[0, :]), data, held_out)

    axes = figure.add_subplot(grid[1, 0])
    axes.set_title("B  Prototypes", loc="left")
    axes.imshow(data.prototypes.numpy(), cmap="gray", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    _mark_classes(axes, data.depths, held_out)

    copies = max(1, ROWS // len(data.depths))
    classes = torch.arange(len(data.depths)).repeat_interleave(copies)
    shades = 2 * data.exemplars(classes) + data.prototypes[classes]
    axes = figure.add_subplot(grid[1, 1])
    axes.set_title(
        "C  " + ("One exemplar of each class" if copies == 1 else f"{copies} exemplars of each class"), loc="left"
    )
    axes.imshow(shades.numpy(), cmap=SHADES, vmin=0, vmax=3, aspect="auto", interpolation="nearest")
    if copies > 1:
        axes.hlines(np.arange(copies, len(classes), copies) - 0.5, -0.5, data.bits - 0.5, color=BLUE, linewidth=0.8)
    _mark_classes(axes, data.depths[classes], held_out[classes])
    patches = [Patch(facecolor=SHADES(k), edgecolor=GREY, label=SHADE_NAMES[k]) for k in (3, 0, 2, 1)]
    axes.legend(handles=patches, loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=4, frameon=False, fontsize=9)

    axes = figure.add_subplot(grid[2, 0])
    samples = data.batch(SAMPLES).x.numpy()
    axes.set_title(f"D  Correlation of the bits ({SAMPLES:,} training exemplars)", loc="left")
    _draw_correlation(axes, samples)
    axes.set_xlabel("bit")
    axes.set_ylabel("bit")

    axes = figure.add_subplot(grid[2, 1])
    axes.set_title("E  Probability that a bit is 1", loc="left")
    image = axes.imshow(
        data.probabilities.numpy(), cmap="viridis", vmin=0, vmax=1, aspect="auto", interpolation="nearest"
    )
    _mark_classes(axes, data.depths, held_out)
    add_scale(axes, image, "probability")
    return figure


def _draw_tree(axes: Axes, data: HierarchicalBinaryVectors, held_out: torch.Tensor) -> None:
    # A node stands over the middle of its prototype's 1s, the root over the middle of all bits.
    bit = torch.arange(data.bits, dtype=torch.float32)
    across = ((data.prototypes @ bit) / data.prototypes.sum(1)).numpy()
    down = data.depths.numpy()
    parents = data.parents.numpy()
    root = parents < 0
    starts = np.stack([np.where(root, (data.bits - 1) / 2, across[parents]), np.where(root, 0, down[parents])], axis=1)
    segments = np.stack([starts, np.stack([across, down], axis=1)], axis=1)
    red = held_out.numpy()
    thin = max(0.25, 1.2 - 0.1 * data.depth)
    for mask, colour, order in ((~red, GREY, 1), (red, RED, 2)):
        axes.add_collection(LineCollection(list(segments[mask]), colors=colour, linewidths=thin, zorder=order))
    # Markers of a generation shrink with the room that its nodes have, from 8 points to a dot.
    size = np.clip(400 / 2.0**down, np.where(red, 2.0, 0.8), 8) ** 2
    axes.scatter([(data.bits - 1) / 2], [0], s=64, color=GREY, zorder=3)
    axes.scatter(across[~red], down[~red], s=size[~red], color=BLUE, linewidths=0, zorder=3, label="training class")
    if red.any():
        axes.scatter(
            across[red], down[red], s=size[red], color=RED, marker="s", linewidths=0, zorder=4, label="held-out class"
        )
    axes.set_title("A  Tree of classes", loc="left")
    axes.set_xlim(-0.5, data.bits - 0.5)
    axes.set_ylim(data.depth + 0.4, -0.4)
    axes.set_yticks(range(data.depth + 1))
    axes.set_ylabel("depth")
    axes.set_xticks([])
    axes.spines[:].set_visible(False)
    legend = axes.legend(loc="upper right", frameon=False, fontsize=10)
    for handle in legend.legend_handles:
        if handle is not None and hasattr(handle, "set_sizes"):
            handle.set_sizes([50])


def _mark_classes(axes: Axes, depths: torch.Tensor, held_out: torch.Tensor) -> None:
    """Label the rows of an image by depth, where there is room, and mark held-out ones on its left edge."""
    rows = len(depths)
    ticks: list[float] = []
    names: list[str] = []
    for depth in range(int(depths.max()), 0, -1):
        middle = float(torch.nonzero(depths == depth).float().mean())
        if not ticks or ticks[-1] - middle > rows / 44:
            ticks.append(middle)
            names.append(str(depth))
    axes.set_yticks(ticks, names, fontsize=8)
    axes.set_ylabel("depth of the class")
    axes.set_xlabel("bit")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    marked = torch.nonzero(held_out).flatten().numpy()
    strip = axes.get_yaxis_transform()
    bars = [[(-0.008, row - 0.5), (-0.008, row + 0.5)] for row in marked]
    collection = LineCollection(bars, colors=RED, linewidths=5, transform=strip, clip_on=False, capstyle="butt")
    axes.add_collection(collection, autolim=False)
    axes.tick_params(axis="y", length=0, pad=9)


def _draw_correlation(axes: Axes, samples: np.ndarray) -> None:
    """Draw the correlation matrix of the columns of samples (rows, columns), with a scale."""
    with np.errstate(invalid="ignore", divide="ignore"):  # a column that does not vary correlates with none
        matrix = np.nan_to_num(np.atleast_2d(np.corrcoef(samples, rowvar=False)))
    np.fill_diagonal(matrix, 0.0)
    bound = max(0.1, float(np.abs(matrix).max()))
    image = axes.imshow(matrix, cmap="RdBu_r", vmin=-bound, vmax=bound, interpolation="nearest")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    add_scale(axes, image, "Pearson r")


def _count_labels(data: BinaryTable) -> pd.DataFrame:
    parts = []
    for k, name in enumerate(data.label_names):
        values = ["unspecified", *data.label_values[name]]
        counts = np.bincount(data.labels[:, k].numpy() + 1, minlength=len(values))
        part = pd.DataFrame({"label": name, "value": values, "rows": counts})
        parts.append(part[(part["rows"] > 0) | (part["value"] != "unspecified")])
    return pd.concat(parts) if parts else pd.DataFrame({"label": [], "value": [], "rows": []})


def _draw_table_figure(data: BinaryTable, summary: pd.DataFrame, labels: pd.DataFrame) -> Figure:
    shown = data.label_names[:MOST_LABELS]
    rows = 1 + (len(shown) + 1) // 2
    figure = Figure(figsize=(12, 6.5 + 4.2 * (rows - 1)), layout="constrained")
    grid = figure.add_gridspec(rows, 2, height_ratios=[6.5] + [4.2] * (rows - 1))

    axes = figure.add_subplot(grid[0, 0])
    axes.set_title(f"A  Share of 1s in each column ({len(data.x):,} rows)", loc="left")
    if data.bits <= MOST_NAMED:
        _draw_bars(axes, list(summary["column"]), summary["mean"].to_numpy())
        axes.set_xlim(0, 1)
        axes.set_xlabel("share of 1s")
    else:
        axes.plot(np.arange(1, data.bits + 1), np.sort(summary["mean"].to_numpy()), color=BLUE)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("columns in increasing order")
        axes.set_ylabel("share of 1s")

    # The columns that vary most, in the table's own order.
    mean = summary["mean"].to_numpy()
    kept = np.sort(np.argsort(-mean * (1 - mean), kind="stable")[:MOST_COLUMNS])
    axes = figure.add_subplot(grid[0, 1])
    which = "" if len(kept) == data.bits else f" (the {len(kept)} that vary most, of {data.bits:,})"
    axes.set_title(f"B  Correlation of the columns{which}", loc="left")
    _draw_correlation(axes, data.x.numpy()[:, kept].astype(np.float32))
    axes.set_xlabel("column")
    axes.set_ylabel("column")

    for place, name in enumerate(shown):
        counts = labels[labels["label"] == name].sort_values("rows", ascending=False, kind="stable")
        axes = figure.add_subplot(grid[1 + place // 2, place % 2])
        named = counts[: MOST_NAMED // 2 - 1] if len(counts) > MOST_NAMED // 2 else counts
        names, heights = list(named["value"]), named["rows"].to_numpy()
        if len(named) < len(counts):
            names.append(f"{len(counts) - len(named):,} others")
            heights = np.append(heights, counts["rows"].sum() - heights.sum())
        axes.set_title(f"{'CDEFGH'[place]}  Label {plain(name)}", loc="left")
        _draw_bars(axes, names, heights)
        axes.set_xlabel("rows")
    return figure


def _draw_bars(axes: Axes, names: list[str], lengths: np.ndarray) -> None:
    places = np.arange(len(names))
    axes.barh(places, lengths, color=BLUE)
    axes.set_yticks(places, [plain(name) for name in names], fontsize=10 if len(names) <= MOST_NAMED // 2 else 7)
    axes.invert_yaxis()
