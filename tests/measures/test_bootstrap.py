"""Means over inputs with bootstrap intervals."""

from __future__ import annotations

import math

import pytest
import torch

from plot_attractors.data import Feature
from plot_attractors.measures.bootstrap import Estimate, bootstrap, resample, root

COLOUR, SIZE = Feature("colour", ("red", "green", "blue")), Feature("size")
NAN = math.nan


def test_copies_of_an_input_are_drawn_together() -> None:
    x = torch.tensor([[0.0, 1.0], [1.0, 1.0], [0.0, 1.0], [2.0, 2.0]])
    times = resample(x)
    assert torch.equal(times[:, 0], times[:, 2])
    assert (times[:, [0, 1, 3]].sum(1) == 3).all()
    assert times[:, 1].mean() == pytest.approx(1, abs=0.15)


def test_intervals_of_means() -> None:
    scores = torch.cat([torch.ones(80, 3), torch.zeros(20, 3)])
    scores[:, 1] = 0.25
    scores[:, 2] = torch.where(torch.arange(100) < 90, NAN, scores[:, 2])
    result = bootstrap(scores, resample(torch.arange(100.0)[:, None]))
    torch.testing.assert_close(result.value, torch.tensor([0.8, 0.25, 0.0], dtype=torch.float64))
    assert float(result.low[0]) == pytest.approx(0.8 - 1.96 * 0.04, abs=0.02)
    assert float(result.high[0]) == pytest.approx(0.8 + 1.96 * 0.04, abs=0.02)
    assert result.low[1] == result.high[1] == 0.25
    copies = bootstrap(scores.repeat(9, 1), resample(torch.arange(100.0).repeat(9)[:, None]))
    torch.testing.assert_close(copies.low, result.low, atol=0.02, rtol=0)
    nothing = bootstrap(torch.full((5, 1), NAN), resample(torch.arange(5.0)[:, None]))
    assert all(part.isnan().all() for part in nothing)


def test_errors_of_numbers_become_roots() -> None:
    estimate = Estimate(*(torch.tensor([0.25, v]) for v in (4.0, 1.0, 9.0)))
    result = root(estimate, (COLOUR, SIZE))
    torch.testing.assert_close(
        torch.stack([*result]), torch.tensor([[0.25, 2.0], [0.25, 1.0], [0.25, 3.0]])
    )
