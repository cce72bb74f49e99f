"""Measures of compositionality against hand-computed examples and languages of a known kind."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from plot_attractors.measures.compositionality import (
    bag_of_symbols_disentanglement,
    context_independence,
    mutual_information,
    positional_disentanglement,
    tree_reconstruction_error,
)
from plot_attractors.measures.shuffled import sampling_interval, shuffled_null
from plot_attractors.measures.similarity import topographic_similarity

from .languages import grid, random_language, spelled

pytestmark = pytest.mark.filterwarnings("error")

MEASURES = [
    topographic_similarity,
    positional_disentanglement,
    bag_of_symbols_disentanglement,
    mutual_information,
    context_independence,
    tree_reconstruction_error,
]


# Disentanglement


def test_every_symbol_of_a_compositional_language_tells_of_one_feature() -> None:
    features = grid(values=4)
    position = positional_disentanglement(features[:, ::-1], features)
    assert position.value == pytest.approx(1)
    assert position.information.argmax(1).tolist() == [2, 1, 0]
    np.testing.assert_allclose(position.entropy, 2)
    assert bag_of_symbols_disentanglement(spelled(features), features).value == pytest.approx(1)


def test_disentanglement_by_hand() -> None:
    features = grid(features=2, values=2)
    a, b = features.T
    constant = np.zeros(4)
    found = positional_disentanglement(
        np.stack([a, np.abs(a - b), constant], 1), features
    )  # a, a xor b, nothing
    assert found.value == pytest.approx(0.5)
    np.testing.assert_allclose(found.per_symbol, [1, 0, np.nan], atol=1e-12)
    np.testing.assert_allclose(found.information, [[1, 0], [0, 0], [0, 0]], atol=1e-12)
    both = bag_of_symbols_disentanglement(
        np.stack([a, a * b], 1), features
    )  # a and b tell as much of "a and b"
    np.testing.assert_allclose(both.per_symbol, [1, 0], atol=1e-12)
    entropy = 2 - 0.75 * math.log2(3)
    one = bag_of_symbols_disentanglement(
        (a * b)[:, None], a[:, None]
    )  # a single feature has no second greatest
    assert one.entropy.tolist() == pytest.approx([entropy])
    assert one.value == pytest.approx((entropy - 0.5) / entropy)


def test_continuous_features_are_put_into_ten_quantile_bins() -> None:
    x = np.random.default_rng(0).lognormal(size=400)
    half = (x > np.median(x)).astype(float)[:, None]
    found = bag_of_symbols_disentanglement(half, x[:, None], [False])
    assert found.information[0, 0] == pytest.approx(1)
    entropy = mutual_information(half, x[:, None], [False]).entropy[0]
    assert entropy == pytest.approx(math.log2(10))  # equally many inputs in every bin
    few = np.repeat([0.0, 0.5, 3.0], [90, 5, 5])[:, None]  # every value is one
    expected = stats.entropy([90, 5, 5], base=2)
    found_few = mutual_information(np.ones((100, 1)), few, [False])
    assert found_few.entropy[0] == pytest.approx(expected)


# Mutual information


def test_a_sentence_of_a_compositional_language_tells_all_of_every_feature() -> None:
    features = grid(copies=2)
    found = mutual_information(spelled(features), features)
    np.testing.assert_allclose(found.value, math.log2(3))
    np.testing.assert_allclose(found.entropy, math.log2(3))
    np.testing.assert_allclose(found.normalised, 1)
    first = mutual_information(
        spelled(features)[:, :3], features
    )  # only the tokens of the first feature
    np.testing.assert_allclose(first.normalised, [1, 0, 0], atol=1e-12)


def test_mutual_information_by_hand() -> None:
    sentences, features = [[1, 1], [1, 1], [0, 1], [0, 1]], [[0, 0], [0, 1], [0, 0], [1, 1]]
    found = mutual_information(sentences, features)
    entropy = 2 - 0.75 * math.log2(3)
    np.testing.assert_allclose(found.value, [1 + entropy - 1.5, 0], atol=1e-12)
    np.testing.assert_allclose(found.normalised, [(entropy - 0.5) / entropy, 0], atol=1e-12)
    constant = mutual_information([[0], [1], [1]], [[5, 0], [5, 1], [5, 1]])
    np.testing.assert_allclose(constant.value, [0, 2 / 3 * math.log2(1.5) + math.log2(3) / 3])
    np.testing.assert_allclose(constant.normalised, [math.nan, 1])
    assert "columns [0]" in constant.reason


# Context independence


def test_context_independence_of_a_compositional_and_of_a_random_language() -> None:
    features = grid()
    found = context_independence(spelled(features), features)
    assert found.value == pytest.approx(1)
    # p(v | c) ≈ ½ and p(c | v) ≈ ⅓
    assert context_independence(*random_language(5000, 0)).value == pytest.approx(1 / 6, abs=0.02)


def test_context_independence_by_hand() -> None:
    sentences = np.array([[1, 0], [1, 0], [1, 1], [0, 1]])
    features = [[0], [0], [1], [1]]
    found = context_independence(sentences, features)
    assert found.value == pytest.approx((2 / 3 + 1) / 2)
    # A token that occurs once, with value 0, has the greatest p(c | v), though not the greatest
    # product.
    rare = context_independence(np.c_[sentences, [1, 0, 0, 0]], features)
    assert rare.value == pytest.approx((0.5 + 1) / 2)
    # Of two with the same p(c | v), the more frequent one is taken, wherever it stands; unused
    # tokens are not.
    tie = context_independence(np.c_[np.zeros(4), sentences, [1, 0, 0, 0], [1, 1, 0, 0]], features)
    assert tie.value == pytest.approx(1)


def test_no_value_needs_no_token() -> None:
    # nor does the constant 7
    found = context_independence([[1, 0], [0, 1], [0, 0]], [[0, 7], [1, 7], [math.nan, 7]])
    assert found.value == pytest.approx(1)


# Tree reconstruction error


def test_a_compositional_language_is_a_sum() -> None:
    features = grid(values=4)
    found = tree_reconstruction_error(spelled(features), features)
    assert found.value == pytest.approx(0, abs=1e-9)
    assert found.relative == pytest.approx(0, abs=1e-9)
    assert found.constant == pytest.approx(12 * 2 * 0.25 * 0.75)


def test_reconstruction_error_by_hand() -> None:
    found = tree_reconstruction_error([[1], [0], [1], [1]], [[0], [0], [1], [1]])
    assert found.value == pytest.approx(0.25)  # vectors ½ and 1
    assert found.constant == pytest.approx(0.375)  # vector ¾
    assert found.relative == pytest.approx(2 / 3)
    xor = tree_reconstruction_error([[0], [1], [1], [0]], grid(2, 2))
    assert xor.value == pytest.approx(0.5)
    assert xor.relative == pytest.approx(1)
    same = tree_reconstruction_error(
        [[0], [1], [1], [0]], np.full((4, 2), 3.0)
    )  # constant features
    assert same.relative == pytest.approx(1)


def test_fit_minimises_squares() -> None:
    sentences, features = random_language(80, 0)
    one_hot = np.concatenate([np.eye(3)[column.astype(int)] for column in features.T], 1)
    fitted = one_hot @ np.linalg.pinv(one_hot) @ sentences
    expected = np.abs(sentences - fitted).sum(1).mean()
    assert tree_reconstruction_error(sentences, features).value == pytest.approx(expected)


# Shuffled languages


@pytest.mark.parametrize("measure", MEASURES[:3])
def test_shuffled_languages_are_not_compositional(measure: Callable[..., Any]) -> None:
    features = grid(copies=3)
    sentences = features if measure is positional_disentanglement else spelled(features)
    null = shuffled_null(measure, sentences, features, permutations=30, seed=1)
    assert measure(sentences, features).value == pytest.approx(1)
    assert -0.02 < null.mean < 0.1
    assert 0 < null.sd < 0.05
    assert shuffled_null(measure, sentences, features, permutations=30, seed=1) == null
    assert shuffled_null(measure, sentences, features, permutations=30, seed=2) != null


def test_shuffled_null_permutes_sentences_and_nothing_else() -> None:
    sentences, features = np.array([[1], [0], [0], [0]]), np.arange(4.0)[:, None]
    assert shuffled_null(lambda s, f: float(s.sum()), sentences, features)[:3] == (1, 0, 1)
    assert shuffled_null(lambda s, f: float(f[3, 0]), sentences, features)[:3] == (3, 0, 1)
    first = shuffled_null(lambda s, f: float(s[0, 0]), sentences, features, 2000)
    assert first.mean == pytest.approx(0.25, abs=0.05)
    assert first.sd == pytest.approx(math.sqrt(3) / 4, abs=0.05)


def test_shuffled_null_leaves_out_nan() -> None:
    sentences, features = np.array([[1], [0]]), np.arange(2.0)[:, None]
    found = shuffled_null(
        lambda s, f: np.array([1.0 if s[0, 0] else np.nan, np.nan]), sentences, features, 50
    )
    np.testing.assert_array_equal(found.mean, [1, np.nan])
    assert found.reason
    none = shuffled_null(topographic_similarity, sentences, features, 3)
    assert math.isnan(none.mean)
    assert none.reason == "fewer than 3 inputs"


def test_p_values_are_those_of_all_permutations_of_either_side() -> None:
    sentences, features = np.array([[1], [0], [0], [0]]), np.arange(4.0)[:, None]
    place = lambda s, f: float(s[:, 0] @ f[:, 0])  # noqa: E731 0, 1, 2 or 3, and 0 unshuffled
    assert shuffled_null(place, sentences, features, 999).p_value == 1
    assert shuffled_null(
        place, sentences, features, 999, alternative="less"
    ).p_value == pytest.approx(0.25, abs=0.05)
    names = spelled(grid())
    assert shuffled_null(bag_of_symbols_disentanglement, names, grid(), 99).p_value == 0.01
    each = shuffled_null(
        mutual_information, names[:, :3], grid(), 99
    ).p_value  # only the first feature has tokens
    assert each[0] == 0.01
    assert (each[1:] == 1).all()
    p = [
        shuffled_null(bag_of_symbols_disentanglement, *random_language(40, k), 19, k).p_value
        for k in range(40)
    ]
    assert stats.kstest(p, "uniform").pvalue > 0.01


def test_shuffled_over_meanings_every_meaning_has_the_sentences_of_one_other() -> None:
    features = grid(copies=6)
    code = (features @ [9, 3, 1])[:, None]
    pairs = lambda s, f: len(np.unique(np.c_[s, f], axis=0))  # noqa: E731
    assert shuffled_null(pairs, code, features, 5, shuffle="meanings")[:2] == (27, 0)
    missing = np.where(features == 2, math.nan, features)
    names = np.tile(np.random.default_rng(0).permutation(spelled(grid())), (6, 1))
    assert shuffled_null(context_independence, names, missing, 5, shuffle="meanings").mean > 0


def test_sampling_interval_by_hand() -> None:
    sentences, features = np.arange(100.0)[:, None], np.zeros((100, 1))
    mean = lambda s, f: np.array([s.mean(), 5.0, math.nan])  # noqa: E731
    low, high = sampling_interval(mean, sentences, features, 2000)
    half = 1.96 * math.sqrt((100**2 - 1) / 12 / 100)
    np.testing.assert_allclose(low, [49.5 - half, 5, math.nan], rtol=0.05)
    np.testing.assert_allclose(high, [49.5 + half, 5, math.nan], rtol=0.05)
    first, again, other = (
        sampling_interval(mean, sentences, features, 5, seed).low[0] for seed in (1, 1, 2)
    )
    assert first == again != other
    assert np.isnan(sampling_interval(context_independence, sentences[:0], features[:0])).all()


# Languages and features for which a measure is not defined


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("shape", [(0, 3), (0, 0), (5, 0)])
def test_empty_arrays_have_no_value_but_a_reason(
    measure: Callable[..., Any], shape: tuple[int, int]
) -> None:
    found = measure(np.arange(shape[0])[:, None] % 2, np.zeros(shape))
    assert bool(np.isnan(found.value).all())
    assert found.reason


def test_constant_columns_beside_others_do_no_harm() -> None:
    sentences, features = random_language(20, 0)
    padded = (
        np.c_[np.zeros(20), sentences, np.ones(20)],
        np.c_[features, np.full(20, 4.0), np.full(20, math.nan)],
    )
    for measure in (topographic_similarity, context_independence, tree_reconstruction_error):
        assert measure(*padded).value == pytest.approx(measure(sentences, features).value)
    bosdis = bag_of_symbols_disentanglement(*padded)
    assert bosdis.value == pytest.approx(bag_of_symbols_disentanglement(sentences, features).value)
    assert np.isnan(bosdis.per_symbol).tolist() == [True] + [False] * 6 + [True]


def test_other_measures_say_why_they_are_not_defined() -> None:
    constant, features = np.ones((4, 2)), grid(2, 2)
    assert positional_disentanglement(constant, features).reason == "all sentences are equal"
    assert bag_of_symbols_disentanglement(features, constant).reason == "all features are equal"
    assert context_independence(features, constant).reason == "all features are equal"
    assert context_independence(0 * constant, features).reason == "no sentence has a token"
    error = tree_reconstruction_error(constant, features)
    assert error.value == pytest.approx(0, abs=1e-12)
    assert math.isnan(error.relative)
    assert error.reason == "all sentences are equal"
