"""Digests of what was loaded: whether the data of a run are still those of its training."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import Tensor

__all__ = ["differences", "digest", "digests"]


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
