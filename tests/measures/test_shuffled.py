"""Shuffled languages: what is shuffled, p-values of all permutations, and gaps."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from plot_attractors.measures.shuffled import shuffled_null
from plot_attractors.measures.similarity import topographic_similarity

from .languages import grid, random_language, spelled

pytestmark = pytest.mark.filterwarnings("error")
SENTENCES, FEATURES = np.array([[1], [0], [0], [0]]), np.arange(4.0)[:, None]


def test_shuffled_languages_are_not_compositional() -> None:
    features = grid(copies=3)
    sentences = spelled(features)
    null = shuffled_null(topographic_similarity, sentences, features, permutations=30, seed=1)
    assert -0.02 < null.mean < 0.1
    assert 0 < null.sd < 0.05
    assert shuffled_null(topographic_similarity, sentences, features, 30, seed=1) == null
    assert shuffled_null(topographic_similarity, sentences, features, 30, seed=2) != null


def test_shuffled_null_permutes_sentences_and_nothing_else() -> None:
    assert shuffled_null(lambda s, f: float(s.sum()), SENTENCES, FEATURES) == (1, 0, 1)
    assert shuffled_null(lambda s, f: float(f[3, 0]), SENTENCES, FEATURES) == (3, 0, 1)
    first = shuffled_null(lambda s, f: float(s[0, 0]), SENTENCES, FEATURES, 2000)
    assert first.mean == pytest.approx(0.25, abs=0.05)
    assert first.sd == pytest.approx(math.sqrt(3) / 4, abs=0.05)


def test_shuffled_null_leaves_out_nan() -> None:
    sentences, features = np.array([[1], [0]]), np.arange(2.0)[:, None]
    result = shuffled_null(
        lambda s, f: np.array([1.0 if s[0, 0] else np.nan, np.nan]), sentences, features, 50
    )
    np.testing.assert_array_equal(result.mean, [1, np.nan])
    assert math.isnan(shuffled_null(topographic_similarity, sentences, features, 3).mean)


def test_p_values_are_those_of_all_permutations() -> None:
    place = lambda s, f: np.array([1, -1]) * float(s[:, 0] @ f[:, 0])  # noqa: E731 0 unshuffled
    p = shuffled_null(place, SENTENCES, FEATURES, 999).p_value
    np.testing.assert_allclose(p, [1, 0.25], atol=0.05)
    assert shuffled_null(topographic_similarity, spelled(grid()), grid(), 99).p_value == 0.01
    p = [
        shuffled_null(topographic_similarity, *random_language(40, k), 19, k).p_value
        for k in range(40)
    ]
    assert stats.kstest(p, "uniform").pvalue > 0.01


def test_shuffled_over_meanings_every_meaning_has_the_sentences_of_one_other() -> None:
    features = grid(copies=6)
    code = (features @ [9, 3, 1])[:, None]
    pairs = lambda s, f: len(np.unique(np.c_[s, np.nan_to_num(f, nan=-1)], axis=0))  # noqa: E731
    assert shuffled_null(pairs, code, features, 5, shuffle="meanings")[:2] == (27, 0)
    missing = np.where(features == 2, math.nan, features)  # of a value of its own
    assert shuffled_null(pairs, code, missing, 5, shuffle="meanings")[:2] == (27, 0)
