"""Normalised pointwise mutual information of tokens with values, and with each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from plot_attractors.measures._arguments import MISSING, Floats, Integers, feature_matrix
from plot_attractors.measures._counts import BINS, indicators, number_values


class BestNPMI(NamedTuple):
    """How closely each token goes with one value of one feature, or with one other token.

    - ``value``: mean over tokens of ``per_token``, NaN left out; ``per_token``: (T,) best NPMI,
      NaN of a token that all sentences have, or none;
    - ``pairs``: (T, V) NPMI; ``feature``, ``level``: (V,) the feature's number and its value, or
      the bin's number (of tokens, their number twice);
    - ``reason``: why ``value`` is NaN, otherwise "".
    """

    value: float
    per_token: Floats
    pairs: Floats
    feature: Integers
    level: Floats
    reason: str


def npmi(first: ArrayLike, second: ArrayLike) -> Floats:
    """(A, B) NPMI(a, b) = log [p(a, b) / (p(a) p(b))] / −log p(a, b), no unit.

    `first` (N, A) and `second` (N, B) tell by 0 and 1 which of N inputs have a and b; p are shares
    of inputs. 1: they occur together or not at all; 0: independently; −1: never together. NaN where
    a or b is in no input or in all, of which nothing can be told.

    Source: Bouma (2009), "Normalized (pointwise) mutual information in collocation extraction".
    """
    a, b = (np.asarray(part, dtype=np.float64) for part in (first, second))
    n = max(len(a), 1)
    both, p, q = a.T @ b / n, a.sum(0)[:, None] / n, b.sum(0)[None] / n
    varies = (p > 0) & (p < 1) & (q > 0) & (q < 1)
    together = varies & (both > 0)
    some = np.where(together, both, 0.5)  # any number whose logarithm is not 0
    pmi = np.log(some / np.where(together, p * q, 1.0))
    return np.where(varies, np.where(together, pmi / -np.log(some), -1.0), np.nan)


def token_value_npmi(
    tokens: ArrayLike, features: ArrayLike, categorical: Sequence[bool] | None = None
) -> BestNPMI:
    """Mean over tokens of their best NPMI with a value of a feature.

    Ceiling 1: every token stands for one value, and the value has no other token. Of a language
    that tells nothing the best of many is above 0 by chance, as `shuffled_null` shows. "No value"
    needs no token, and is left out.

    Args:
        tokens: (N, T) 0 and 1, which tokens a sentence has.
        features: (N, F), NaN or −1 in a categorical column for "no value"; continuous ones are put
            into ten quantile bins.
        categorical: which features are categorical; None: all.
    """
    bags = np.asarray(tokens, dtype=np.float64)
    meaning, kinds = feature_matrix(features, categorical)
    codes, levels = number_values(meaning, kinds, BINS)
    one_hot, feature = indicators(codes)
    level = np.concatenate([np.empty(0), *levels])
    named = ~(np.array(kinds, dtype=bool)[feature] & (level == MISSING))
    feature, level = feature[named], level[named]
    pairs = npmi(bags, one_hot.toarray()[:, named])
    return _best(pairs, feature, level, "no token or no feature varies")


def token_token_npmi(tokens: ArrayLike) -> BestNPMI:
    """Mean over tokens of their best NPMI with another token, of sentences (N, T) of 0 and 1.

    High where tokens go together in fixed expressions; below 0 where they exclude each other.
    """
    bags = np.asarray(tokens, dtype=np.float64)
    pairs = npmi(bags, bags)
    np.fill_diagonal(pairs, np.nan)
    number = np.arange(bags.shape[1])
    return _best(pairs, number, number.astype(np.float64), "no two tokens vary")


def _best(pairs: Floats, feature: Integers, level: Floats, reason: str) -> BestNPMI:
    known = ~np.isnan(pairs)
    best = np.where(known, pairs, -np.inf).max(1, initial=-np.inf)
    best = np.where(known.any(1), best, np.nan)
    if np.isnan(best).all():
        return BestNPMI(math.nan, best, pairs, feature, level, reason)
    return BestNPMI(float(np.nanmean(best)), best, pairs, feature, level, "")
