"""A user's own real-valued vectors, as embeddings or sensor channels; npy stays on disk."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from plot_attractors.data.batch import Batch, split_rows
from plot_attractors.data.checks import as_rows, read_array
from plot_attractors.data.columns import (
    MISSING,
    Columns,
    check_roles,
    column_names,
    listed,
    read_columns,
)
from plot_attractors.data.featured import MOST, Featured, features_of, rows_of
from plot_attractors.data.features import Feature
from plot_attractors.language import pairs_to_fit

__all__ = ["Vectors", "read_vectors"]

logger = logging.getLogger(__name__)

ARRAYS = (".npy", ".npz")
EXACT = 2**24  # whole numbers up to here are exact in float32
CELLS = 1_000_000  # numbers that are read at once
LEAST = 1e-6  # of its mean, that a column varies by


@dataclass(frozen=True, eq=False)
class Vectors(Featured):
    """Real-valued vectors, standardised by the training rows, some of which may be held out.

    - ``name``: of the file, for messages and titles;
    - ``array``: (rows, columns) numbers as they are in the file, mapped into memory where they can;
    - ``kept``: (D,) int64, the columns that vary; ``columns``: their names; ``mean`` and ``sd``:
      (D,) float32, of the training rows;
    - ``row_names``: a name for each row, or none at all;
    - ``values``: (rows, F) float32, as of `feature_values`; ``features``: the F features;
    - ``members``: for each split the numbers of its rows, (n,) int64.
    """

    name: str
    array: np.ndarray[Any, Any]
    kept: Tensor
    columns: tuple[str, ...]
    mean: Tensor
    sd: Tensor
    row_names: tuple[str, ...]
    values: Tensor
    features: tuple[Feature, ...]
    members: dict[str, Tensor]
    real = True  # inputs are real numbers, neither bits nor pixels

    @property
    def inputs(self) -> str:  # type: ignore[override]
        """What they are, in words."""
        return f"{len(self.columns)} columns of real numbers ({listed(self.columns)})"

    @property
    def input_shape(self) -> tuple[int, ...]:
        """``(D,)``."""
        return (len(self.kept),)

    @property
    def distinct(self) -> int:
        """Number of rows: no two real-valued ones are taken to be alike."""
        return len(self.array)

    @property
    def pairs(self) -> int:
        """Exclusive pairs of tokens that make as many sentences as there are different rows."""
        return len(pairs_to_fit(self.distinct))

    def rows(self, y: Tensor) -> Tensor:
        """(n, D) float32 the standardised rows of these numbers (n,)."""
        return self.as_inputs(self.array[y.numpy()])

    def as_inputs(self, values: Any) -> Tensor:
        """(n, D) float32 the standardised inputs of rows (n, columns) with all columns of the file;
        ValueError where there are others, or numbers are not finite.
        """
        raw = as_rows(values, self.array.shape[1])[:, self.kept]
        if not raw.isfinite().all():
            raise ValueError(
                "vectors are finite numbers, and some of these are missing or infinite"
            )
        return (raw - self.mean) / self.sd

    def read(self, path: Path, names: str = "") -> tuple[Tensor, tuple[str, ...]]:
        """(n, D) the standardised rows of another table (CSV or Parquet) with the same columns; and
        names of the rows, where a column `names` has them.
        """
        table = read_columns(path, texts=[names])
        table.require(self.columns)
        numbers = table.frame[[*self.columns]].apply(pd.to_numeric, errors="coerce")
        raw = np.full((len(numbers), self.array.shape[1]), 0.0, np.float32)
        raw[:, self.kept] = numbers.to_numpy(np.float32)
        return self.as_inputs(raw), table.texts(names)

    def loaded_parts(self) -> dict[str, Any]:
        """What was loaded, by the names by which a difference is told (`data.digests`)."""
        return {
            "values": self.array, "columns": self.columns, "names": self.row_names,
            "labels": (self.features, self.values.numpy()), "splits": self.members,
        }  # fmt: skip

    def at(self, y: Tensor) -> Batch:
        """The rows of these numbers (n,), from 0."""
        return Batch(x=self.rows(y), y=y, labels=self.labels[y])


def read_vectors(
    path: str | Path,
    table: str | Path | None = None,
    *,
    labels: str | Sequence[str] = (),
    continuous: str | Sequence[str] = (),
    names: str = "",
    ignore: str | Sequence[str] = (),
    held_out: str = "",
    held_out_fraction: float = 0.0,
    seed: int = 0,
    missing_values: str | Sequence[str] = MISSING,
) -> Vectors:
    """Read real-valued vectors, a row each, from an array (npy or npz) or a table, as of
    `read_table`, or as word2vec and GloVe write them.

    An npy array stays on disk: a million rows need as much memory as a thousand, but for 8 bytes a
    row. All else is read into memory. Of an npz file the member ``x``, or the only one of two
    dimensions, is the vectors. Columns of arrays are called ``x1``, ``x2``, …; in a table every
    column is an input unless an argument names it.

    ``table`` is a table with a row a vector, in the same order. Its columns are features, or only
    those in ``labels``; a column is continuous where it holds numbers that are not whole, or
    ``continuous`` names it. ``names`` is the column that names the rows. Other arguments as of
    `read_table`.

    Each column is standardised by mean and standard deviation of the training rows. Columns that do
    not vary among these are left out, which the log says.

    Raises ValueError, naming the file, row or column, where something cannot be read, is missing,
    not finite or beyond 1e30, a column numbers the rows, or a split would be empty.
    """
    path = Path(path)
    label_names, measured = column_names(labels), column_names(continuous)
    named = tuple(dict.fromkeys((*label_names, *measured)))
    others = (*column_names(ignore), *filter(None, (names, held_out)))
    check_roles((*named, *others), held_out, held_out_fraction)
    array: Any
    if is_array := path.suffix.lower() in ARRAYS:
        array = read_array(path, "vectors", "x", (2,), mmap_mode="r")
        if array.ndim != 2 or not array.size:
            raise ValueError(
                f"{path.name} has the shape {array.shape}: vectors are rows of a matrix"
            )
        inputs: Sequence[str] = [f"x{k}" for k in range(1, array.shape[1] + 1)]
        beside = Columns(pd.DataFrame(index=range(len(array))), path)
        if table is None and (*named, *others):
            raise ValueError(f"what is known of {path.name} stands in a table: set table=FILE.csv")
    else:
        beside = read_columns(path, missing_values, [names])
        inputs = [name for name in beside.frame.columns if name not in (*named, *others)]
        if not inputs:
            raise ValueError(
                f"{path.name} has no column of numbers besides those named in labels, names, "
                "ignore or held_out"
            )
        array = np.stack([beside.numbers(name) for name in beside.without_numbering(inputs)], 1)
    if len(array) < 2:
        raise ValueError(f"{path.name} has {len(array)} row(s): at least two are needed")
    if table is None:
        columns, chosen = beside, named
    else:
        columns = rows_of(
            Path(table), [], len(array), path.name, "vectors", missing_values, [names]
        )
        rest = [name for name in columns.frame.columns if name not in others]
        chosen = named if label_names else tuple(columns.without_numbering(rest))
    columns.require((*named, *others))
    features, values = features_of(columns, chosen, measured)
    members = split_rows(columns.held_out(held_out, held_out_fraction, seed))
    mean, sd = _moments(array, inputs, beside, members["train"].numpy())
    kept = np.flatnonzero(sd > LEAST * np.abs(mean) + 1 / MOST)
    little = f"by more than a part of {LEAST:g} of the mean, as single precision needs"
    if not len(kept):
        raise ValueError(
            f"the training rows of {path.name} are all alike: nothing varies"
            if not sd.any()
            else f"no column of {path.name} varies {little}: subtract the mean, or multiply"
        )
    if len(kept) < len(sd):
        gone = np.delete(np.array(inputs), kept).tolist()
        logger.warning(
            "of %d columns of %s, %d do not vary %s, and are left out: %s",
            len(sd), path.name, len(gone), little, listed(gone),
        )  # fmt: skip
    return Vectors(
        path.name,
        array if is_array else array.astype(np.float32),
        torch.from_numpy(kept),
        tuple(np.array(inputs)[kept].tolist()),
        torch.from_numpy(mean[kept]).float(),
        torch.from_numpy(sd[kept]).float(),
        columns.names_of_rows(names, concepts=False) or beside.rows,
        values,
        features,
        members,
    )


def _moments(
    array: np.ndarray[Any, Any],
    names: Sequence[str],
    columns: Columns,
    train: np.ndarray[Any, Any],
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Mean and standard deviation (columns,) float64 of the training rows, read a part at a time;
    every row is checked.
    """
    used = np.zeros(len(array), bool)
    used[train] = True
    n, mean, squares = 0, np.zeros(len(names)), np.zeros(len(names))
    rounded = np.zeros(len(names), bool)
    rows = max(1, CELLS // len(names))
    for first in range(0, len(array), rows):
        part = np.asarray(array[first : first + rows], np.float64)
        wrong = ~(np.abs(part) <= MOST)
        if wrong.any():
            row, column = (int(k) for k in np.argwhere(wrong)[0])
            value = part[row, column]
            raise ValueError(
                f"column {names[column]!r} of {columns.name} has "
                f"{'a missing value' if np.isnan(value) else f'{value:g}'} in "
                f"{columns.row(first + row)}, and {int(wrong.sum()):,} such are in the rows around "
                f"it: vectors are finite numbers of at most {MOST:g}; fill in, divide the column, "
                "or remove the rows"
            )
        if not np.can_cast(array.dtype, np.float32):
            rounded |= ((part % 1 == 0) & (part != part.astype(np.float32))).any(0)
        part = part[used[first : first + len(part)]]
        if len(part):
            total, here = n + len(part), part.mean(0)
            squares += ((part - here) ** 2).sum(0) + (here - mean) ** 2 * n * len(part) / total
            mean += (here - mean) * len(part) / total
            n = total
    if rounded.any():
        logger.warning(
            "whole numbers beyond %s are rounded, as of single precision, in %s: subtract a "
            "constant, or divide", f"{EXACT:,}", listed(np.array(names)[rounded].tolist()),
        )  # fmt: skip
    return mean, np.sqrt(squares / max(n - 1, 1))
