"""Targets and the network of the diffusion samplers of `benchmarks/samplers.py`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from pyro.distributions import MultivariateStudentT
from scipy.integrate import quad
from torch import Tensor, nn

LOG_2PI = math.log(2 * math.pi)
WIDEST = 3.0  # log factor of a step's standard deviation, at most


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


def many_well(d: int) -> Target:
    """d/2 double wells beside as many Gaussians: 2^(d/2) modes (Noé et al. 2019)."""
    z1 = quad(lambda x: math.exp(-(x**4) + 6 * x * x + 0.5 * x), -5, 5)[0]
    grid = torch.linspace(-5, 5, 200_001, dtype=torch.float64)
    cumulative = _well(grid).exp().cumsum(0)

    def log_reward(z: Tensor) -> Tensor:
        well, normal = z[..., 0::2], z[..., 1::2]
        return (_well(well) - 0.5 * normal.square()).sum(-1)

    def draw(n: int) -> Tensor:
        z = torch.randn(n, d)
        u = torch.rand(n, d // 2, dtype=torch.float64) * cumulative[-1]
        z[:, 0::2] = grid[torch.searchsorted(cumulative, u)].float()
        return z

    log_z = d // 2 * (math.log(z1) + 0.5 * LOG_2PI)
    return Target(f"ManyWell-{d}", d, 1.0, log_reward, log_z, draw)


def mixture(d: int) -> Target:
    """40 Gaussians of variance 1, means uniform in [−40, 40]^d (Reinforced SMC, 2025)."""
    means = 80 * torch.rand(40, d, generator=torch.Generator().manual_seed(0)) - 40

    def log_reward(z: Tensor) -> Tensor:
        square = (z[..., None, :] - means).square().sum(-1)
        return (-0.5 * square).logsumexp(-1) - math.log(40) - 0.5 * d * LOG_2PI

    def draw(n: int) -> Tensor:
        return means[torch.randint(40, (n,))] + torch.randn(n, d)

    return Target(f"40 Gaussians, d = {d}", d, 25.0, log_reward, 0.0, draw)


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
    "funnel": funnel,
    "many_well_32": partial(many_well, 32),
    "many_well_64": partial(many_well, 64),
    "many_well_128": partial(many_well, 128),
    "mixture_2": partial(mixture, 2),
    "mixture_5": partial(mixture, 5),
    "mixture_50": partial(mixture, 50),
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


class Policy(nn.Module):
    """Drift (…, d) and log factor of the standard deviation (…, d) of a step, 0 at first.

    Of states z (…, d) at times τ in [0, 1), (…, 1) or broadcasting, in units of σ:

        drift = a(z, τ) + z (b(z, τ) / (τ + 1/T) − c(z, τ) / (1 − τ + 1/T)),

    a joint network's numbers for each dimension; b = 1 leads on along a ray, as what is wide asks
    for, and c = 1 back to 0. With `score`, plus a learned factor of time and ∇log R(z), clipped
    (Zhang and Chen 2022), and with `coordinates` also what `Coordinates` makes of each.
    """

    def __init__(self, target: Target, steps: int, hidden: int = 64, score: bool = False,
                 coordinates: bool = False) -> None:  # fmt: skip
        super().__init__()
        d = self.d = target.d
        self.enter, self.time = nn.Linear(d, hidden), nn.Linear(OF_TIME, hidden)
        self.middle, self.leave = nn.Linear(hidden, hidden), nn.Linear(hidden, 4 * d)
        nn.init.zeros_(self.leave.weight)
        nn.init.zeros_(self.leave.bias)
        self.target, self.steps = target, steps
        self.factor = nn.Linear(OF_TIME, d) if score else None
        if self.factor is not None:
            nn.init.zeros_(self.factor.weight)
            nn.init.constant_(self.factor.bias, 0.5 / max(1.0, target.sigma**2 / 5))
        self.coordinates = Coordinates() if coordinates else None
        self.calls = 0  # of log R or its gradient
        self.gradients: list[Tensor] = []  # at the states of a simulation, for its scoring

    def gradient(self, z: Tensor) -> Tensor:
        """∇log R, clipped, in units of 1/σ; once for each state that is simulated and scored."""
        if z.ndim == 3 and len(self.gradients) == len(z):
            return torch.stack(self.gradients)
        self.calls += z[..., 0].numel()
        with torch.enable_grad():
            y = z.detach().requires_grad_()
            (gradient,) = torch.autograd.grad(self.target.log_reward(y).sum(), y)
        gradient = (self.target.sigma * gradient).clamp(-100, 100)
        if z.ndim == 2:
            self.gradients.append(gradient)
        return gradient

    def forward(self, z: Tensor, tau: Tensor) -> tuple[Tensor, Tensor]:
        time, unit, sigma = of_time(tau), z / self.target.sigma, self.target.sigma
        h = nn.functional.gelu(self.enter(unit.asinh()) + self.time(time))
        a, log_factor, b, c = self.leave(nn.functional.gelu(self.middle(h))).chunk(4, -1)
        drift = sigma * a + z * (b / (tau + 1 / self.steps) - c / (1 - tau + 1 / self.steps))
        if self.factor is not None:
            gradient = self.gradient(z)
            drift = drift + sigma * self.factor(time) * gradient
            if self.coordinates is not None:
                each = self.coordinates(unit, gradient, time)
                drift = drift + 3 * sigma * each[..., 0]
                log_factor = log_factor + each[..., 1]
        return drift, WIDEST * (log_factor / WIDEST).tanh()


def bridge(before: Tensor, now: Tensor, sigma: float) -> tuple[Tensor, Tensor]:
    """Factor of the state and standard deviation at time `before`, of a Brownian motion that starts
    at 0 and is seen at time `now`.
    """
    return before / now, sigma * (before * (now - before) / now).sqrt()


def coarse_times(steps: int) -> Tensor:
    """(steps + 1,) times from 0 to 1, of equal steps but each drawn uniformly within its own."""
    inner = (torch.arange(1, steps) + torch.rand(steps - 1) - 0.5) / steps
    return torch.cat([torch.zeros(1), inner, torch.ones(1)])
