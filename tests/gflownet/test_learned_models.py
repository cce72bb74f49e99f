"""Losses train the parameters of a model; log Z follows a guide; what is no number is refused."""

from __future__ import annotations

from collections.abc import Callable

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro.infer import SVI
from torch import Tensor, nn

from plot_attractors.gflownet import (
    LogRatioLoss,
    Sleep,
    TrajectoryBalance,
    VarGrad,
)

# -- probabilistic principal components: x = W z + b + noise

ROWS, WIDTH = 60, 4


def data() -> Tensor:
    generator = torch.Generator().manual_seed(1)
    z = torch.randn(ROWS, 1, generator=generator)
    noise = 0.5 * torch.randn(ROWS, WIDTH, generator=generator)
    return z @ torch.tensor([[1.5, -1.0, 0.5, 0.0]]) + torch.tensor([1.0, 0.0, -2.0, 0.5]) + noise


class Components(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.w = nn.Parameter(0.1 * torch.randn(1, WIDTH))
        self.b = nn.Parameter(torch.zeros(WIDTH))
        self.encoder = nn.Linear(WIDTH, 1)
        self.log_scale = nn.Parameter(torch.zeros(()))

    def model(self, x: Tensor) -> None:
        pyro.module("components", self)
        with pyro.plate("rows", len(x)):
            z = pyro.sample("z", dist.Normal(torch.zeros(1), 1.0).to_event(1))
            pyro.sample("x", dist.Normal(z @ self.w + self.b, 0.5).to_event(1), obs=x)

    def guide(self, x: Tensor) -> None:
        pyro.module("components", self)
        with pyro.plate("rows", len(x)):
            pyro.sample("z", dist.Normal(self.encoder(x), self.log_scale.exp()).to_event(1))

    def log_likelihood(self, x: Tensor) -> float:
        """Exact, a row."""
        covariance = self.w.T @ self.w + 0.25 * torch.eye(WIDTH)
        exact = dist.MultivariateNormal(self.b, covariance).log_prob(x)
        return float(exact.mean().detach())


def best(x: Tensor) -> float:
    """The greatest log-likelihood: by eigenvalues, with a fixed noise of 0.25."""
    mean, covariance = x.mean(0), torch.cov(x.T, correction=0)
    value, vector = torch.linalg.eigh(covariance)
    w = (value[-1] - 0.25).sqrt() * vector[:, -1:]
    of = dist.MultivariateNormal(mean, w @ w.T + 0.25 * torch.eye(WIDTH))
    return float(of.log_prob(x).mean())


FITS: dict[str, Callable[[], LogRatioLoss]] = {
    "VarGrad": lambda: VarGrad(8, batch_plate="rows"),
    "sleep": lambda: Sleep(2, batch_plate="rows"),
}


@pytest.mark.parametrize("name", FITS)
def test_principal_components_are_fitted(name: str) -> None:
    x, net = data(), Components()
    svi = SVI(net.model, net.guide, pyro.optim.Adam({"lr": 0.03}), FITS[name]())
    start = net.log_likelihood(x)
    for _ in range(300):
        svi.step(x)
    assert start < best(x) - 1
    assert net.log_likelihood(x) == pytest.approx(best(x), abs=0.06)


# -- log Z

POINTS = torch.linspace(-2, 2, 200)
TARGETS = 1.5 * POINTS - 1 + 0.5 * torch.sin(40 * POINTS)


def regression() -> None:
    slope = pyro.sample("slope", dist.Normal(0.0, 10.0))
    offset = pyro.sample("offset", dist.Normal(0.0, 10.0))
    with pyro.plate("points", len(POINTS)):
        pyro.sample("y", dist.Normal(slope * POINTS + offset, 0.5), obs=TARGETS)


def regression_guide() -> None:
    for name in ("slope", "offset"):
        loc = pyro.param(f"{name}_loc", torch.tensor(0.0))
        scale = pyro.param(f"{name}_scale", torch.tensor(0.5), constraint=dist.constraints.positive)
        pyro.sample(name, dist.Normal(loc, scale))


def evidence() -> float:
    design = torch.stack([POINTS, torch.ones(200)], 1).double()
    covariance = 100 * design @ design.T + 0.25 * torch.eye(200).double()
    of = dist.MultivariateNormal(torch.zeros(200).double(), covariance)
    return float(of.log_prob(TARGETS.double()))


@pytest.mark.parametrize("particles", [1, 16])
def test_a_learned_log_z_follows_a_guide_from_hundreds_of_nats_away(particles: int) -> None:
    loss = TrajectoryBalance(particles)
    svi = SVI(regression, regression_guide, pyro.optim.Adam({"lr": 0.03}), loss)
    svi.step()
    start = float(loss.log_z.detach())
    assert start < evidence() - 300
    for _ in range(400):
        svi.step()
    weights = VarGrad(1000).log_weights(regression, regression_guide)
    elbo, spread = float(weights.mean()), float(weights.std())
    assert abs(float(loss.log_z.detach()) - elbo) < spread
    assert elbo - start > (0.95 if particles > 1 else 0.5) * (evidence() - start)
