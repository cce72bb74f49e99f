"""What there is to see of a data set: counts of its values, and arrays for its figure."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

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

SPRITES = 108, 30  # images of the training split that are drawn, and of each other split
IMAGES = 96, 32


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


def of_table(data: BinaryTable, columns: int) -> dict[str, Any]:
    """Columns, with how many values are 1 or missing, and the mean of the others; labels; the
    correlation of those columns that vary most, in the table's order, at the mean where missing.
    """
    x = data.x.numpy()
    ones, missing = (x == 1).sum(0), (x < 0).sum(0)
    mean = ones / (len(x) - missing)
    kept = np.sort(np.argsort(-mean * (1 - mean), kind="stable")[:columns])
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


def of_vectors(data: Vectors, rows: int, columns: int) -> dict[str, Any]:
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
            "correlation": _correlation(x[:, :columns].numpy()),
            "columns": np.array(data.columns[:columns]),
            "rows": np.array(len(data.values)),
        },
    }


def _correlation(samples: NDArray[Any]) -> NDArray[np.float64]:
    """Correlations of the columns of samples (rows, columns), 0 for itself or what never varies."""
    with np.errstate(invalid="ignore", divide="ignore"):
        matrix = np.nan_to_num(np.atleast_2d(np.corrcoef(samples, rowvar=False)))
    np.fill_diagonal(matrix, 0.0)
    return matrix


def of_sprites(data: ColouredSprites, swatches: int, channels: int) -> dict[str, Any]:
    """Splits; images, places, and noise of colours."""
    members = list(data.members.values())
    share = [float(data.weights[rows].sum() / data.weights.sum()) for rows in members]
    counts = [len(rows) for rows in members]
    arrays: dict[str, Any] = {
        split: _bytes(data.batch(SPRITES[split != "train"], split).x) for split in data.splits
    }
    centre = (len(data.positions_x) - 1) // 2
    white = (data.rows[:, 0] == COLOURS.index("white")) & (data.rows[:, 3:] == centre).all(1)
    arrays["shapes"] = _bytes(data.prototypes(white.nonzero().flatten()))
    arrays["places"] = _places(data)
    arrays["colours"] = np.array(COLOURS)
    arrays["swatches"] = np.stack([_swatches(data, k, swatches) for k in range(len(COLOURS))])
    batch = data.batch(channels)
    level, on = batch.x.flatten(2).amax(2), RGB[batch.labels[:, 0]] > 0
    arrays |= {"on": level[on].numpy(), "off": level[~on].numpy(), "cell": np.array(QUARTER)}
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


def of_images(data: ImageSet, pixels: int) -> dict[str, Any]:
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
    x = data.images[torch.randperm(len(data.images))[:pixels]].float() / 255
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
