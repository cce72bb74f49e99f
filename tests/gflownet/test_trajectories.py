"""Trajectories: scored whole as step by step, backward ones end where they should, steps unroll
into programs.
"""

from __future__ import annotations

import math
from typing import Any

import pyro
import pytest
import torch
from pyro import poutine
from pyro.distributions import Normal
from pyro.infer import SVI
from pyro.optim import Adam  # type: ignore[attr-defined]
from torch import Tensor, nn

from plot_attractors.gflownet import (
    Trajectories,
    TrajectoryBalance,
    simulate,
    simulate_backward,
    unroll,
)
from plot_attractors.gflownet.trajectories import (
    named,
    score_backward,
    score_forward,
    score_step,
    shift_end_points,
)

T, B, D = 5, 4, 2


class Kernel:
    """A Gaussian kernel of state, time and context; the site z is not its only statement."""

    def __init__(self, sign: float) -> None:
        self.sign = sign

    def distribution(self, z: Tensor, t: Tensor | float, context: Tensor) -> Normal:
        t = torch.as_tensor(t, dtype=z.dtype)
        loc = 0.7 * z + self.sign * 0.1 * t + 0.3 * context
        return Normal(loc, (0.2 + 0.05 * t).expand_as(loc))

    def __call__(self, z: Tensor, t: Any, context: Tensor) -> Tensor:
        return pyro.sample("z", self.distribution(z, t, context).to_event(1))


forward, backward = Kernel(1.0), Kernel(-1.0)


def test_simulation_passes_states_and_times() -> None:
    z0, context = torch.randn(B, D), torch.randn(B, D)
    torch.manual_seed(1)
    trajectories = simulate(forward, z0, T, context)
    torch.manual_seed(1)
    z = [z0]
    for t in range(T):
        z.append(forward.distribution(z[-1], float(t), context).sample())
    assert torch.equal(trajectories.z, torch.stack(z))
    assert trajectories.steps == T
    assert trajectories.times.flatten().tolist() == [0, 1, 2, 3, 4, 5]

    torch.manual_seed(1)
    back = simulate_backward(backward, z0, T, context)
    torch.manual_seed(1)
    z = [z0]
    for t in range(T, 0, -1):
        z.append(backward.distribution(z[-1], float(t), context).sample())
    assert torch.equal(back.z, torch.stack(z).flip(0)), "in forward order"
    assert torch.equal(back.z[-1], z0)


def test_simulation_carries_no_gradient() -> None:
    assert not simulate(
        forward, torch.randn(B, D, requires_grad=True), T, torch.zeros(B, D)
    ).z.requires_grad


def test_whole_trajectories_are_scored_as_a_loop_does() -> None:
    trajectories = Trajectories(torch.randn(T + 1, B, D), torch.randn(B, D))
    z, context = trajectories
    log_pf, log_pb = score_forward(forward, trajectories), score_backward(backward, trajectories)
    for t in range(T):
        expected = forward.distribution(z[t], float(t), context).log_prob(z[t + 1]).sum(-1)
        assert torch.allclose(log_pf[t], expected, atol=1e-5)
        expected = backward.distribution(z[t + 1], float(t + 1), context).log_prob(z[t]).sum(-1)
        assert torch.allclose(log_pb[t], expected if t else torch.zeros(B), atol=1e-5)


def test_other_sites_of_a_step_count() -> None:
    def step(z: Tensor, t: Any, context: Tensor) -> Tensor:
        pyro.factor("bonus", z.sum(-1))
        with pyro.plate("trajectories", z.shape[-2]):
            return forward(z, t, context)

    z, to, context = torch.randn(B, D), torch.randn(B, D), torch.zeros(B, D)
    expected = forward.distribution(z, 0.0, context).log_prob(to).sum(-1) + z.sum(-1)
    assert torch.allclose(score_step(step, z, to, 0.0, context), expected, atol=1e-5)


def test_scores_follow_gradients_and_not_samples() -> None:
    scale = torch.ones((), requires_grad=True)

    def step(z: Tensor, t: Any, context: Tensor) -> Tensor:
        return pyro.sample("z", Normal(z, scale).to_event(1))

    z, to = torch.zeros(B, D), torch.full((B, D), 2.0)
    score_step(step, z, to, 0.0, z).sum().backward()
    assert scale.grad == pytest.approx(B * D * (2.0**2 - 1))


def test_a_step_without_its_site() -> None:
    def step(z: Tensor, t: Any, context: Tensor) -> Tensor:
        return pyro.sample("y", Normal(z, 1.0).to_event(1))

    with pytest.raises(
        ValueError, match='A step program must sample its next state at the site "z"'
    ):
        score_step(step, torch.zeros(B, D), torch.zeros(B, D), 0.0, torch.zeros(B, D))


@pytest.mark.parametrize("decay", [None, 0.5, 5.0])
def test_shifted_trajectories_keep_their_end(decay: float | None) -> None:
    trajectories = Trajectories(torch.randn(T + 1, B, D), torch.randn(B, D))
    z0 = torch.randn(B, D)
    shifted = shift_end_points(trajectories, z0, decay)
    assert torch.allclose(shifted.z[0], z0, atol=1e-6)
    assert torch.allclose(shifted.z[-1], trajectories.z[-1], atol=1e-6)
    moved = (shifted.z - trajectories.z) / (z0 - trajectories.z[0])
    assert (moved.diff(dim=0) < 0).all(), "the offset fades out"
    if decay is None:
        assert torch.allclose(moved[:, 0, 0], 1 - torch.arange(T + 1) / T, atol=1e-5)
    if decay == 5.0:
        assert (moved[1:-1] < 1 - torch.arange(1, T)[:, None, None] / T - 0.05).all(), (
            "early states only"
        )
    assert torch.allclose(shift_end_points(shifted, z0, decay).z, shifted.z, atol=1e-6), (
        "nothing left to shift"
    )


