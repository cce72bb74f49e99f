"""Sequential Monte Carlo with a flow: exact evidence by algebra, whatever the flow; wrong weights
are seen.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pyro
import pytest
import torch
from pyro.distributions import Normal
from torch import Tensor

from plot_attractors.gflownet import (
    SubTrajectoryBalance,
    Trajectories,
    sequential_monte_carlo,
)

from ..problems import Bridge, T

STEPS, MEAN, SD, LOG_Z = 4, 1.5, 0.7, 0.8


def log_reward(z: Tensor) -> Tensor:
    """e^0.8 times N(1.5, 0.7²) in each of two dimensions."""
    return Normal(MEAN, SD).log_prob(z).sum(-1) + LOG_Z


def forward_step(z: Tensor, t: Any, context: Tensor) -> Tensor:
    """A Brownian motion, which goes nowhere of itself."""
    return pyro.sample("z", Normal(z, torch.full_like(z, STEPS**-0.5)).to_event(1))


def backward_step(z: Tensor, t: Any, context: Tensor) -> Tensor:
    t = torch.as_tensor(t)
    scale = ((t - 1) / (t * STEPS)).sqrt()
    return pyro.sample("z", Normal((t - 1) / t * z, scale.expand_as(z)).to_event(1))


class Flow:
    """The exact marginal of R Π P_B at time t, or the reward wherever it is `wrong`."""

    def __init__(self, wrong: bool = False) -> None:
        self.wrong = wrong

    def log_flow(self, z: Tensor, t: Tensor) -> Tensor:
        if self.wrong:
            return torch.where(t[..., 0] == 0, 0.0, log_reward(z))
        tau = t[..., 0] / STEPS
        sd = (tau**2 * SD**2 + tau * (1 - tau)).sqrt().clamp(min=1e-6)
        density = Normal(tau[..., None] * MEAN, sd[..., None]).log_prob(z).sum(-1) + LOG_Z
        return torch.where(tau == 0, LOG_Z, density)


def run(n: int, wrong: bool, least: float = 0.5, context: Tensor | None = None) -> Any:
    pyro.enable_validation(False)
    z0 = torch.zeros(n, 2)
    context = torch.zeros(n, 0) if context is None else context
    args = forward_step, backward_step, Flow(wrong), z0, STEPS, context
    return sequential_monte_carlo(*args, least)


@pytest.mark.parametrize("least", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("wrong", [False, True])
def test_the_evidence_is_unbiased_whatever_the_flow(wrong: bool, least: float) -> None:
    """The mean of Ẑ of 400 runs of 64 particles, by its standard error."""
    torch.manual_seed(0)
    z = torch.stack([run(64, wrong, least).log_z for _ in range(400)]).double().exp()
    assert float(z.mean()) == pytest.approx(math.exp(LOG_Z), abs=4 * float(z.std()) / 20)


def test_weighted_end_points_are_those_of_the_target() -> None:
    torch.manual_seed(1)
    for wrong in (False, True):
        found = run(200_000, wrong)
        weight = found.log_weight.softmax(0)
        end = found.trajectories.z[-1]
        mean = (weight[:, None] * end).sum(0)
        sd = (weight[:, None] * (end - mean).square()).sum(0).sqrt()
        torch.testing.assert_close(mean, torch.full((2,), MEAN), atol=0.05, rtol=0)
        torch.testing.assert_close(sd, torch.full((2,), SD), atol=0.05, rtol=0)
        half = (weight[:, None] * found.trajectories.z[STEPS // 2]).sum(0)
        torch.testing.assert_close(half, torch.full((2,), MEAN / 2), atol=0.05, rtol=0)


def test_an_exact_flow_helps() -> None:
    """log Ẑ varies less than by weights of whole trajectories, at the same number of particles."""
    torch.manual_seed(2)
    runs: dict[str, Callable[[], Any]] = {
        "twisted": lambda: run(64, False),
        "whole": lambda: run(64, False, 0.0),
    }
    spread = {k: torch.stack([one().log_z for _ in range(200)]).std() for k, one in runs.items()}
    assert spread["twisted"] < 0.8 * spread["whole"]


def test_lines_of_ancestors_and_contexts_stay_together() -> None:
    """Steps that add the context: each trajectory is its own context times the time."""

    def step(z: Tensor, t: Any, context: Tensor) -> Tensor:
        return pyro.sample("z", Normal(z + context, torch.full_like(z, 1e-4)).to_event(1))

    class Level:
        def log_flow(self, z: Tensor, t: Tensor) -> Tensor:
            return torch.where(t[..., 0] == 0, 0.0, 3 * z.sum(-1))

    def back(z: Tensor, t: Any, context: Tensor) -> Tensor:
        return pyro.sample("z", Normal(z - context, torch.full_like(z, 1e-4)).to_event(1))

    torch.manual_seed(3)
    context = torch.rand(50, 2)
    found = sequential_monte_carlo(step, back, Level(), torch.zeros(50, 2), 3, context, 1.0)
    z, kept = found.trajectories
    assert len({tuple(row) for row in kept.tolist()}) < 50, "some were resampled"
    for t in range(4):
        torch.testing.assert_close(z[t], t * kept, atol=1e-2, rtol=0)


def test_mistakes() -> None:
    with pytest.raises(ValueError, match="between 0 and 1, not 2"):
        run(4, False, 2.0)

    class Nowhere:
        def log_flow(self, z: Tensor, t: Tensor) -> Tensor:
            return torch.full(z.shape[:-1], -torch.inf)

    with pytest.raises(ValueError, match="at step 0: give the reward a floor"):
        sequential_monte_carlo(
            forward_step, backward_step, Nowhere(), torch.zeros(4, 2), 2, torch.zeros(4, 0)
        )


def test_a_flow_learns_by_sub_trajectories_and_leaves_the_policy_to_another_loss() -> None:
    """Of the exact policy, with particles of SMC as behaviour, to the exact flow."""
    torch.manual_seed(0)
    shift = torch.nn.Parameter(torch.tensor(0.0).double())  # of the policy
    bridge = Bridge(forward_shift=shift)  # type: ignore[arg-type]
    offsets = torch.nn.Parameter(torch.randn(T).double())

    class Learned:
        @staticmethod
        def log_flow(z: Tensor, t: Tensor) -> Tensor:
            padded = torch.cat([offsets, offsets.new_zeros(1)])  # at T the reward is known
            return bridge.log_flow(z, t) + padded[t[..., 0].long()]

    loss = SubTrajectoryBalance(bridge.forward_step, bridge.backward_step)
    optimizer = torch.optim.Adam([offsets], lr=0.1)
    z0 = bridge.z0.expand(16, 2)
    for _ in range(100):
        args = bridge.forward_step, bridge.backward_step, Learned(), z0, T, z0
        run = sequential_monte_carlo(*args)
        chosen = torch.multinomial(run.log_weight.softmax(0), 16, replacement=True)
        optimizer.zero_grad()
        particles = Trajectories(run.trajectories.z[:, chosen], z0)
        loss(particles, Learned()).backward(inputs=[offsets])
        optimizer.step()
    assert shift.grad is None
    assert float(offsets.detach().abs().max()) < 0.02
    loss(particles, Learned()).backward()
    assert shift.grad is not None  # without inputs= the policy would learn, too
