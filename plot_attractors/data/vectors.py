"""A user's own real-valued vectors, as embeddings or sensor channels; npy stays on disk."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from plot_attractors.data.batch import Batch, split_rows
from plot_attractors.data.checks import arrays_of, as_rows, reading
from plot_attractors.data.columns import (
    Columns,
    check_roles,
    column_names,
    listed,
    read_columns,
)
from plot_attractors.data.featured import Featured, features_of, rows_of
from plot_attractors.data.features import Feature
from plot_attractors.language import pairs_to_fit

__all__ = ["Vectors", "read_vectors"]

logger = logging.getLogger(__name__)

ARRAYS = (".npy", ".npz")
EXACT = 2**24  # whole numbers up to here are exact in float32
CELLS = 1_000_000  # numbers that are read at once


class Matrix(NamedTuple):
    """Numbers (rows, columns), in memory or on disk; their names; and columns that are no input."""

    array: np.ndarray[Any, Any]
    names: tuple[str, ...]
    beside: Columns


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
        table = read_columns(path)
        table.require(self.columns)
        numbers = table.frame[[*self.columns]].apply(pd.to_numeric, errors="coerce")
        raw = np.full((len(numbers), self.array.shape[1]), 0.0, np.float32)
        raw[:, self.kept] = numbers.to_numpy(np.float32)
        known = names in table.frame.columns
        return self.as_inputs(raw), table.texts(names) if known else ()

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
) -> Vectors:
    """Read real-valued vectors, a row each, from an array (npy or npz) or a table (CSV, Parquet).

    An npy array stays on disk: a million rows need as much memory as a thousand, but for 8 bytes a
    row. All else is read into memory. Of an npz file the member ``x``, or the only one of two
    dimensions, is the vectors. The optional member ``columns`` names the columns, else ``x1``,
    ``x2``, …; members of one dimension that an argument names are labels, names or marks. In a CSV
    or Parquet file every column is an input unless an argument names it.

    ``table`` is a CSV or Parquet file with a row a vector, in the same order. Its columns are
    features, or only those in ``labels``; a column is continuous where it holds numbers that are
    not whole, or ``continuous`` names it. ``names`` is the column that names the rows. Other
    arguments as of `read_table`.

    Each column is standardised by mean and standard deviation of the training rows. Columns that do
    not vary among these are left out, which the log says.

    Raises ValueError, naming the file, row or column, where something cannot be read, is missing or
    not finite, or a split would be empty.
    """
    path = Path(path)
    label_names, measured = column_names(labels), column_names(continuous)
    named = tuple(dict.fromkeys((*label_names, *measured)))
    others = (*column_names(ignore), *filter(None, (names, held_out)))
    check_roles((*named, *others), held_out, held_out_fraction)
    roles = () if table is not None else (*named, *others)
    matrix = _read_array(path, roles) if path.suffix.lower() in ARRAYS else _read_table(path, roles)
    count, columns = len(matrix.array), matrix.beside
    if count < 2:
        raise ValueError(f"{path.name} has {count} row(s): at least two are needed")
    chosen = label_names
    if table is not None:
        columns = rows_of(Path(table), [], count, path.name, "vectors")
        rest = (name for name in columns.frame.columns if name not in others)
        chosen = label_names or tuple(rest)
    columns.require((*named, *others))
    features, values = features_of(columns, tuple(dict.fromkeys((*chosen, *measured))), measured)
    members = split_rows(columns.held_out(held_out, held_out_fraction, seed))
    mean, sd = _moments(matrix, members["train"].numpy())
    kept = np.flatnonzero(sd > 1e-6 * np.abs(mean) + 1e-30)
    if not len(kept):
        raise ValueError(f"the training rows of {path.name} are all alike: nothing varies")
    if len(kept) < len(sd):
        gone = np.delete(np.array(matrix.names), kept).tolist()
        logger.warning(
            "of %d columns of %s, %d do not vary and are left out: %s",
            len(sd), path.name, len(gone), listed(gone),
        )  # fmt: skip
    return Vectors(
        path.name,
        matrix.array,
        torch.from_numpy(kept),
        tuple(matrix.names[k] for k in kept),
        torch.from_numpy(mean[kept]).float(),
        torch.from_numpy(sd[kept]).float(),
        columns.names_of_rows(names, concepts=False) if names else (),
        values,
        features,
        members,
    )


def _moments(
    matrix: Matrix, train: np.ndarray[Any, Any]
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Mean and standard deviation (columns,) float64 of the training rows, read a part at a time;
    every row is checked.
    """
    columns, used = matrix.beside, np.zeros(len(matrix.array), bool)
    used[train] = True
    n, mean, squares = 0, np.zeros(len(matrix.names)), np.zeros(len(matrix.names))
    rounded = np.zeros(len(matrix.names), bool)
    for first, part in _parts(matrix.array):
        wrong = ~np.isfinite(part)
        if wrong.any():
            row, column = (int(k) for k in np.argwhere(wrong)[0])
            value = "a missing value" if np.isnan(part[row, column]) else str(part[row, column])
            raise ValueError(
                f"column {matrix.names[column]!r} of {columns.name} has {value} in "
                f"{columns.row(first + row)}, and {int(wrong.sum()):,} such in the rows around it: "
                "vectors are finite numbers; fill in, or remove the rows"
            )
        if not np.can_cast(matrix.array.dtype, np.float32):
            rounded |= _rounded(part)
        part = part[used[first : first + len(part)]]
        if len(part):
            total, here = n + len(part), part.mean(0)
            squares += ((part - here) ** 2).sum(0) + (here - mean) ** 2 * n * len(part) / total
            mean += (here - mean) * len(part) / total
            n = total
    _tell_rounded(matrix.names, rounded)
    return mean, np.sqrt(squares / max(n - 1, 1))


