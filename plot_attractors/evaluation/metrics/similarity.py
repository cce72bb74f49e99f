"""Whether similar inputs get similar sentences: distances, their rank correlation, and its test."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from plot_attractors.evaluation.metrics._arguments import (
    MISSING,
    Floats,
    Integers,
    binary,
    check_at_least,
    feature_matrix,
    matrix,
    why_equal,
)

__all__ = [
    "Similarity",
    "feature_distance",
    "mantel",
    "sentence_distance",
    "topographic_similarity",
    "tree_nodes",
]

_TABLE_SIZE = 4096  # unique sentences of which all distances are kept, at most 16 Mi numbers
_TIE = 1e-12  # correlations that differ by rounding alone are equal


class Similarity(NamedTuple):
    """Rank correlation of two sets of pairwise distances between the same inputs.

    - ``value``: Spearman's ρ, in [−1, 1];
    - ``low``, ``high``: 95 % percentile interval from resampled inputs, NaN without resamples;
    - ``null_mean``, ``null_sd``: mean and standard deviation of ρ over permutations, NaN without
    permutations;
    - ``p_value``: (1 + #{null ≥ value}) / (1 + permutations), one-sided, NaN without permutations;
    - ``n``: inputs; ``pairs``: pairs of inputs that were compared;
    - ``reason``: why ``value`` is NaN, otherwise "".
    """

    value: float
    low: float
    high: float
    null_mean: float
    null_sd: float
    p_value: float
    n: int
    pairs: int
    reason: str


def sentence_distance(sentences: ArrayLike, i: ArrayLike, j: ArrayLike) -> Integers:
    """Σ_k [s_i(k) ≠ s_j(k)]: Hamming distance of the sentences of inputs i and j, bits that differ.

    Args:
        sentences: (N, width) of 0 and 1.
        i, j: indices of inputs, of one shape (…), which is that of the result.

    Raises:
        ValueError: if `sentences` is not a 0/1 matrix, or an index is not one of its rows.
    """
    array = binary(sentences)
    return _hamming(array, *_indices(i, j, len(array)))


def feature_distance(
    features: ArrayLike, i: ArrayLike, j: ArrayLike, categorical: Sequence[bool] | None = None
) -> Floats:
    """Σ_k [f_i(k) ≠ f_j(k)] over categorical features k plus Σ_k |f_i(k) − f_j(k)| over continuous
    ones.

    NaN and −1 in a categorical column both mean "no value", a category of its own.

    Args:
        features: (N, F).
        i, j: indices of inputs, of one shape (…), which is that of the result.
        categorical: which of the F features are categorical (`None`: all).

    Raises:
        ValueError: if shapes do not fit, or a continuous feature is not finite.
    """
    array, kinds = feature_matrix(features, categorical)
    return _difference(array, kinds, *_indices(i, j, len(array)))


def tree_nodes(paths: ArrayLike) -> Floats:
    """(N, nodes) 0/1, which nodes of a tree each of N paths passes through, the root left out.

    `feature_distance` of these is then the number of edges between the ends of two paths, d + d' −
    2c for paths of lengths d and d' that share the first c branches.

    Args:
        paths: (N, depth) branch taken at every level, a whole number; NaN or −1 from where the path
        has ended.

    Raises:
        ValueError: if `paths` is not a matrix of numbers, or a path goes on after its end.
    """
    branches, _ = feature_matrix(paths, None)
    ended = branches == MISSING
    if bool((ended[:, :-1] & ~ended[:, 1:]).any()):
        raise ValueError("a path goes on after its end: NaN or −1 may be followed by nothing else.")
    nodes = [np.zeros((len(branches), 0))]
    for level in range(branches.shape[1]):
        here, node = np.unique(branches[:, : level + 1], axis=0, return_inverse=True)
        passed = np.eye(len(here))[node.reshape(-1)]
        nodes.append(passed[:, here[:, level] != MISSING])
    return np.concatenate(nodes, axis=1)


def topographic_similarity(
    sentences: ArrayLike,
    features: ArrayLike,
    categorical: Sequence[bool] | None = None,
    *,
    max_pairs: int = 200_000,
    seed: int = 0,
    resamples: int = 0,
    permutations: int = 0,
) -> Similarity:
    """Spearman's ρ of `sentence_distance` and `feature_distance` over pairs of inputs, with average
    ranks for ties.

    Also called representational similarity analysis (RSA). Beyond `max_pairs` pairs, that many
    distinct ones are drawn at random, and serve for interval and test, too. The interval resamples
    inputs, because pairs that share an input are dependent; copies of one input are not compared
    with each other, as their distance of zero on both sides would pass for similarity. The test is
    Mantel's: sentences are permuted over inputs.

    Source: Brighton & Kirby (2006), "Understanding linguistic evolution by visualizing the
    emergence of topographic
    mappings"; Kriegeskorte, Mur & Bandettini (2008), "Representational similarity analysis"; Mantel
    (1967), "The detection of disease clustering and a generalized regression approach".

    Args:
        sentences: (N, width) of 0 and 1.
        features: (N, F); NaN or −1 in a categorical column means "no value".
        categorical: which of the F features are categorical (`None`: all).
        max_pairs: most pairs to compare, at least 3.
        seed: of pairs, resamples and permutations.
        resamples: bootstrap samples for the interval (0: none).
        permutations: permuted languages for the test (0: none).

    Raises:
        ValueError: if shapes do not fit, sentences are not 0/1, or a number is out of range.
    """
    words = binary(sentences)
    meaning, kinds = feature_matrix(features, categorical, len(words))
    check_at_least("max_pairs", max_pairs, 3)
    check_at_least("resamples", resamples, 0)
    check_at_least("permutations", permutations, 0)
    n = len(words)
    pair_rng, resample_rng, permutation_rng = np.random.default_rng(seed).spawn(3)
    if n < 3:
        return _undefined(n, n * (n - 1) // 2, "fewer than 3 inputs")
    i, j = _pairs(n, max_pairs, pair_rng)
    if reason := why_equal(words, "sentences", "tokens") or why_equal(
        meaning, "features", "features"
    ):
        return _undefined(n, len(i), reason)
    return _similarity(
        _hamming_levels(words, i, j),
        np.unique(_difference(meaning, kinds, i, j), return_inverse=True)[1].reshape(-1),
        (i, j),
        n,
        ("all sentences are equally far apart", "all features are equally far apart"),
        (resamples, resample_rng),
        (permutations, permutation_rng),
    )


def mantel(
    distance_a: ArrayLike,
    distance_b: ArrayLike,
    permutations: int = 1000,
    seed: int = 0,
    *,
    resamples: int = 0,
) -> Similarity:
    """Spearman's ρ between two distance matrices of the same inputs, and Mantel's test, which
    permutes `distance_a`.

    As `topographic_similarity`, for any distances, over all pairs; diagonals are not used.

    Source: Mantel (1967), "The detection of disease clustering and a generalized regression
    approach".

    Args:
        distance_a, distance_b: (N, N), finite and symmetric.
        permutations: of inputs, for the test (0: none).
        seed: of resamples and permutations.
        resamples: bootstrap samples for the interval (0: none).

    Raises:
        ValueError: if the matrices are not square, symmetric, finite and of one size, or a number
        is negative.
    """
    a, b = _square(distance_a, "distance_a"), _square(distance_b, "distance_b")
    if len(a) != len(b):
        raise ValueError(
            f"distance_a is of {len(a)} inputs and distance_b of {len(b)}: give distances between "
            f"the same inputs."
        )
    check_at_least("resamples", resamples, 0)
    check_at_least("permutations", permutations, 0)
    n = len(a)
    _, resample_rng, permutation_rng = np.random.default_rng(seed).spawn(3)
    if n < 3:
        return _undefined(n, n * (n - 1) // 2, "fewer than 3 inputs")
    i, j = np.triu_indices(n, 1)
    levels = np.zeros((n, n), dtype=np.int32)
    levels[i, j] = levels[j, i] = np.unique(a[i, j], return_inverse=True)[1].reshape(-1)
    return _similarity(
        _table_levels(levels, np.arange(n), i, j),
        np.unique(b[i, j], return_inverse=True)[1].reshape(-1),
        (i, j),
        n,
        ("all distances in distance_a are equal", "all distances in distance_b are equal"),
        (resamples, resample_rng),
        (permutations, permutation_rng),
    )


def _square(x: ArrayLike, name: str) -> Floats:
    array = matrix(x, name)
    if array.shape[0] != array.shape[1]:
        raise ValueError(
            f"{name} must be a square matrix of distances between inputs, not of shape "
            f"{array.shape}."
        )
    if not bool(np.isfinite(array).all()):
        raise ValueError(f"{name} must hold finite distances: leave out inputs without one.")
    if not np.allclose(array, array.T):
        raise ValueError(f"{name} must be symmetric: the distance of i from j is that of j from i.")
    return array


def _indices(i: ArrayLike, j: ArrayLike, n: int) -> tuple[Integers, Integers]:
    first, second = np.asarray(i), np.asarray(j)
    if first.shape != second.shape:
        raise ValueError(
            f"i and j must have one shape, an index each for every pair, not {first.shape}, "
            f"{second.shape}."
        )
    for index in (first, second):
        if index.size and (
            index.dtype.kind not in "iu" or int(index.min()) < 0 or int(index.max()) >= n
        ):
            raise ValueError(
                f"i and j must be whole numbers from 0 to {n - 1}, the rows of {n} inputs."
            )
    return first.astype(np.intp), second.astype(np.intp)


def _pairs(n: int, most: int, rng: np.random.Generator) -> tuple[Integers, Integers]:
    """All pairs i < j of n inputs, or `most` distinct ones."""
    total = n * (n - 1) // 2
    if total <= most:
        i, j = np.triu_indices(n, 1)
        return i, j
    # Pairs in the order (0, 1), (0, 2), (1, 2), (0, 3), …: number k is (i, j) with k = j (j − 1) /
    # 2 + i.
    k = np.sort(rng.choice(total, most, replace=False, shuffle=False))
    j = ((1 + np.sqrt(8.0 * k + 1)) / 2).astype(np.intp)
    j -= j * (j - 1) // 2 > k  # where the root was rounded across a whole number
    j += j * (j + 1) // 2 <= k
    return k - j * (j - 1) // 2, j


def _hamming(words: Floats, i: Integers, j: Integers) -> Integers:
    distance = np.zeros(i.shape, dtype=np.intp)
    for column in words.T.astype(
        bool, order="C"
    ):  # all pairs at once; all columns at once would need width times more
        distance += column[i] != column[j]
    return distance


def _difference(array: Floats, kinds: Sequence[bool], i: Integers, j: Integers) -> Floats:
    distance = np.zeros(i.shape)
    for column, discrete in zip(array.T, kinds, strict=True):
        distance += (column[i] != column[j]) if discrete else np.abs(column[i] - column[j])
    return distance


def _table_levels(
    table: NDArray[Any], row: Integers, i: Integers, j: Integers
) -> Callable[[Integers], Integers]:
    """A function of an order of inputs: (pairs,) table[row of i-th, row of j-th input in that
    order].
    """
    flat, width = table.reshape(-1), table.shape[1]

    def levels(order: Integers) -> Integers:
        rows = row[order]
        result: Integers = flat.take((rows * width)[i] + rows[j]).astype(np.intp)
        return result

    return levels


def _hamming_levels(words: Floats, i: Integers, j: Integers) -> Callable[[Integers], Integers]:
    """A function of an order of inputs: (pairs,) Hamming distances of the sentences of i-th and
    j-th input.
    """
    unique, row = np.unique(words, axis=0, return_inverse=True)
    if len(unique) > _TABLE_SIZE:
        return lambda order: _hamming(words, order[i], order[j])
    length = unique.sum(1)
    table = length[:, None] + length - 2 * unique @ unique.T
    small = np.min_scalar_type(words.shape[1])  # a table that stays in the processor's cache
    return _table_levels(table.astype(small), row.reshape(-1), i, j)


def _unit_ranks(count: Floats) -> Floats | None:
    """(levels,) average rank r of every level that was met `count` times, centred and scaled: Σ
    count · r² = 1.

    Spearman's ρ is then the sum of products; `None` if all are of one level.
    """
    if np.count_nonzero(count) < 2:
        return None
    rank: Floats = np.cumsum(count) - count / 2 - count.sum() / 2
    return rank / math.sqrt(float(count @ rank**2))


def _count(levels: Integers, weight: Floats | None = None) -> Floats:
    return np.bincount(levels, weight).astype(np.float64)


def _spearman(a: Integers, b: Integers, weight: Floats | None = None) -> float:
    """Spearman's ρ of levels a and b (pairs,), each pair counted `weight` times; NaN if one of them
    is constant.
    """
    rank_a, rank_b = _unit_ranks(_count(a, weight)), _unit_ranks(_count(b, weight))
    if rank_a is None or rank_b is None:
        return math.nan
    product = float(rank_a[a] @ (rank_b[b] if weight is None else rank_b[b] * weight))
    return min(1.0, max(-1.0, product))


def _undefined(n: int, pairs: int, reason: str) -> Similarity:
    return Similarity(math.nan, math.nan, math.nan, math.nan, math.nan, math.nan, n, pairs, reason)


def _similarity(
    levels: Callable[[Integers], Integers],
    b: Integers,
    pairs: tuple[Integers, Integers],
    n: int,
    reasons: tuple[str, str],
    bootstrap: tuple[int, np.random.Generator],
    permutation: tuple[int, np.random.Generator],
) -> Similarity:
    """Correlation, interval and test of levels(order) and b of pairs of n inputs; levels are in
    order of distance.
    """
    i, j = pairs
    a = levels(np.arange(n))
    rank_a, rank_b = _unit_ranks(_count(a)), _unit_ranks(_count(b))
    if rank_a is None or rank_b is None:
        return _undefined(n, len(i), reasons[0] if rank_a is None else reasons[1])
    value, score = _spearman(a, b), rank_b[b]
    low = high = null_mean = null_sd = p_value = math.nan

    resamples, rng = bootstrap
    if resamples:
        sample = np.empty(resamples)
        for r in range(resamples):
            times = np.bincount(rng.integers(n, size=n), minlength=n).astype(np.float64)
            # An input drawn m times and another drawn m' times make m m' pairs; there is no pair
            # with i = j.
            sample[r] = _spearman(a, b, times[i] * times[j])
        if not np.isnan(sample).all():
            low, high = (float(x) for x in np.nanquantile(sample, [0.025, 0.975]))

    permutations, rng = permutation
    if permutations:
        complete = (
            len(i) == n * (n - 1) // 2
        )  # all pairs have the same ranks in any order, a sample of them has not
        null = np.full(permutations, np.nan)
        for r in range(permutations):
            permuted = levels(rng.permutation(n))
            rank = rank_a if complete else _unit_ranks(_count(permuted))
            if rank is not None:
                null[r] = rank[permuted] @ score
        if not np.isnan(null).all():
            null_mean, null_sd = float(np.nanmean(null)), float(np.nanstd(null))
        # NaN is not below the value, which errs on the side of a great p-value
        below = int(np.count_nonzero(null < value - _TIE))
        p_value = (1 + permutations - below) / (1 + permutations)

    return Similarity(value, low, high, null_mean, null_sd, p_value, n, len(i), "")
