"""The data figure: a tree, its prototypes and exemplars; a table's columns; or sprites, their
places and colours.
"""

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
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import MaxNLocator

from plot_attractors.data import BinaryTable, HierarchicalBinaryVectors, ImageSet
from plot_attractors.data.dsprites import (
    COLOURS,
    POSITION_CELL,
    QUARTER,
    RGB,
    YELLOW_CELL,
    ColouredSprites,
)
from plot_attractors.data.sprites import SHAPES
from plot_attractors.plots.style import BLUE, GREY, ORANGE, RED, add_scale, draw_images, plain, save

if TYPE_CHECKING:
    from plot_attractors.runs import Run

__all__ = ["CAPTIONS", "TITLE", "analyze"]

TITLE = "Data"
CAPTIONS = {
    "data": (
        "Hierarchical binary vectors. (A) The tree of classes below the root; held-out classes are "
        "red squares. "
        "(B) Prototypes, one class a row, generation by generation; white is 1, black is 0, and "
        "the red strip marks "
        "held-out classes. (C) Exemplars drawn from the classes of (B): white and black where "
        "exemplar and prototype "
        "agree on 1 and 0, light grey where only the exemplar is 1, dark grey where only the "
        "prototype is 1. "
        "(D) Pearson correlation of the bits over exemplars of the training classes, the diagonal "
        "left out. "
        "(E) The probability that each bit of a class's exemplars is 1."
    ),
    "table": (
        "The table that the model was trained on. (A) Share of 1s in each column, over all rows; "
        "where there are many "
        "columns, in increasing order. (B) Pearson correlation of the columns over all rows, the "
        "diagonal left out; of "
        "a wide table, the columns that vary most. Further panels: the number of rows with each "
        "value of a label."
    ),
    "sprites": (
        "Coloured sprites: one square, ellipse or heart, in one of seven colours and six sizes, at "
        "one of four by four "
        "places or near it. (A) Images that the model is trained on. (B, C, D) Images that are "
        "kept from it: all in "
        "one cell of the grid, yellow ones in another, and magenta ellipses wherever they are. (E) "
        "Every shape in "
        "every size, without noise. (F) Where the centres of training images lie: the darker, the "
        "more; the cells of "
        "(B) and (C) are outlined, and bars are the shares of columns and rows. (G) The noise of "
        "the colours: each row "
        "has images of one colour, those with the least noise on the left and the most on the "
        "right, where one may "
        "look like another colour. (H) The same in numbers: the brightness of channels (red, "
        "green, blue) that are "
        "on (blue bars) or off (orange bars) in an image's colour."
    ),
    "images": (
        "The images that the model was trained on, drawn at random, those that were held out from "
        "training, if any, "
        "and the mean and the standard deviation of every pixel over all images, as bright as can "
        "be. Further panels: "
        "how many images have each value of a feature."
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
SPRITES = {
    "train": (6, 18),
    "position": (5, 6),
    "position+colour": (5, 6),
    "position+shape": (5, 6),
}  # rows, columns
SPRITE_TITLES = {
    "train": "A  Training",
    "position": "B  Held out: one cell",
    "position+colour": "C  Held out: yellow in another cell",
    "position+shape": "D  Held out: magenta ellipses",
}
SWATCHES = 48  # images of each colour whose noise is drawn
CHANNELS = 3000  # images behind the histogram of channels
IMAGES = {"train": (6, 16), "held_out": (2, 16)}  # rows and columns of images of each split
PIXELS = 5000  # images behind the mean and the standard deviation of a pixel


def analyze(run: Run, out: Path) -> None:
    """Draw the data of a run into ``out``.

    For hierarchical binary vectors: ``data.png``, ``data.svg`` and ``summary.csv`` (class, depth,
    held_out, ones,
    path; the path is a letter, L or R, for each branch). For a table: ``table.png``, ``table.svg``,
    ``summary.csv`` (column, ones, mean) and ``labels.csv`` (label, value, rows). For coloured
    sprites: ``sprites.png``, ``sprites.svg``, ``summary.csv`` (split; combinations, how many of
    colour, shape, size, x and y it has; share, their probability were nothing held out) and
    ``features.csv`` (split, feature, value, probability). For a user's images: ``images.png``,
    ``images.svg``, ``summary.csv`` (split, images) and ``features.csv`` (feature, value, images).
    Exemplars come from torch's global generator. Raises ValueError for any other data set. Source:
    the paper's figures of the data set and of its bit probabilities.
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
    elif isinstance(data, ColouredSprites):
        _summarise_sprites(data).to_csv(out / "summary.csv", index=False)
        _list_features(data).to_csv(out / "features.csv", index=False)
        save(_draw_sprites_figure(data), out / "sprites")
    elif isinstance(data, ImageSet):
        counts = [len(rows) for rows in data.members.values()]
        pd.DataFrame({"split": data.splits, "images": counts}).to_csv(
            out / "summary.csv", index=False
        )
        _count_values(data).to_csv(out / "features.csv", index=False)
        save(_draw_image_set(data), out / "images")
    else:
        raise ValueError(
            f"the data figure needs hierarchical binary vectors, a table, sprites or images, not "
            f"{type(data).__name__}: leave this analysis out"
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
    axes.imshow(
        data.prototypes.numpy(), cmap="gray", vmin=0, vmax=1, aspect="auto", interpolation="nearest"
    )
    _mark_classes(axes, data.depths, held_out)

    copies = max(1, ROWS // len(data.depths))
    classes = torch.arange(len(data.depths)).repeat_interleave(copies)
    shades = 2 * data.exemplars(classes) + data.prototypes[classes]
    axes = figure.add_subplot(grid[1, 1])
    axes.set_title(
        "C  "
        + ("One exemplar of each class" if copies == 1 else f"{copies} exemplars of each class"),
        loc="left",
    )
    axes.imshow(shades.numpy(), cmap=SHADES, vmin=0, vmax=3, aspect="auto", interpolation="nearest")
    if copies > 1:
        axes.hlines(
            np.arange(copies, len(classes), copies) - 0.5,
            -0.5,
            data.bits - 0.5,
            color=BLUE,
            linewidth=0.8,
        )
    _mark_classes(axes, data.depths[classes], held_out[classes])
    patches = [
        Patch(facecolor=SHADES(k), edgecolor=GREY, label=SHADE_NAMES[k]) for k in (3, 0, 2, 1)
    ]
    axes.legend(
        handles=patches,
        loc="upper center",
        bbox_to_anchor=(0.5, -0.1),
        ncols=4,
        frameon=False,
        fontsize=9,
    )

    axes = figure.add_subplot(grid[2, 0])
    samples = data.batch(SAMPLES).x.numpy()
    axes.set_title(f"D  Correlation of the bits ({SAMPLES:,} training exemplars)", loc="left")
    _draw_correlation(axes, samples)
    axes.set_xlabel("bit")
    axes.set_ylabel("bit")

    axes = figure.add_subplot(grid[2, 1])
    axes.set_title("E  Probability that a bit is 1", loc="left")
    image = axes.imshow(
        data.probabilities.numpy(),
        cmap="viridis",
        vmin=0,
        vmax=1,
        aspect="auto",
        interpolation="nearest",
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
    starts = np.stack(
        [np.where(root, (data.bits - 1) / 2, across[parents]), np.where(root, 0, down[parents])],
        axis=1,
    )
    segments = np.stack([starts, np.stack([across, down], axis=1)], axis=1)
    red = held_out.numpy()
    thin = max(0.25, 1.2 - 0.1 * data.depth)
    for mask, colour, order in ((~red, GREY, 1), (red, RED, 2)):
        axes.add_collection(
            LineCollection(list(segments[mask]), colors=colour, linewidths=thin, zorder=order)
        )
    # Markers of a generation shrink with the room that its nodes have, from 8 points to a dot.
    size = np.clip(400 / 2.0**down, np.where(red, 2.0, 0.8), 8) ** 2
    axes.scatter([(data.bits - 1) / 2], [0], s=64, color=GREY, zorder=3)
    axes.scatter(
        across[~red],
        down[~red],
        s=size[~red],
        color=BLUE,
        linewidths=0,
        zorder=3,
        label="training class",
    )
    if red.any():
        axes.scatter(
            across[red],
            down[red],
            s=size[red],
            color=RED,
            marker="s",
            linewidths=0,
            zorder=4,
            label="held-out class",
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
    """Label the rows of an image by depth, where there is room, and mark held-out ones on its left
    edge.
    """
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
    collection = LineCollection(
        bars, colors=RED, linewidths=5, transform=strip, clip_on=False, capstyle="butt"
    )
    axes.add_collection(collection, autolim=False)
    axes.tick_params(axis="y", length=0, pad=9)


def _draw_correlation(axes: Axes, samples: np.ndarray) -> None:
    """Draw the correlation matrix of the columns of samples (rows, columns), with a scale."""
    with np.errstate(
        invalid="ignore", divide="ignore"
    ):  # a column that does not vary correlates with none
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
    axes.set_yticks(
        places, [plain(name) for name in names], fontsize=10 if len(names) <= MOST_NAMED // 2 else 7
    )
    axes.invert_yaxis()


def _summarise_sprites(data: ColouredSprites) -> pd.DataFrame:
    members = list(data.members.values())
    share = [float(data.weights[rows].sum() / data.weights.sum()) for rows in members]
    return pd.DataFrame(
        {"split": data.splits, "combinations": [len(rows) for rows in members], "share": share}
    )


def _list_features(data: ColouredSprites) -> pd.DataFrame:
    values = [
        list(COLOURS), list(SHAPES),
        *([f"{v:.3f}" for v in part.tolist()] for part in (data.sizes, data.positions_x, data.positions_y)),
    ]  # fmt: skip
    parts = []
    for split, rows in data.members.items():
        for k, (name, of_feature) in enumerate(zip(data.label_names, values, strict=True)):
            p = (
                torch.bincount(data.rows[rows, k], data.weights[rows], len(of_feature))
                / data.weights[rows].sum()
            )
            parts.append(
                pd.DataFrame(
                    {"split": split, "feature": name, "value": of_feature, "probability": p.numpy()}
                )
            )
    return pd.concat(parts)


def _draw_sprites_figure(data: ColouredSprites) -> Figure:
    heights = [4.3, 3.6 if len(data.splits) > 1 else 0.5, 5.8]
    figure = Figure(figsize=(12, sum(heights) + 0.3), layout="constrained")
    top, middle, bottom = figure.subfigures(
        3, 1, squeeze=False, height_ratios=heights, hspace=0.02
    )[:, 0]
    for part, splits in ((top, data.splits[:1]), (middle, data.splits[1:])):
        for k, split in enumerate(splits):
            axes = part.add_subplot(1, len(splits), k + 1)
            rows, columns = SPRITES[split]
            draw_images(axes, data.batch(rows * columns, split).x, rows)
            axes.set_title(SPRITE_TITLES[split], loc="left")
    if len(data.splits) == 1:
        middle.text(0.5, 0.5, "nothing is held out", ha="center")

    left, right = bottom.subfigures(1, 2, wspace=0.02)
    above, below = left.subfigures(2, 1, height_ratios=[1.1, 1])
    centre = (len(data.positions_x) - 1) // 2
    white = (data.rows[:, 0] == COLOURS.index("white")) & (data.rows[:, 3:] == centre).all(1)
    axes = above.add_subplot()
    axes.set_title("E  Shapes and sizes", loc="left")
    draw_images(axes, data.prototypes(white.nonzero().flatten()), len(SHAPES))
    _draw_places(right.add_subplot(), data)

    noise, channels = below.subplots(1, 2)
    swatches = torch.stack([_swatches(data, colour) for colour in range(len(COLOURS))])
    noise.set_title("G  Noise of the colours", loc="left")
    noise.imshow(swatches.numpy(), aspect="auto", interpolation="nearest")
    noise.set_yticks(range(len(COLOURS)), COLOURS, fontsize=9)
    noise.set_xticks([])
    noise.set_xlabel("images, from little noise to much")
    _draw_channels(channels, data)
    return figure


def _draw_places(axes: Axes, data: ColouredSprites) -> None:
    """The law of the centre in training, its margins, and the cells that are held out."""
    rows = data.members["train"]
    width, height = len(data.positions_x), len(data.positions_y)
    count = torch.bincount(
        data.rows[rows, 3] + width * data.rows[rows, 4], data.weights[rows], width * height
    )
    law = (100 * count / count.sum()).view(height, width).numpy()
    axes.set_title("F  Centres of training images", loc="left", y=1.17)
    image = axes.imshow(
        np.where(law > 0, law, np.nan), cmap="Blues", vmin=0, interpolation="nearest"
    )
    for place in range(QUARTER, width, QUARTER):
        axes.axhline(place - 0.5, color="white", linewidth=1)
        axes.axvline(place - 0.5, color="white", linewidth=1)
    if "position" in data.members:
        for (column, row), colour, name in ((POSITION_CELL, RED, "B"), (YELLOW_CELL, ORANGE, "C")):
            corner = QUARTER * column - 0.5, QUARTER * row - 0.5
            axes.add_patch(
                Rectangle(corner, QUARTER, QUARTER, fill=False, edgecolor=colour, linewidth=2.5)
            )
            axes.text(
                corner[0] + 0.4, corner[1] + 1.6, name, color=colour, fontweight="bold", fontsize=12
            )
    along = axes.inset_axes((0, 1.02, 1, 0.14))
    down = axes.inset_axes((1.02, 0, 0.14, 1))
    along.bar(np.arange(width), law.sum(0), color=BLUE, width=0.9)
    down.barh(np.arange(height), law.sum(1), color=BLUE, height=0.9)
    along.set_xlim(axes.get_xlim())
    down.set_ylim(axes.get_ylim())
    for margin in (along, down):
        margin.set_axis_off()
    axes.set_xlabel("x, number of the position")
    axes.set_ylabel("y, number of the position")
    add_scale(axes, image, "percent of training images", location="bottom", pad=0.03)


def _swatches(data: ColouredSprites, colour: int) -> torch.Tensor:
    """(SWATCHES, 3) colours of large squares, from the least noise to the most."""
    centre = (len(data.positions_x) - 1) // 2
    square = torch.tensor([colour, SHAPES.index("square"), len(data.sizes) - 1, centre, centre])
    y = (data.rows == square).all(1).nonzero()[0]
    rgb = data.exemplars(y.expand(SWATCHES)).flatten(2).amax(2)
    return rgb[(rgb - RGB[colour]).norm(dim=1).argsort()]


def _draw_channels(axes: Axes, data: ColouredSprites) -> None:
    batch = data.batch(CHANNELS)
    level = batch.x.flatten(2).amax(2)
    on = RGB[batch.labels[:, 0]] > 0
    bins = np.linspace(0, 1, 41).tolist()
    for mask, colour, name in ((on, BLUE, "on"), (~on, ORANGE, "off")):
        axes.hist(
            level[mask].numpy(),
            bins=bins,
            density=True,
            color=colour,
            alpha=0.7,
            label=f"channel {name}",
        )
    axes.set_title("H  Channels", loc="left")
    axes.set_xlabel("brightness")
    axes.set_ylabel("density")
    axes.set_xlim(0, 1)
    axes.legend(frameon=False, fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)


def _count_values(data: ImageSet) -> pd.DataFrame:
    parts = [pd.DataFrame({"feature": [], "value": [], "images": []})]
    for k, feature in enumerate(data.features):
        values, counts = np.unique(
            data.values[:, k].numpy(), return_counts=True
        )  # NaN last, and once
        names = [
            feature.outcomes[int(v)] if feature.categorical and v == v else f"{v:.6g}"
            for v in values.tolist()
        ]
        parts.append(pd.DataFrame({"feature": feature.name, "value": names, "images": counts}))
    return pd.concat(parts[1:] or parts)


def _draw_image_set(data: ImageSet) -> Figure:
    shown = data.features[: MOST_LABELS + 2]
    rows = (len(shown) + 1) // 2
    heights = [4.7, 2.0 if len(data.splits) > 1 else 0.05, 3.2, 3.4 * rows or 0.05]
    figure = Figure(figsize=(12, sum(heights)), layout="constrained")
    parts = figure.subfigures(4, 1, squeeze=False, height_ratios=heights)[:, 0]
    for part, split in zip(parts, data.splits, strict=False):
        down, across = IMAGES[split]
        some = (
            data.members[split][torch.randperm(len(data.members[split]))[: down * across]]
            .sort()
            .values
        )
        axes = part.add_subplot()
        draw_images(axes, data.images[some].float() / 255, -(-len(some) // across))
        title = "A  Training" if split == "train" else "B  Held out"
        axes.set_title(f"{title} ({len(some):,} of {len(data.members[split]):,})", loc="left")
    some = data.images[torch.randperm(len(data.images))[:PIXELS]].float() / 255
    for axes, x, title in zip(
        parts[2].subplots(1, 2),
        (some.mean(0), some.std(0)),
        ("C  Mean", "D  Standard deviation"),
        strict=True,
    ):
        draw_images(axes, x[None] / x.max().clamp(min=1e-6), 1)
        axes.set_title(f"{title} of a pixel", loc="left")
    grid = parts[3].subplots(rows, 2, squeeze=False).flatten() if rows else []
    for k, (axes, feature) in enumerate(zip(grid, shown, strict=False)):
        values = data.values[:, k].numpy()
        known = values[~np.isnan(values)]
        axes.set_title(f"{'EFGHIJKL'[k]}  {plain(feature.name)}", loc="left")
        if feature.categorical:
            counts = np.bincount(known.astype(int), minlength=len(feature.outcomes))
            order = np.argsort(-counts, kind="stable")[: MOST_NAMED // 2]
            _draw_bars(axes, [feature.outcomes[v] for v in order], counts[order])
            axes.set_xlabel("images")
        else:
            axes.hist(known, bins=30, color=BLUE)
            axes.set_ylabel("images")
    for axes in grid[len(shown) :]:
        axes.set_axis_off()
    return figure
