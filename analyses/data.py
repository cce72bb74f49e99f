"""The data: a tree, its prototypes and exemplars; splits of other data, and some images."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from plot_attractors.analysis import sampling
from plot_attractors.analysis.parts import dot
from plot_attractors.analysis.shape import Needs
from plot_attractors.analysis.style import BLUE, GREY, RED, add_scale, lettered, plain
from plot_attractors.data import HierarchicalBinaryVectors
from plot_attractors.data.batch import Members
from plot_attractors.ranges import Size, setting
from plot_attractors.runs import Run
from plot_attractors.split_names import split_name

TITLE = "Data"
CAPTIONS = {
    "data": (
        "Hierarchical binary vectors. (a) The tree of classes below the root; held-out classes are "
        "red squares. (b) Prototypes, one class a row, generation by generation; white is 1, black "
        "is 0, and the red strip marks held-out classes. (c) Exemplars drawn from the classes of "
        "(b). (d) Pearson correlation of the bits over exemplars of the training classes, the "
        "diagonal left out. (e) The probability that each bit of a class's exemplars is 1."
    ),
    "inputs": ("Images of every split, drawn at random, with their labels."),
}


@dataclass(frozen=True)
class Config:
    exemplars: Size = setting(20_000, "of a tree, behind the correlation of its bits")


NEEDS = Needs("data with numbered members", lambda run: isinstance(run.data, Members))


# -- measures --------------------------------------------------------------------------------------


LEAST_ROWS = 42  # of exemplars in the figure of a tree; several of each class where classes are few
SHOWN = 36, 12  # inputs of the training split that are drawn, and of each other split


def of_tree(data: HierarchicalBinaryVectors, exemplars: int) -> dict[str, Any]:
    """Classes; prototypes, exemplars of each class, and the correlation of `exemplars` others."""
    n = len(data.depths)
    held_out = np.zeros(n, dtype=int)
    held_out[data.held_out_classes.numpy()] = 1
    columns = {
        "class": np.arange(n),
        "depth": data.depths.numpy(),
        "held_out": held_out,
        "ones": data.prototypes.sum(1).int().numpy(),
        "path": data.class_names,
    }
    classes = torch.arange(n).repeat_interleave(max(1, LEAST_ROWS // n))
    arrays: dict[str, Any] = {
        "prototypes": data.prototypes,
        "classes": classes,
        "exemplars": data.exemplars(classes),
        "parents": data.parents,
        "probabilities": data.probabilities,
    }
    arrays = {name: array.numpy() for name, array in arrays.items()}
    with np.errstate(invalid="ignore", divide="ignore"):  # of bits that never vary: 0
        correlation = np.nan_to_num(np.corrcoef(data.batch(exemplars).x.numpy(), rowvar=False))
    np.fill_diagonal(correlation, 0.0)
    arrays |= {"correlation": correlation, "samples": np.array(exemplars)}
    return {"summary.csv": pd.DataFrame(columns), "data.npz": arrays}


def of_inputs(data: Any) -> dict[str, Any]:
    """Splits, and some images of each."""
    members = list(data.members.values())
    count = [len(rows) for rows in members]
    weights = torch.ones(sum(count)) if data.weights is None else data.weights
    share = [float(weights[rows].sum() / weights.sum()) for rows in members]
    summary = pd.DataFrame({"split": data.splits, "members": count, "share": share})
    arrays: dict[str, Any] = {}
    for split in data.splits if len(data.input_shape) == 3 else ():
        batch = data.batch(SHOWN[split != "train"], split)
        arrays |= {split: batch.x.numpy(), f"{split} labels": sampling.labels_of(data, batch)}
    return {"summary.csv": summary} | ({"inputs.npz": arrays} if arrays else {})


def measure(run: Run, config: Config) -> dict[str, Any]:
    """What the figures show, and ``summary.csv``: of a tree (class, depth, held_out, ones, path),
    ones being those of the prototype; of other data (split, members, share), how many classes,
    combinations or rows it has, and their probability were nothing held out.

    Source: the paper's figures of the data sets and of their bit probabilities.
    """
    if isinstance(run.data, HierarchicalBinaryVectors):
        return of_tree(run.data, config.exemplars)
    return of_inputs(run.data)


# -- figures ---------------------------------------------------------------------------------------


# by 2 * exemplar + prototype
SHADES = ListedColormap(["black", "#5C5C5C", "#BDBDBD", "white"])
SHADE_NAMES = ("both 0", "only prototype 1", "only exemplar 1", "both 1")


def draw(tables: Mapping[str, Any]) -> dict[str, Figure]:
    """Figure ``data`` of a tree, ``inputs`` of images."""
    if "data.npz" in tables:
        return {"data": _plot_tree(tables["summary.csv"], tables["data.npz"])}
    if "inputs.npz" in tables:
        return {"inputs": _plot_images(tables["summary.csv"], tables["inputs.npz"])}
    return {}


def _plot_tree(classes: pd.DataFrame, arrays: Mapping[str, np.ndarray]) -> Figure:
    prototypes, rows = arrays["prototypes"], arrays["classes"]
    figure = Figure(figsize=(12, 15), layout="constrained")
    grid = figure.add_gridspec(3, 2, height_ratios=[0.55, 1, 1])
    _draw_tree(figure.add_subplot(grid[0, :]), classes, prototypes, arrays["parents"])

    axes = figure.add_subplot(grid[1, 0], title=lettered("b", "Prototypes"))
    look: dict[str, Any] = {"aspect": "auto", "interpolation": "nearest", "vmin": 0}
    axes.imshow(prototypes, cmap="gray", vmax=1, **look)
    _mark_classes(axes, classes)

    copies = len(rows) // len(classes)
    axes = figure.add_subplot(grid[1, 1])
    number = "One exemplar" if copies == 1 else f"{copies} exemplars"
    axes.set_title(lettered("c", f"{number} of each class"))
    axes.imshow(2 * arrays["exemplars"] + prototypes[rows], cmap=SHADES, vmax=3, **look)
    if copies > 1:
        lines = np.arange(copies, len(rows), copies) - 0.5
        axes.hlines(lines, -0.5, prototypes.shape[1] - 0.5, color=BLUE, linewidth=0.8)
    _mark_classes(axes, classes.iloc[rows])
    patches = [
        Patch(facecolor=SHADES(k), edgecolor=GREY, label=SHADE_NAMES[k]) for k in (3, 0, 2, 1)
    ]
    place: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.1), "ncols": 4}
    axes.legend(handles=patches, **place)

    axes = figure.add_subplot(grid[2, 0])
    samples = f"{int(arrays['samples']):,} training exemplars"
    axes.set_title(lettered("d", f"Correlation of the bits ({samples})"))
    bound = max(0.1, float(np.abs(arrays["correlation"]).max()))
    image = axes.imshow(
        arrays["correlation"], cmap="RdBu_r", vmin=-bound, vmax=bound, interpolation="nearest"
    )
    whole_numbers(axes)
    add_scale(axes, image, "Pearson r")
    axes.set(xlabel="bit", ylabel="bit")

    axes = figure.add_subplot(grid[2, 1], title=lettered("e", "Probability that a bit is 1"))
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
    # Markers of a generation shrink with the room that its nodes have, from 8 points to a dot.
    size = np.clip(400 / 2.0**down, 2.0, 8) ** 2
    axes.scatter([middle], [0], s=64, color=GREY, zorder=3)
    for mask, line, colour, marker in ((~red, GREY, BLUE, "o"), (red, RED, RED, "s")):
        axes.add_collection(LineCollection(list(segments[mask]), colors=line, linewidths=0.6))
        look: dict[str, Any] = {"color": colour, "marker": marker, "linewidths": 0, "zorder": 3}
        axes.scatter(across[mask], down[mask], s=size[mask], **look)
    axes.set(xlim=(-0.5, bits - 0.5), ylim=(depth + 0.4, -0.4))
    axes.set(
        title=lettered("a", "Tree of classes"), yticks=range(depth + 1), ylabel="depth", xticks=[]
    )
    axes.spines[:].set_visible(False)
    handles = [dot(BLUE, "training class"), dot(RED, "held-out class")]
    axes.legend(handles=handles, loc="upper right", fontsize=10)


def whole_numbers(axes: Axes) -> None:
    """Ticks at whole numbers of both axes."""
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True))


def _mark_classes(axes: Axes, classes: pd.DataFrame) -> None:
    """Label the rows of an image by depth, where there is room, and mark held-out ones on its left
    edge.
    """
    rows = classes.reset_index(drop=True)
    middles = rows.reset_index().groupby("depth")["index"].agg(["mean", "size"])
    ticks = middles.loc[middles["size"] > len(rows) / 44, "mean"]
    whole_numbers(axes)
    axes.set_yticks(ticks.to_list(), [str(depth) for depth in ticks.index], fontsize=8)
    axes.set(ylabel="depth of the class", xlabel="bit")
    marked = rows.index[rows["held_out"] == 1]
    bars = [[(-0.008, row - 0.5), (-0.008, row + 0.5)] for row in marked]
    look: dict[str, Any] = {"clip_on": False, "capstyle": "butt", "colors": RED, "linewidths": 5}
    collection = LineCollection(bars, transform=axes.get_yaxis_transform(), **look)
    axes.add_collection(collection, autolim=False)
    axes.tick_params(axis="y", length=0, pad=9)


ACROSS = 12  # images in a row


def _plot_images(splits: pd.DataFrame, arrays: Mapping[str, np.ndarray]) -> Figure:
    """A part of the figure for each split, its images with their labels."""
    rows = [-(-len(arrays[split]) // ACROSS) for split in splits["split"]]
    heights = [0.5 + 1.25 * n for n in rows]
    figure = Figure(figsize=(12, sum(heights)), layout="constrained")
    parts = figure.subfigures(len(rows), 1, squeeze=False, height_ratios=heights)[:, 0]
    for part, n, (split, members) in zip(
        parts, rows, splits[["split", "members"]].to_numpy(), strict=True
    ):
        part.suptitle(f"{split_name(split).capitalize()} ({members:,})", x=0.01, ha="left")
        grid = part.subplots(n, ACROSS, squeeze=False).flatten()
        for axes, image, label in zip(grid, arrays[split], arrays[f"{split} labels"], strict=False):
            pixels = np.broadcast_to(image.clip(0, 1), (3, *image.shape[1:]))
            axes.imshow(np.moveaxis(pixels, 0, -1), interpolation="nearest")
            axes.set_title("\n".join(plain(line, 14) for line in label.split("\n")), fontsize=7)
        for axes in grid:
            axes.set_axis_off()
    return figure
