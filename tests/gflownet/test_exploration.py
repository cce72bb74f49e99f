"""Exploration: sentences visited along a trajectory, and Metropolis-adjusted Langevin moves."""

from __future__ import annotations

import math

import pytest
import torch
from pyro.distributions import Normal
from torch import Tensor

from plot_attractors.gflownet import choose_visited, mala


@pytest.mark.parametrize("power", [1.0, 3.0])
def test_choose_visited_divides_the_count_out(power: float) -> None:
    n = 30_000
    index = torch.tensor([7, 7, 7, 3, 9])[:, None].expand(-1, n)
    score = torch.tensor([1.0, 1, 1, 0, -1])[:, None].expand(-1, n)
    chosen = index[choose_visited(score, index, power), torch.arange(n)]
    share = torch.stack([(chosen == k).float().mean() for k in (7, 3, 9)])
    expected = (power * torch.tensor([1.0, 0, -1])).softmax(0)
    assert torch.allclose(share, expected, atol=4.5 * (0.25 / n) ** 0.5)


def test_choose_visited_takes_the_best_of_each_trajectory() -> None:
    score = torch.tensor([[0.0, 5.0], [2.0, 1.0], [1.0, 9.0]])
    assert choose_visited(score, torch.zeros(3, 2).long(), math.inf).tolist() == [1, 2]
    assert choose_visited(score, torch.arange(6).view(3, 2), power=1e3).tolist() == [1, 2]


MEAN, SD = torch.tensor([1.0, -2.0]), torch.tensor([0.5, 1.5])


def gaussian(z: Tensor) -> Tensor:
    return Normal(MEAN, SD).log_prob(z).sum(-1)


def test_mala_corrects_what_plain_langevin_gets_wrong() -> None:
    """At this step size the unadjusted chain has twice the narrow variance."""
    n, h = 10_000, 0.7
    z = MEAN + SD * torch.randn(n, 2)
    plain = z
    for _ in range(30):
        plain = plain - 0.5 * h**2 * (plain - MEAN) / SD.square() + h * torch.randn(n, 2)
    adjusted, rate = mala(z, gaussian, h, steps=30)
    assert plain.var(0)[0] > 1.2 * SD[0].square()
    assert torch.allclose(adjusted.mean(0), MEAN, atol=4 * float(SD.max()) / n**0.5)
    assert torch.allclose(adjusted.var(0), SD.square(), rtol=4 * (2 / n) ** 0.5)
    assert rate.shape == (n,)
    assert 0.3 < rate.mean() < 1.0, "some moves are refused, most are not"
