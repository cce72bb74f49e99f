"""Memory and the bridge, against the algebra of joint Gaussians."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from pyro.distributions import Normal
from torch import Tensor

from plot_attractors.model.memory import Bridge, Memory, recall

D, T, K, EPSILON, RHO = 3, 10, 4, 0.1, 0.8
float64 = torch.float64
SCALE = torch.tensor([0.7, 0.1, 2.0], dtype=float64)


def states(n: int) -> Tensor:
    return torch.randn(n, 20, D, dtype=float64)


def times(t: float) -> Tensor:
    return torch.full((20, 1), t, dtype=float64)


def close(p: Normal, mean: Tensor, sd: Any) -> bool:
    sd = torch.as_tensor(sd, dtype=float64)
    return torch.allclose(p.loc, mean, atol=1e-8) and torch.allclose(p.scale, sd, atol=1e-8)


def conditioned(mean: Tensor, cov: Tensor, i: int, j: int, value: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and sd of component i given that j has a value, of a Gaussian (…, n), (…, n, n)."""
    gain = cov[..., i, j] / cov[..., j, j].clamp(min=1e-300)
    variance = (cov[..., i, i] - gain * cov[..., i, j]).clamp(min=1e-10)
    return mean[..., i] + gain * (value - mean[..., j]), variance.sqrt()


def memory(amplitude: float = 2.0) -> Memory:
    of = Memory(D, amplitude, EPSILON).double()
    of.scale.copy_(SCALE)
    return of


def test_memory_begins_with_a_clock_and_a_trace_of_the_input() -> None:
    z0, none = states(1)[0], memory(0.0)
    start = torch.cat([torch.full((20, 1), 5.0), z0 / SCALE], -1)
    assert torch.allclose(memory().start(z0), 2 * start)
    assert none.size == none.start(z0).shape[-1] == 0
    assert none.log_prob(none.start(z0), times(1), z0).tolist() == [0] * 20


def test_the_time_and_the_trace_are_recalled_until_they_have_faded() -> None:
    of, z0 = memory(), states(1)[0]
    for t in range(14):
        bumps, trace = recall(of.marginal(z0, t).loc, 2.0).split([14, D], -1)
        assert bumps.argmax(-1).tolist() == [t] * 20
        assert float((trace * SCALE / z0).median()) == pytest.approx(1, abs=0.1 if t < 13 else 0.2)
    assert recall(torch.full((20, 1 + D), 0.01, dtype=float64), 2.0).abs().max() < 0.02, "faded"


@pytest.mark.parametrize("t", [0, 1, 2, 7, 30])
def test_memory_is_an_ar1_in_detailed_balance(t: int) -> None:
    """(I − ρ shift) b = (ρ b_0, 0, …) + N(0, (1 − ρ²) ε²) has the joint law of b_1 … b_{t+1}, and
    log P(b_t) + log P(b_{t+1} | b_t) = log P(b_{t+1}) + log P←(b_t | b_{t+1}), b_0 given.
    """
    of, z0 = memory(), states(1)[0]
    start, n = of.start(z0), t + 1
    solve = torch.linalg.inv(torch.eye(n) - RHO * torch.eye(n).roll(1, 0).tril(-1)).double()
    mean, cov = RHO * start[..., None] * solve[:, 0], (1 - RHO**2) * EPSILON**2 * solve @ solve.T
    assert close(of.marginal(z0, n), mean[..., t], cov[t, t].sqrt())
    b = of.marginal(z0, t).sample() if t else start
    to = of(b).sample()
    back = of.backward_step(to, n, z0)
    assert close(back, *(conditioned(mean, cov, t - 1, t, to) if t else (start, 1e-5)))
    left = of.log_prob(b, times(t), z0) + of(b).log_prob(to).sum(-1)
    given = back.log_prob(b).sum(-1) if t else 0.0
    assert torch.allclose(left, of.log_prob(to, times(n), z0) + given, atol=1e-4)
    assert t == 30 or not torch.allclose(left, of.log_prob(to, times(n + 1), z0) + given, atol=0.1)
    assert close(of.marginal(z0, math.inf), torch.zeros_like(start), EPSILON)


