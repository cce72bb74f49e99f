"""Digests of what was loaded: whether the data of a run are still those of its training."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

__all__ = ["Digest", "differences", "digest", "digests"]

BYTES = 1 << 24  # that are hashed at once
FEW = 200  # names that are kept
CLOSE = 1e-3  # of a standard deviation: what another machine may compute otherwise


class Digest(NamedTuple):
    """Of a part of a data set: its size, in words, and names of its columns; SHA-256 of its text,
    whole numbers, and arrays; four sums of each floating point tensor (`_sketch`).
    """

    size: str
    sha256: str
    numbers: list[float]


def digests(data: Any) -> dict[str, Digest]:
    """The digest of each part of a data set, by its name.

    Parts are those of its method ``loaded_parts``, as of `plot_attractors.data.BinaryTable`. A
    user's own data set without one has a part for each attribute that is made of tensors and
    arrays, and the parts of data sets that it holds; what it has besides is not told, and of
    floating point numbers only what `Digest` says: they may be computed, and come out otherwise in
    the last digits on another machine.
    """
    if callable(getattr(data, "loaded_parts", None)):
        return {name: digest(value) for name, value in data.loaded_parts().items()}
    table = dict[str, Digest]()
    for name, value in getattr(data, "__dict__", {}).items():
        if callable(getattr(value, "loaded_parts", None)):
            table |= {f"{name}: {part}": one for part, one in digests(value).items()}
        held = list(_leaves(value))
        lazy = isinstance(getattr(type(data), name, None), cached_property)
        if held and not lazy and all(map(_is_numbers, held)):
            table[name] = digest(value, computed=True)
    return table


def differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Names of the parts that differ, with their sizes where these do; parts that only one of both
    has are not compared.
    """
    names = []
    for name in then.keys() & now.keys():
        a, b = Digest(*then[name]), Digest(*now[name])
        if a.sha256 == b.sha256 and _close(a.numbers, b.numbers):
            continue
        (size, *listed), (other, *present) = a.size.split("\n"), b.size.split("\n")
        gone = ", ".join(sorted({*listed} - {*present})) if present else ""
        told = [f"{size} then, {other} now"] * (size != other) + [f"without {gone}"] * bool(gone)
        names.append(f"{name} ({'; '.join(told)})" if told else name)
    return sorted(names)


def _close(a: list[float], b: list[float]) -> bool:
    if len(a) != len(b):
        return False
    for k in range(0, len(a), 4):
        mean, sd = a[k], a[k + 1]
        scales = sd + 0.01 * abs(mean), sd, 1.0, 1.0
        for x, y, scale in zip(a[k : k + 4], b[k : k + 4], scales, strict=True):
            if not math.isclose(x, y, rel_tol=1e-9, abs_tol=CLOSE * scale + 1e-12):
                return False
    return True


def _is_numbers(value: Any) -> bool:
    array = isinstance(value, np.ndarray) and not value.dtype.hasobject
    return array or isinstance(value, Tensor)


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for part in value:
            yield from _leaves(part)
    else:
        yield value


def _size(value: Any) -> str:
    """Of a matrix 163 x 22, of the splits "130; 33", of names how many there are, and, in a line
    each, which, if they are few.
    """
    held = list(_leaves(value))
    shapes = [" x ".join(map(str, v.shape)) for v in held if isinstance(v, Tensor | np.ndarray)]
    few = 1 < len(held) <= FEW and all(isinstance(v, str) for v in held)
    return "; ".join(shapes) or "\n".join([str(len(held)), *(held if few else ())])


def digest(value: Any, computed: bool = False) -> Digest:
    """Of text, numbers, tensors and arrays, in lists, tuples and dictionaries; of arrays that are
    computed as of tensors.
    """
    sha, numbers = hashlib.sha256(), list[float]()

    def add(part: Any) -> None:
        if isinstance(part, Mapping):
            for name, item in part.items():
                sha.update(f"{name}:".encode())
                add(item)
        elif isinstance(part, list | tuple):
            sha.update(f"({len(part)}".encode())
            for item in part:
                add(item)
        elif isinstance(part, np.ndarray) and not (computed and part.dtype.kind == "f"):
            _hash(sha, part)
        elif isinstance(part, Tensor | np.ndarray):
            x = torch.as_tensor(part).detach().cpu()
            if x.is_floating_point():
                numbers.extend(_sketch(x))
            else:
                _hash(sha, x.numpy())
        else:
            sha.update(f"{type(part).__name__} {part!r},".encode())

    add(value)
    return Digest(_size(value), sha.hexdigest(), numbers)


def _hash(sha: Any, array: np.ndarray[Any, Any]) -> None:
    """Shape, type and numbers of an array, which may lie on disk."""
    sha.update(f"{array.shape} {array.dtype.str}".encode())
    array = np.atleast_1d(array)
    rows = max(1, BYTES * len(array) // max(1, array.nbytes))
    for first in range(0, len(array), rows):
        sha.update(array[first : first + rows].tobytes())


def _sketch(x: Tensor) -> tuple[float, ...]:
    """Mean m, standard deviation sd, Σ ±(x − m) / (sd √n) with fixed signs, which any other order
    changes, and the share of n numbers that are not finite; six digits, which do not depend on the
    number of threads.
    """
    x = x.flatten().double()
    finite = x.isfinite()
    if not finite.any():
        return 0.0, 0.0, 0.0, float(len(x) > 0)
    mean, sd = x[finite].mean(), x[finite].std(correction=0)
    sign = 2 * (torch.arange(len(x)) * 2_654_435_761 >> 31 & 1) - 1
    signed = ((x - mean) * sign)[finite].sum() / len(x) ** 0.5
    lost = 1 - len(x[finite]) / len(x)
    sketch = float(mean), float(sd), float(signed / sd.clamp(min=1e-300)), lost
    return tuple(float(f"{number:.6g}") for number in sketch)
