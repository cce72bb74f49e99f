"""Trajectories of one-step Pyro programs: simulating, scoring all steps at once, unrolling into model and guide."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pyro
import torch
from pyro import poutine
from pyro.poutine.messenger import Messenger
from torch import Tensor

__all__ = [
    "Step",
    "Trajectories",
    "go_and_wait",
    "named",
    "score_backward",
    "score_forward",
    "score_step",
    "shift_end_points",
    "simulate",
    "simulate_backward",
    "unroll",
]

Step = Callable[[Tensor, Any, Any], Tensor]
"""A one-step Pyro program `step(z, t, context)`: samples the site "z", the next state, and returns it. In a forward
step t is the time of the state that is left, in a backward step too (T down to 1)."""


class Trajectories(NamedTuple):
    """States z (T + 1, B, d) with time first, and the context (B, c) that backward dynamics and flows see."""

    z: Tensor
    context: Tensor

    @property
    def steps(self) -> int:
        return self.z.shape[0] - 1

    @property
    def times(self) -> Tensor:
        """(T + 1, 1, 1) the time of every state."""
        return torch.arange(self.z.shape[0], device=self.z.device, dtype=self.z.dtype)[:, None, None]


class named(Messenger):
    """Renames the site "z" of a step to `name`, so that steps can be unrolled into one program."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def _pyro_sample(self, msg: Any) -> None:
        if msg["name"] == "z":
            msg["name"] = self.name


def score_step(step: Step, z: Tensor, to: Tensor, t: Tensor | float, context: Tensor) -> Tensor:
    """log P(to | z, t, context) under a step program, whatever other sites it has, of the batch shape of z (…)."""
    with poutine.trace() as trace, poutine.condition(data={"z": to}):
        step(z, t, context)
    sites = [
        n for n in trace.trace.nodes.values() if n["type"] == "sample" and type(n["fn"]).__name__ != "_Subsample"
    ]
    if not any(site["name"] == "z" for site in sites):
        raise ValueError('A step program must sample its next state at the site "z", as in pyro.sample("z", ...).')
    log_p = torch.zeros(z.shape[:-1], device=z.device, dtype=z.dtype)
    for site in sites:
        fn: Any = site["fn"]
        log_p = log_p + fn.log_prob(site["value"])
    return log_p


def score_forward(step: Step, trajectories: Trajectories) -> Tensor:
    """(T, B) log P_F(z_{t+1} | z_t), t = 0 … T − 1, in one call of the step program for all times."""
    z, t = trajectories.z, trajectories.times
    return score_step(step, z[:-1], z[1:], t[:-1], trajectories.context)


def score_backward(step: Step, trajectories: Trajectories) -> Tensor:
    """(T, B) log P_B(z_t | z_{t+1}, t + 1), t = 0 … T − 1; 0 for t = 0, since z0 is given."""
    z, t = trajectories.z, trajectories.times
    if trajectories.steps == 1:
        return torch.zeros_like(z[:1, :, 0])
    log_p = score_step(step, z[2:], z[1:-1], t[2:], trajectories.context)
    return torch.cat([torch.zeros_like(z[:1, :, 0]), log_p])


@torch.no_grad()
def simulate(step: Step, z0: Tensor, steps: int, context: Tensor) -> Trajectories:
    """Forward trajectories from z0 (B, d), no gradient."""
    z = [z0]
    for t in range(steps):
        z.append(step(z[-1], float(t), context))
    return Trajectories(torch.stack(z), context)


@torch.no_grad()
def simulate_backward(step: Step, z_end: Tensor, steps: int, context: Tensor) -> Trajectories:
    """Backward trajectories from z_T (B, d) down to time 0, no gradient; returned in forward order."""
    z = [z_end]
    for t in range(steps, 0, -1):
        z.append(step(z[-1], float(t), context))
    return Trajectories(torch.stack(z[::-1]), context)


