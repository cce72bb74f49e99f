"""Exploration: off-policy steps, sentences met along a trajectory, and samplers that follow a
gradient.
"""

from __future__ import annotations

import math

import pytest
import torch
from pyro import poutine
from pyro.distributions import Normal
from torch import Tensor

from plot_attractors.gflownet import choose_visited, exploring, mala
from plot_attractors.runs import registry
LangevinDynamics = registry.load("models","langevin").LangevinDynamics
from plot_attractors.model.attractor import Dynamics

NONE = torch.zeros(0)


def drift(z: Tensor, t: Tensor | float, context: Tensor) -> Normal:
    return Normal(z + 10.0, torch.full_like(z, 0.001))


def test_exploring_steps_off_policy_with_the_given_probability() -> None:
    n, p, reach = 20_000, 0.3, 0.25
    z = torch.randn(n, 3)
    step = exploring(drift, p, reach)(z, 0.0, NONE) - z
    away = step.abs().amax(-1) < 5
    assert away.float().mean() == pytest.approx(p, abs=4.5 * math.sqrt(p * (1 - p) / n))
    box = step[away]
    assert box.abs().max() < reach + 0.01
    assert torch.allclose(box.mean(0), torch.zeros(3), atol=4.5 * reach / math.sqrt(3 * len(box)))
    assert torch.allclose(box.var(0), torch.full((3,), (2 * reach) ** 2 / 12), rtol=0.05), (
        "uniform in the box"
    )
    assert torch.allclose(step[~away], torch.full_like(step[~away], 10.0), atol=0.01)


@pytest.mark.parametrize(("p", "share"), [(0.0, 0.0), (1.0, 1.0)])
def test_exploring_never_or_always(p: float, share: float) -> None:
    step = exploring(drift, p, 0.25)(torch.zeros(500, 2), 0.0, NONE)
    assert (step.abs().amax(-1) < 5).float().mean() == share


def test_exploring_is_a_step_program() -> None:
    trace = poutine.trace(exploring(drift, 0.5, 0.25)).get_trace(torch.zeros(4, 2), 0.0, NONE)
    assert [name for name, site in trace.nodes.items() if site["type"] == "sample"] == ["z"]


def test_choose_visited_divides_the_count_out() -> None:
    n = 30_000
    index = torch.tensor([7, 7, 7, 3, 9])[:, None].expand(-1, n)
    score = torch.tensor([1.0, 1, 1, 0, -1])[:, None].expand(-1, n)
    chosen = index[choose_visited(score, index), torch.arange(n)]
    share = torch.stack([(chosen == k).float().mean() for k in (7, 3, 9)])
    assert torch.allclose(
        share, torch.tensor([1.0, 0, -1]).softmax(0), atol=4.5 * (0.25 / n) ** 0.5
    )
    sharp = index[choose_visited(score, index, power=3.0), torch.arange(n)]
    share = torch.stack([(sharp == k).float().mean() for k in (7, 3, 9)])
    assert torch.allclose(
        share, torch.tensor([3.0, 0, -3]).softmax(0), atol=4.5 * (0.25 / n) ** 0.5
    )


def test_choose_visited_takes_the_best_of_each_trajectory() -> None:
    score = torch.tensor([[0.0, 5.0], [2.0, 1.0], [1.0, 9.0]])
    assert choose_visited(score, torch.zeros(3, 2).long(), math.inf).tolist() == [1, 2]
    assert choose_visited(score, torch.arange(6).view(3, 2), power=1e3).tolist() == [1, 2]


# -- Metropolis-adjusted Langevin

MEAN, SD = torch.tensor([1.0, -2.0]), torch.tensor([0.5, 1.5])


def gaussian(z: Tensor) -> Tensor:
    return Normal(MEAN, SD).log_prob(z).sum(-1)


@pytest.mark.parametrize("step_size", [0.3, 0.9])
def test_mala_leaves_a_gaussian_invariant(step_size: float) -> None:
    n = 10_000
    z, rate = mala(MEAN + SD * torch.randn(n, 2), gaussian, step_size, steps=20)
    assert torch.allclose(z.mean(0), MEAN, atol=4 * float(SD.max()) / n**0.5)
    assert torch.allclose(z.var(0), SD.square(), rtol=4 * (2 / n) ** 0.5)
    assert rate.shape == (n,)
    assert 0.3 < rate.mean() < 1.0, "some moves are refused, most are not"


def test_mala_corrects_what_plain_langevin_gets_wrong() -> None:
    """At this step size the unadjusted chain has twice the narrow variance; the adjusted one has
    not.
    """
    n, h = 10_000, 0.7
    z = MEAN + SD * torch.randn(n, 2)
    plain = z
    for _ in range(30):
        plain = plain - 0.5 * h**2 * (plain - MEAN) / SD.square() + h * torch.randn(n, 2)
    adjusted, _ = mala(z, gaussian, h, steps=30)
    assert plain.var(0)[0] > 1.2 * SD[0].square()
    assert torch.allclose(adjusted.var(0), SD.square(), rtol=4 * (2 / n) ** 0.5)


def test_mala_finds_the_target_from_elsewhere() -> None:
    z, rate = mala(torch.full((4000, 2), 4.0), gaussian, 0.6, steps=200)
    assert torch.allclose(z.mean(0), MEAN, atol=0.12)
    assert torch.allclose(z.var(0), SD.square(), rtol=0.15)
    assert rate.min() > 0


# -- Langevin parametrisation


def langevin(log_density: object) -> LangevinDynamics:
    return LangevinDynamics(Dynamics(2, 10, units=16), log_density, 2, max_step=0.2)  # type: ignore[arg-type]


@pytest.mark.parametrize("width", [1.0, 1e-4])
def test_langevin_dynamics_add_a_bounded_push_uphill(width: float) -> None:
    model = langevin(lambda z, context: -0.5 * (z - context).square().sum(-1) / width)
    z, context = torch.randn(50, 2), torch.randn(50, 2)
    push = model(z, 0.0, context).loc - model.dynamics(z, 0.0, context).loc
    assert push.norm(dim=-1).max() <= 0.2 + 1e-6
    assert torch.nn.functional.cosine_similarity(push, context - z, dim=-1).min() > 0.999
    assert push.norm(dim=-1).min() > 0


def test_langevin_strength_is_learned_under_no_grad_too() -> None:
    model = langevin(lambda z, context: -z.square().sum(-1))
    model(torch.randn(5, 2), 0.0, NONE).loc.sum().backward()
    assert all(p.grad is not None for p in model.strength.parameters())
    with torch.no_grad():
        assert model(torch.randn(5, 2), 0.0, NONE).loc.shape == (5, 2)
