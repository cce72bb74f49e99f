"""One-step programs and their trajectories: all are scored as they sample, unroll, and explore."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pyro
import pytest
import torch
from pyro import poutine
from pyro.distributions import Normal
from scipy.stats import kstest
from torch import Tensor

from plot_attractors.gflownet import (
    Trajectories,
    choose_visited,
    exploring,
    simulate,
    simulate_backward,
)
from plot_attractors.gflownet.trajectories import (
    Step,
    score_backward,
    score_forward,
    score_step,
    shift_end_points,
)
from plot_attractors.model.networks import Dynamics

T, B, D, REACH = 5, 4, 3, 0.25
NONE = torch.zeros(0)


def as_step(dynamics: Callable[..., Normal]) -> Step:
    return lambda z, t, context: pyro.sample("z", dynamics(z, t, context).to_event(1))


@pytest.mark.parametrize("name", ["forward", "backward"])
def test_whole_trajectories_are_scored_as_they_were_simulated(name: str) -> None:
    options = {"context": True, "time": True} if name == "backward" else {}
    step = as_step(Dynamics(D, T, units=16, **options))
    end, context = torch.randn(B, D), torch.randn(B, D)
    sampled: list[Tensor] = []

    def recording(z: Tensor, t: Any, context: Tensor) -> Tensor:
        trace: Any = poutine.trace(step).get_trace(z, t, context)
        (site,) = (node for node in trace.nodes.values() if node["type"] == "sample")
        sampled.append(site["fn"].log_prob(site["value"]))
        return site["value"]

    if name == "backward":
        trajectories = simulate_backward(recording, end.requires_grad_(), T, context)
        assert torch.equal(trajectories.z[-1], end)
        expected = torch.stack([torch.zeros(B), *sampled[-2::-1]])  # z0 is given
        assert torch.allclose(score_backward(step, trajectories), expected, atol=1e-4)
    else:
        trajectories = simulate(recording, end.requires_grad_(), T, context)
        assert torch.equal(trajectories.z[0], end)
        expected = torch.stack(sampled)
        assert torch.allclose(score_forward(step, trajectories), expected, atol=1e-4)
    assert not trajectories.z.requires_grad
    assert trajectories.steps == T
    assert trajectories.times.flatten().tolist() == [0, 1, 2, 3, 4, 5]


def test_other_sites_scales_and_masks_of_a_step_count() -> None:
    def step(z: Tensor, t: Any, context: Tensor) -> Tensor:
        pyro.factor("bonus", z.sum(-1))
        with pyro.plate("trajectories", z.shape[-2]):
            return pyro.sample("z", Normal(z, 1.0).to_event(1))

    z, to = torch.randn(B, D), torch.randn(B, D)
    score = score_step(step, z, to, 0.0, NONE)
    torch.testing.assert_close(score, Normal(z, 1.0).log_prob(to).sum(-1) + z.sum(-1))
    half = score_step(poutine.scale(step, scale=0.5), z, to, 0.0, NONE)
    torch.testing.assert_close(half, score / 2)
    mask = torch.tensor([True, False, True, False])
    masked = score_step(poutine.mask(step, mask=mask), z, to, 0.0, NONE)
    torch.testing.assert_close(masked, score * mask)


def test_shifted_trajectories_keep_their_end() -> None:
    trajectories = Trajectories(torch.randn(T + 1, B, D), torch.randn(B, D))
    z0, u = torch.randn(B, D), torch.arange(T + 1.0)[:, None, None] / T
    shifted = shift_end_points(trajectories, z0)
    assert torch.allclose(shifted.z[0], z0, atol=1e-6)
    assert torch.allclose(shifted.z[-1], trajectories.z[-1], atol=1e-6)
    moved = (shifted.z - trajectories.z) / (z0 - trajectories.z[0])
    assert torch.allclose(moved, (1 - u).expand_as(moved), atol=1e-4), "the offset fades out"


# -- exploration


def drift(z: Tensor, t: Tensor | float, context: Tensor) -> Normal:
    return Normal(z + 10.0, torch.full_like(z, 1e-5))


def test_exploring_is_uniform_within_its_ball() -> None:
    n, p = 20_000, 0.3
    z = torch.randn(n, D)
    step = (exploring(drift, p, REACH)(z, 0.0, NONE) - z).double()
    away = step.abs().amax(-1) < 5
    assert away.double().mean().item() == pytest.approx(p, abs=4.5 * (p * (1 - p) / n) ** 0.5)
    assert torch.allclose(step[~away], torch.tensor(10.0).double(), atol=1e-3)
    offset = step[away] / REACH
    assert kstest(offset.norm(dim=-1) ** D, "uniform").pvalue > 1e-4
    assert offset.mean(0).abs().max() < 4.5 / len(offset) ** 0.5
    # a coordinate of a direction in three dimensions is uniform
    along = offset[:, 0] / offset.norm(dim=-1)
    assert kstest(along, "uniform", args=(-1, 2)).pvalue > 1e-4


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
