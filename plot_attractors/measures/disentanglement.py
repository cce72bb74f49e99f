"""Whether parts of a sentence and factors of its meaning belong to each other, one to one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from plot_attractors.measures._arguments import Floats, Integers, feature_matrix, why_equal
from plot_attractors.measures._counts import number_values, plug_in_information


class Gap(NamedTuple):
    """(I₁ − I₂) / H: its mean, and that of each factor or symbol, NaN where that is constant.

    ``reason``: why ``value`` is NaN, otherwise "".
    """

    value: float
    each: Floats
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
    numbers, codes, reason = _codes(symbols, factors, categorical)
    return _gap(numbers, codes, reason)


def symbol_disentanglement(
    symbols: ArrayLike, factors: ArrayLike, categorical: Sequence[bool] | None = None
) -> Gap:
    """Mean over symbols of (I₁ − I₂) / H(symbol), of those that vary: the two greatest
    I(symbol; factor), I₂ = 0 if there is one factor. Posdis, of what stands at each position or in
    each group; bosdis, of which tokens occur. Arguments as of `mutual_information_gap`.

    Source: Chaabouni et al. (2020), "Compositionality and generalization in emergent languages".
    """
    numbers, codes, reason = _codes(symbols, factors, categorical)
    return _gap(codes, numbers, reason)


def _codes(
    symbols: ArrayLike, factors: ArrayLike, categorical: Sequence[bool] | None
) -> tuple[Integers, Integers, str]:
    """Symbols and factors as numbers, and why they tell nothing, or ""."""
    parts = np.asarray(symbols, dtype=np.float64)
    meaning, kinds = feature_matrix(factors, categorical)
    codes = number_values(meaning, kinds)
    reason = why_equal(parts, "sentences", "symbols") or why_equal(codes, "features", "features")
    return number_values(parts, (True,) * parts.shape[1]), codes, reason


def _gap(tell: Integers, told: Integers, reason: str) -> Gap:
    """The gap of each column that is told, over the columns that tell of it."""
    if reason:
        return Gap(math.nan, np.empty(0), reason)
    information, entropy = plug_in_information(tell, told)
    best = np.sort(np.concatenate([np.zeros((1, len(entropy))), information]), axis=0)
    none = np.full(len(entropy), np.nan)
    gap = np.divide(best[-1] - best[-2], entropy, out=none, where=entropy > 0)
    return Gap(float(np.nanmean(gap)), gap, "")