def shift_end_points(trajectories: Trajectories, z0: Tensor, decay: float | None = None) -> Trajectories:
    """Moves a backward trajectory so that it starts at z0 and ends where it ended (*Wake-sleep*).

    The offset z0 − z_0 is faded out along time: linearly, 1 − t/T, or exponentially, (e^{−κt/T} − e^{−κ})/(1 −
    e^{−κ}), for `decay` κ > 0, which moves early states only.
    """
    u = trajectories.times / trajectories.steps
    if decay is None:
        fade = 1 - u
    else:
        k = torch.as_tensor(decay, dtype=u.dtype)
        fade = (torch.exp(-k * u) - torch.exp(-k)) / (1 - torch.exp(-k))
    return trajectories._replace(z=trajectories.z + fade * (z0 - trajectories.z[0]))


@torch.no_grad()
def go_and_wait(
    z0: Tensor,
    z_hat: Tensor,
    steps: int,
    epsilon: float,
    walk: int = 4,
    first: float = 0.25,
    noise: float = 0.06,
    persistence: float = 0.5,
) -> Trajectories:
    """Trajectories of a fixed backward kernel that waits at an embedding, then walks straight to z0.

    From z_T ~ N(ẑ, ε²) back to time `walk` the autoregression z_t = ẑ + ρ(z_{t+1} − ẑ) + √(1−ρ²) ε η, which is
    stationary and reversible at N(ẑ, ε²). From there to 0 a Brownian bridge pinned at z0, z_{t−1} ~ N(z0 + (τ′/τ)(z_t
    − z0), noise² τ′(τ−τ′)/τ), on a clock τ from 0 to 1 that covers the part `first` of the way in the step from z0
    and the rest evenly. Only z0 tells input-independent dynamics which input it was: a large `first` draws the
    sentence there, in one kick.
    Maximum likelihood of the forward dynamics on these is the sleep phase: a Markov projection of paths that go and
        stay.

    Args:
        z0, z_hat: (B, d) start and embedding.
        epsilon, persistence: ε and ρ of the waiting.
        walk: steps of the walk.
        first: part of the way covered by the step from z0, 1 / walk for an even pace.
        noise: standard deviation of the bridge's Brownian motion over the whole walk.
    """

    if not 1 <= walk <= steps or not 0 < first <= 1:
        raise ValueError(f"go_and_wait needs 1 <= walk <= {steps} steps and 0 < first <= 1, not {walk} and {first}.")

    def clock(t: int) -> float:
        return 0.0 if t == 0 else first + (1 - first) * (t - 1) / max(walk - 1, 1)

    eta = torch.randn(steps + 1, *z0.shape, dtype=z0.dtype, device=z0.device)
    z = z_hat + epsilon * eta[steps]
    path = [z]
    for t in range(steps, 0, -1):
        if t > walk:
            z = z_hat + persistence * (z - z_hat) + epsilon * (1 - persistence**2) ** 0.5 * eta[t - 1]
        else:
            now, before = clock(t), clock(t - 1)
            z = z0 + before / now * (z - z0) + noise * (before * (now - before) / now) ** 0.5 * eta[t - 1]
        path.append(z)
    return Trajectories(torch.stack(path[::-1]), z0)


def unroll(
    forward_step: Step,
    backward_step: Step,
    steps: int,
    initial: Callable[..., tuple[Tensor, Tensor]],
    terminal: Callable[..., Tensor],
    log_reward: Callable[..., Tensor],
) -> tuple[Callable[..., Tensor], Callable[..., Tensor]]:
    """A model/guide pair, with sites z_1 … z_T, out of one-step programs, for `SVI` with `TrajectoryBalance`.

    guide: (z0, context) = initial(*args), then z_{t+1} ~ forward_step; model: z_T = terminal(context, *args), which
        samples the
    site "z", then z_t ~ backward_step down to z_1, and factor(log_reward(z_T, context, *args)).
    """

    def guide(*args: Any) -> Tensor:
        z, context = initial(*args)
        for t in range(steps):
            with named(f"z_{t + 1}"):
                z = forward_step(z, float(t), context)
        return z

    def model(*args: Any) -> Tensor:
        _, context = initial(*args)
        with named(f"z_{steps}"):
            z = end = terminal(context, *args)
        for t in range(steps, 1, -1):
            with named(f"z_{t - 1}"):
                z = backward_step(z, float(t), context)
        pyro.factor("log_reward", log_reward(end, context, *args))
        return end

    return model, guide
