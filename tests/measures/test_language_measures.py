"""Description lengths, DCI and MIG: values by hand, and their order."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from plot_attractors.measures import description_length as lengths
from plot_attractors.measures.disentanglement import dci, mutual_information_gap

from .languages import grid, spelled

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
    return lengths.of_features(one_hot(symbols), symbols, features).value


def of_vectors(symbols: np.ndarray) -> float:
    return lengths.of_vectors(one_hot(symbols), symbols, spelled(FEATURES) @ VECTORS).value


VECTORS = np.random.default_rng(2).normal(size=(12, 5))
MEASURES: dict[str, Callable[[np.ndarray], float]] = {
    "of_features": of_features,
    "of_vectors": of_vectors,
    "disentanglement": lambda s: dci(s, FEATURES).disentanglement,
    "completeness": lambda s: dci(s, FEATURES).completeness,
    "gap": lambda s: mutual_information_gap(s, FEATURES).value,
}
FLOORS = {"of_features": 1, "of_vectors": 1}


@pytest.mark.parametrize("name", MEASURES)
def test_spelled_is_above_noisy_and_noisy_above_holistic(name: str) -> None:
    measure = MEASURES[name]
    best, middle, worst = measure(SPELLED), measure(NOISY), measure(holistic())
    assert best > middle > worst
    floor = FLOORS.get(name, 0)
    assert worst < floor + 0.25
    random = measure(SPELLED[np.random.default_rng(3).permutation(len(SPELLED))])
    assert random < floor + 0.25
    if floor:
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


def test_code_length_of_sentences_by_hand() -> None:
    column = np.array([[1], [1], [2]])  # ½ · ¾ · ⅙
    assert lengths.sentence_code_length(column) == pytest.approx(4)
    both = np.hstack([column, [[0], [0], [0]]])  # what never varies takes nothing
    assert lengths.sentence_code_length(both) == pytest.approx(4)


def test_code_length_of_features_by_hand() -> None:
    feature = np.arange(32.0)[:, None] % 2
    found = lengths.of_features(np.zeros((32, 3)), np.zeros((32, 2)), feature)
    first = feature[np.random.default_rng(0).permutation(32)][:16].sum()
    after = -(16 - first) * math.log2((first + 0.5) / 17)  # ones that follow
    after -= first * math.log2((16 - first + 0.5) / 17)
    assert found.meaning == pytest.approx((16 + after) / 32)
    assert found.blocks[:, :2].tolist() == [[0, 16], [16, 16]]
    assert found.value == pytest.approx(1, abs=0.01)  # sentences are empty
    assert found.sentences == 0


def test_code_length_of_vectors_by_hand() -> None:
    sign = np.repeat([1, 2], 512)[:, None]
    vector = np.where(sign == 1, -3.0, 3.0) + np.array([[0.0, 7.0]])  # the second column: as well
    found = lengths.of_vectors(one_hot(sign), sign, vector)
    # N(0, 1) at ±1, to a sixteenth
    bits = 0.5 * math.log2(2 * math.pi * math.e) + 4
    assert found.meaning / 2 == pytest.approx(bits, abs=0.02)
    # known up to rounding: −log₂ P(|N(0, 1/12)| < ½)
    assert found.blocks[-1, 3] / 2 == pytest.approx(-math.log2(math.erf(math.sqrt(1.5))), abs=0.01)
    assert found.given < found.meaning / 10
    assert lengths.of_vectors(one_hot(sign), sign, np.ones((1024, 2))).reason


def test_the_more_inputs_the_cheaper_it_is_to_learn_the_language() -> None:
    few = of_features(SPELLED[:64], FEATURES[:64])
    assert 1 < few < of_features(SPELLED)


def test_why_there_is_no_code_length() -> None:
    few = lengths.of_features(one_hot(SPELLED[:31]), SPELLED[:31], FEATURES[:31])
    assert math.isnan(few.value)
    assert few.reason == "fewer than 32 inputs, of which no decoder learns"
    assert lengths.of_features(one_hot(SPELLED), SPELLED, FEATURES[:, :0]).reason
    none = lengths.of_vectors(np.empty((0, 3)), np.empty((0, 1)), np.empty((0, 2)))
    assert none.reason == "there are no vectors"


def test_missing_values_are_a_value_and_numbers_are_binned() -> None:
    features = FEATURES[:, :2].copy()
    features[features[:, 0] == 2, 0] = np.nan
    found = lengths.of_features(one_hot(SPELLED), SPELLED, features)
    assert found.value > 3
    number = lengths.of_features(
        one_hot(SPELLED), SPELLED, np.random.default_rng(0).normal(size=(512, 1)), [False]
    )
    assert number.meaning == pytest.approx(math.log2(10), abs=0.1)
    assert number.value < 1.01


# DCI and MIG.


def test_a_factor_told_twice_is_not_complete() -> None:
    features = grid(2, 2)
    twice = features[:, [0, 0, 1]]
    found = dci(twice, features)
    assert found.disentanglement == pytest.approx(1)
    assert found.completeness == pytest.approx((1 - math.log(2) / math.log(3) + 1) / 2)
    assert found.informativeness == pytest.approx(1)
    np.testing.assert_allclose(found.importance, [[1, 0], [1, 0], [0, 1]], atol=1e-12)
    gap = mutual_information_gap(twice, features)
    np.testing.assert_allclose(gap.per_factor, [0, 1], atol=1e-12)
    assert gap.value == pytest.approx(0.5)


def test_a_symbol_that_tells_of_two_factors_is_not_disentangled() -> None:
    features = grid(2, 2)
    both = features @ [[2.0], [1.0]]
    found = dci(both, features)
    assert found.disentanglement == pytest.approx(0)
    assert found.completeness == found.informativeness == pytest.approx(1)
    # one symbol tells all of a factor, and none tells of the other
    one = dci(features[:, :1], features)
    assert (one.disentanglement, one.completeness) == pytest.approx((1, 0.5))
    assert one.informativeness == pytest.approx(0.5)


def test_why_there_is_no_disentanglement() -> None:
    assert dci(np.ones((8, 2)), grid(3, 2)).reason == "all sentences are equal"
    assert dci(grid(3, 2), np.ones((8, 2))).reason == "all features are equal"
    assert math.isnan(mutual_information_gap(np.ones((8, 2)), grid(3, 2)).value)
    features = grid(2, 2)
    independent = np.concatenate([np.zeros((4, 1)), np.ones((4, 1))])
    told = dci(independent, np.concatenate([features, features]))
    assert told.reason == "symbols tell nothing of any factor"
    assert told.informativeness == pytest.approx(0)
