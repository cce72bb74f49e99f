"""Whether parts of a sentence and factors of its meaning belong to each other, one to one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from plot_attractors.measures._arguments import Floats, feature_matrix, why_equal
from plot_attractors.measures._counts import BINS, number_values, plug_in_information


class DCI(NamedTuple):
    """Disentanglement, completeness and informativeness, each in [0, 1].

    - ``importance``: (P, F) I(symbol; factor), bits, plug-in;
    - ``reason``: why the three are NaN, otherwise "".
    """

    disentanglement: float
    completeness: float
    informativeness: float
    importance: Floats
    reason: str


class Gap(NamedTuple):
    """The mutual information gap: its mean over factors, and (F,) that of each, NaN if constant."""

    value: float
    per_factor: Floats
    reason: str


def dci(symbols: ArrayLike, factors: ArrayLike, categorical: Sequence[bool] | None = None) -> DCI:
    """Disentanglement, completeness and informativeness, by mutual information.

    With R_pk = I(symbol p; factor k) in the place of a regressor's importances:

    - disentanglement: Σ_p (Σ_k R_pk / ΣR) (1 − H_F(R_p· / Σ_k R_pk)), H_F the entropy to base F: 1
      if every symbol tells of one factor, 0 if each tells of all alike. With one factor it is 1;
    - completeness: mean over factors of 1 − H_P(R_·k / Σ_p R_pk), to base P: 1 if every factor is
      told by one symbol. A factor that nothing is told of has 0;
    - informativeness: mean over factors of I(all symbols; k) / H(k): 1 if sentences tell all. The
      source has a predictor's error here. It is `compositionality.mutual_information`.

    Ceiling 1 of all three for a language that spells out independent factors. Where factors depend
    on each other, as levels of a tree do, a symbol of one tells of others, too, and a language that
    says less may have more. The floor is not 0: plug-in information of few inputs is too high, as
    `shuffled_null` shows.

    Args:
        symbols: (N, P) whole numbers, which token stands in each group (or at each position); one
            that stands for "nothing" is a symbol, too.
        factors: (N, F), NaN or −1 for "no value", a category of its own; continuous ones are put
            into ten quantile bins.
        categorical: which factors are categorical; None: all.

    Source: Eastwood & Williams (2018), "A framework for the quantitative evaluation of disentangled
    representations".
    """
    found = _information(symbols, factors, categorical)
    if isinstance(found, str):
        return DCI(math.nan, math.nan, math.nan, np.empty((0, 0)), found)
    information, whole, entropy = found
    varies = entropy > 0
    informativeness = float((whole[varies] / entropy[varies]).mean())
    told = information.sum()
    if told <= 0:
        reason = "symbols tell nothing of any factor"
        return DCI(math.nan, math.nan, informativeness, information, reason)
    of_symbol, of_factor = information.sum(1), information.sum(0)[varies]
    disentanglement = float(of_symbol @ _concentration(information) / told)
    alone = _concentration(information.T[varies])
    completeness = float(np.where(of_factor > 0, alone, 0.0).mean())
    return DCI(disentanglement, completeness, informativeness, information, "")


def mutual_information_gap(
    symbols: ArrayLike, factors: ArrayLike, categorical: Sequence[bool] | None = None
) -> Gap:
    """MIG: mean over factors k of (I₁ − I₂) / H(k), of those that vary; plug-in, in [0, 1].

    I₁ and I₂ are the greatest and the second greatest I(symbol; k), I₂ = 0 if there is one symbol.
    1 if every factor is told by one symbol and by no other; 0 if nothing is told, or as much by
    two. Arguments as of `dci`. It is `positional_disentanglement` with symbols and factors
    exchanged.

    Source: Chen, Li, Grosse & Duvenaud (2018), "Isolating sources of disentanglement in variational
    autoencoders".
    """
    found = _information(symbols, factors, categorical)
    if isinstance(found, str):
        return Gap(math.nan, np.empty(0), found)
    information, _, entropy = found
    best = np.sort(np.concatenate([np.zeros((1, len(entropy))), information]), axis=0)
    none = np.full(len(entropy), np.nan)
    gap = np.divide(best[-1] - best[-2], entropy, out=none, where=entropy > 0)
    return Gap(float(np.nanmean(gap)), gap, "")


def _information(
    symbols: ArrayLike, factors: ArrayLike, categorical: Sequence[bool] | None
) -> tuple[Floats, Floats, Floats] | str:
    """(P, F) plug-in information of each symbol, (F,) of all together, and (F,) entropies of
    factors, or why there is none.
    """
    parts = np.asarray(symbols, dtype=np.float64)
    meaning, kinds = feature_matrix(factors, categorical)
    codes, _ = number_values(meaning, kinds, BINS)
    reason = why_equal(parts, "sentences", "symbols") or why_equal(codes, "features", "features")
    if reason:
        return reason
    numbers, _ = number_values(parts, (True,) * parts.shape[1], None)
    information, _, entropy = plug_in_information(numbers, codes)
    together = np.unique(numbers, axis=0, return_inverse=True)[1].reshape(-1, 1)
    return information, plug_in_information(together, codes)[0][0], entropy


def _concentration(rows: Floats) -> Floats:
    """(n,) 1 − the entropy of each row of (n, m), normalised, to base m; 1 where m = 1."""
    n, m = rows.shape
    if m == 1:
        return np.ones(n)
    total = rows.sum(1, keepdims=True)
    p = np.divide(rows, total, out=np.full((n, m), 1 / m), where=total > 0)
    logs = np.log(p, out=np.zeros((n, m)), where=p > 0)
    return 1 + (p * logs).sum(1) / math.log(m)
