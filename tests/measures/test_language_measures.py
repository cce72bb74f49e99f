"""Description lengths and the mutual information gap: values by hand, and their order."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from plot_attractors.measures import description_length as lengths
from plot_attractors.measures.disentanglement import (
    mutual_information_gap,
    symbol_disentanglement,
)

from .languages import grid

RNG = np.random.default_rng(0)
FEATURES = RNG.integers(0, 3, (512, 4)).astype(float)  # independent
SPELLED = FEATURES.astype(int) + 1
NOISY = np.where(RNG.random(SPELLED.shape) < 0.3, RNG.integers(1, 4, SPELLED.shape), SPELLED)


def holistic() -> np.ndarray:
    """A sentence of its own for each meaning, without system."""
    meanings, row = np.unique(FEATURES, axis=0, return_inverse=True)
    names = meanings[np.random.default_rng(1).permutation(len(meanings))]
    return names[row.reshape(-1)].astype(int) + 1


def one_hot(symbols: np.ndarray) -> np.ndarray:
    return np.eye(4)[symbols][..., 1:].reshape(len(symbols), -1)


def of_features(symbols: np.ndarray, features: np.ndarray = FEATURES) -> float:
    return lengths.of_features(one_hot(symbols), features).value


def above_chance(value: float) -> float:
    """0 where a token of three stands for a value of three by chance, 1 at best."""
    return (value - 1 / 3) / (2 / 3)


MEASURES: dict[str, Callable[[np.ndarray], float]] = {
    "of_features": of_features,
    "gap": lambda s: mutual_information_gap(s, FEATURES).value,
    "posdis": lambda s: symbol_disentanglement(s, FEATURES).value,
    "bosdis": lambda s: symbol_disentanglement(one_hot(s), FEATURES).value,
}
FLOORS = {"of_features": 1}


@pytest.mark.parametrize("name", MEASURES)
def test_spelled_is_above_noisy_and_noisy_above_holistic(name: str) -> None:
    measure = MEASURES[name]
    best, middle, worst = measure(SPELLED), measure(NOISY), measure(holistic())
    assert best > middle > worst
    floor = FLOORS.get(name, 0)
    assert worst < floor + 0.25
    random = measure(SPELLED[np.random.default_rng(3).permutation(len(SPELLED))])
    assert random < floor + 0.25
    if name == "of_features":
        assert best > 3
        assert middle > 1.05
    else:
        assert best == pytest.approx(1, abs=0.07)


@pytest.mark.parametrize("name", MEASURES)
def test_names_of_tokens_and_order_of_groups_do_not_matter(name: str) -> None:
    rename = np.array([0, 3, 1, 2])
    other = rename[NOISY][:, [2, 0, 3, 1]]
    assert MEASURES[name](other) == pytest.approx(MEASURES[name](NOISY), rel=1e-3)


# Code lengths.


def test_code_length_of_features_by_hand() -> None:
    feature = np.arange(32.0)[:, None] % 2
    result = lengths.of_features(np.zeros((32, 3)), feature)
    first = feature[np.random.default_rng(0).permutation(32)][:16].sum()
    after = -(16 - first) * math.log2((first + 0.5) / 17)  # ones that follow
    after -= first * math.log2((16 - first + 0.5) / 17)
    assert result.meaning == pytest.approx((16 + after) / 32)
    assert result.value == pytest.approx(1, abs=0.01)  # sentences are empty


def test_the_more_inputs_the_cheaper_it_is_to_learn_the_language() -> None:
    few = of_features(SPELLED[:64], FEATURES[:64])
    assert 1 < few < of_features(SPELLED)


def test_why_there_is_no_code_length() -> None:
    few = lengths.of_features(one_hot(SPELLED[:31]), FEATURES[:31])
    assert math.isnan(few.value)
    assert few.reason == "fewer than 32 inputs, of which no decoder learns"
    assert lengths.of_features(one_hot(SPELLED), FEATURES[:, :0]).reason


def test_missing_values_are_a_value_and_numbers_are_binned() -> None:
    features = FEATURES[:, :2].copy()
    features[features[:, 0] == 2, 0] = np.nan
    result = lengths.of_features(one_hot(SPELLED), features)
    assert result.value > 3
    number = lengths.of_features(
        one_hot(SPELLED), np.random.default_rng(0).normal(size=(512, 1)), [False]
    )
    assert number.meaning == pytest.approx(math.log2(10), abs=0.1)
    assert number.value < 1.01


# The gap.


def test_a_factor_told_twice_has_no_gap() -> None:
    features = grid(2, 2)
    gap = mutual_information_gap(features[:, [0, 0, 1]], features)
    np.testing.assert_allclose(gap.each, [0, 1], atol=1e-12)
    assert gap.value == pytest.approx(0.5)


def test_gap_of_one_symbol_by_hand() -> None:
    features = grid(2, 2)
    entropy = 2 - 0.75 * math.log2(3)  # of a ∧ b, which a tells ½ less of
    both = mutual_information_gap(features.prod(1, keepdims=True), features)
    np.testing.assert_allclose(both.each, entropy - 0.5)
    one = mutual_information_gap(features[:, :1], np.c_[features, np.ones(4)])
    np.testing.assert_allclose(one.each, [1, 0, np.nan], atol=1e-12)
    assert one.value == pytest.approx(0.5)


def test_continuous_factors_are_put_into_ten_quantile_bins() -> None:
    x = np.random.default_rng(0).lognormal(size=400)
    half = (x > np.median(x)).astype(float)[:, None]
    result = mutual_information_gap(half, x[:, None], [False])
    assert result.value == pytest.approx(1 / math.log2(10))


@pytest.mark.parametrize(
    ("symbols", "factors", "reason"),
    [
        (np.ones((8, 2)), grid(3, 2), "all sentences are equal"),
        (grid(3, 2), np.ones((8, 2)), "all features are equal"),
        (np.zeros((0, 2)), np.zeros((0, 3)), "there are no inputs"),
        (grid(3, 2), np.zeros((8, 0)), "there are no features"),
    ],
)
def test_why_there_is_no_gap(symbols: np.ndarray, factors: np.ndarray, reason: str) -> None:
    result = mutual_information_gap(symbols, factors)
    assert math.isnan(result.value)
    assert result.reason == reason


def test_disentanglement_of_symbols_by_hand() -> None:
    features = grid(features=2, values=2)
    a, b = features.T
    result = symbol_disentanglement(np.stack([a, np.abs(a - b), np.zeros(4)], 1), features)
    assert result.value == pytest.approx(0.5)  # a, a xor b, nothing
    np.testing.assert_allclose(result.each, [1, 0, np.nan], atol=1e-12)
    both = symbol_disentanglement(np.stack([a, a * b], 1), features)
    np.testing.assert_allclose(both.each, [1, 0], atol=1e-12)  # "a and b" tells as much of both
    entropy = 2 - 0.75 * math.log2(3)
    alone = symbol_disentanglement((a * b)[:, None], a[:, None])  # no second feature
    assert alone.value == pytest.approx((entropy - 0.5) / entropy)