def elsewhere(z: Tensor, t: Any, z0: Tensor) -> Normal:
    """Dynamics that see memory."""
    return Normal(z[..., :D] + 5.0 + z[..., D:].sum(-1, keepdim=True), 2.0)


def bridge() -> Bridge:
    of = Bridge(D, T, EPSILON, elsewhere).double()  # type: ignore[arg-type]
    of.sd.copy_(torch.tensor([0.3, 0.1, 0.6]))
    return of


@pytest.mark.parametrize("t", range(K))
def test_the_bridge_and_its_steps_are_conditionals_of_one_gaussian(t: int) -> None:
    """z_0 … z_K are a Brownian bridge of variance σ², plus its end N(ẑ, ε²) ∝ its time τ."""
    of, (z0, z_hat, noise) = bridge(), states(3)
    tau = 1 - torch.linspace(1, 0, K + 1, dtype=float64) ** 2
    brownian = torch.minimum(tau[:, None], tau) - tau[:, None] * tau
    cov = of.sd[:, None, None] ** 2 * brownian + EPSILON**2 * tau[:, None] * tau
    mean = z0[..., None] + tau * (z_hat - z0)[..., None]
    z, to = (mean[..., t + k] + noise * (0.3 if t + k else 0.0) for k in (0, 1))
    n, sd = t + 1, cov[:, t + 1, t + 1].sqrt()
    assert close(of.marginal(z0, z_hat, times(n)), mean[..., n], sd)
    assert close(of(to, times(n), z0), *conditioned(mean, cov, t, n, to))
    a, b, v = of.step(z, z0, times(t))
    assert close(Normal(a + b * z_hat, v.sqrt()), *conditioned(mean, cov, n, t, z))


def test_after_the_walk_states_stay_and_steps_back_are_those_of_the_dynamics() -> None:
    of, (z0, z_hat, z) = bridge(), states(3)
    for t in (K, T):
        a, b, v = of.step(z, z0, times(t))
        to = torch.lerp(z_hat, z, 0.7)
        assert close(Normal(a + b * z_hat, v.sqrt()), to, 0.51**0.5 * EPSILON)
        assert close(of.marginal(z0, z_hat, times(t)), z_hat, EPSILON)
    state = torch.cat([z, torch.ones(20, 2, dtype=float64)], -1)
    t = torch.tensor([1.0, K, K + 1, T], dtype=float64)[:, None, None]
    step, walk = of(state, t, z0), of(z, t[:2], z0)
    loc, sd = (torch.cat([part, part]) for part in (walk.loc, walk.scale))
    loc[2:], sd[2:] = z + 7.0, 2.0
    assert close(step, loc, sd)
    assert not [*of.parameters()]


def test_the_bridge_is_as_wide_as_sentences_are_and_as_embeddings_vary() -> None:
    of, scale = bridge(), torch.tensor([[0.2, 2.0, 2.0], [0.4, 2.0, 2.0], [3.0, 2.0, 2.0]])
    z_hat = torch.tensor([[1.0, 0.5, 0.01], [0.0, 0.5, 0.0], [-1.0, -1.0, 0.0]])
    of.prepare(Normal(z_hat, scale))
    assert of.sd.tolist() == pytest.approx([0.4, float(z_hat[:, 1].std()), EPSILON], rel=1e-5)
    of._forward[0] = SimpleNamespace(max_step=0.6)
    of.prepare(Normal(3 * torch.randn(50, D), 2.0))
    longest, z0 = 0.0, torch.zeros(20, 1000, D, dtype=float64)
    for t in range(K):
        z = of.marginal(z0, z0, times(t)[..., None]).sample()
        step = of.step(z, z0, times(t)[..., None])[0] - z
        longest = max(longest, float(step.square().sum(-1).mean().sqrt()))
    assert longest == pytest.approx(0.65 * 0.6, rel=0.25)