# -- unrolling


class Chain(nn.Module):
    """Forward policy with two parameters for the target N(3, ½²) after 3 steps, backward kernel a
    pinned bridge.
    """

    steps, target = 3, Normal(torch.tensor([3.0]), torch.tensor([0.5]))

    def __init__(self) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.full((self.steps,), 0.5))
        self.pull = nn.Parameter(torch.ones(self.steps))
        self.log_sd = nn.Parameter(torch.full((self.steps,), -0.5))

    def forward_step(self, z: Tensor, t: Any, context: Tensor) -> Tensor:
        k = int(t)
        return pyro.sample(
            "z", Normal(self.pull[k] * z + self.shift[k], self.log_sd[k].exp()).to_event(1)
        )

    def backward_step(self, z: Tensor, t: Any, context: Tensor) -> Tensor:
        loc = context + (t - 1) / t * (z - context)
        return pyro.sample("z", Normal(loc, ((t - 1) / t) ** 0.5).to_event(1))

    def programs(self) -> tuple[Any, Any]:
        zero = torch.zeros(1)
        return unroll(
            self.forward_step,
            self.backward_step,
            self.steps,
            initial=lambda: (zero, zero),
            terminal=lambda context: pyro.sample("z", self.target.to_event(1)),
            log_reward=lambda end, context: torch.tensor(math.log(5.0)),
        )


def test_unrolled_programs_have_the_same_sites() -> None:
    model, guide = Chain().programs()
    sites = ["z_1", "z_2", "z_3"]
    model_trace, guide_trace = poutine.trace(model).get_trace(), poutine.trace(guide).get_trace()
    assert sorted(model_trace.stochastic_nodes) == guide_trace.stochastic_nodes == sites
    assert model_trace.observation_nodes == ["log_reward"]


def test_unrolled_programs_score_as_the_steps_do() -> None:
    chain = Chain()
    model, guide = chain.programs()
    trace = poutine.trace(guide).get_trace()
    z = torch.stack([torch.zeros(1), *[trace.nodes[f"z_{t}"]["value"] for t in (1, 2, 3)]])
    log_pf = sum(score_step(chain.forward_step, z[t], z[t + 1], float(t), z[0]) for t in range(3))
    assert torch.allclose(trace.log_prob_sum(), torch.as_tensor(log_pf), atol=1e-5)
    log_pb = sum(score_step(chain.backward_step, z[t], z[t - 1], float(t), z[0]) for t in (3, 2))
    replayed = poutine.trace(poutine.replay(model, trace=trace)).get_trace()
    expected = log_pb + chain.target.log_prob(z[3]).sum(-1) + math.log(5.0)
    assert torch.allclose(replayed.log_prob_sum(), expected, atol=1e-5)


def test_unrolled_programs_train_with_trajectory_balance() -> None:
    """z_3 comes to follow the target and log Z becomes log 5, the reward's constant."""
    chain = Chain()
    model, guide = chain.programs()
    loss = TrajectoryBalance(num_particles=16)
    optimizer = torch.optim.Adam(
        [{"params": chain.parameters(), "lr": 0.02}, {"params": loss.parameters(), "lr": 0.1}]
    )
    for _ in range(300):
        optimizer.zero_grad()
        loss.differentiable_loss(model, guide).backward()
        optimizer.step()
    with pyro.plate("n", 4000, dim=-1), torch.no_grad():
        z = guide()
    assert float(z.mean()) == pytest.approx(3.0, abs=0.15)
    assert float(z.std()) == pytest.approx(0.5, abs=0.1)
    assert float(torch.as_tensor(loss.log_z)) == pytest.approx(math.log(5.0), abs=0.15)


def test_svi_takes_unrolled_programs() -> None:
    def forward_step(z: Tensor, t: Any, context: Tensor) -> Tensor:
        loc = pyro.param(f"loc_{int(t)}", torch.zeros(1))
        return pyro.sample("z", Normal(z + loc, 1.0).to_event(1))

    pyro.clear_param_store()
    programs = unroll(
        forward_step,
        Chain().backward_step,
        2,
        initial=lambda: (torch.zeros(1), torch.zeros(1)),
        terminal=lambda context: pyro.sample(
            "z", Normal(torch.tensor([1.0]), math.sqrt(2.0)).to_event(1)
        ),
        log_reward=lambda end, context: torch.zeros(()),
    )
    svi = SVI(*programs, Adam({"lr": 0.02}), TrajectoryBalance(num_particles=16))
    losses = [svi.step() for _ in range(400)]
    assert sum(losses[-20:]) < 0.3 * sum(losses[:20])
    assert float(pyro.param("loc_0") + pyro.param("loc_1")) == pytest.approx(1.0, abs=0.15)
    pyro.clear_param_store()


def test_renaming_concerns_the_next_state_only() -> None:
    def step() -> None:
        pyro.sample("z", Normal(0.0, 1.0))
        pyro.sample("y", Normal(0.0, 1.0))

    with poutine.trace() as trace, named("z_7"):
        step()
    assert trace.trace.stochastic_nodes == ["z_7", "y"]
