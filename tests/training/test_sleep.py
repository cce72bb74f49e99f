"""Transitions with known next states, against sampled ones."""

from __future__ import annotations

import pyro
import pytest
import torch
from pyro.distributions import Normal
from torch import Tensor

from plot_attractors.gflownet.trajectories import score_forward
from plot_attractors.training.bridge import GoAndWait
from plot_attractors.training.sleep import waiting_transitions, walking_transitions

KERNEL = GoAndWait(steps=9, epsilon=0.05, walk=3, first=0.5, noise=0.2, persistence=0.6)


def step(z: Tensor, t: float | Tensor, context: Tensor) -> Tensor:
    """A forward step program that sees state, time and context."""
    mean = 0.7 * z + 0.1 * torch.tanh(context) - 0.01 * t
    sample: Tensor = pyro.sample("z", Normal(mean, 0.1 + 0.05 * torch.sigmoid(z)).to_event(1))
    return sample


def test_cross_entropy_is_the_mean_score_of_sampled_trajectories() -> None:
    torch.manual_seed(0)
    n = 40_000
    z0, z_hat = torch.randn(2, 3)[:1].expand(n, -1), torch.randn(1, 3).expand(n, -1)
    trajectories = KERNEL.sample(z0, z_hat)
    all_waits = walking_transitions(KERNEL, trajectories, z_hat, waits=99)
    assert len(all_waits.z) == 9 * n
    scores = -score_forward(step, trajectories).sum(0)
    expected = float(scores.mean())
    assert float(all_waits.cross_entropy(step)) == pytest.approx(
        expected, abs=5 * float(scores.std()) / n**0.5
    )
    few = walking_transitions(KERNEL, trajectories, z_hat, waits=2)
    assert len(few.z) == (3 + 2) * n
    assert float(few.weight.sum()) == pytest.approx(9.0, rel=1e-4), (
        "as many steps as a trajectory has"
    )
    assert float(few.cross_entropy(step)) == pytest.approx(expected, rel=0.2)


def test_waiting_and_strays() -> None:
    torch.manual_seed(0)
    z_hat, context = torch.randn(400, 3), torch.randn(400, 3)
    to = waiting_transitions(KERNEL, z_hat, context, strays=200, stray_sd=(0.3, 0.9), max_step=0.2)
    away = (to.z - z_hat).norm(dim=-1)
    assert away[:200].median() > 0.5
    assert away[200:].max() < 0.05 * 6
    assert ((to.mean - to.z).norm(dim=-1) <= 0.2 + 1e-5).all()
    assert ((to.mean - z_hat).norm(dim=-1) < away).all(), "all walk inwards"
    assert torch.allclose(to.mean[200:], torch.lerp(z_hat, to.z, 0.6)[200:], atol=1e-5), (
        "no bound bites at home"
    )
    assert torch.equal(to.context, context)
    assert ((to.time >= 3) & (to.time < 9)).all()
    assert float(to.weight.sum()) == pytest.approx(6.0)


def test_rows_are_joined() -> None:
    z_hat, context = torch.zeros(4, 3), torch.zeros(4, 3)
    one = waiting_transitions(KERNEL, z_hat, context, 0, (0.1, 0.2), 1.0)
    both = one.join(one)
    assert all(len(part) == 8 for part in both)
    assert float(both.cross_entropy(step)) == pytest.approx(
        2 * float(one.cross_entropy(step)), rel=1e-5
    )
