"""Checks of sentences (N, width) and features (N, F) of N inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.intp]

MISSING = -1.0


def matrix(x: ArrayLike, name: str) -> Floats:
    """(N, M) float64, of anything that NumPy reads as a matrix of numbers."""
    array = np.asarray(x)
    if array.ndim != 2:
        raise ValueError(
            f"{name} must be a matrix with one row per input, not an array of shape {array.shape}."
        )
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"{name} must hold numbers, not {array.dtype}: give names a number each."
        ) from None


def binary(sentences: ArrayLike) -> Floats:
    array = matrix(sentences, "sentences")
    other = array[(array != 0) & (array != 1)]
    if other.size:
        raise ValueError(
            f"sentences must hold only 0 and 1 (multi-hot vectors of tokens), not {other[0]:g}: "
            "sample or threshold probabilities first."
        )
    return array


def feature_matrix(
    features: ArrayLike, categorical: Sequence[bool] | None, n: int | None = None
) -> tuple[Floats, tuple[bool, ...]]:
    """(N, F) features, −1 for missing categorical values; and which features are categorical."""
    array = matrix(features, "features")
    if n is not None:
        check_rows(n, len(array))
    given = (True,) * array.shape[1] if categorical is None else categorical
    kinds = tuple(bool(kind) for kind in given)
    if len(kinds) != array.shape[1]:
        raise ValueError(
            f"categorical has {len(kinds)} entries for {array.shape[1]} features: give one each."
        )
    discrete = np.array(kinds, dtype=bool)
    wrong = np.flatnonzero(~discrete & ~np.isfinite(array).all(0))
    if len(wrong):
        raise ValueError(
            f"continuous features must be finite, but column {wrong[0]} is not: drop these inputs, "
            "or bin the feature and make it categorical, where NaN means no value."
        )
    return np.where(discrete & np.isnan(array), MISSING, array), kinds


def check_rows(sentences: int, features: int) -> None:
    if sentences != features:
        raise ValueError(
            f"sentences have {sentences} rows and features {features}: give one row per "
            "input in both."
        )


def check_at_least(name: str, value: int, least: int) -> None:
    if value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, not {value}.")


def why_equal(rows: NDArray[Any], name: str, columns: str) -> str:
    """Why rows (N, M) do not differ, or "" if some do."""
    if len(rows) == 0:
        return "there are no inputs"
    if rows.shape[1] == 0:
        return f"there are no {columns}"
    return f"all {name} are equal" if bool((rows == rows[0]).all()) else ""
