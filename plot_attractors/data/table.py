"""A user's own tables of 0/1 columns, and what images and vectors have in common with them: rows,
their names and features.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from plot_attractors.data.batch import Batch, Feature, Members, split_rows
from plot_attractors.data.checks import as_bits
from plot_attractors.data.columns import BINARY, Columns, listed, read_columns
from plot_attractors.language import pairs_to_fit
from plot_attractors.ranges import Seed, Share, setting

__all__ = [
    "SAMPLE", "BinaryTable", "ColumnRoles", "Featured", "Missing", "read_table", "rows_of",
]  # fmt: skip

logger = logging.getLogger(__name__)

Missing = Literal["refuse", "ignore"]
SAMPLE = Path(__file__).parent / "animals.csv"  # 163 animals, written for this project
FILE = "file"  # column that names an image
SPLIT = BINARY | {"train": 0, "held_out": 1}


@dataclass(frozen=True)
class ColumnRoles:
    """What the columns of a table are: of inputs, or of what is known of images and vectors."""

    names: str = setting("", "column that names the rows, such as the animal")
    labels: tuple[str, ...] = setting(
        (), "columns that are no inputs but features; of another file, empty: all"
    )
    continuous: tuple[str, ...] = setting((), "features of whole numbers that are")
    ignore: tuple[str, ...] = setting((), "columns to leave out")
    held_out: str = setting(
        "", "column that marks held-out rows, by 0 and 1, or train and held_out"
    )
    held_out_fraction: Share = setting(0.0, "part of the rows, where no column marks them")
    split_seed: Seed = setting(0, "seed of the rows that held_out_fraction takes")

    def inert(self) -> dict[str, str]:
        """Settings that have no effect beside the others, and why."""
        return {} if self.held_out_fraction else {"split_seed": "held_out_fraction is 0"}

    @property
    def roles(self) -> dict[str, Any]:
        """The same as arguments of `read_table`, `read_images` and `read_vectors`."""
        return {field.name: getattr(self, field.name) for field in fields(ColumnRoles)}

    @property
    def named(self) -> tuple[str, ...]:
        """The columns that are no inputs."""
        single = [name for name in (self.names, self.held_out) if name]
        return (*self.labels, *self.continuous, *self.ignore, *single)

    def features(self, columns: Columns, beside: bool) -> tuple[tuple[Feature, ...], Tensor]:
        """The features in `labels` and `continuous`, or of a table `beside` the inputs in all
        columns that are nothing else, and their values (N, F), NaN where they are missing.
        """
        columns.require(self.named)
        names: Sequence[str] = [*dict.fromkeys((*self.labels, *self.continuous))]
        if beside and not self.labels:
            others = (*self.ignore, self.names, self.held_out)
            names = [name for name in columns.frame.columns if name not in others]
            names = columns.without_numbering(names)
        known = [columns.feature(name, name in self.continuous) for name in names]
        values = np.empty((len(columns.frame), len(known)), np.float32)
        for k, (_, column) in enumerate(known):
            values[:, k] = column
        return tuple(feature for feature, _ in known), torch.from_numpy(values)

    def members(self, columns: Columns) -> dict[str, Tensor]:
        """The rows (n,) of each split: those that a column marks as held out, or a share of all,
        drawn by an own seed, and the others.
        """
        mask = torch.zeros(len(columns.frame), dtype=torch.bool)
        if self.held_out and self.held_out_fraction:
            raise ValueError("give either a held_out column or a held_out_fraction, not both")
        if self.held_out:
            mask = torch.from_numpy(columns.binary(self.held_out, SPLIT) == 1)
        elif self.held_out_fraction:
            generator = torch.Generator().manual_seed(self.split_seed)
            order = torch.randperm(len(mask), generator=generator)
            mask[order[: round(self.held_out_fraction * len(mask))]] = True
        if (self.held_out or self.held_out_fraction) and len(mask.unique()) < 2:
            raise ValueError(
                f"{'every' if mask.all() else 'no'} row of {columns.path.name} is held out: both "
                "splits need at least one"
            )
        return split_rows(mask)


@dataclass(frozen=True, eq=False)
class Featured(Members):
    """Rows of a user's own, with features that a table told, categorical or continuous.

    - ``name``: of the file or folder; ``row_names``: a name for each row, or none at all;
    - ``values``: (N, F) float32, as of `feature_values`; ``features``: the F features;
    - ``members``: for each split the numbers of its rows, (n,) int64.
    """

    name: str
    row_names: tuple[str, ...]
    values: Tensor
    features: tuple[Feature, ...]
    members: dict[str, Tensor]

    def rows(self, y: Tensor) -> Tensor:
        """(n, *input_shape) float32 the inputs of these numbers (n,), from 0."""
        raise NotImplementedError

    def at(self, y: Tensor) -> Batch:
        """The rows of these numbers (n,), from 0."""
        return Batch(x=self.rows(y), y=y, labels=self.labels[y])

    @cached_property
    def labels(self) -> Tensor:
        """(N, F) int64: ranks of the values of a feature, −1 where they are missing."""
        ranks = [pd.factorize(column, sort=True)[0] for column in self.values.numpy().T]
        if not ranks:
            return torch.empty(len(self.values), 0, dtype=torch.int64)
        return torch.from_numpy(np.stack(ranks, 1))

    def feature_values(self, batch: Batch) -> Tensor:
        """(n, F) float32: number of the outcome, or value of a continuous feature; NaN: missing."""
        return self.values[batch.y.cpu()].to(batch.y.device)

    def loaded_parts(self) -> dict[str, Any]:
        """What was loaded, by the names by which a difference is told (`data.digests`)."""
        labels = self.features, self.values.numpy()
        return {"names": self.row_names, "labels": labels, "splits": self.members}


def rows_of(table: Path, names: list[str], count: int, inputs: str, text: str) -> Columns:
    """The table's rows in the order of the `count` inputs of a file, by the column ``file`` where
    these have `names`; another column that names something is `text`.
    """
    columns = read_columns(table, (FILE, text))
    frame = columns.frame
    if not names:
        if len(frame) != count:
            raise ValueError(
                f"{columns.path.name} has {len(frame)} rows, and {inputs} {count}: each needs one"
            )
        return replace(columns, frame=frame.drop(columns=FILE, errors="ignore"))
    columns.require([FILE])
    files = frame[FILE].astype("string").fillna("").str.replace("\\", "/").str.removeprefix("./")
    if odd := sorted({*files} ^ {*names} or {*files[files.duplicated()]}):
        raise ValueError(
            f"{table.name} needs one row for each image of {inputs}, by its column {FILE!r}: see "
            f"{odd[0]!r}"
        )
    ordered = frame.set_index(files).loc[names].drop(columns=FILE).reset_index(drop=True)
    return replace(columns, frame=ordered, index=())


@dataclass(frozen=True, eq=False)
class BinaryTable(Featured):
    """A table of 0/1 columns with categorical labels, some rows of which may be held out.

    - ``x``: (rows, bits) int8, 0 or 1, and −1 where a value is missing; ``columns``: their names;
    - ``twos``: those of them that hold 1 and 2, which is read as 0.
    """

    x: Tensor
    columns: tuple[str, ...]
    twos: tuple[str, ...] = ()

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
        optional = bool((self.x < 0).any())
        bits = [table.binary(c, optional=optional, twos=c in self.twos) for c in self.columns]
        x = torch.from_numpy(np.stack(bits, 1))
        return x.float().masked_fill(x < 0, torch.nan), table.texts(names)

    def as_inputs(self, values: Any) -> Tensor:
        """(n, bits) float32 of rows of 0, 1 and, where any are missing here, NaN (n, bits)."""
        return as_bits(values, self.bits, bool((self.x < 0).any()))

    def loaded_parts(self) -> dict[str, Any]:
        return super().loaded_parts() | {"values": self.x, "columns": self.columns}


def read_table(path: str | Path, *, missing: Missing = "refuse", **roles: Any) -> BinaryTable:
    """Read a table from a CSV, TSV or Parquet file, as of `read_columns`.

    Columns hold 0 and 1, or words for it (`columns.BINARY`), or 1 and 2, which is 0 then. Those
    that are the same in every row are left out, which the log says. Others have ``roles``: see
    `ColumnRoles`. Missing values are refused, or left out of every likelihood ("ignore").

    Raises ValueError, naming column and row, where the file cannot be read, a value is missing or
    not binary, a row has too few cells, a column is unnamed or unknown, or
    a split is empty.
    """
    path, given = Path(path), ColumnRoles(**roles)
    table = read_columns(path, [given.names])
    features, values = given.features(table, beside=False)
    inputs = [name for name in table.frame.columns if name not in given.named]
    twos = tuple(filter(table.has_twos, inputs))
    bits = [table.binary(c, optional=missing == "ignore", twos=c in twos) for c in inputs]
    if twos:
        logger.warning("1 is 1 and 2 is 0 in %s of %s", listed(twos), path.name)
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
    return BinaryTable(
        path.name,
        table.texts(given.names),
        values,
        features,
        given.members(table),
        torch.from_numpy(x[:, varies]),
        tuple(np.array(inputs)[varies].tolist()),
        twos,
    )
