"""Targets and the network of the diffusion samplers of `benchmarks/samplers.py`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from pyro.distributions import MultivariateStudentT
from scipy.integrate import quad
from torch import Tensor, nn
from torch.distributions import Normal

LOG_2PI = math.log(2 * math.pi)


@dataclass(frozen=True, eq=False)
class Target:
    """log R(z), z (…, d), with its log Z, draws of it, and σ of the diffusion over unit time."""

    name: str
    d: int
    sigma: float
    log_reward: Callable[[Tensor], Tensor]
    log_z: float
    draw: Callable[[int], Tensor]


def gaussians() -> Target:
    """25 Gaussians of variance 0.3 in the plane, on the grid of −10, −5, …, 10."""
    grid = torch.tensor([-10.0, -5.0, 0.0, 5.0, 10.0])
    means = torch.cartesian_prod(grid, grid)
    variance = 0.3

    def log_reward(z: Tensor) -> Tensor:
        square = (z[..., None, :] - means).square().sum(-1)
        return (-0.5 * square / variance).logsumexp(-1) - math.log(25 * 2 * math.pi * variance)

    def draw(n: int) -> Tensor:
        return means[torch.randint(25, (n,))] + variance**0.5 * torch.randn(n, 2)

    return Target("25 Gaussians", 2, 5**0.5, log_reward, 0.0, draw)


def _well(x: Tensor) -> Tensor:
    square = x.square()  # faster than x**4
    return (6 - square) * square + 0.5 * x


def many_well() -> Target:
    """16 double wells beside 16 Gaussians: 2¹⁶ modes in 32 dimensions (Noé et al. 2019)."""
    z1 = quad(lambda x: math.exp(-(x**4) + 6 * x * x + 0.5 * x), -5, 5)[0]
    grid = torch.linspace(-5, 5, 200_001, dtype=torch.float64)
    cumulative = _well(grid).exp().cumsum(0)

    def log_reward(z: Tensor) -> Tensor:
        well, normal = z[..., 0::2], z[..., 1::2]
        return (_well(well) - 0.5 * normal.square()).sum(-1)

    def draw(n: int) -> Tensor:
        z = torch.randn(n, 32)
        u = torch.rand(n, 16, dtype=torch.float64) * cumulative[-1]
        z[:, 0::2] = grid[torch.searchsorted(cumulative, u)].float()
        return z

    return Target("ManyWell", 32, 1.0, log_reward, 16 * (math.log(z1) + 0.5 * LOG_2PI), draw)


def funnel() -> Target:
    """z_0 ~ N(0, 3²), nine others ~ N(0, exp z_0) (Neal 2003)."""

    def log_reward(z: Tensor) -> Tensor:
        first, rest = z[..., 0], z[..., 1:]
        log_p = -0.5 * (first / 3).square() - math.log(3) - 0.5 * LOG_2PI
        rest_p = -0.5 * (rest.square().sum(-1) * (-first).exp() + 9 * (first + LOG_2PI))
        return log_p + rest_p

    def draw(n: int) -> Tensor:
        first = 3 * torch.randn(n, 1)
        return torch.cat([first, (first / 2).exp() * torch.randn(n, 9)], -1)

    return Target("funnel", 10, 1.0, log_reward, 0.0, draw)


def logistic() -> Target:
    """Bayesian logistic regression of scikit-learn's breast cancer data, weights ~ N(0, 1).

    log Z by importance sampling from a t distribution around the mode; draws are resampled from it.
    """
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    x = (data.data - data.data.mean(0)) / data.data.std(0)
    features = torch.tensor(np.column_stack([np.ones(len(x)), x]), dtype=torch.float32)
    sign = torch.tensor(2.0 * data.target - 1, dtype=torch.float32)
    design, d = features * sign[:, None], features.shape[1]

    def log_reward(z: Tensor) -> Tensor:
        prior = -0.5 * z.square().sum(-1) - 0.5 * d * LOG_2PI
        return prior + nn.functional.logsigmoid(z @ design.T).sum(-1)

    mode = torch.zeros(d, requires_grad=True)
    search = torch.optim.LBFGS([mode], max_iter=200, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        search.zero_grad()
        loss = -log_reward(mode)
        loss.backward()
        return loss

    search.step(closure)
    at = mode.detach()
    hessian: Tensor = torch.autograd.functional.hessian(lambda w: -log_reward(w), at)  # type: ignore[no-untyped-call]
    root = torch.linalg.cholesky(torch.linalg.inv(hessian))
    law = MultivariateStudentT(torch.tensor(5.0), at, root)

    def proposed(n: int) -> tuple[Tensor, Tensor]:
        """Draws and their log weights."""
        z = law.sample((n,))
        return z, log_reward(z) - law.log_prob(z)

    with torch.random.fork_rng():
        torch.manual_seed(0)
        log_w = proposed(200_000)[1].double()

    log_z = float(log_w.logsumexp(0)) - math.log(len(log_w))

    def draw(n: int) -> Tensor:
        z, log_weight = proposed(50 * n)
        return z[torch.multinomial(log_weight.softmax(0), n, replacement=True)]

    return Target("logistic regression", d, 1.0, log_reward, log_z, draw)


TARGETS: dict[str, Callable[[], Target]] = {
    "gaussians": gaussians,
    "many_well": many_well,
    "funnel": funnel,
    "logistic": logistic,
}


HARMONICS = math.pi * torch.linspace(0.25, 8, 16)
OF_TIME = 2 * len(HARMONICS)  # features of a time


def of_time(t: Tensor) -> Tensor:
    """Features (…, OF_TIME) of times t (…, 1) in [0, 1]."""
    angle = t * HARMONICS
    return torch.cat([angle.sin(), angle.cos()], -1)


class Coordinates(nn.Module):
    """Two numbers for each coordinate z_i, of it, of ∂log R / ∂z_i and of `of_time`: (…, d, 2).

    One layer of units that all coordinates share; their output weights are a function of time, 0 at
    first. Learned optimizers are such networks (Andrychowicz et al. 2016).
    """

    def __init__(self, units: int = 16) -> None:
        super().__init__()
        self.enter = nn.Linear(2, units, bias=False)
        self.time = nn.Linear(OF_TIME, units)
        middle, leave = nn.Linear(OF_TIME, 64), nn.Linear(64, units * 2)
        nn.init.normal_(self.enter.weight)
        nn.init.zeros_(leave.weight)
        nn.init.zeros_(leave.bias)
        self.weights = nn.Sequential(middle, nn.GELU(), leave, nn.Unflatten(-1, (units, 2)))

    def forward(self, z: Tensor, gradient: Tensor, time: Tensor) -> Tensor:
        entering = self.enter(torch.stack([z, (gradient / 10).tanh()], -1))
        units = nn.functional.gelu(entering + self.time(time)[..., None, :])
        out: Tensor = units @ self.weights(time)
        return out


class Drift(nn.Module):
    """Drift (…, d) of states z (…, d) at times t in [0, 1], (…, 1) or broadcasting; 0 at first.

    With `score`, plus a learned factor of time and ∇log R(z), clipped (Zhang and Chen 2022), and
    with `coordinates` also what `Coordinates` makes of each. With `variance` every dimension has a
    factor of its own, and `moments` gives the logarithm of a learned factor of the step's standard
    deviation, in (−1, 1), too.
    """

    def __init__(
        self,
        target: Target,
        hidden: int = 64,
        score: bool = False,
        variance: bool = False,
        coordinates: bool = False,
    ) -> None:
        super().__init__()
        d = self.d = target.d
        self.enter, self.time = nn.Linear(d, hidden), nn.Linear(OF_TIME, hidden)
        self.middle = nn.Linear(hidden, hidden)
        self.leave = nn.Linear(hidden, 2 * d if variance else d)
        nn.init.zeros_(self.leave.weight)
        nn.init.zeros_(self.leave.bias)
        self.log_reward, self.sigma = target.log_reward, target.sigma
        self.factor = nn.Linear(OF_TIME, d if variance else 1) if score else None
        if self.factor is not None:
            nn.init.zeros_(self.factor.weight)
            nn.init.constant_(self.factor.bias, 0.5)
        self.coordinates = Coordinates() if coordinates else None

    def moments(self, z: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        """Drift, and logarithm of the factor of the standard deviation, (…, d) or (…, 0)."""
        time, unit = of_time(t), z / self.sigma
        h = nn.functional.gelu(self.enter(unit) + self.time(time))
        leaving = self.leave(nn.functional.gelu(self.middle(h)))
        drift, log_factor = self.sigma * leaving[..., : self.d], leaving[..., self.d :]
        if self.factor is not None:
            with torch.enable_grad():
                y = z.detach().requires_grad_()
                (gradient,) = torch.autograd.grad(self.log_reward(y).sum(), y)
            gradient = self.sigma * gradient.clamp(-100, 100)
            drift = drift + self.sigma * self.factor(time) * gradient
            if self.coordinates is not None:
                each = self.coordinates(unit, gradient, time)
                drift = drift + 3 * self.sigma * each[..., 0]
                log_factor = log_factor + each[..., 1] if log_factor.shape[-1] else log_factor
        return drift, log_factor.tanh()

    def forward(self, z: Tensor, t: Tensor) -> Tensor:
        return self.moments(z, t)[0]


def bridge(t: Tensor, steps: int, sigma: float) -> tuple[Tensor, Tensor]:
    """Factor of z_t and standard deviation of z_{t−1}, of a Brownian motion that starts at 0."""
    return (t - 1) / t, sigma * ((t - 1) / (t * steps)).sqrt()


def free(z: Tensor, variance: Tensor) -> Tensor:
    """log N(z; 0, variance I)."""
    return Normal(0.0, variance.sqrt()).log_prob(z).sum(-1)
