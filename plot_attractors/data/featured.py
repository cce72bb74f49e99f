"""What a table tells of inputs that are not its own columns: features of images and of vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from plot_attractors.data import columns as tables
from plot_attractors.data.batch import Batch, Members
from plot_attractors.data.columns import MISSING, Columns
from plot_attractors.data.features import Feature

__all__ = ["FILE", "MOST", "Featured", "features_of", "rows_of"]

FILE = "file"  # column that names an image
MOST = 1e30  # of a number: its square and differences are told in single precision


class Featured(Members):
    """Inputs of a user's own, with features that a table told, categorical or continuous.

    - ``name``: of the file or folder; ``row_names``: a name for each row, or none at all;
    - ``values``: (N, F) float32, as of `feature_values`; ``features``: the F features;
    - ``inputs``: what they are, in words; ``missing``: which part of them is missing.
    """

    name: str
    row_names: tuple[str, ...]
    values: Tensor
    inputs: str
    missing = 0.0

    @property
    def summary(self) -> str:
        """What was read, in a line: rows, columns and their kinds, and what is missing."""
        splits = ", ".join(f"{len(rows):,} {split}" for split, rows in self.members.items())
        kinds = [f"{f.kind}, {len(f.outcomes)}" if f.categorical else f.kind for f in self.features]
        labels = [f"{f.name!r} ({kind})" for f, kind in zip(self.features, kinds, strict=True)]
        unknown = float((self.labels < 0).float().mean()) if labels else 0.0
        return "; ".join([
            f"read {self.name}: {len(self.values):,} rows ({splits})",
            self.inputs,
            f"labels {', '.join(labels) or 'none'}",
            f"names {', '.join(self.row_names[:3])}, …" if self.row_names else "no names",
            f"missing {self.missing:.1%} of inputs" + f", {unknown:.1%} of labels" * bool(labels),
        ])  # fmt: skip

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


def rows_of(
    table: Path, names: list[str], count: int, inputs: str, what: str,
    missing_values: Sequence[str] = MISSING, texts: Sequence[str] = (),
) -> Columns:  # fmt: skip
    """The table's rows in the order of the inputs, by the column ``file`` where these have names;
    `what` they are, and the file `inputs` that holds them, stand in sentences. Other arguments as
    of `read_columns`.
    """
    columns = tables.read_columns(table, missing_values, (FILE, *texts))
    frame, where = columns.frame, columns.name
    if not names:
        if len(frame) != count:
            raise ValueError(
                f"{where} has {len(frame)} rows and {inputs} {count} {what}: each needs one row"
            )
        return replace(columns, frame=frame.drop(columns=FILE, errors="ignore"))
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
    return replace(columns, frame=ordered, rows=())


def features_of(
    columns: Columns, names: tuple[str, ...], continuous: tuple[str, ...] | None
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


def _feature(
    columns: Columns, name: str, continuous: tuple[str, ...] | None
) -> tuple[Feature, Any]:
    column, where = columns.frame[name], f"column {name!r} of {columns.name}"
    codes, outcomes = columns.codes(name)
    numbers = columns.is_numeric(name) and not pd.api.types.is_bool_dtype(column.dtype)
    named = name in (continuous or ())
    if named and not numbers:
        raise ValueError(f"{where} is named as continuous, but holds {column.dropna().iloc[0]!r}")
    number = column.to_numpy(float, na_value=np.nan) if numbers else np.zeros(1)
    if (large := np.abs(number) > MOST).any():
        row = int(large.argmax())
        raise ValueError(
            f"{where} has {number[row]:g} in {columns.row(row)}: numbers are finite and at most "
            f"{MOST:g}; divide the column, or empty the cell"
        )
    if named or (continuous is not None and (number[~np.isnan(number)] % 1 != 0).any()):
        return Feature(name), number.astype(np.float32)
    return Feature(name, outcomes), np.where(codes < 0, np.nan, codes)
