"""A user's own real-valued vectors, as embeddings or sensor channels."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from plot_attractors.data.checks import ARRAYS, array_kind, as_rows, read_array
from plot_attractors.data.columns import MOST, Columns, listed, read_columns
from plot_attractors.data.table import ColumnRoles, Featured, rows_of
from plot_attractors.language import pairs_to_fit

__all__ = ["Vectors", "read_vectors"]

logger = logging.getLogger(__name__)

LEAST = 1e-6  # of its mean, that a column varies by


@dataclass(frozen=True, eq=False)
class Vectors(Featured):
    """Real-valued vectors, standardised by the training rows, some of which may be held out.

    - ``array``: (rows, columns) float32, numbers as they are in the file;
    - ``kept``: (D,) int64, the columns that vary; ``columns``: their names; ``mean`` and ``sd``:
      (D,) float32, of the training rows.
    """

    array: np.ndarray[Any, Any]
    kept: Tensor
    columns: tuple[str, ...]
    mean: Tensor
    sd: Tensor
    real = True  # inputs are real numbers, neither bits nor pixels

    @property
    def input_shape(self) -> tuple[int, ...]:
        """``(D,)``."""
        return (len(self.kept),)

    @property
    def pairs(self) -> int:
        """Exclusive pairs of tokens that make as many sentences as there are rows."""
        return len(pairs_to_fit(len(self.array)))

    def rows(self, y: Tensor) -> Tensor:
        """(n, D) float32 the standardised rows of these numbers (n,)."""
        return self.as_inputs(self.array[y.numpy()])

    def as_inputs(self, values: Any) -> Tensor:
        """(n, D) float32 the standardised inputs of rows (n, columns) with all columns of the file;
        ValueError where one is missing or not finite.
        """
        raw = as_rows(values, self.array.shape[1])[:, self.kept]
        if not raw.isfinite().all():
            raise ValueError(
                f"these inputs have numbers in {listed(self.columns)}, and some of these are "
                "missing or infinite"
            )
        return (raw - self.mean) / self.sd

    def read(self, path: Path, names: str = "") -> tuple[Tensor, tuple[str, ...]]:
        """(n, D) the standardised rows of another table with the same columns; and names of the
        rows, where a column `names` has them.
        """
        table = read_columns(path, [names])
        table.require(self.columns)
        raw = np.zeros((len(table.frame), self.array.shape[1]), np.float32)
        for k, name in zip(self.kept.tolist(), self.columns, strict=True):
            raw[:, k] = table.numbers(name, optional=False)
        return self.as_inputs(raw), table.texts(names)

    def loaded_parts(self) -> dict[str, Any]:
        return super().loaded_parts() | {"values": self.array, "columns": self.columns}


def read_vectors(path: str | Path, table: str | Path | None = None, **roles: Any) -> Vectors:
    """Read real-valued vectors, a row each, from an array (npy, npz, pt) or a table.

    Columns of arrays are called ``x1``, ``x2``, …; in a table every column is an input unless it
    has another of the ``roles``: see `ColumnRoles`. ``table`` is a table with a row a vector, in
    the same order. Its columns are features, or only those in ``labels``.

    Each column is standardised by mean and standard deviation of the training rows. Columns that do
    not vary among these are left out, which the log says.

    Raises ValueError, naming the file, row or column, where something cannot be read, is missing,
    not finite or beyond 1e30, a column numbers the rows, or a split would be empty.
    """
    path, given = Path(path), ColumnRoles(**roles)
    if array_kind(path) in ARRAYS:
        array = read_array(path)
        if array.ndim != 2 or not len(array):
            raise ValueError(f"{path.name} has the shape {array.shape}: vectors are rows")
        own = Columns(pd.DataFrame(array).rename(columns=lambda k: f"x{k + 1}"), path)
    else:
        own = read_columns(path, [given.names])
    columns = own
    if table is not None:
        columns = rows_of(Path(table), [], len(own.frame), path.name, given.names)
        names = columns.texts(given.names)
        if own.index and names and names != own.index:
            raise ValueError(
                f"the rows of {path.name} are called {listed(own.index[:3])}, and those of "
                f"{columns.path.name} {listed(names[:3])}: put them in the same order"
            )
    features, values = given.features(columns, beside=table is not None)
    members = given.members(columns)
    inputs = own.without_numbering([n for n in own.frame.columns if n not in given.named])
    if not inputs:
        raise ValueError(f"{path.name} has no column of numbers besides those that are named")
    x = np.stack([own.numbers(name, optional=False) for name in inputs], 1)
    train = x[members["train"].numpy()]
    mean, sd = train.mean(0), train.std(0, ddof=min(1, len(train) - 1))
    varies = sd > LEAST * np.abs(mean) + 1 / MOST
    little = f"by more than a part of {LEAST:g} of the mean, as single precision needs"
    gone = listed(np.array(inputs)[~varies].tolist())
    if not varies.any():
        raise ValueError(f"{gone} of {path.name} do not vary {little}: subtract the mean")
    if not varies.all():
        logger.warning("%s of %s do not vary %s, and are left out", gone, path.name, little)
    return Vectors(
        path.name,
        columns.texts(given.names),
        values,
        features,
        members,
        x.astype(np.float32),
        torch.from_numpy(np.flatnonzero(varies)),
        tuple(np.array(inputs)[varies].tolist()),
        torch.from_numpy(mean[varies]).float(),
        torch.from_numpy(sd[varies]).float(),
    )
