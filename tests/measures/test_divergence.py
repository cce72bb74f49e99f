"""Divergences, clouds and translations against hand-computed cases."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from plot_attractors.data import HierarchicalBinaryVectors
from plot_attractors.measures import divergence
from plot_attractors.measures.divergence import (
    feature_divergence,
    jensen_shannon,
    translate,
    tree_distribution,
)


def f64(*numbers: object) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


def concepts(rows: int, features: int = 3, sharpness: float = 2.0) -> Tensor:
    return (sharpness * torch.randn(rows, features, 3, dtype=torch.float64)).softmax(-1).flatten(1)


def test_jensen_shannon_by_hand() -> None:
    p, q = f64(1, 0), f64(0.5, 0.5)
    mixed = -(0.75 * math.log2(0.75) + 0.25 * math.log2(0.25))
    assert float(jensen_shannon(p, q)) == pytest.approx(mixed - 0.5)
    assert float(jensen_shannon(p, q)) == float(jensen_shannon(q, p))
    assert float(jensen_shannon(p, f64(0, 1))) == pytest.approx(1)
    assert float(jensen_shannon(q, q)) == 0


def test_features_are_compared_one_by_one() -> None:
    p, q = f64(1, 0, 0, 0.2, 0.8, 0), f64(0, 0, 1, 0.2, 0.8, 0)
    torch.testing.assert_close(feature_divergence(p, q, 2), f64(1, 0))
    a, b = concepts(4), concepts(5)
    assert feature_divergence(a[:, None], b, 3).shape == (4, 5, 3)


def test_law_of_nodes_from_levels() -> None:
    paths = HierarchicalBinaryVectors(2, 4).paths  # L, R, LL, LR, RL, RR
    levels = f64(0, 0.75, 0.25, 0.5, 0.3, 0.2)
    torch.testing.assert_close(
        tree_distribution(levels, paths), f64(0.375, 0.125, 0.225, 0.15, 0.075, 0.05)
    )
    certain = f64(0, 0, 1, 0, 1, 0)  # RL
    torch.testing.assert_close(tree_distribution(certain, paths), f64(0, 0, 0, 0, 1, 0))
    nothing = f64(1, 0, 0, 1, 0, 0)  # the root, which is no node
    torch.testing.assert_close(tree_distribution(nothing, paths), f64(0.5, 0.5, 0, 0, 0, 0))


def test_levels_that_do_not_reach_all_combinations_are_normalised() -> None:
    paths = HierarchicalBinaryVectors(2, 4).paths
    levels = f64(0.5, 0.5, 0, 0.5, 0.5, 0)  # "none, then left" is no path
    torch.testing.assert_close(tree_distribution(levels, paths), f64(0.5, 0, 0.5, 0, 0, 0))


def test_expressions_translate_to_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    expressions = concepts(20)
    result = translate(expressions, expressions, 3)
    assert result.expression.tolist() == list(range(20))
    assert float(result.residual.max()) < 1e-12
    sentences = concepts(7)
    whole = translate(sentences, expressions, 3)
    monkeypatch.setattr(divergence, "CELLS", 1)
    parts = translate(sentences, expressions, 3)
    assert torch.equal(whole.expression, parts.expression)
    assert torch.equal(whole.residual, parts.residual)


def test_near_is_near_in_levels() -> None:
    sentence, sibling, far = f64([0, 1, 0, 0, 1, 0], [0, 1, 0, 0, 0, 1], [0, 0, 1, 0, 0, 1])
    result = translate(sentence[None], torch.stack([far, sibling]), 2)
    assert result.expression.tolist() == [1]
    assert float(result.residual) == pytest.approx(1)  # the one level that differs
