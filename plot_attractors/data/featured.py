"""What a table tells of inputs that are not its own columns: features of images and of vectors."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from plot_attractors.data import columns as tables
from plot_attractors.data.batch import Batch, Members
from plot_attractors.data.columns import Columns
from plot_attractors.data.features import Feature

__all__ = ["FILE", "Featured", "features_of", "rows_of"]

FILE = "file"  # column that names an image


class Featured(Members):
    """Inputs with features that a table told, categorical or continuous.

    ``values``: (N, F) float32, as of `feature_values`; ``features``: the F features.
    """

    values: Tensor

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


def rows_of(table: Path, names: list[str], count: int, inputs: str, what: str) -> Columns:
    """The table's rows in the order of the inputs, by the column ``file`` where these have names;
    `what` they are, and the file `inputs` that holds them, stand in sentences.
    """
    if table.suffix.lower() == ".npz":
        raise ValueError(f"{table.name} is no table with named columns: save it as CSV or Parquet")
    columns = tables.read_columns(table)
    frame, where = columns.frame, columns.name
    if not names:
        if len(frame) != count:
            raise ValueError(
                f"{where} has {len(frame)} rows and {inputs} {count} {what}: each needs one row"
            )
        return Columns(frame.drop(columns=FILE, errors="ignore"), table)
    if FILE not in frame.columns:
        raise ValueError(
            f"{where} has no column {FILE!r}, which says what image in {inputs} a row is about"
        )
    if (blank := frame[FILE].isna()).any():
        row = columns.row(int(blank.argmax()))
        raise ValueError(f"{row} of {where} names no {FILE}: each row is about one image")
    listed = frame[FILE].astype(str).str.replace("\\", "/").str.removeprefix("./")
    if (again := listed[listed.duplicated()]).any():
        raise ValueError(f"{where} has more than one row for {again.iloc[0]!r}: each needs one")
    if missing := sorted(set(names) - set(listed)):
        near = tables.suggestion(missing[0], list(listed))
        raise ValueError(f"{where} has no row for {missing[0]!r}{near}")
    if unknown := sorted(set(listed) - set(names)):
        raise ValueError(f"{where} has a row for {unknown[0]!r}, which is not in {inputs}")
    ordered = frame.set_index(listed).loc[names].drop(columns=FILE).reset_index(drop=True)
    return Columns(ordered, table)


def features_of(
    columns: Columns, names: tuple[str, ...], continuous: tuple[str, ...]
) -> tuple[tuple[Feature, ...], Tensor]:
    """The features that columns hold, and their values (N, F), NaN where they are missing.

    A column is continuous where it holds numbers that are not whole, or `continuous` names it.
    """
    pairs = [_feature(columns, name, name in continuous) for name in names]
    values = np.empty((len(columns.frame), len(pairs)), np.float32)
    for k, (_, column) in enumerate(pairs):
        values[:, k] = column
    return tuple(feature for feature, _ in pairs), torch.from_numpy(values)


def _feature(columns: Columns, name: str, continuous: bool) -> tuple[Feature, Any]:
    column, where = columns.frame[name], f"column {name!r} of {columns.name}"
    known = column.dropna()
    dtype = column.dtype
    numbers = pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_bool_dtype(dtype)
    if not len(known):
        raise ValueError(f"{where} is empty: leave it out with ignore")
    if continuous and not numbers:
        raise ValueError(f"{where} is named as continuous, but holds {known.iloc[0]!r}")
    if numbers and np.isinf(known.to_numpy(float)).any():
        raise ValueError(f"{where} holds infinity: numbers are finite, or missing")
    if continuous or (numbers and (known % 1 != 0).any()):
        return Feature(name), column.to_numpy(np.float32, na_value=np.nan)
    codes, outcomes = columns.codes(name)
    return Feature(name, outcomes), np.where(codes < 0, np.nan, codes)
