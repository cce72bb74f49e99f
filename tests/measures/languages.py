"""Languages of a known kind, for tests of measures."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def grid(features: int = 3, values: int = 3, copies: int = 1) -> Array:
    """All combinations of feature values, (values ** features · copies, features)."""
    return np.array(list(itertools.product(range(values), repeat=features)) * copies, dtype=float)


def spelled(features: Array) -> Array:
    """The fully compositional language: one token for every feature value."""
    values = int(features.max()) + 1
    return np.eye(values)[features.astype(int)].reshape(len(features), -1)


def random_language(n: int, seed: int, width: int = 6) -> tuple[Array, Array]:
    """Sentences (n, width), and three features that they tell nothing of."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, 2, (n, width)), rng.integers(0, 3, (n, 3)).astype(float)
