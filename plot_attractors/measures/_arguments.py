"""Features (N, F) of N inputs as measures take them, and why a measure has no value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.intp]

MISSING = -1.0


def feature_matrix(
    features: ArrayLike, categorical: Sequence[bool] | None
) -> tuple[Floats, tuple[bool, ...]]:
    """(N, F) features, −1 for missing categorical values; and which features are categorical."""
    array = np.asarray(features, dtype=np.float64)
    kinds = (True,) * array.shape[1] if categorical is None else tuple(categorical)
    return np.where(np.array(kinds, dtype=bool) & np.isnan(array), MISSING, array), kinds


def why_equal(rows: NDArray[Any], name: str, columns: str) -> str:
    """Why rows (N, M) do not differ, or "" if some do."""
    if len(rows) == 0:
        return "there are no inputs"
    if rows.shape[1] == 0:
        return f"there are no {columns}"
    return f"all {name} are equal" if bool((rows == rows[0]).all()) else ""