def _rounded(numbers: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """(columns,) whether single precision changes a whole number of a column."""
    return ((numbers % 1 == 0) & (numbers != numbers.astype(np.float32))).any(0)  # type: ignore[no-any-return]


def _tell_rounded(names: Sequence[str], rounded: np.ndarray[Any, Any]) -> None:
    if rounded.any():
        logger.warning(
            "whole numbers beyond %s are rounded, as of single precision, in %s: subtract a "
            "constant, or divide", f"{EXACT:,}", listed(np.array(names)[rounded].tolist()),
        )  # fmt: skip


def _parts(array: np.ndarray[Any, Any]) -> Iterator[tuple[int, np.ndarray[Any, Any]]]:
    """The number of the first row of each part, and the part, float64."""
    rows = max(1, CELLS // array.shape[1])
    for first in range(0, len(array), rows):
        yield first, np.asarray(array[first : first + rows], np.float64)


def _read_table(path: Path, roles: Sequence[str]) -> Matrix:
    columns = read_columns(path, roles)
    inputs = [name for name in columns.frame.columns if name not in roles]
    for name in inputs:
        if not pd.api.types.is_numeric_dtype(columns.frame[name].dtype):
            first = columns.frame[name].dropna()
            raise ValueError(
                f"column {name!r} of {columns.name} holds {str(first.iloc[0])!r}, which is no "
                "number: name the column in labels, names or ignore"
                if len(first)
                else f"column {name!r} of {columns.name} is empty: name it in ignore"
            )
    if not inputs:
        raise ValueError(
            f"{columns.name} has no column of numbers besides those named in labels, names, ignore "
            "or held_out"
        )
    numbers = columns.frame[inputs].to_numpy(np.float64, na_value=np.nan)
    _tell_rounded(inputs, _rounded(numbers))
    return Matrix(numbers.astype(np.float32), tuple(inputs), columns)


def _read_array(path: Path, roles: Sequence[str]) -> Matrix:
    if not path.is_file():
        raise ValueError(f"there is no file {str(path)!r}: give the path of the vectors themselves")
    names, beside = None, dict[str, Any]()
    with reading(path, "an array of vectors"):
        if path.suffix.lower() == ".npy":
            array: Any = np.load(path, mmap_mode="r", allow_pickle=False)
        else:
            array, names, beside = _members(path, roles)
        if array.dtype.kind not in "buif" or array.dtype.itemsize > 8:
            raise ValueError(f"it holds {array.dtype}, which are no real numbers")
        if array.ndim != 2 or not array.size:
            raise ValueError(f"it has the shape {array.shape}: vectors are rows of a matrix")
        if names is not None and len(names) != array.shape[1]:
            raise ValueError(f"it names {len(names)} columns, and has {array.shape[1]}")
        if odd := [name for name, part in beside.items() if part.shape != (len(array),)]:
            raise ValueError(f"{odd[0]!r} has the shape {beside[odd[0]].shape}, not one a row")
    names = names or [f"x{k}" for k in range(1, array.shape[1] + 1)]
    frame = pd.DataFrame(beside, index=range(len(array)))
    return Matrix(array, tuple(names), Columns(frame, path))


def _members(path: Path, roles: Sequence[str]) -> tuple[Any, list[str] | None, dict[str, Any]]:
    """The matrix of an npz file, the names of its columns, and the members that are roles."""
    with np.load(path, allow_pickle=False) as file:
        named = [name for name in ("columns", *roles) if name in file.files]
        try:
            beside = {name: file[name] for name in named}
        except ValueError:
            raise ValueError("text is stored as Python objects: save it with dtype=str") from None
        matrices = arrays_of(file, "x", (2,))
    if len(matrices) != 1:
        raise ValueError(
            f"it has {len(matrices)} two-dimensional arrays: call the one of vectors x"
        )
    columns = beside.pop("columns", None)
    return matrices[0], None if columns is None else [str(name) for name in columns], beside
