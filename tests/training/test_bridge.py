"""A bridge, then a stationary AR(1): moments and transitions, against sampled trajectories."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from plot_attractors.training.bridge import Bridge

N = 20_000


def bridge(**options: Any) -> Bridge:
    return Bridge(12, 0.1, **{"walk": 4, "first": 0.6, **options})


def walks(n: int = N, **options: Any) -> tuple[Tensor, Tensor, Tensor]:
    z0, z_hat = torch.tensor([0.5, -0.3]).expand(n, 2), torch.tensor([-1.0, 2.0]).expand(n, 2)
    trajectories = bridge(**options).sample(z0, z_hat)
    assert torch.equal(trajectories.context, z0)
    return z0, z_hat, trajectories.z


def test_it_starts_at_z0_and_is_stationary_at_the_embedding() -> None:
    z0, z_hat, z = walks(persistence=0.5)
    assert z.shape == (13, N, 2)
    assert torch.equal(z[0], z0)
    off = (z - z_hat)[4:]  # times 4 … 12
    assert torch.allclose(off.mean(1), torch.zeros(9, 2), atol=4.5 * 0.1 / N**0.5)
    assert torch.allclose(off.std(1), torch.full((9, 2), 0.1), rtol=4.5 * (0.5 / N) ** 0.5)
    for lag in (1, 2, 3):
        correlation = (off[lag:] * off[:-lag]).mean((1, 2)) / 0.01
        assert torch.allclose(correlation, torch.full((9 - lag,), 0.5**lag), atol=5 / N**0.5)


def test_walk_is_a_brownian_bridge_on_its_clock() -> None:
    """Given z_4, the state at clock τ is N(z0 + τ (z_4 − z0), noise² τ (1 − τ))."""
    z0, _, z = walks(noise=0.3)
    for t, u in ((1, 0.6), (2, 0.6 + 0.4 / 3), (3, 0.6 + 0.8 / 3)):
        off, var = z[t] - (z0 + u * (z[4] - z0)), 0.3**2 * u * (1 - u)
        assert torch.allclose(off.mean(0), torch.zeros(2), atol=4.5 * (var / N) ** 0.5)
        assert torch.allclose(off.var(0), torch.full((2,), var), rtol=4.5 * (2 / N) ** 0.5)
        correlation = torch.corrcoef(torch.stack([off[:, 0], z[4, :, 0]]))[0, 1]
        assert abs(float(correlation)) < 4.5 / N**0.5


@pytest.mark.parametrize("walk", [1, 4, 12])
def test_moments_and_forward_transitions_are_those_of_its_trajectories(walk: int) -> None:
    kernel = bridge(walk=walk, noise=0.3)
    z0, z_hat, z = walks(walk=walk, noise=0.3)
    mean, sd = kernel.mean(torch.arange(13), z0, z_hat)[:, 0], float(kernel.variance.max()) ** 0.5
    assert torch.allclose(z.mean(1), mean, atol=5 * sd / N**0.5)
    var = kernel.variance[1:, None].expand(-1, 2)
    assert torch.allclose(z.var(1)[1:], var, rtol=5 * (2 / N) ** 0.5)
    to = kernel.forward_transition(torch.arange(12), z[:-1], z0, z_hat)
    off = (z[1:] - to.mean) / to.stddev
    assert torch.allclose(off.mean(1), torch.zeros(12, 2), atol=4.5 / N**0.5)
    assert torch.allclose(off.var(1), torch.ones(12, 2), rtol=5 * (2 / N) ** 0.5)
    before = z[1:-1] - z[1:-1].mean(1, keepdim=True)  # z_0 is no random variable
    before = before / z[1:-1].std(1, keepdim=True)
    left = (before * off[1:]).mean(1)
    assert float(left.abs().max()) < 4.5 / N**0.5, "nothing of z_t is left in the residual"


def test_stationary_steps_are_reversible() -> None:
    kernel = bridge(persistence=0.7)
    z0, z_hat, z = torch.zeros(5, 2), torch.randn(5, 2), torch.randn(3, 5, 2)
    to = kernel.forward_transition(torch.tensor([4, 7, 11]), z, z0, z_hat)
    back = kernel.stationary(z, z_hat)
    assert torch.allclose(to.mean, back.mean, atol=1e-5)
    assert torch.allclose(to.stddev, torch.full_like(z, back.stddev.mean()), rtol=1e-4)


def test_impossible_bridges() -> None:
    wrong = {"walk": (0, 13), "first": (0.0, 1.5), "persistence": (1.0,), "noise": (-1.0,)}
    for name, values in wrong.items():
        for value in values:
            with pytest.raises(ValueError, match=r"^a bridge needs .*, not "):
                bridge(**{name: value})
