"""Description lengths of languages: values by hand, and their order."""

from __future__ import annotations

import math

import numpy as np
import pytest

from plot_attractors.measures import description_length as lengths

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


def test_spelled_is_above_noisy_and_noisy_above_holistic() -> None:
    best, middle, worst = map(of_features, (SPELLED, NOISY, holistic()))
    assert best > 3
    assert best > middle > 1.05 > worst
    assert of_features(SPELLED[np.random.default_rng(3).permutation(len(SPELLED))]) < 1.25


def test_names_of_tokens_and_order_of_groups_do_not_matter() -> None:
    rename = np.array([0, 3, 1, 2])
    other = rename[NOISY][:, [2, 0, 3, 1]]
    assert of_features(other) == pytest.approx(of_features(NOISY), rel=1e-3)


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
