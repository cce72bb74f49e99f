"""Whether parts of a sentence and factors of its meaning belong to each other, one to one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from plot_attractors.measures._arguments import Floats, feature_matrix, why_equal
from plot_attractors.measures._counts import number_values, plug_in_information


class Gap(NamedTuple):
    """The mutual information gap: its mean over factors, and (F,) that of each, NaN if constant.

    ``reason``: why ``value`` is NaN, otherwise "".
    """

    value: float
    per_factor: Floats
    reason: str


def mutual_information_gap(
    symbols: ArrayLike, factors: ArrayLike, categorical: Sequence[bool] | None = None
) -> Gap:
    """MIG: mean over factors k of (I₁ − I₂) / H(k), of those that vary; plug-in, in [0, 1].

    I₁ and I₂ are the greatest and the second greatest I(symbol; k), I₂ = 0 if there is one symbol.
    1 if every factor is told by one symbol and by no other; 0 if nothing is told, or as much by
    two. The floor is not 0: plug-in information of few inputs is too high, as `shuffled_null`
    shows.

    Args:
        symbols: (N, P) whole numbers, which token stands in each group (or at each position); one
            that stands for "nothing" is a symbol, too.
        factors: (N, F), NaN or −1 for "no value", a category of its own; continuous ones are put
            into ten quantile bins.
        categorical: which factors are categorical; None: all.

    Source: Chen, Li, Grosse & Duvenaud (2018), "Isolating sources of disentanglement in variational
    autoencoders".
    """
    parts = np.asarray(symbols, dtype=np.float64)
    meaning, kinds = feature_matrix(factors, categorical)
    codes = number_values(meaning, kinds)
    reason = why_equal(parts, "sentences", "symbols") or why_equal(codes, "features", "features")
    if reason:
        return Gap(math.nan, np.empty(0), reason)
    numbers = number_values(parts, (True,) * parts.shape[1])
    information, entropy = plug_in_information(numbers, codes)
    best = np.sort(np.concatenate([np.zeros((1, len(entropy))), information]), axis=0)
    none = np.full(len(entropy), np.nan)
    gap = np.divide(best[-1] - best[-2], entropy, out=none, where=entropy > 0)
    return Gap(float(np.nanmean(gap)), gap, "")
