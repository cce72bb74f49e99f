"""Go and wait: a bridge, then a stationary wait; its forward transitions are those of its own
trajectories.
"""

from __future__ import annotations

import math
from typing import Any

import pyro
import pytest
import torch
from pyro.distributions import Gamma, Normal
from torch import Tensor

from plot_attractors.gflownet.trajectories import expected_score_step, score_step
from plot_attractors.training.bridge import GoAndWait


def kernel(**options: Any) -> GoAndWait:
    return GoAndWait(12, 0.1, **{"walk": 4, "first": 0.6, **options})


def walks(n: int = 20_000, **options: Any) -> tuple[Tensor, Tensor, Tensor]:
    z0, z_hat = torch.tensor([0.5, -0.3]).expand(n, 2), torch.tensor([-1.0, 2.0]).expand(n, 2)
    trajectories = kernel(**options).sample(z0, z_hat)
    assert torch.equal(trajectories.context, z0)
    return z0, z_hat, trajectories.z


@pytest.mark.parametrize("walk", [1, 2, 4, 12])
def test_go_and_wait_starts_at_z0_exactly(walk: int) -> None:
    z0, _, z = walks(100, walk=walk)
    assert z.shape == (13, 100, 2)
    assert torch.equal(z[0], z0)


def test_waiting_is_stationary_round_the_embedding() -> None:
    n = 20_000
    _, z_hat, z = walks(n, persistence=0.5)
    wait = (z - z_hat)[4:]  # times 4 … 12
    assert torch.allclose(wait.mean(1), torch.zeros(9, 2), atol=4.5 * 0.1 / n**0.5)
    assert torch.allclose(wait.std(1), torch.full((9, 2), 0.1), rtol=4.5 * (0.5 / n) ** 0.5)
    for lag in (1, 2, 3):
        correlation = (wait[lag:] * wait[:-lag]).mean((1, 2)) / 0.01
        assert torch.allclose(correlation, torch.full((9 - lag,), 0.5**lag), atol=5 / n**0.5)


def test_walk_is_a_brownian_bridge_on_its_clock() -> None:
    """Given z_4 at clock 1, the state at clock τ has mean z0 + τ (z_4 − z0) and variance noise² τ
    (1 − τ).
    """
    n, noise = 20_000, 0.3
    z0, z_hat, z = walks(n, noise=noise)
    for t, u in ((1, 0.6), (2, 0.6 + 0.4 / 3), (3, 0.6 + 0.8 / 3)):
        off = z[t] - (z0 + u * (z[4] - z0))
        var = noise**2 * u * (1 - u)
        assert torch.allclose(off.mean(0), torch.zeros(2), atol=4.5 * (var / n) ** 0.5)
        assert torch.allclose(off.var(0), torch.full((2,), var), rtol=4.5 * (2 / n) ** 0.5)
        assert abs(float(torch.corrcoef(torch.stack([off[:, 0], z[4, :, 0]]))[0, 1])) < 4.5 / n**0.5
    first = (z[1] - z0).mean(0) / (z_hat - z0)[0]
    assert torch.allclose(first, torch.full((2,), 0.6), atol=0.02), (
        "the kick covers the part `first` of the way"
    )


def test_walk_at_an_even_pace() -> None:
    z0, z_hat, z = walks(4000, first=0.25, noise=0.0)
    part = ((z[:5] - z0).mean(1)) / (z_hat - z0)[0]
    assert torch.allclose(part, torch.arange(5)[:, None] / 4, atol=0.01)


@pytest.mark.parametrize("walk", [1, 4, 12])
def test_it_arrives(walk: int) -> None:
    clock = kernel(walk=walk).clock
    assert clock[0] == 0
    assert (clock[walk:] == 1).all()
    assert (clock[1:walk] < 1).all()


