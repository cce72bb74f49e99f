"""Topographic similarity against hand-computed examples, SciPy, brute force, known languages."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import stats

from plot_attractors.measures import similarity
from plot_attractors.measures.similarity import (
    feature_distance,
    sentence_distance,
    topographic_similarity,
)

Array = NDArray[Any]
pytestmark = pytest.mark.filterwarnings("error")


def grid(features: int = 3, values: int = 3, copies: int = 1) -> Array:
    """All combinations of feature values, (values ** features · copies, features)."""
    return np.array(list(itertools.product(range(values), repeat=features)) * copies, dtype=float)


def spelled(features: Array) -> Array:
    """The fully compositional language: one token for every feature value."""
    values = int(features.max()) + 1
    return np.eye(values)[features.astype(int)].reshape(len(features), -1)


def flipped(sentences: Array, share: float, seed: int = 0) -> Array:
    return np.where(
        np.random.default_rng(seed).random(sentences.shape) < share, 1 - sentences, sentences
    )


def spearman_of_all_pairs(
    sentences: Array, features: Array, categorical: list[bool] | None = None
) -> float:
    i, j = np.triu_indices(len(sentences), 1)
    distances = sentence_distance(sentences, i, j), feature_distance(features, i, j, categorical)
    return float(stats.spearmanr(*distances).statistic)


# Distances


def test_sentence_distance_counts_unequal_bits() -> None:
    sentences = [[1, 0, 1, 0], [1, 1, 0, 0], [1, 0, 1, 0]]
    assert sentence_distance(sentences, [0, 0, 1], [1, 2, 2]).tolist() == [2, 0, 2]
    assert sentence_distance(torch.tensor(sentences, dtype=torch.bool), 0, 1) == 2
    assert sentence_distance(sentences, [[0], [1]], [[1], [0]]).shape == (2, 1)


def test_feature_distance_counts_categories_and_adds_up_differences() -> None:
    features = [[0.0, 1.0, 0.5], [2.0, 1.0, -1.0], [2.0, 3.0, 0.5]]
    assert feature_distance(features, [0, 0, 1], [1, 2, 2]).tolist() == [2, 2, 2]
    result = feature_distance(features, [0, 0, 1], [1, 2, 2], [True, False, False])
    np.testing.assert_allclose(result, [1 + 0 + 1.5, 1 + 2 + 0, 0 + 2 + 1.5])


def test_no_value_is_a_category_of_its_own() -> None:
    features = [[math.nan], [-1.0], [0.0]]
    assert feature_distance(features, [0, 0, 1], [1, 2, 2]).tolist() == [0, 1, 1]
    # in a continuous feature, −1 is a number
    assert feature_distance([[-1.0], [2.0]], 0, 1, [False]) == 3.0


# Topographic similarity


@pytest.mark.parametrize("categorical", [None, [True, False, False]])
def test_topographic_similarity_is_spearmans_over_all_pairs(categorical: list[bool] | None) -> None:
    rng = np.random.default_rng(0)
    features = np.where(rng.random((60, 3)) < 0.2, -1.0, rng.random((60, 3)).round(1))
    sentences = rng.integers(0, 2, (60, 7))
    result = topographic_similarity(sentences, features, categorical)
    assert result.value == pytest.approx(
        spearman_of_all_pairs(sentences, features, categorical), abs=1e-12
    )
    assert result.pairs == 60 * 59 // 2


def test_a_sample_of_pairs_is_close_to_all_of_them() -> None:
    features = grid(values=4, copies=5)
    sentences = flipped(spelled(features), 0.1)
    full = topographic_similarity(sentences, features)
    part = topographic_similarity(
        sentences, features, permutations=50, resamples=50, max_pairs=10_000
    )
    assert (full.pairs, part.pairs) == (320 * 319 // 2, 10_000)
    assert part.value != full.value
    assert part.value == pytest.approx(full.value, abs=0.03)
    assert part.p_value == 1 / 51
    assert part.low < full.value < part.high


@pytest.mark.parametrize("n", [3, 40, 3000])
def test_sampled_pairs_are_distinct_and_any_pair_may_come(n: int) -> None:
    total = n * (n - 1) // 2
    i, j = similarity._pairs(n, min(total - 1, 20_000), np.random.default_rng(0))
    assert bool((i < j).all())
    assert int(i.min()) >= 0
    assert len(set(zip(i.tolist(), j.tolist(), strict=True))) == min(total - 1, 20_000)
    assert int(j.max()) >= n * 0.99 - 1
    assert j.mean() == pytest.approx(2 / 3 * n, rel=0.02 if n > 3 else 0.4)


# Mantel's test


def test_null_is_that_of_all_permutations() -> None:
    rng = np.random.default_rng(3)
    sentences, features = rng.integers(0, 2, (6, 6)), rng.integers(0, 3, (6, 3)).astype(float)
    value = topographic_similarity(sentences, features).value
    orders = [list(order) for order in itertools.permutations(range(6))]
    every = np.array([spearman_of_all_pairs(sentences[order], features) for order in orders])
    result = topographic_similarity(sentences, features, permutations=4000)
    assert result.null_mean == pytest.approx(every.mean(), abs=0.02)
    assert result.null_sd == pytest.approx(every.std(), abs=0.02)
    assert result.p_value == pytest.approx((every >= value - 1e-9).mean(), abs=0.03)
    assert 0.05 < result.p_value < 0.95


def test_p_value_counts_ties_as_no_less() -> None:
    # Any order of three inputs, two of which are alike on both sides, gives the value or less; a
    # third gives the value.
    result = topographic_similarity([[0], [0], [1]], [[0], [0], [1]], permutations=3000)
    assert result.value == pytest.approx(1)
    assert result.p_value == pytest.approx(1 / 3, abs=0.03)


def test_shuffled_over_meanings_every_meaning_has_the_sentences_of_one_other() -> None:
    features = grid(copies=6)
    missing = np.where(features == 2, math.nan, features)  # of a value of its own
    for of in (features, missing):
        order = similarity._over_meanings(of, np.random.default_rng(0))()
        code = features @ [9, 3, 1]
        assert len(np.unique(np.c_[code[order], code], axis=0)) == 27
        assert (code[order] != code).any()
    null = similarity.holistic_null(spelled(features), features, permutations=30)
    assert 0 < null.mean < 0.2  # inputs of one meaning have one sentence
    assert null.p_value == 1 / 31
    with_nan = similarity._null(np.array([1.0, math.nan, 3.0]), 2.0)
    assert with_nan == (2, 1, 2 / 3)


# Bootstrap


def test_interval_is_that_of_resampled_inputs_without_pairs_of_an_input_with_itself() -> None:
    rng = np.random.default_rng(4)
    features = rng.integers(0, 3, (12, 2)).astype(float)
    sentences = flipped(np.eye(3)[features.astype(int)].reshape(12, -1), 0.15)
    i, j = np.triu_indices(12, 1)
    sample, with_itself = [], []
    for _ in range(600):
        chosen = rng.integers(12, size=12)
        a, b = chosen[i], chosen[j]
        for keep, values in ((a != b, sample), (a == a, with_itself)):
            distances = (
                sentence_distance(sentences, a[keep], b[keep]),
                feature_distance(features, a[keep], b[keep]),
            )
            values.append(stats.spearmanr(*distances).statistic)
    result = topographic_similarity(sentences, features, resamples=1500)
    low, high = np.quantile(sample, [0.025, 0.975])
    assert result.low == pytest.approx(low, abs=0.06)
    assert result.high == pytest.approx(high, abs=0.06)
    assert np.quantile(with_itself, 0.025) > low + 0.1  # what the interval would be otherwise


# What has no value


@pytest.mark.parametrize(
    ("sentences", "features", "reason"),
    [
        ([[1, 0], [0, 1]], [[0], [1]], "fewer than 3 inputs"),
        ([[1, 0]] * 4, [[0], [1], [2], [2]], "all sentences are equal"),
        ([[1], [0], [0], [1]], [[2, 3]] * 4, "all features are equal"),
        ([[1], [0], [0], [1]], [[math.nan], [-1], [-1], [-1]], "all features are equal"),
        (np.eye(4), [[0], [1], [1], [1]], "all sentences are equally far apart"),
        ([[1], [0], [0], [1]], [[0], [1], [2], [3]], "all features are equally far apart"),
    ],
)
def test_topographic_similarity_of_what_does_not_vary(
    sentences: Any, features: Any, reason: str
) -> None:
    result = topographic_similarity(sentences, features, resamples=5, permutations=5)
    assert result.reason == reason
    assert all(math.isnan(x) for x in result[:6])
    assert (result.n, result.pairs) == (len(sentences), math.comb(len(sentences), 2))
