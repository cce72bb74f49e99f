"""A user's own table of 0/1 columns, checked column by column."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from plot_attractors.data.batch import Batch, split_rows
from plot_attractors.data.checks import as_bits
from plot_attractors.data.columns import (
    MISSING,
    check_roles,
    column_names,
    is_number,
    listed,
    read_columns,
)
from plot_attractors.data.featured import Featured, features_of
from plot_attractors.data.features import Feature
from plot_attractors.language import pairs_to_fit

__all__ = ["SAMPLE", "BinaryTable", "Missing", "read_table"]

logger = logging.getLogger(__name__)

Missing = Literal["refuse", "ignore"]
SAMPLE = Path(__file__).parent / "animals.csv"  # 163 animals, written for this project


@dataclass(frozen=True, eq=False)
class BinaryTable(Featured):
    """A table of 0/1 columns with categorical labels, some rows of which may be held out.

    - ``name``: of the file, for messages and titles;
    - ``x``: (rows, bits) int8, 0 or 1, and −1 where a value is missing; ``columns``: their names;
    - ``row_names``: a name for each row, or none at all;
    - ``values``: (rows, F) float32 codes of labels, NaN where one is missing; ``features``: the F
      labels, the outcomes of each the values that the codes 0, 1, … stand for, as text;
    - ``members``: for each split the numbers of its rows, (n,) int64;
    - ``missing_values``: words for missing values, in other tables, too.
    """

    name: str
    x: Tensor
    columns: tuple[str, ...]
    row_names: tuple[str, ...]
    values: Tensor
    features: tuple[Feature, ...]
    members: dict[str, Tensor]
    missing_values: tuple[str, ...] = MISSING

    @property
    def inputs(self) -> str:  # type: ignore[override]
        """What they are, in words."""
        return f"{self.bits} columns of 0 and 1 ({listed(self.columns)})"

    @property
    def missing(self) -> float:  # type: ignore[override]
        """Which part of the values is missing."""
        return float((self.x < 0).float().mean())

    @property
    def bits(self) -> int:
        """Number of 0/1 columns."""
        return self.x.shape[1]

    @property
    def input_shape(self) -> tuple[int, ...]:
        """``(bits,)``."""
        return (self.bits,)

    @cached_property
    def distinct(self) -> int:
        """Number of different rows, labels apart."""
        return len(self.x.unique(dim=0))

    @property
    def pairs(self) -> int:
        """Exclusive pairs of tokens that make as many sentences as there are different rows."""
        return len(pairs_to_fit(self.distinct))

    def rows(self, y: Tensor) -> Tensor:
        """(n, bits) float32 the rows of these numbers (n,), NaN where a value is missing."""
        x = self.x[y]
        return x.float().masked_fill(x < 0, torch.nan)

    def read(self, path: Path, names: str = "") -> tuple[Tensor, tuple[str, ...]]:
        """(n, bits) the rows of another table with the same columns, or with those that they were
        coded of; and names of the rows, where a column `names` has them, or an unnamed first one.

        Raises ValueError, naming the column and row, for what is missing or not 0 and 1.
        """
        table = read_columns(path, self.missing_values, [names])
        if not len(table.frame):
            raise ValueError(f"{path.name} has no rows: at least one is needed")
        optional = bool((self.x < 0).any())
        bits = [table.bits(column, optional) for column in self.columns]
        x = torch.from_numpy(np.stack(bits, 1))
        return x.float().masked_fill(x < 0, torch.nan), table.texts(names)

    def as_inputs(self, values: Any) -> Tensor:
        """(n, bits) float32 of rows of 0, 1 and, where any are missing here, NaN (n, bits)."""
        return as_bits(values, self.bits, bool((self.x < 0).any()))

    def at(self, y: Tensor) -> Batch:
        """The rows of these numbers (n,), from 0."""
        return Batch(x=self.rows(y), y=y, labels=self.labels[y])

    def loaded_parts(self) -> dict[str, Any]:
        """What was loaded, by the names by which a difference is told (`data.digests`)."""
        return {
            "values": self.x, "columns": self.columns, "names": self.row_names,
            "labels": (self.features, self.labels), "splits": self.members,
        }  # fmt: skip


def read_table(
    path: str | Path,
    labels: str | Sequence[str] = (),
    *,
    names: str = "",
    one_hot: str | Sequence[str] = (),
    at_least: str | Sequence[str] = (),
    ignore: str | Sequence[str] = (),
    held_out: str = "",
    held_out_fraction: float = 0.0,
    seed: int = 0,
    missing: Missing = "refuse",
    missing_values: str | Sequence[str] = MISSING,
) -> BinaryTable:
    """Read a table of 0/1 columns from a CSV (or TSV), Excel or Parquet file.

    Every column is an input of 0s and 1s (or of true and false, yes and no, y and n, t and f,
    present and absent, + and -, which the log says) unless an argument names it. Columns of which
    all rows are alike are left out, and so are ratings and other numbers that are not whole, which
    the log says, too.

    - ``labels``: categorical columns of any type; a missing label becomes −1, unspecified;
    - ``names``: the column that names the rows, by default an unnamed first one;
    - ``one_hot``: columns of any type that become a 0/1 column for each of their values, such as
      ``legs=4``; of two values, one column for the second;
    - ``at_least``: columns of numbers that become a 0/1 column for each of their values but the
      least, ``legs>=4`` (a thermometer code), of ten values at most. A number among them
      is for all columns of counts that nothing else names, as how many raters gave a feature:
      ``at_least=2`` makes them ``flies>=2``, and leaves out, as the log says, those that no row or
      every row reaches, and columns of other numbers, which are no features;
    - ``ignore``: columns to leave out;
    - ``held_out``: a column of 0/1, or of ``train``/``held_out``, that marks rows to hold out;
    - ``held_out_fraction``: without such a column, the share of rows to hold out, by ``seed``;
    - ``missing``: whether missing values are refused, or left out of every likelihood ("ignore");
      ``missing_values``: the words for them, of inputs and labels, beside empty cells; a dash is
      none in a table that holds a plus, but beside numbers or where it is asked for.

    Several names may be given as one string, separated by commas. The first line names the columns.

    Raises ValueError, naming column and row, where the file cannot be read, a value is missing or
    not binary, rows are pairs of a name and a feature, a row has no value at all or too few cells,
    a column is unnamed or unknown or numbers the rows, or a split is empty.
    """
    path = Path(path)
    label_names = column_names(labels)
    roles = [*label_names, *column_names(ignore), *filter(None, (names, held_out))]
    steps = [name for name in column_names(at_least) if is_number(name)]
    if len(steps) > 1:
        raise ValueError(f"at_least has {len(steps)} numbers, {', '.join(steps)}: give one")
    coded = [*column_names(one_hot), *(n for n in column_names(at_least) if n not in steps)]
    check_roles([*roles, *coded], held_out, held_out_fraction)
    table = read_columns(path, missing_values, [names])
    if not len(table.frame):
        raise ValueError(f"{path.name} has no rows: at least two are needed")
    table.require([*roles, *coded])
    table.without_numbering([n for n in table.frame.columns if n not in (*roles, *coded)])
    rows = table.names_of_rows(names, concepts=True)
    optional = missing == "ignore"
    inputs = table.coded(column_names(one_hot), column_names(at_least), roles)
    inputs = table.without_measures(inputs)
    if not inputs:
        raise ValueError(
            f"{path.name} has no 0/1 column besides those named in labels, names, ignore or "
            "held_out"
        )
    table.tell_words(inputs)
    x = np.stack([table.bits(column, optional) for column in inputs], 1)
    varies = (x == 0).any(axis=0) & (x == 1).any(axis=0)
    if not varies.all():
        gone = listed(np.array(inputs)[~varies].tolist())
        if not varies.any():
            raise ValueError(f"all rows of {path.name} are alike: nothing varies in {gone}")
        logger.warning(
            "%d of %d columns of %s are the same in every row, and are left out: %s",
            int((~varies).sum()), len(inputs), path.name, gone,
        )  # fmt: skip
        x, inputs = x[:, varies], np.array(inputs)[varies].tolist()
    if (empty := (x < 0).all(axis=1)).any():
        raise ValueError(
            f"{table.row(int(empty.argmax()))} of {path.name} has no value at all: remove it"
        )
    features, values = features_of(table, label_names, None)
    members = split_rows(table.held_out(held_out, held_out_fraction, seed))
    return BinaryTable(
        path.name, torch.from_numpy(x), tuple(inputs), rows, values, features, members,
        table.missing_values,
    )  # fmt: skip
