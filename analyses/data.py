"""The data figure: a tree, its prototypes and exemplars; a table's columns; sprites; or images."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from numpy.typing import NDArray
from torch import Tensor

from plot_attractors.analysis.parts import (
    MOST_NAMED,
    draw_bars,
    draw_images,
    name_columns,
    whole_numbers,
)
from plot_attractors.analysis.shape import Needs
from plot_attractors.analysis.style import BLUE, GREY, ORANGE, RED, add_scale, plain
from plot_attractors.data import BinaryTable, Feature, HierarchicalBinaryVectors, ImageSet, Vectors
from plot_attractors.data.dsprites import (
    COLOURS,
    POSITION_CELL,
    QUARTER,
    RGB,
    YELLOW_CELL,
    ColouredSprites,
)
from plot_attractors.data.sprites import SHAPES
from plot_attractors.ranges import Size
from plot_attractors.runs import Run

TITLE = "Data"
CAPTIONS = {
    "data": (
        "Hierarchical binary vectors. (A) The tree of classes below the root; held-out classes are "
        "red squares. (B) Prototypes, one class a row, generation by generation; white is 1, black "
        "is 0, and the red strip marks held-out classes. (C) Exemplars drawn from the classes of "
        "(B): white and black where exemplar and prototype agree on 1 and 0, light grey where only "
        "the exemplar is 1, dark grey where only the prototype is 1. (D) Pearson correlation of "
        "the bits over exemplars of the training classes, the diagonal left out. (E) The "
        "probability that each bit of a class's exemplars is 1."
    ),
    "table": (
        "The table that the model was trained on. (A) Share of 1s in each column, over all rows; "
        "where there are many columns, in increasing order. (B) Pearson correlation of the columns "
        "over all rows, the diagonal left out; of a wide table, the columns that vary most. "
        "Further panels: the number of rows with each value of a label."
    ),
    "vectors": (
        "The real-valued vectors that the model was trained on, each column standardised. (A) "
        "Principal components: the share of the variance that the first so many explain together; "
        "a model of d latent dimensions can tell at most about as much as d components. (B) "
        "Pearson correlation of the columns, the diagonal left out; of many columns, the first. "
        "Further panels: the number of rows with each value of a label."
    ),
    "sprites": (
        "Coloured sprites: one square, ellipse or heart, in one of seven colours and six sizes, at "
        "one of four by four places or near it. (A) Images that the model is trained on. (B, C, D) "
        "Images that are kept from it: all in one cell of the grid, yellow ones in another, and "
        "magenta ellipses wherever they are. (E) Every shape in every size, without noise. (F) "
        "Where the centres of training images lie: the darker, the more; the cells of (B) and (C) "
        "are outlined, and bars are the shares of columns and rows. (G) The noise of the colours: "
        "each row has images of one colour, those with the least noise on the left and the most on "
        "the right, where one may look like another colour."
    ),
    "images": (
        "The images that the model was trained on, drawn at random, those that were held out from "
        "training, if any, and the mean and the standard deviation of every pixel over all images, "
        "as bright as can be. Further panels: how many images have each value of a feature."
    ),
}


@dataclass(frozen=True)
class Config:
    """Sample sizes."""

    exemplars: Size = 20_000  # inputs behind the correlation of bits or columns
    rows: Size = 42  # of exemplars to fill when classes are few
    swatches: Size = 48  # images of each colour whose noise is drawn


NEEDS = Needs(
    "hierarchical binary vectors, a table, sprites, images or vectors",
    lambda run: isinstance(run.data, tuple(TABLES)),
)


# -- measures --------------------------------------------------------------------------------------


SPRITES_DRAWN = 108, 30  # images of the training split that are drawn, and of each other split
IMAGES = 96, 32
PIXELS = 5000  # images behind the mean and the standard deviation of a pixel
MOST_COLUMNS = 256  # of a table in its correlation matrix


def of_tree(data: HierarchicalBinaryVectors, exemplars: int, rows: int) -> dict[str, Any]:
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
    classes = torch.arange(n).repeat_interleave(max(1, rows // n))
    arrays: dict[str, Any] = {
        "prototypes": data.prototypes,
        "classes": classes,
        "exemplars": data.exemplars(classes),
        "parents": data.parents,
        "probabilities": data.probabilities,
    }
    arrays = {name: array.numpy() for name, array in arrays.items()}
    arrays["correlation"] = _correlation(data.batch(exemplars).x.numpy())
    arrays["samples"] = np.array(exemplars)
    return {"summary.csv": pd.DataFrame(columns), "data.npz": arrays}


def of_table(data: BinaryTable) -> dict[str, Any]:
    """Columns, with how many values are 1 or missing, and the mean of the others; labels; the
    correlation of those columns that vary most, in the table's order, at the mean where missing.
    """
    x = data.x.numpy()
    ones, missing = (x == 1).sum(0), (x < 0).sum(0)
    mean = ones / (len(x) - missing)
    kept = np.sort(np.argsort(-mean * (1 - mean), kind="stable")[:MOST_COLUMNS])
    correlation = _correlation(np.where(x < 0, mean, x)[:, kept].astype(np.float32))
    told = {"column": data.columns, "ones": ones, "missing": missing, "mean": mean}
    return {
        "summary.csv": pd.DataFrame(told),
        "labels.csv": _count_labels(data.features, data.labels),
        "table.npz": {
            "correlation": correlation,
            "columns": np.array([data.columns[k] for k in kept]),
            "rows": np.array(len(data.x)),
        },
    }


def _count_labels(features: tuple[Feature, ...], labels: Tensor) -> pd.DataFrame:
    """(label, value, rows) of labels (rows, F), -1 where they are not specified."""
    parts = [pd.DataFrame({"label": [], "value": [], "rows": []})]
    for k, (name, outcomes, _) in enumerate(features):
        values = ["unspecified", *outcomes]
        counts = np.bincount(labels[:, k].numpy() + 1, minlength=len(values))
        part = pd.DataFrame({"label": name, "value": values, "rows": counts})
        parts.append(part[(part["rows"] > 0) | (part["value"] != "unspecified")])
    return pd.concat(parts[1:] or parts)


def of_vectors(data: Vectors, rows: int) -> dict[str, Any]:
    """Columns, labels, and principal components of so many rows; the correlation of the first
    columns.
    """
    kinds = [k for k, feature in enumerate(data.features) if feature.categorical]
    some = torch.randperm(len(data.values))[:rows].sort().values
    x = data.rows(some)
    spread = torch.linalg.svdvals(x - x.mean(0)).square()
    shares = (spread / spread.sum()).numpy()
    numbers = {"column": data.columns, "mean": data.mean.numpy(), "sd": data.sd.numpy()}
    components = {"component": np.arange(1, len(shares) + 1), "share": shares}
    return {
        "summary.csv": pd.DataFrame(numbers),
        "labels.csv": _count_labels(tuple(data.features[k] for k in kinds), data.labels[:, kinds]),
        "components.csv": pd.DataFrame(components),
        "vectors.npz": {
            "correlation": _correlation(x[:, :MOST_COLUMNS].numpy()),
            "columns": np.array(data.columns[:MOST_COLUMNS]),
            "rows": np.array(len(data.values)),
        },
    }


def _correlation(samples: NDArray[Any]) -> NDArray[np.float64]:
    """Correlations of the columns of samples (rows, columns), 0 for itself or what never varies."""
    with np.errstate(invalid="ignore", divide="ignore"):
        matrix = np.nan_to_num(np.atleast_2d(np.corrcoef(samples, rowvar=False)))
    np.fill_diagonal(matrix, 0.0)
    return matrix


def of_sprites(data: ColouredSprites, swatches: int) -> dict[str, Any]:
    """Splits; images, places, and noise of colours."""
    members = list(data.members.values())
    share = [float(data.weights[rows].sum() / data.weights.sum()) for rows in members]
    counts = [len(rows) for rows in members]
    arrays: dict[str, Any] = {
        split: _bytes(data.batch(SPRITES_DRAWN[split != "train"], split).x) for split in data.splits
    }
    centre = (len(data.positions_x) - 1) // 2
    white = (data.rows[:, 0] == COLOURS.index("white")) & (data.rows[:, 3:] == centre).all(1)
    arrays["shapes"] = _bytes(data.prototypes(white.nonzero().flatten()))
    arrays["places"] = _places(data)
    arrays["colours"] = np.array(COLOURS)
    arrays["swatches"] = np.stack([_swatches(data, k, swatches) for k in range(len(COLOURS))])
    arrays["cell"] = np.array(QUARTER)
    arrays["held_out"] = np.array([POSITION_CELL, YELLOW_CELL])[: 2 * ("position" in data.members)]
    summary = {"split": data.splits, "combinations": counts, "share": share}
    return {"summary.csv": pd.DataFrame(summary), "sprites.npz": arrays}


def _bytes(x: Tensor) -> NDArray[np.uint8]:
    """Images from 0 to 1 as whole numbers from 0 to 255."""
    return (255 * x.clamp(0, 1)).round().byte().numpy()


def _places(data: ColouredSprites) -> NDArray[np.float32]:
    """(height, width) percentages of training images by the place of their centre."""
    rows = data.members["train"]
    width, height = len(data.positions_x), len(data.positions_y)
    place = data.rows[rows, 3] + width * data.rows[rows, 4]
    count = torch.bincount(place, data.weights[rows], width * height)
    return (100 * count / count.sum()).view(height, width).numpy()


def _swatches(data: ColouredSprites, colour: int, n: int) -> NDArray[np.float32]:
    """(n, 3) colours of large squares, from the least noise to the most."""
    centre = (len(data.positions_x) - 1) // 2
    square = torch.tensor([colour, SHAPES.index("square"), len(data.sizes) - 1, centre, centre])
    y = (data.rows == square).all(1).nonzero()[0]
    rgb = data.exemplars(y.expand(n)).flatten(2).amax(2)
    return rgb[(rgb - RGB[colour]).norm(dim=1).argsort()].numpy()


def of_images(data: ImageSet) -> dict[str, Any]:
    """Splits and values of features; images of each split, mean and deviation of every pixel."""
    parts = [pd.DataFrame({"feature": [], "value": [], "images": []})]
    for k, feature in enumerate(data.features):
        # NaN last, and once
        values, counts = np.unique(data.values[:, k].numpy(), return_counts=True)
        names = [
            feature.outcomes[int(v)] if feature.categorical and v == v else f"{v:.6g}"
            for v in values.tolist()
        ]
        parts.append(pd.DataFrame({"feature": feature.name, "value": names, "images": counts}))
    arrays: dict[str, Any] = {}
    for split, members in data.members.items():
        some = members[torch.randperm(len(members))[: IMAGES[split != "train"]]].sort().values
        arrays[split] = data.images[some].numpy()
    x = data.images[torch.randperm(len(data.images))[:PIXELS]].float() / 255
    for name, part in (("mean", x.mean(0)), ("deviation", x.std(0))):
        arrays[name] = _bytes(part / part.max().clamp(min=1e-6))[None]
    arrays["names"] = np.array([feature.name for feature in data.features])
    arrays["categorical"] = np.array([feature.categorical for feature in data.features])
    number = [len(rows) for rows in data.members.values()]
    return {
        "summary.csv": pd.DataFrame({"split": data.splits, "images": number}),
        "features.csv": pd.concat(parts[1:] or parts),
        "images.npz": arrays,
    }


TABLES: dict[type, Callable[[Any, Config], dict[str, Any]]] = {
    HierarchicalBinaryVectors: lambda data, c: of_tree(data, c.exemplars, c.rows),
    BinaryTable: lambda data, _: of_table(data),
    ColouredSprites: lambda data, c: of_sprites(data, c.swatches),
    ImageSet: lambda data, _: of_images(data),
    Vectors: lambda data, c: of_vectors(data, c.exemplars),
}


def measure(run: Run, config: Config) -> dict[str, Any]:
    """Tables of the data of a run, and the arrays that its figure shows.

    For hierarchical binary vectors ``summary.csv`` (class, depth, held_out, ones, path; the path is
    a letter, L or R, for each branch). For a table ``summary.csv`` (column, ones, mean) and
    ``labels.csv`` (label, value, rows). For coloured sprites ``summary.csv`` (split; combinations,
    how many of colour, shape, size, x and y it has; share, their probability were nothing held
    out). For a user's images ``summary.csv`` (split, images) and ``features.csv`` (feature, value,
    images). For real-valued vectors ``summary.csv`` (column, mean, sd), of training rows,
    ``labels.csv``, and ``components.csv`` (component, share), the share of the variance along each
    principal component. Arrays are in ``data.npz``, ``table.npz``, ``sprites.npz``, ``images.npz``
    or ``vectors.npz``. Source: the paper's figures of the data set and of its bit probabilities.

    Raises ValueError: any other data set.
    """
    for kind, tables in TABLES.items():
        if isinstance(run.data, kind):
            return tables(run.data, config)
    raise ValueError(
        "the data figure needs hierarchical binary vectors, a table, sprites, images or "
        f"real-valued vectors, not {type(run.data).__name__}: leave this analysis out"
    )


# -- figures ---------------------------------------------------------------------------------------


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


def draw(tables: Mapping[str, Any]) -> dict[str, Figure]:
    """Figure ``data``, ``table``, ``vectors``, ``sprites`` or ``images``, by which arrays there
    are.
    """
    draw = {
        "data": _plot_tree, "table": _plot_table, "vectors": _plot_vectors,
        "sprites": _plot_sprites, "images": _plot_images,
    }  # fmt: skip
    return {name: panel(tables) for name, panel in draw.items() if f"{name}.npz" in tables}


def _plot_tree(tables: Mapping[str, Any]) -> Figure:
    classes, arrays = tables["summary.csv"], tables["data.npz"]
    prototypes, rows = arrays["prototypes"], arrays["classes"]
    figure = Figure(figsize=(12, 15), layout="constrained")
    grid = figure.add_gridspec(3, 2, height_ratios=[0.55, 1, 1])
    _draw_tree(figure.add_subplot(grid[0, :]), classes, prototypes, arrays["parents"])

    axes = figure.add_subplot(grid[1, 0], title="B  Prototypes")
    look: dict[str, Any] = {"aspect": "auto", "interpolation": "nearest", "vmin": 0}
    axes.imshow(prototypes, cmap="gray", vmax=1, **look)
    _mark_classes(axes, classes)

    copies = len(rows) // len(classes)
    axes = figure.add_subplot(grid[1, 1])
    number = "One exemplar" if copies == 1 else f"{copies} exemplars"
    axes.set_title(f"C  {number} of each class")
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
        values = labels[labels["label"] == name]
        _draw_counts(axes, values["value"], values["rows"], "rows")
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

    noise = below.add_subplot(title="G  Noise of the colours")
    noise.imshow(arrays["swatches"], aspect="auto", interpolation="nearest")
    noise.set_yticks(range(len(arrays["colours"])), arrays["colours"], fontsize=9)
    noise.set(xticks=[], xlabel="images, from little noise to much")
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
        values = features[features["feature"].astype(str) == name].dropna()
        axes.set_title(f"{'EFGHIJKL'[k]}  {plain(name)}")
        if categorical:
            _draw_counts(axes, values["value"], values["images"], "images")
        else:
            axes.hist(values["value"].astype(float), weights=values["images"], bins=30, color=BLUE)
            axes.set_ylabel("images")
    for axes in grid[len(shown) :]:
        axes.set_axis_off()
    return figure
