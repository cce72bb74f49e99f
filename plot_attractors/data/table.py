"""A user's own table of 0/1 columns, checked column by column."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from plot_attractors.data.checks import as_bits
from plot_attractors.data.columns import listed, read_columns
from plot_attractors.data.featured import ColumnRoles, Featured
from plot_attractors.language import pairs_to_fit

__all__ = ["SAMPLE", "BinaryTable", "Missing", "read_table"]

logger = logging.getLogger(__name__)

Missing = Literal["refuse", "ignore"]
SAMPLE = Path(__file__).parent / "animals.csv"  # 163 animals, written for this project


@dataclass(frozen=True, eq=False)
class BinaryTable(Featured):
    """A table of 0/1 columns with categorical labels, some rows of which may be held out.

    - ``x``: (rows, bits) int8, 0 or 1, and −1 where a value is missing; ``columns``: their names.
    """

    x: Tensor
    columns: tuple[str, ...]

    @property
    def bits(self) -> int:
        """Number of 0/1 columns."""
        return self.x.shape[1]

    @property
    def input_shape(self) -> tuple[int, ...]:
        """``(bits,)``."""
        return (self.bits,)

    @property
    def pairs(self) -> int:
        """Exclusive pairs of tokens that make as many sentences as there are different rows."""
        return len(pairs_to_fit(len(self.x.unique(dim=0))))

    def rows(self, y: Tensor) -> Tensor:
        """(n, bits) float32 the rows of these numbers (n,), NaN where a value is missing."""
        x = self.x[y]
        return x.float().masked_fill(x < 0, torch.nan)

    def read(self, path: Path, names: str = "") -> tuple[Tensor, tuple[str, ...]]:
        """(n, bits) the rows of another table with the same columns; and names of the rows, where
        a column `names` has them.

        Raises ValueError, naming the column and row, for what is missing or not 0 and 1.
        """
        table = read_columns(path, [names])
        table.require(self.columns)
        if not len(table.frame):
            raise ValueError(f"{path.name} has no rows: at least one is needed")
        optional = bool((self.x < 0).any())
        bits = [table.binary(column, optional=optional) for column in self.columns]
        x = torch.from_numpy(np.stack(bits, 1))
        return x.float().masked_fill(x < 0, torch.nan), table.texts(names)

    def as_inputs(self, values: Any) -> Tensor:
        """(n, bits) float32 of rows of 0, 1 and, where any are missing here, NaN (n, bits)."""
        return as_bits(values, self.bits, bool((self.x < 0).any()))

    def loaded_parts(self) -> dict[str, Any]:
        labels = self.features, self.labels
        own = {"values": self.x, "columns": self.columns, "labels": labels}
        return super().loaded_parts() | own


def read_table(path: str | Path, *, missing: Missing = "refuse", **roles: Any) -> BinaryTable:
    """Read a table from a CSV, TSV or Parquet file, as of `read_columns`.

    Columns hold 0 and 1, true and false, or yes and no. Those that are the same in every row are
    left out, which the log says. Others have ``roles``: see `ColumnRoles`. Missing values are
    refused, or left out of every likelihood ("ignore").

    Raises ValueError, naming column and row, where the file cannot be read, a value is missing or
    not binary, a row has no value at all or too few cells, a column is unnamed or unknown, or
    a split is empty.
    """
    path, given = Path(path), ColumnRoles(**roles)
    table = read_columns(path, [given.names])
    features, values = given.features(table, beside=False)
    inputs = [name for name in table.frame.columns if name not in given.named]
    bits = [table.binary(column, optional=missing == "ignore") for column in inputs]
    x = np.stack(bits, 1) if bits else np.empty((len(table.frame), 0), np.int8)
    varies = (x == 0).any(axis=0) & (x == 1).any(axis=0)
    gone = listed(np.array(inputs)[~varies].tolist())
    if not varies.any():
        raise ValueError(
            f"nothing varies in {path.name}: it needs a 0/1 column besides those named, which is "
            f"not the same in every row, as {gone or 'none'}"
        )
    if not varies.all():
        logger.warning(
            "%d of %d columns of %s are the same in every row, and are left out: %s",
            int((~varies).sum()), len(inputs), path.name, gone,
        )  # fmt: skip
    x = x[:, varies]
    if (empty := (x < 0).all(axis=1)).any():
        raise ValueError(f"{table.row(empty)} of {path.name} has no value at all: remove it")
    return BinaryTable(
        path.name,
        table.texts(given.names),
        values,
        features,
        given.members(table),
        torch.from_numpy(x),
        tuple(np.array(inputs)[varies].tolist()),
    )
