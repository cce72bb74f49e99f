"""Whether similar inputs get similar sentences: distances, their rank correlation, and its test."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.intp]

_TIE = 1e-12  # values that differ by rounding alone are equal
MISSING = -1.0


class Similarity(NamedTuple):
    """Rank correlation of two sets of pairwise distances between the same inputs.

    - ``value``: Spearman's ρ, in [−1, 1];
    - ``low``, ``high``: 95 % percentile interval from resampled inputs, NaN without resamples;
    - ``null_mean``, ``null_sd``: of ρ over permutations, NaN without permutations;
    - ``p_value``: (1 + #{null ≥ value}) / (1 + permutations), one-sided;
    - ``n``: inputs; ``pairs``: pairs of inputs that were compared;
    - ``reason``: why ``value`` is NaN, otherwise "".
    """

    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    null_mean: float = math.nan
    null_sd: float = math.nan
    p_value: float = math.nan
    n: int = 0
    pairs: int = 0
    reason: str = ""


class Null(NamedTuple):
    """A value in shuffled languages.

    - ``mean``, ``sd``: over them, NaN without any; those in which the value is NaN are left out;
    - ``p_value``: (1 + #{null ≥ value}) / (1 + languages).
    """

    mean: float
    sd: float
    p_value: float


def feature_matrix(
    features: ArrayLike, categorical: Sequence[bool] | None
) -> tuple[Floats, tuple[bool, ...]]:
    """(N, F) features, −1 for missing categorical values; and which features are categorical."""
    array = np.asarray(features, dtype=np.float64)
    kinds = (True,) * array.shape[1] if categorical is None else tuple(categorical)
    return np.where(np.array(kinds, dtype=bool) & np.isnan(array), MISSING, array), kinds


def sentence_distance(sentences: ArrayLike, i: ArrayLike, j: ArrayLike) -> Integers:
    """Σ_k [s_i(k) ≠ s_j(k)]: Hamming distance of the sentences of inputs i and j, bits that differ.

    `sentences` is (N, width) of 0 and 1; i and j are indices of inputs, of the shape of the result.
    """
    i, j = np.asarray(i), np.asarray(j)
    distance = np.zeros(i.shape, dtype=np.intp)
    # all columns at once would need width times more memory
    for column in np.asarray(sentences).T.astype(bool, order="C"):
        distance += column[i] != column[j]
    return distance


def feature_distance(
    features: ArrayLike, i: ArrayLike, j: ArrayLike, categorical: Sequence[bool] | None = None
) -> Floats:
    """Σ_k [f_i(k) ≠ f_j(k)] over categorical features, and Σ_k |f_i(k) − f_j(k)| over continuous.

    `features` (N, F), where NaN and −1 in a categorical column both mean "no value", a category of
    its own; i and j are indices of inputs, of the shape of the result; `categorical` says which of
    the F features are (`None`: all).
    """
    array, kinds = feature_matrix(features, categorical)
    i, j = np.asarray(i), np.asarray(j)
    distance = np.zeros(i.shape)
    for column, discrete in zip(array.T, kinds, strict=True):
        distance += (column[i] != column[j]) if discrete else np.abs(column[i] - column[j])
    return distance


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
    """Spearman's ρ, with average ranks for ties, of `sentence_distance` and `feature_distance`.

    Also called representational similarity analysis (RSA). Beyond `max_pairs` pairs, that many
    distinct ones are drawn at random, and serve for interval and test, too. The interval resamples
    inputs, because pairs that share an input are dependent; copies of one input are not compared
    with each other, as their distance of zero on both sides would pass for similarity. The test is
    Mantel's: sentences are permuted over inputs.

    Source: Brighton & Kirby (2006), "Understanding linguistic evolution by visualizing the
    emergence of topographic mappings"; Kriegeskorte, Mur & Bandettini (2008), "Representational
    similarity analysis"; Mantel (1967), "The detection of disease clustering and a generalized
    regression approach".

    Arguments are those of the two distances, the numbers of pairs (at least 3), of bootstrap
    samples and of permuted languages (0: none), and the seed of all three.
    """
    bags = np.asarray(sentences, dtype=np.float64)
    meaning, kinds = feature_matrix(features, categorical)
    n = len(bags)
    pair_rng, resample_rng, permutation_rng = np.random.default_rng(seed).spawn(3)
    if n < 3:
        return Similarity(n=n, pairs=n * (n - 1) // 2, reason="fewer than 3 inputs")
    i, j = _pairs(n, max_pairs, pair_rng)
    for name, rows in (("sentences", bags), ("features", meaning)):
        if bool((rows == rows[0]).all()):
            return Similarity(n=n, pairs=len(i), reason=f"all {name} are equal")
    a = sentence_distance(bags, i, j)
    differences = feature_distance(meaning, i, j, kinds)
    b = np.unique(differences, return_inverse=True)[1].reshape(-1)
    value = _spearman(a, b)
    if math.isnan(value):
        equal = "features" if np.ptp(a) else "sentences"
        return Similarity(n=n, pairs=len(i), reason=f"all {equal} are equally far apart")

    low = high = math.nan
    sample = np.empty(resamples)
    for r in range(resamples):
        # an input drawn m times and another drawn m' times make m m' pairs
        times = np.bincount(resample_rng.integers(n, size=n), minlength=n).astype(np.float64)
        sample[r] = _spearman(a, b, times[i] * times[j])
    if not np.isnan(sample).all():
        low, high = (float(x) for x in np.nanquantile(sample, [0.025, 0.975]))

    orders = (permutation_rng.permutation(n) for _ in range(permutations))
    null = [_spearman(sentence_distance(bags, order[i], order[j]), b) for order in orders]
    return Similarity(value, low, high, *_null(np.array(null), value), n, len(i))


def holistic_null(
    sentences: ArrayLike,
    features: ArrayLike,
    categorical: Sequence[bool] | None = None,
    *,
    max_pairs: int = 200_000,
    seed: int = 0,
    permutations: int = 100,
) -> Null:
    """`topographic_similarity` of holistic languages, which a compositional one exceeds.

    Sentences are shuffled over meanings (distinct rows of features): every input gets a random one
    of the sentences of the meaning that its own meaning is mapped to, by a random permutation of
    meanings. They tell meanings apart as well as before, but similar meanings have no similar
    sentences. Arguments are those of `topographic_similarity`.
    """
    bags = np.asarray(sentences)
    similarity = partial(
        topographic_similarity, features=features, categorical=categorical, max_pairs=max_pairs,
        seed=seed,
    )  # fmt: skip
    order = _over_meanings(np.asarray(features), np.random.default_rng(seed))
    null = [similarity(bags[order()]).value for _ in range(permutations)]
    return _null(np.array(null), similarity(bags).value)


def _null(values: Floats, own: float) -> Null:
    """Of values (languages,) of shuffled languages, and of the language's own."""
    values = values[~np.isnan(values)]
    if math.isnan(own) or not len(values):
        return Null(math.nan, math.nan, math.nan)
    above = int((values - own >= -_TIE).sum())
    return Null(float(values.mean()), float(values.std()), (1 + above) / (1 + len(values)))


def _over_meanings(features: NDArray[Any], rng: np.random.Generator) -> Callable[[], Integers]:
    """A function that draws, for every input, an input of the meaning that its own is mapped to."""
    rows, _ = feature_matrix(features, None)
    _, code, size = np.unique(rows, axis=0, return_inverse=True, return_counts=True)
    code = code.reshape(-1)
    inputs, start = np.argsort(code, kind="stable"), np.cumsum(size) - size

    def draw() -> Integers:
        other = rng.permutation(len(size))[code]
        drawn: Integers = inputs[start[other] + rng.integers(size[other])]
        return drawn

    return draw


def _pairs(n: int, most: int, rng: np.random.Generator) -> tuple[Integers, Integers]:
    """All pairs i < j of n inputs, or `most` distinct ones."""
    total = n * (n - 1) // 2
    if total <= most:
        i, j = np.triu_indices(n, 1)
        return i, j
    # in the order (0, 1), (0, 2), (1, 2), (0, 3), …: number k is (i, j) with k = j (j − 1) / 2 + i
    k = np.sort(rng.choice(total, most, replace=False, shuffle=False))
    j = ((1 + np.sqrt(8.0 * k + 1)) / 2).astype(np.intp)
    j -= j * (j - 1) // 2 > k  # where the root was rounded across a whole number
    j += j * (j + 1) // 2 <= k
    return k - j * (j - 1) // 2, j


def _unit_ranks(count: Floats) -> Floats | None:
    """(levels,) average rank r of a level that occurs `count` times, centred, Σ count · r² = 1.

    Spearman's ρ is then the sum of products; `None` if all are of one level.
    """
    if np.count_nonzero(count) < 2:
        return None
    rank: Floats = np.cumsum(count) - count / 2 - count.sum() / 2
    return rank / math.sqrt(float(count @ rank**2))


def _spearman(a: Integers, b: Integers, weight: Floats | None = None) -> float:
    """Spearman's ρ of levels a and b (pairs,), weighted; NaN if one of them is constant."""
    counts = (np.bincount(levels, weight).astype(np.float64) for levels in (a, b))
    rank_a, rank_b = map(_unit_ranks, counts)
    if rank_a is None or rank_b is None:
        return math.nan
    product = float(rank_a[a] @ (rank_b[b] if weight is None else rank_b[b] * weight))
    return min(1.0, max(-1.0, product))
