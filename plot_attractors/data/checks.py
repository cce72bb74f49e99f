"""What data sets refuse: files that cannot be read, other inputs than theirs, and data that a run
was not trained on.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.sparse import load_npz
from torch import Tensor

__all__ = ["as_bits", "as_rows", "differences", "digest", "digests", "read_array", "reading"]


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


def _idx(path: Path) -> np.ndarray[Any, Any]:
    """Bytes after a header of 4 bytes, the last their dimensions, and 4 for the size of each."""
    content = path.read_bytes()
    if path.suffix == ".gz":
        content = gzip.decompress(content)
    if content[2] != 8:
        raise ValueError("its numbers are no bytes")
    shape = np.frombuffer(content, ">i4", content[3], 4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * len(shape)).reshape(shape).copy()


ARRAYS: dict[str, Callable[[Path], Any]] = {
    ".npy": partial(np.load, allow_pickle=False),
    ".npz": lambda path: load_npz(path).toarray(),
    ".pt": lambda path: torch.load(path, weights_only=True).numpy(),
    "ubyte": _idx,
}


def array_kind(path: Path) -> str:
    """The key of `ARRAYS` of a file that may hold an array, by its name; of others no key."""
    return "ubyte" if path.name.removesuffix(".gz").endswith("ubyte") else path.suffix.lower()


def read_array(path: Path) -> Any:
    """The array of numbers of a file of numpy (npy), scipy.sparse (npz), torch (pt), or MNIST
    (idx, whose names end in ubyte or ubyte.gz).
    """
    kind = array_kind(path)
    with reading(path, "an array, as of numpy.save, scipy.sparse.save_npz or torch.save"):
        if path.stat() and kind not in ARRAYS:
            raise ValueError(
                "of a table of a label and pixels, numpy.save('pixels.npy', pandas.read_csv(file)"
                ".iloc[:, 1:].to_numpy('uint8').reshape(-1, 28, 28)) makes one"
            )
        array: Any = ARRAYS[kind](path)
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


def digests(data: Any) -> dict[str, str]:
    """The digest of each part of a data set by its name, as its method ``loaded_parts`` has them,
    see `plot_attractors.data.BinaryTable`; none of data that a program makes by its settings.
    """
    parts = getattr(data, "loaded_parts", dict)
    return {name: digest(value) for name, value in parts().items()}


def differences(then: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Names of the parts that differ; parts that only one of both has are not compared."""
    return sorted(name for name in then.keys() & now.keys() if then[name] != now[name])


def digest(value: Any) -> str:
    """SHA-256 of text, numbers, tensors and arrays, in lists, tuples and dictionaries."""
    sha = hashlib.sha256()

    def add(part: Any) -> None:
        if isinstance(part, Mapping):
            for name, item in part.items():
                sha.update(f"{name}:".encode())
                add(item)
        elif isinstance(part, list | tuple):
            sha.update(f"({len(part)}".encode())
            for item in part:
                add(item)
        elif isinstance(part, Tensor):
            add(part.detach().cpu().numpy())
        elif isinstance(part, np.ndarray):
            sha.update(f"{part.shape} {part.dtype.str}".encode())
            sha.update(part.tobytes())
        else:
            sha.update(f"{type(part).__name__} {part!r},".encode())

    add(value)
    return sha.hexdigest()
