"""The critical perturbation of simulated distances, from basins that are known."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from plot_attractors.measures.critical import critical_perturbation

NORMS = 6 * (torch.arange(31) / 30) ** 2
N = 500


def simulated(
    jump: Callable[[Tensor, Tensor], Tensor], dimensions: int, noise: float = 0.05
) -> Tensor:
    """(K, N) distances of last states jump(ν u, norm) (N, d), with Gaussian noise, to wells at the
    origin.
    """
    u = nn.functional.normalize(torch.randn(N, dimensions), dim=-1)
    ends = [jump(norm * u, norm) + noise * torch.randn(N, dimensions) for norm in NORMS]
    return torch.stack([z.norm(dim=-1) for z in ends])


def critical(distance: Tensor) -> Any:
    return critical_perturbation(NORMS, distance, torch.arange(N))


@pytest.mark.parametrize(("dimensions", "leaving"), [(2, 0.0), (8, 0.0), (4, 0.2)])
def test_cubic_cells_have_their_median_radius(dimensions: int, leaving: float) -> None:
    """Wells at whole numbers: the boundary is at 1 / 2max|u_i|; a share of states leaves by noise,
    at any norm.
    """

    def jump(z: Tensor, norm: Tensor) -> Tensor:
        away = nn.functional.one_hot(torch.randint(dimensions, (N,)), dimensions)
        return z.round() + (torch.rand(N, 1) < leaving) * away

    u = nn.functional.normalize(torch.randn(100_000, dimensions), dim=-1)
    boundary = float((0.5 / u.abs().amax(-1)).median())
    result = critical(simulated(jump, dimensions))
    assert result.norm == pytest.approx(boundary, abs=0.05)
    assert result.low <= result.norm <= result.high < result.low + 0.15
    assert result.reason == ""
    assert result.kept == pytest.approx(1 - leaving, abs=0.06)


def test_the_interval_is_of_sentences_and_not_of_starts() -> None:
    """Ten sentences whose basins differ: copies of their starts make the interval no narrower."""
    radii = torch.linspace(0.3, 2, 10).repeat_interleave(N // 10)
    distance = torch.where(NORMS[:, None] < radii, 0.05, NORMS[:, None] + 1)
    distance += 0.001 * torch.rand(len(NORMS), N)
    sentence = torch.arange(10).repeat_interleave(N // 10)
    of_sentences = critical_perturbation(NORMS, distance, sentence)
    of_starts = critical(distance)
    assert of_sentences.norm == of_starts.norm == pytest.approx(1.15, abs=0.15)
    assert of_sentences.high - of_sentences.low > 3 * (of_starts.high - of_starts.low)


@pytest.mark.parametrize(("noise", "left"), [(1e-5, 0.5), (0.05, 1.0), (0.5, 0.5)])
def test_states_that_stay_where_they_are_put_have_no_inflection(noise: float, left: float) -> None:
    result = critical(simulated(lambda z, norm: left * z, 4, noise))
    assert [*map(math.isnan, result[:3])] == [True] * 3
    assert "no inflection" in result.reason or "smallest perturbations" in result.reason


def test_basins_wider_and_narrower_than_the_grid() -> None:
    result = critical(simulated(lambda z, norm: 0 * z, 4))
    assert math.isnan(result.norm)
    assert "as near after the largest" in result.reason
    result = critical(simulated(lambda z, norm: 9.0 * (norm > 0) + 0 * z, 4))
    assert math.isnan(result.norm)
    assert "two smallest" in result.reason


def test_basins_closer_than_the_radius_have_an_inflection_all_the_same() -> None:
    """Half of the states that count as returned may be at a neighbour, not on their way."""
    noise = torch.randn(500, 8) * 0.035
    leaves = torch.linspace(0, 1, 500)  # the norm at which a state goes to a neighbour
    norms = torch.linspace(0, 1, 21)[:, None]
    far = torch.where(torch.arange(500) % 3 == 0, 0.8, 0.18)
    away = torch.where(norms > 0.75, 0.8, torch.where(norms < leaves, 0.0, far))
    moved = noise + torch.eye(8)[0] * away[..., None]
    result = critical_perturbation(norms[:, 0], moved.norm(dim=-1), torch.arange(500))
    assert not result.reason
    assert 0.3 < result.norm < 0.9
