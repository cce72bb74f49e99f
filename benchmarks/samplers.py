"""The leaderboard of diffusion samplers, which learn from the reward alone:

    python benchmarks/samplers.py runs/samplers --targets many_well_32 --seeds 0 1 2
    python benchmarks/samplers.py runs/samplers --table

Every recipe on every target, each for as many seconds of processor time on one thread, or with
--published for the budget of the published tables, an hour or two; rows are appended to
FOLDER/rows.csv and what is there is not run again. `--table` prints medians and spreads beside what
was published (docs/results/tables/samplers_published.csv).

Columns: updates; millions of energy calls, evaluations of log R or of its gradient in training;
ELBO and EUBO less log Z, with the standard error of the latter; |log Ẑ − log Z| by importance
weights of 2,000 trajectories; their effective share; Wasserstein distance of 1,000 samples from as
many exact ones. Nats, but for the last two.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyro
import torch
from pyro.distributions import Normal
from sampler_tasks import TARGETS, Policy, Target, bridge, coarse_times
from scipy.optimize import linear_sum_assignment
from shared import arguments, begin, header, parser, row
from torch import Tensor, nn

from plot_attractors.gflownet import (
    ReplayBuffer,
    ReverseKL,
    Trajectories,
    TrajectoryBalance,
    VarGrad,
    score_trajectories,
    simulate,
    simulate_backward,
)

PUBLISHED = Path(__file__).parents[1] / "docs/results/tables/samplers_published.csv"
HELD = 2000
STEPS, BATCH = 50, 128  # of a trajectory; trajectories of an update
RATE = 3e-3  # of learning; it falls to 0.05 of it over the second half
PUBLISHED_BUDGET = {"STEPS": 100, "BATCH": 300, "UPDATES": 25_000}
UPDATES = 0  # instead of seconds, where there are any
ANNEALED = 0.8  # the share of the budget over which the power of the reward rises to 1
SMALL = {"HELD": 64, "seconds": 0.2, "seeds": [0], "targets": ["gaussians", "funnel"]}


@dataclass(frozen=True)
class Recipe:
    """What the policy has beside the joint network; the loss; every how many updates terminal
    states are replayed; whether the reward is R^β, of β that rises from 0.1 to 1; steps of random
    length in training, few of them, in the place of STEPS equal ones.
    """

    score: bool = False
    coordinates: bool = False
    loss: str = "VarGrad"
    replay: int = 0
    annealed: bool = False
    coarse: int = 0


RECIPES = {
    "joint": Recipe(),
    "joint, Langevin": Recipe(score=True),
    "joint, Langevin, replay, annealed": Recipe(score=True, replay=2, annealed=True),
    "coordinates": Recipe(score=True, coordinates=True),
    "coordinates, coarse": Recipe(score=True, coordinates=True, coarse=10),
    "coordinates, replay": Recipe(score=True, coordinates=True, replay=4),
}


class Sampler(nn.Module):
    """One-step programs: learned mean and variance forward, a Brownian motion's bridge backward."""

    def __init__(self, target: Target, recipe: Recipe) -> None:
        super().__init__()
        self.target = target
        self.policy = Policy(target, STEPS, score=recipe.score, coordinates=recipe.coordinates)

        self.times = torch.linspace(0, 1, STEPS + 1)

    def forward_step(self, z: Tensor, t: Any, context: Tensor) -> Tensor:
        step = torch.as_tensor(t).reshape(-1, 1, 1).long()
        now, length = self.times[step], self.times[step + 1] - self.times[step]
        if isinstance(t, float):
            now, length = now[0], length[0]
        drift, log_factor = self.policy(z, now)
        scale = self.target.sigma * length.sqrt() * log_factor.exp()
        return pyro.sample("z", Normal(z + drift * length, scale).to_event(1))

    def backward_step(self, z: Tensor, t: Any, context: Tensor) -> Tensor:
        step = torch.as_tensor(t).long()
        factor, scale = bridge(self.times[step - 1], self.times[step], self.target.sigma)
        return pyro.sample("z", Normal(factor * z, scale.expand_as(z)).to_event(1))


def on_policy(sampler: Sampler, n: int) -> Trajectories:
    sampler.policy.gradients.clear()
    z0 = torch.zeros(n, sampler.target.d)
    return simulate(sampler.forward_step, z0, len(sampler.times) - 1, z0[:, :0])


def backward(sampler: Sampler, z: Tensor) -> Trajectories:
    sampler.policy.gradients.clear()
    return simulate_backward(sampler.backward_step, z, len(sampler.times) - 1, z[:, :0])


def ratios(sampler: Sampler, trajectories: Trajectories) -> Any:
    sampler.policy.calls += trajectories.z.shape[1]
    log_r = sampler.target.log_reward(trajectories.z[-1])
    return score_trajectories(sampler.forward_step, sampler.backward_step, trajectories, log_r)