@pytest.mark.parametrize("walk", [1, 4, 12])
def test_forward_transitions_are_those_of_its_trajectories(walk: int) -> None:
    """Given z_t, the next state of sampled trajectories has the mean and the variance that the
    kernel says.
    """
    n = 40_000
    k = kernel(walk=walk, noise=0.3)
    z0, z_hat, z = walks(n, walk=walk, noise=0.3)
    t = torch.arange(12)
    to = k.forward_transition(t, z[:-1], z0, z_hat)
    off = (z[1:] - to.mean) / to.stddev
    assert torch.allclose(off.mean(1), torch.zeros(12, 2), atol=4.5 / n**0.5)
    assert torch.allclose(off.var(1), torch.ones(12, 2), rtol=5 * (2 / n) ** 0.5)
    before = (z[1:-1] - z[1:-1].mean(1, keepdim=True)) / z[1:-1].std(
        1, keepdim=True
    )  # z_0 is no random variable
    assert float((before * off[1:]).mean(1).abs().max()) < 4.5 / n**0.5, (
        "nothing of z_t is left in the residual"
    )


def test_marginal_moments() -> None:
    n = 40_000
    k = kernel(noise=0.3)
    z0, z_hat, z = walks(n, noise=0.3)
    assert torch.allclose(z.var(1)[1:], k.variance[1:, None].expand(-1, 2), rtol=5 * (2 / n) ** 0.5)
    sd = k.variance.sqrt().max()
    assert torch.allclose(
        z.mean(1), k.mean(torch.arange(13), z0, z_hat)[:, 0], atol=float(5 * sd / n**0.5)
    )


def test_waiting_goes_both_ways() -> None:
    """The wait is reversible: its forward transition is its backward kernel."""
    k = kernel(persistence=0.7)
    z0, z_hat, z = torch.zeros(5, 2), torch.randn(5, 2), torch.randn(3, 5, 2)
    to, wait = k.forward_transition(torch.tensor([4, 7, 11]), z, z0, z_hat), k.waiting(z, z_hat)
    assert torch.allclose(to.mean, wait.mean, atol=1e-5)
    assert torch.allclose(to.stddev, torch.full_like(z, wait.stddev.mean()), rtol=1e-4)


@pytest.mark.parametrize(
    "wrong",
    [
        {"walk": 0},
        {"walk": 13},
        {"first": 0.0},
        {"first": 1.5},
        {"persistence": 1.0},
        {"noise": -1.0},
    ],
)
def test_impossible_kernels(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"^GoAndWait needs .*, not "):
        kernel(**wrong)


# -- the expected score


def gaussian_step(z: Tensor, t: Any, context: Tensor) -> Tensor:
    return pyro.sample("z", Normal(0.5 * z + context, 0.3).to_event(1))


def test_expected_score_is_the_mean_of_scores() -> None:
    z, context = torch.randn(3, 2), torch.randn(3, 2)
    to = torch.distributions.Normal(torch.randn(3, 2), torch.tensor([[0.1, 0.4]]).expand(3, -1))
    expected = expected_score_step(gaussian_step, z, to, 0.0, context)
    n = 20_000
    scores = score_step(gaussian_step, z.expand(n, -1, -1), to.sample((n,)), 0.0, context)
    assert expected.shape == (3,)
    assert torch.allclose(
        expected, scores.mean(0), atol=float(4.5 * scores.std(0).max() / math.sqrt(n))
    )


def test_expected_score_of_other_steps() -> None:
    def two_sites(z: Tensor, t: Any, context: Tensor) -> Tensor:
        shift = pyro.sample("shift", Normal(torch.zeros_like(z), 1.0).to_event(1))
        return pyro.sample("z", Normal(z + shift, 1.0).to_event(1))

    def not_gaussian(z: Tensor, t: Any, context: Tensor) -> Tensor:
        return pyro.sample("z", Gamma(torch.ones_like(z), 1.0).to_event(1))

    to = torch.distributions.Normal(torch.ones(3, 2), 1.0)
    for step in (two_sites, not_gaussian):
        with pytest.raises(ValueError, match="needs one random site"):
            expected_score_step(step, torch.ones(3, 2), to, 0.0, torch.ones(3, 2))
