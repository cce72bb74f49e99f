"""The panel of diffusion samplers, which learn from the reward alone:

    python benchmarks/samplers.py runs/samplers --targets many_well --seconds 60 --seeds 0 1 2

Every method with every variant, each for as many seconds of processor time on one thread; rows are
appended to FOLDER/panel.csv and what is there is not run again. `--table` prints medians and
spreads.

Columns: updates; ELBO and EUBO less log Z; |log Ẑ − log Z| by importance weights of 2,000
trajectories; their effective share; Wasserstein distance of 1,000 samples from as many exact ones.
Nats, but for the last two.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyro
import torch
from pyro.distributions import Normal
from sampler_tasks import TARGETS, Drift, Target, bridge, free
from scipy.optimize import linear_sum_assignment
from shared import arguments, begin, header, parser, row
from torch import Tensor, nn

from plot_attractors.gflownet import (
    DetailedBalance,
    ReplayBuffer,
    ReverseKL,
    SubTrajectoryBalance,
    Trajectories,
    TrajectoryBalance,
    VarGrad,
    mala,
    score_trajectories,
    simulate,
    simulate_backward,
)

METHODS = ("DB", "SubTB", "TB", "VarGrad", "reverse KL")
EXPLORE = 1.0  # variance of a step at first, in units of its own, added; it falls to 0 by half time
EVERY, MOVES = 50, 30  # updates between Langevin moves, and how many
HELD = 2000
STEPS, BATCH = 50, 128  # of a trajectory; trajectories of an update
RATE = 3e-3  # of learning, chosen on ManyWell, seed 100
SMALL = {
    "HELD": 64, "MOVES": 2, "seconds": 0.2, "seeds": [0], "targets": ["gaussians"],
    "variants": ["plain", "all", "coordinates, learned variance"],
}  # fmt: skip


@dataclass(frozen=True)
class Variant:
    explore: bool = False
    replay: bool = False
    score: bool = False
    variance: bool = False
    coordinates: bool = False


VARIANTS = {
    "plain": Variant(),
    "exploration": Variant(explore=True),
    "replay": Variant(explore=True, replay=True),
    "Langevin drift": Variant(score=True),
    "all": Variant(True, True, True),
    "learned variance": Variant(score=True, variance=True),
    "coordinates": Variant(score=True, coordinates=True),
    "coordinates, learned variance": Variant(score=True, variance=True, coordinates=True),
}


class Sampler(nn.Module):
    """One-step programs of a Brownian motion with a learned drift, and of its reversal without."""

    def __init__(self, target: Target, v: Variant) -> None:
        super().__init__()
        self.target = target
        self.drift = Drift(target, score=v.score, variance=v.variance, coordinates=v.coordinates)
        self.correction = Drift(target)  # of the flow: the first number of what it gives
        self.log_z = nn.Parameter(torch.zeros(()))
        self.noise = 0.0

    def forward_step(self, z: Tensor, t: Any, context: Tensor) -> Tensor:
        tau = torch.as_tensor(t).reshape(-1, 1, 1)[0] if isinstance(t, float) else t
        drift, log_factor = self.drift.moments(z, tau / STEPS)
        scale = torch.full_like(drift, self.target.sigma * ((1 + self.noise) / STEPS) ** 0.5)
        if log_factor.shape[-1]:
            scale = scale * log_factor.exp()
        return pyro.sample("z", Normal(z + drift / STEPS, scale).to_event(1))

    def backward_step(self, z: Tensor, t: Any, context: Tensor) -> Tensor:
        factor, scale = bridge(torch.as_tensor(t), STEPS, self.target.sigma)
        return pyro.sample("z", Normal(factor * z, scale.expand_as(z)).to_event(1))

    def log_flow(self, z: Tensor, t: Tensor) -> Tensor:
        """From N(0, σ²τ) to R by weight of τ, plus what is learned between (Zhang et al. 2024)."""
        tau = t / STEPS
        variance = (self.target.sigma**2 * tau).clamp(min=1e-6)
        log_r = self.target.log_reward(z)
        known = (1 - tau[..., 0]) * free(z, variance) + tau[..., 0] * log_r
        learned = known + 10 * self.correction(z, tau)[..., 0]
        first = 20 * self.log_z.expand_as(log_r[:1])
        return torch.cat([first, learned[1:-1], log_r[-1:]])


def on_policy(sampler: Sampler, n: int) -> Trajectories:
    z0 = torch.zeros(n, sampler.target.d)
    return simulate(sampler.forward_step, z0, STEPS, z0[:, :0])


def backward(sampler: Sampler, z: Tensor) -> Trajectories:
    return simulate_backward(sampler.backward_step, z, STEPS, z[:, :0])


def ratios(sampler: Sampler, trajectories: Trajectories) -> Any:
    log_r = sampler.target.log_reward(trajectories.z[-1])
    return score_trajectories(sampler.forward_step, sampler.backward_step, trajectories, log_r)


def losses(method: str, sampler: Sampler) -> Callable[[Trajectories], Tensor]:
    steps = sampler.forward_step, sampler.backward_step
    if method == "DB":
        detailed = DetailedBalance(*steps, loss="huber", delta=10.0)
        return lambda trajectories: detailed(trajectories, sampler)
    if method == "SubTB":
        sub = SubTrajectoryBalance(*steps, loss="huber", delta=10.0, lam=0.9)
        return lambda trajectories: sub(trajectories, sampler)
    by_ratio: Any = {
        "TB": TrajectoryBalance(1, log_z=lambda: 20 * sampler.log_z, loss="huber", delta=10.0),
        "VarGrad": VarGrad(2, loss="huber", delta=10.0),
        "reverse KL": ReverseKL(2),
    }[method]
    return lambda trajectories: by_ratio.objective(ratios(sampler, trajectories))


def train(target: Target, method: str, variant: Variant, seed: int, seconds: float) -> Any:
    """A trained sampler, and its number of updates."""
    torch.manual_seed(seed)
    sampler = Sampler(target, variant)
    loss = losses(method, sampler)
    if method == "TB":
        with torch.no_grad():
            sampler.log_z.copy_(ratios(sampler, on_policy(sampler, BATCH)).total.mean() / 20)
    optimizer = torch.optim.Adam(sampler.parameters(), lr=RATE)
    buffer, size, updates = ReplayBuffer(50 * BATCH, weights=None), 0.1 * target.sigma, 0
    start = time.process_time()
    while (spent := (time.process_time() - start) / seconds) < 1:
        sampler.noise = EXPLORE * max(0.0, 1 - 2 * spent) if variant.explore else 0.0
        with torch.no_grad():
            if variant.replay and len(buffer) and updates % 2:
                batch = backward(sampler, buffer.draw(BATCH)["s"])
            else:
                batch = on_policy(sampler, BATCH)
        if variant.replay and updates % EVERY == 0:
            moved, accepted = mala(batch.z[-1], target.log_reward, size, MOVES)
            size *= 1.2 if accepted.mean() > 0.6 else 1 / 1.2
            buffer.add(s=moved)
        sampler.noise = 0.0
        for group in optimizer.param_groups:
            group["lr"] = RATE * min(1.0, 2.05 - 2 * spent)
        optimizer.zero_grad()
        loss(batch).backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(sampler.parameters(), 10.0)
        optimizer.step()
        updates += 1
    return sampler, updates


@torch.no_grad()
def wasserstein(x: Tensor, y: Tensor) -> float:
    """W2 of two sets of as many points."""
    cost = torch.cdist(x.double(), y.double()).square()
    return float(cost[linear_sum_assignment(cost.numpy())].mean().sqrt())


@torch.no_grad()
def judged(sampler: Sampler) -> dict[str, float]:
    target, draws = sampler.target, on_policy(sampler, HELD)
    r = ratios(sampler, draws).total.double()
    exact = target.draw(HELD)
    upper = ratios(sampler, backward(sampler, exact)).total.double().mean()
    weight = r.softmax(0)
    return {
        "elbo": float(r.mean()) - target.log_z,
        "eubo": float(upper) - target.log_z,
        "log_z_error": abs(float(r.logsumexp(0)) - math.log(HELD) - target.log_z),
        "ess": float(1 / weight.square().sum() / HELD),
        "w2": wasserstein(draws.z[-1][: HELD // 2], exact[: HELD // 2]),
    }


def panel(folder: Path, targets: list[str], methods: list[str], variants: list[str],
          seeds: list[int], seconds: float) -> None:  # fmt: skip
    file = folder / "panel.csv"
    for name in targets:
        target = TARGETS[name]()
        for seed in seeds:
            for variant in variants:
                for method in methods:
                    if method == "reverse KL" and VARIANTS[variant].explore:
                        continue  # an expectation under the policy itself
                    key = {
                        "target": name, "variant": variant, "method": method, "seed": seed,
                        "budget": f"{seconds:g} s", "steps": STEPS, "batch": BATCH,
                    }  # fmt: skip
                    tables = [pd.read_csv(file)] if file.exists() else []
                    if tables and (tables[0][list(key)] == pd.Series(key)).all(axis=1).any():
                        continue
                    sampler, n = train(target, method, VARIANTS[variant], seed, seconds)
                    torch.manual_seed(seed)
                    line = {**key, "updates": n, **judged(sampler)}
                    new = pd.DataFrame([line])
                    pd.concat([*tables, new]).to_csv(file, index=False, float_format="%.5g")
                    print(new.to_string(index=False, header=False), flush=True)


def table(folder: Path) -> None:
    """Medians over seeds, and their range in brackets."""
    rows = pd.read_csv(folder / "panel.csv")
    by = ["target", "budget", "variant", "method"]
    header(*by, "updates", "ELBO", "EUBO", "log Z error", "ESS", "W2")
    for key, part in rows.groupby(by, sort=False):
        cells = []
        for column in ("elbo", "eubo", "log_z_error", "ess", "w2"):
            numbers = part[column]
            cells.append(f"{numbers.median():.3g} ({numbers.min():.3g} to {numbers.max():.3g})")
        row(*key, f"{part['updates'].median():.0f}", *cells)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("folder", nargs="?", type=Path)
    options.add_argument("--targets", nargs="+", default=list(TARGETS), choices=TARGETS)
    options.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    options.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=VARIANTS)
    options.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    options.add_argument("--seconds", type=float, default=60.0, help="of processor time")
    options.add_argument("--table", action="store_true", help="medians and spreads of rows")
    given = arguments(globals(), options)
    given.folder.mkdir(parents=True, exist_ok=True)
    if given.table:
        table(given.folder)
        return
    begin()
    panel(given.folder, given.targets, given.methods, given.variants, given.seeds, given.seconds)
    if given.small:
        table(given.folder)


if __name__ == "__main__":
    main()
