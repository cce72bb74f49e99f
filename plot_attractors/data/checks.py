"""What data sets refuse: numbers that make no sense, and files that cannot be read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

__all__ = ["as_bits", "as_rows", "check_whole", "read_array", "reading"]


def check_whole(what: str, value: object, least: int = 1, most: int | None = None) -> None:
    """Raise ValueError where a value is not a whole number from `least` to `most`."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or value < least or (most is not None and value > most):  # type: ignore[operator]
        allowed = "a positive whole number" if least == 1 else f"a whole number from {least} up"
        if most is not None:
            allowed = f"a whole number from {least} to {most}"
        raise ValueError(f"{what} must be {allowed}, not {value!r}")


@contextmanager
def reading(path: Path, what: str) -> Iterator[None]:
    """Turn whatever a library raises for a damaged or foreign file into a ValueError, a sentence
    that names the file, what it was read as, and the first line of the reason.
    """
    try:
        yield
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ValueError(f"cannot read {str(path)!r} as {what}: {reason}") from error


def read_array(path: Path) -> Any:
    """The array of numbers of an npy file."""
    if path.suffix.lower() != ".npy" or not path.is_file():
        raise ValueError(
            f"there is no file {str(path)!r} of one array, as numpy.save writes (.npy)"
        )
    with reading(path, "an array"):
        array: Any = np.load(path, allow_pickle=False)
        if array.dtype.kind not in "buif":
            raise ValueError(f"it holds {array.dtype}, which are no real numbers")
    return array


def as_rows(values: Any, columns: int) -> Tensor:
    """(n, columns) float32 of rows of numbers; ValueError where there are more columns or fewer."""
    array = np.asarray(values)
    if array.dtype.kind not in "buif" or array.ndim != 2 or array.shape[1] != columns:
        raise ValueError(
            f"these inputs are rows of {columns} numbers each, not {array.dtype} of the shape "
            f"{array.shape}"
        )
    return torch.from_numpy(array.astype(np.float32))


def as_bits(values: Any, columns: int, optional: bool = False) -> Tensor:
    """(n, columns) float32 of rows of 0, 1 and, where they are `optional`, NaN; else ValueError."""
    x = as_rows(values, columns)
    wrong = (x != 0) & (x != 1) & ~(x.isnan() & optional)
    if wrong.any():
        row, column = wrong.nonzero()[0].tolist()
        raise ValueError(
            f"these inputs are 0 or 1, and number {column + 1} of row {row + 1} is "
            f"{float(x[row, column]):g}"
        )
    return x
