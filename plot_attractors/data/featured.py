"""What a user's own tables, images and vectors have in common: rows, their names and features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from plot_attractors.data.batch import Batch, Feature, Members
from plot_attractors.data.columns import Columns, names_in, read_columns

__all__ = ["MOST", "Featured", "features_beside", "features_of", "rows_of"]

FILE = "file"  # column that names an image
MOST = 1e30  # of a number: its square and differences are told in single precision


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


def rows_of(
    table: Path, names: list[str], count: int, inputs: str, texts: Sequence[str] = ()
) -> Columns:
    """The table's rows in the order of the `count` inputs of a file, by the column ``file`` where
    these have `names`; `texts` as of `read_columns`.
    """
    columns = read_columns(table, (FILE, *texts))
    frame = columns.frame
    if not names:
        if len(frame) != count:
            raise ValueError(
                f"{columns.name} has {len(frame)} rows, and {inputs} {count}: each needs one"
            )
        return replace(columns, frame=frame.drop(columns=FILE, errors="ignore"))
    columns.require([FILE])
    files = frame[FILE].astype("string").fillna("").str.replace("\\", "/").str.removeprefix("./")
    if sorted(files) != sorted(names):
        odd = sorted({*files} ^ {*names} or {*files[files.duplicated()]})
        raise ValueError(
            f"{columns.name} needs one row for each image of {inputs}, by its column {FILE!r}: see "
            f"{odd[0]!r}"
        )
    ordered = frame.set_index(files).loc[names].drop(columns=FILE).reset_index(drop=True)
    return replace(columns, frame=ordered)


def features_beside(
    columns: Columns, labels: Sequence[str], continuous: Sequence[str], others: Sequence[str]
) -> tuple[tuple[Feature, ...], Tensor]:
    """As `features_of`, of a table with a row an input: of the columns in `labels`, or of all but
    the `others`.
    """
    rest = [name for name in columns.frame.columns if name not in others]
    chosen = names_in(labels) or columns.without_numbering(rest)
    return features_of(columns, [*dict.fromkeys((*chosen, *continuous))], continuous)


def features_of(
    columns: Columns, names: Sequence[str], continuous: Sequence[str] | None
) -> tuple[tuple[Feature, ...], Tensor]:
    """The features that columns hold, and their values (N, F), NaN where they are missing.

    A column is continuous where it holds numbers that are not whole, or `continuous` names it;
    where that is None, none is.
    """
    pairs = [_feature(columns, name, continuous) for name in names]
    values = np.empty((len(columns.frame), len(pairs)), np.float32)
    for k, (_, column) in enumerate(pairs):
        values[:, k] = column
    return tuple(feature for feature, _ in pairs), torch.from_numpy(values)


def _feature(columns: Columns, name: str, continuous: Sequence[str] | None) -> tuple[Feature, Any]:
    named = name in (continuous or ())
    codes, outcomes = columns.codes(name)
    numeric = named or columns.is_numeric(name)
    if numeric and not pd.api.types.is_bool_dtype(columns.frame[name].dtype):
        number = columns.numbers(name)
        if (large := np.abs(number) > MOST).any():
            raise ValueError(
                f"{columns.column(name)} has {number[large][0]:g} in {columns.row(large)}: numbers "
                f"are finite and at most {MOST:g}; divide the column, or empty the cell"
            )
        if named or (continuous is not None and (number[~np.isnan(number)] % 1 != 0).any()):
            return Feature(name), number.astype(np.float32)
    return Feature(name, outcomes), np.where(codes < 0, np.nan, codes)
