"""The leaderboard of diffusion samplers, which learn from the reward alone:

    python benchmarks/samplers.py runs/samplers --targets many_well_32 --seeds 0 1 2

VarGrad on each target for as many seconds of processor time, on one thread; rows are appended to
FOLDER/rows.csv, and their medians printed beside what was published
(docs/results/tables/samplers_published.csv).

Columns: updates; millions of energy calls, evaluations of log R or of its gradient in training;
ELBO and EUBO less log Z, with the standard error of the latter; |log Ẑ − log Z| by importance
weights of 2,000 trajectories; their effective share. Nats, but for the last.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pyro
import torch
from pyro.distributions import Categorical, MixtureSameFamily, Normal
from shared import arguments, as_in_training, parser
from torch import Tensor, nn

from plot_attractors.gflownet import (
    Trajectories,
    VarGrad,
    score_trajectories,
    simulate,
    simulate_backward,
)

PUBLISHED = Path(__file__).parents[1] / "docs/results/tables/samplers_published.csv"
HELD = 2000
STEPS, BATCH = 50, 128  # of a trajectory; trajectories of an update
RATE = 3e-3  # of learning; it falls to 0.05 of it over the second half
SMALL = {"HELD": 64, "seconds": 0.2, "seeds": [0], "targets": ["gaussians", "funnel"]}
WIDEST = 3.0  # log factor of a step's standard deviation, at most


# -- targets


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
    parts = Normal(torch.cartesian_prod(grid, grid), 0.3**0.5).to_event(1)
    law = MixtureSameFamily(Categorical(logits=torch.zeros(25)), parts)
    return Target("25 Gaussians", 2, 5**0.5, law.log_prob, 0.0, lambda n: law.sample((n,)))


def _well(x: Tensor) -> Tensor:
    square = x.square()  # faster than x**4
    return (6 - square) * square + 0.5 * x


def many_well(d: int) -> Target:
    """d/2 double wells beside as many Gaussians: 2^(d/2) modes (Noé et al. 2019)."""
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

    log_well = float((cumulative[-1] * (grid[1] - grid[0])).log())
    log_z = d // 2 * (log_well + 0.5 * math.log(2 * math.pi))
    return Target(f"ManyWell-{d}", d, 1.0, log_reward, log_z, draw)


def funnel() -> Target:
    """z_0 ~ N(0, 3²), nine others ~ N(0, exp z_0) (Neal 2003)."""

    def log_reward(z: Tensor) -> Tensor:
        first, rest = z[..., :1], z[..., 1:]
        others = Normal(0.0, (first / 2).exp()).log_prob(rest).sum(-1)
        return Normal(0.0, 3.0).log_prob(first[..., 0]) + others

    def draw(n: int) -> Tensor:
        first = 3 * torch.randn(n, 1)
        return torch.cat([first, (first / 2).exp() * torch.randn(n, 9)], -1)

    return Target("funnel", 10, 1.0, log_reward, 0.0, draw)


TARGETS: dict[str, Callable[[], Target]] = {
    "gaussians": gaussians,
    "funnel": funnel,
    "many_well_32": partial(many_well, 32),
    "many_well_64": partial(many_well, 64),
}


# -- the sampler

HARMONICS = math.pi * torch.linspace(0.25, 8, 16)
OF_TIME = 2 * len(HARMONICS)  # features of a time


def zero(layer: nn.Linear, bias: float = 0.0) -> None:
    nn.init.zeros_(layer.weight)
    nn.init.constant_(layer.bias, bias)


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
        self.enter, self.time = nn.Linear(2, units, bias=False), nn.Linear(OF_TIME, units)
        middle, leave = nn.Linear(OF_TIME, 64), nn.Linear(64, units * 2)
        nn.init.normal_(self.enter.weight)
        zero(leave)
        self.weights = nn.Sequential(middle, nn.GELU(), leave, nn.Unflatten(-1, (units, 2)))

    def forward(self, z: Tensor, gradient: Tensor, time: Tensor) -> Tensor:
        entering = self.enter(torch.stack([z, (gradient / 10).tanh()], -1))
        units = nn.functional.gelu(entering + self.time(time)[..., None, :])
        out: Tensor = units @ self.weights(time)
        return out


def bridge(before: Tensor, now: Tensor, sigma: float) -> tuple[Tensor, Tensor]:
    """Factor of the state and standard deviation at time `before`, of a Brownian motion that starts
    at 0 and is seen at time `now`.
    """
    return before / now, sigma * (before * (now - before) / now).sqrt()


class Sampler(nn.Module):
    """One-step programs: learned mean and variance forward, a Brownian motion's bridge backward.

    Drift (…, d) and log factor of the standard deviation (…, d) of a step are of states z (…, d) at
    times τ in [0, 1), in units of σ:

        drift = a(z, τ) + z (b(z, τ) / (τ + 1/T) − c(z, τ) / (1 − τ + 1/T)),

    a joint network's numbers for each dimension; b = 1 leads on along a ray, as what is wide asks
    for, and c = 1 back to 0. Plus a learned factor of time and ∇log R(z), clipped (Zhang and Chen
    2022), and what `Coordinates` makes of each. All but that factor are 0 at first.
    """

    def __init__(self, target: Target, hidden: int = 64) -> None:
        super().__init__()
        d = target.d
        self.enter, self.time = nn.Linear(d, hidden), nn.Linear(OF_TIME, hidden)
        self.middle, self.leave = nn.Linear(hidden, hidden), nn.Linear(hidden, 4 * d)
        zero(self.leave)
        self.coordinates, self.factor = Coordinates(), nn.Linear(OF_TIME, d)
        zero(self.factor, 0.5 / max(1.0, target.sigma**2 / 5))
        self.target, self.times = target, torch.linspace(0, 1, STEPS + 1)
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
        """Drift and log factor of states z at times τ (…, 1) or broadcasting."""
        time, unit, sigma = of_time(tau), z / self.target.sigma, self.target.sigma
        h = nn.functional.gelu(self.enter(unit.asinh()) + self.time(time))
        a, log_factor, b, c = self.leave(nn.functional.gelu(self.middle(h))).chunk(4, -1)
        drift = sigma * a + z * (b / (tau + 1 / STEPS) - c / (1 - tau + 1 / STEPS))
        gradient = self.gradient(z)
        each = self.coordinates(unit, gradient, time)
        drift = drift + sigma * (self.factor(time) * gradient + 3 * each[..., 0])
        return drift, WIDEST * ((log_factor + each[..., 1]) / WIDEST).tanh()

    def forward_step(self, z: Tensor, t: Any, context: Tensor) -> Tensor:
        step = torch.as_tensor(t).reshape(-1, 1, 1).long()
        now, length = self.times[step], self.times[step + 1] - self.times[step]
        if isinstance(t, float):
            now, length = now[0], length[0]
        drift, log_factor = self(z, now)
        scale = self.target.sigma * length.sqrt() * log_factor.exp()
        return pyro.sample("z", Normal(z + drift * length, scale).to_event(1))

    def backward_step(self, z: Tensor, t: Any, context: Tensor) -> Tensor:
        step = torch.as_tensor(t).long()
        factor, scale = bridge(self.times[step - 1], self.times[step], self.target.sigma)
        return pyro.sample("z", Normal(factor * z, scale.expand_as(z)).to_event(1))

    def simulated(self, n: int) -> Trajectories:
        """n trajectories from 0 on."""
        self.gradients.clear()
        z0 = torch.zeros(n, self.target.d)
        return simulate(self.forward_step, z0, STEPS, z0[:, :0])

    def ratios(self, trajectories: Trajectories) -> Any:
        self.calls += trajectories.z.shape[1]
        log_r = self.target.log_reward(trajectories.z[-1])
        return score_trajectories(self.forward_step, self.backward_step, trajectories, log_r)


# -- training


def train(target: Target, seed: int, seconds: float) -> tuple[Sampler, int]:
    """A trained sampler, and its number of updates."""
    torch.manual_seed(seed)
    sampler, loss, updates = Sampler(target), VarGrad(2, loss="huber", delta=10.0), 0
    learned = list(sampler.parameters())
    optimizer = torch.optim.Adam(learned, lr=RATE, betas=(0.9, 0.99))
    start = time.process_time()
    while (spent := (time.process_time() - start) / seconds) < 1:
        scored = sampler.ratios(sampler.simulated(BATCH))
        for group in optimizer.param_groups:
            group["lr"] = RATE * min(1.0, 2.05 - 2 * spent)
        optimizer.zero_grad()
        loss.objective(scored).backward()
        if bool(nn.utils.clip_grad_norm_(learned, 10.0).isfinite()):  # states may be far out
            optimizer.step()
        updates += 1
    return sampler, updates


@torch.no_grad()
def judged(sampler: Sampler) -> dict[str, float]:
    target = sampler.target
    r = sampler.ratios(sampler.simulated(HELD)).total.double()
    exact = target.draw(HELD)
    back = simulate_backward(sampler.backward_step, exact, STEPS, exact[:, :0])
    sampler.gradients.clear()
    upper = sampler.ratios(back).total.double()
    return {
        "elbo": float(r.mean()) - target.log_z,
        "eubo": float(upper.mean()) - target.log_z,
        "eubo_error": float(upper.std()) / HELD**0.5,
        "log_z_rw_error": abs(float(r.logsumexp(0)) - math.log(HELD) - target.log_z),
        "ess": float(1 / r.softmax(0).square().sum() / HELD),
    }


def main() -> None:
    options = parser(__doc__)
    options.add_argument("folder", nargs="?", type=Path)
    options.add_argument("--targets", nargs="+", default=list(TARGETS), choices=TARGETS)
    options.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    options.add_argument("--seconds", type=float, default=300.0, help="of processor time")
    given = arguments(globals(), options)
    as_in_training()
    given.folder.mkdir(parents=True, exist_ok=True)
    file = given.folder / "rows.csv"
    rows = pd.read_csv(file) if file.exists() else pd.DataFrame()
    for name, seed in itertools.product(given.targets, given.seeds):
        sampler, n = train(TARGETS[name](), seed, given.seconds)
        line = {"target": name, "seed": seed, "method": f"{given.seconds:g} s", "updates": n}
        line["energy_millions"] = sampler.calls / 1e6
        rows = pd.concat([rows, pd.DataFrame([line | judged(sampler)])])
        rows.to_csv(file, index=False, float_format="%.5g")
    medians = rows.drop(columns="seed").groupby(["target", "method"], as_index=False).median()
    published = pd.read_csv(PUBLISHED)
    both = pd.concat([medians, published[published["target"].isin(given.targets)]])
    print(both.drop(columns=["arxiv", "table", "w2"]).sort_values("target").to_string(index=False))


if __name__ == "__main__":
    main()