def train(target: Target, recipe: Recipe, seed: int, seconds: float) -> tuple[Sampler, int]:
    """A trained sampler, and its number of updates."""
    torch.manual_seed(seed)
    power = 0.1 if recipe.annealed else 1.0
    warm = replace(target, log_reward=lambda z: power * target.log_reward(z))
    sampler = Sampler(warm if recipe.annealed else target, recipe)
    loss: Any = {
        "TB": TrajectoryBalance(1, loss="huber", delta=10.0),
        "VarGrad": VarGrad(2, loss="huber", delta=10.0),
        "reverse KL": ReverseKL(2),
    }[recipe.loss]
    learned = [*sampler.parameters(), *getattr(loss, "parameters", list)()]
    optimizer = torch.optim.Adam(learned, lr=RATE, betas=(0.9, 0.99))
    buffer, updates = ReplayBuffer(50 * BATCH, weights="importance"), 0
    start = time.process_time()

    def share() -> float:
        return updates / UPDATES if UPDATES else (time.process_time() - start) / seconds

    while (spent := share()) < 1:
        power = min(1.0, 0.1 + 0.9 * spent / ANNEALED) if recipe.annealed else 1.0
        if recipe.coarse:
            sampler.times = coarse_times(recipe.coarse)
        replayed = recipe.replay and len(buffer) and updates % recipe.replay == 0
        if replayed:
            batch = backward(sampler, buffer.draw(BATCH)["z"])
        else:
            batch = on_policy(sampler, BATCH)
        scored = ratios(sampler, batch)
        if recipe.replay and not replayed:
            buffer.add(z=batch.z[-1], log_weight=scored.total.detach())
        for group in optimizer.param_groups:
            group["lr"] = RATE * min(1.0, 2.05 - 2 * spent)
        optimizer.zero_grad()
        loss.objective(scored).backward()
        if bool(nn.utils.clip_grad_norm_(learned, 10.0).isfinite()):  # states may be far out
            optimizer.step()
        updates += 1
    sampler.target = sampler.policy.target = target
    sampler.times = torch.linspace(0, 1, STEPS + 1)
    return sampler, updates


@torch.no_grad()
def wasserstein(x: Tensor, y: Tensor) -> float:
    """W2 of two sets of as many points; NaN where one is not finite."""
    cost = torch.cdist(x.double(), y.double()).square()
    if not bool(cost.isfinite().all()):
        return math.nan
    return float(cost[linear_sum_assignment(cost.numpy())].mean().sqrt())


@torch.no_grad()
def judged(sampler: Sampler) -> dict[str, float]:
    target, draws = sampler.target, on_policy(sampler, HELD)
    r = ratios(sampler, draws).total.double()
    exact = target.draw(HELD)
    upper = ratios(sampler, backward(sampler, exact)).total.double()
    return {
        "elbo": float(r.mean()) - target.log_z,
        "eubo": float(upper.mean()) - target.log_z,
        "eubo_error": float(upper.std()) / HELD**0.5,
        "log_z_rw_error": abs(float(r.logsumexp(0)) - math.log(HELD) - target.log_z),
        "ess": float(1 / r.softmax(0).square().sum() / HELD),
        "w2": wasserstein(draws.z[-1][: HELD // 2], exact[: HELD // 2]),
    }


def panel(folder: Path, targets: list[str], recipes: list[str], seeds: list[int],
          seconds: float) -> None:  # fmt: skip
    file, budget = folder / "rows.csv", f"{UPDATES} updates" if UPDATES else f"{seconds:g} s"
    for name in targets:
        target = TARGETS[name]()
        for seed in seeds:
            for recipe in recipes:
                key = {
                    "target": name, "recipe": recipe, "seed": seed, "budget": budget,
                    "steps": STEPS, "batch": BATCH,
                }  # fmt: skip
                tables = [pd.read_csv(file)] if file.exists() else []
                if tables and (tables[0][list(key)] == pd.Series(key)).all(axis=1).any():
                    continue
                sampler, n = train(target, RECIPES[recipe], seed, seconds)
                calls = sampler.policy.calls
                torch.manual_seed(seed)
                line = {**key, "updates": n, "energy_millions": calls / 1e6, **judged(sampler)}
                new = pd.DataFrame([line])
                pd.concat([*tables, new]).to_csv(file, index=False, float_format="%.5g")
                print(new.to_string(index=False, header=False), flush=True)


def table(folder: Path) -> None:
    """Medians over seeds with their range in brackets, and what was published of the targets."""
    rows, published = pd.read_csv(folder / "rows.csv"), pd.read_csv(PUBLISHED)
    columns = ("elbo", "eubo", "log_z_rw_error", "w2", "energy_millions")
    header("target", "sampler", "ELBO", "EUBO", "log Z error", "W2", "energy calls, millions")
    for target, group in rows.groupby("target", sort=False):
        for (recipe, budget), part in group.groupby(["recipe", "budget"], sort=False):
            cells = [f"{part[c].median():.3g} ({part[c].min():.3g} to {part[c].max():.3g})"
                     for c in columns]  # fmt: skip
            row(target, f"ours, {recipe}, {budget}", *cells)
        for _, line in published[published["target"] == target].iterrows():
            cells = ["" if pd.isna(line[c]) else f"{line[c]:g}" for c in columns]
            row(target, f"{line['method']} ({line['source']})", *cells)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("folder", nargs="?", type=Path)
    options.add_argument("--targets", nargs="+", default=list(TARGETS), choices=TARGETS)
    options.add_argument("--recipes", nargs="+", default=list(RECIPES), choices=RECIPES)
    options.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    options.add_argument("--seconds", type=float, default=300.0, help="of processor time")
    budget = "T = 100, 25,000 updates of 300, instead of --seconds"
    options.add_argument("--published", action="store_true", help=budget)
    options.add_argument("--table", action="store_true", help="medians and spreads of rows")
    given = arguments(globals(), options)
    if given.published:
        globals().update(PUBLISHED_BUDGET)
    given.folder.mkdir(parents=True, exist_ok=True)
    if given.table:
        table(given.folder)
        return
    begin()
    panel(given.folder, given.targets, given.recipes, given.seeds, given.seconds)
    if given.small:
        table(given.folder)


if __name__ == "__main__":
    main()
