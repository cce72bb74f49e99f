"""Steps that are no diagonal Gaussian."""

from __future__ import annotations

from typing import Any

import pyro
import pytest
import torch
from pyro.distributions import Normal, StudentT
from torch import Tensor

from plot_attractors.gflownet.trajectories import _say_sampled, expected_score_step


def test_steps_that_are_no_gaussian_are_scored_at_sampled_states(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def student(z: Tensor, t: Any, context: Tensor) -> Tensor:
        return pyro.sample("z", StudentT(5.0, z, 0.3).to_event(1))

    _say_sampled.cache_clear()
    z = torch.zeros(20_000, 2)
    to = torch.distributions.Normal(z + 0.2, torch.full_like(z, 0.1))
    found = expected_score_step(student, z, to, 0.0, z)
    x = torch.linspace(-0.6, 1.0, 2001)
    p = torch.distributions.Normal(0.2, 0.1).log_prob(x).exp()
    exact = 2 * torch.trapezoid(p * StudentT(5.0, 0.0, 0.3).log_prob(x), x)
    assert float(found.mean()) == pytest.approx(float(exact), abs=0.02)
    expected_score_step(student, z, to, 0.0, z)
    assert caplog.text.count("steps are StudentT, no diagonal Gaussian") == 1


def test_steps_with_a_scale_are_scored_with_it() -> None:
    def step(z: Tensor, t: Any, context: Tensor) -> Tensor:
        with pyro.poutine.scale(scale=3.0):
            return pyro.sample("z", Normal(z, 0.3).to_event(1))

    z = torch.zeros(20_000, 2)
    to = torch.distributions.Normal(z + 0.2, torch.full_like(z, 0.1))
    found = expected_score_step(step, z, to, 0.0, z)
    one = Normal(0.0, 0.3).log_prob(torch.tensor(0.2)) - 0.5 * (0.1 / 0.3) ** 2
    assert float(found.mean()) == pytest.approx(3 * 2 * float(one), abs=0.03)
