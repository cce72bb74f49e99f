"""Trajectories of one-step Pyro programs: simulated and scored."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Any, NamedTuple

import torch
from pyro import poutine
from pyro.distributions.util import scale_and_mask
from pyro.poutine.messenger import Messenger
from pyro.poutine.runtime import am_i_wrapped
from torch import Tensor

from plot_attractors.gflownet.log_ratios import LogRatios
from plot_attractors.gflownet.programs import quoted, sample_sites

__all__ = [
    "Step",
    "Trajectories",
    "named",
    "rollout",
    "score_backward",
    "score_forward",
    "score_step",
    "score_trajectories",
    "shift_end_points",
    "simulate",
    "simulate_backward",
]

Step = Callable[[Tensor, Any, Any], Tensor]
"""A one-step Pyro program `step(z, t, context)`: samples the site "z", the next state, and returns
it. t is the time of the state z that is left, in a backward step (T down to 1), too.
"""


class Trajectories(NamedTuple):
    """States z (T + 1, B, d), time first, and the context (B, c) of backward dynamics and flows."""

    z: Tensor
    context: Tensor

    @property
    def steps(self) -> int:
        return self.z.shape[0] - 1

    @property
    def times(self) -> Tensor:
        """(T + 1, 1, 1) the time of every state."""
        return torch.arange(len(self.z), device=self.z.device, dtype=self.z.dtype)[:, None, None]


class named(Messenger):
    """Renames the site "z" of a step to `name`, so that steps can be run in one program."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def _pyro_sample(self, msg: Any) -> None:
        if msg["name"] == "z":
            msg["name"] = self.name


def _sites(step: Step, z: Tensor, to: Tensor, t: Tensor | float, context: Tensor) -> dict[str, Any]:
    """The sample sites of a step program conditioned on the next state, and its factors.

    Raises ValueError where a step samples no "z", or anything beside it.
    """
    with poutine.trace() as trace, poutine.condition(data={"z": to}):
        step(z, t, context)
    sites = sample_sites(trace.trace)
    if "z" not in sites:
        raise ValueError(
            'A step program must sample its next state at the site "z": pyro.sample("z", ...).'
        )
    if others := [k for k, site in sites.items() if not site["is_observed"]]:
        raise ValueError(
            f"A step program that samples {quoted(others)} beside its next state cannot be scored, "
            "since the density of a state is then an integral over these: sample the next state "
            "alone."
        )
    return sites


def score_step(step: Step, z: Tensor, to: Tensor, t: Tensor | float, context: Tensor) -> Tensor:
    """(…) log P(to | z, t, context) under a step program for z (…, d), all its sites counted."""
    log_p = torch.zeros(z.shape[:-1], device=z.device, dtype=z.dtype)
    for site in _sites(step, z, to, t, context).values():
        log_prob = site["fn"].log_prob(site["value"])
        log_p = log_p + scale_and_mask(log_prob, site["scale"], site["mask"])
    return log_p


def score_forward(step: Step, trajectories: Trajectories) -> Tensor:
    """(T, B) log P_F(z_{t+1} | z_t), t = 0 … T − 1, in one call of the step program."""
    z, t = trajectories.z, trajectories.times
    return score_step(step, z[:-1], z[1:], t[:-1], trajectories.context)


def score_backward(step: Step, trajectories: Trajectories) -> Tensor:
    """(T, B) log P_B(z_t | z_{t+1}, t + 1), t = 0 … T − 1; 0 for t = 0, since z0 is given."""
    z, t = trajectories.z, trajectories.times
    given = torch.zeros_like(z[:1, :, 0])
    if trajectories.steps == 1:
        return given
    return torch.cat([given, score_step(step, z[2:], z[1:-1], t[2:], trajectories.context)])


def score_trajectories(
    forward_step: Step, backward_step: Step, trajectories: Trajectories, log_reward: Tensor
) -> LogRatios:
    """log p and log q of B trajectories, for the objectives of `TrajectoryBalance` and `VarGrad`:
    `VarGrad(2).objective(score_trajectories(…))`.

    log p = log R(z_T) + Σ log P_B and log q = Σ log P_F, of trajectories that begin at one z0 (B is
    the dimension of particles), in two network calls. log_reward (B,).
    """
    log_pf = score_forward(forward_step, trajectories).sum(0)
    log_pb = score_backward(backward_step, trajectories).sum(0)
    of_model = {"backward": log_pb, "reward": log_reward}
    return LogRatios({}, of_model, {"forward": log_pf})


def rollout(
    step: Step, z: Tensor, times: Iterable[int], context: Tensor, direction: int
) -> list[Tensor]:
    """The states z, … of a step program run once at each time t, sampled at sites z_{t±1}.

    `direction` is 1 for forward steps, t = 0, 1, …, and −1 for backward ones, t = T, T − 1, …
    """
    states = [z]
    for t in times:
        # where nobody hears of the sites, their names would only cost time
        with named(f"z_{t + direction}") if am_i_wrapped() else nullcontext():
            states.append(step(states[-1], float(t), context))
    return states


@torch.no_grad()
def simulate(step: Step, z0: Tensor, steps: int, context: Tensor) -> Trajectories:
    """Forward trajectories from z0 (B, d), no gradient."""
    return Trajectories(torch.stack(rollout(step, z0, range(steps), context, 1)), context)


@torch.no_grad()
def simulate_backward(step: Step, z_end: Tensor, steps: int, context: Tensor) -> Trajectories:
    """Backward trajectories from z_T (B, d) to time 0, no gradient; returned in forward order."""
    states = rollout(step, z_end, range(steps, 0, -1), context, -1)
    return Trajectories(torch.stack(states[::-1]), context)


def shift_end_points(trajectories: Trajectories, z0: Tensor) -> Trajectories:
    """Moves a backward trajectory so that it starts at z0 and ends where it ended (*Wake-sleep*).

    The offset z0 − z_0 is faded out linearly along time, 1 − t/T.
    """
    fade = 1 - trajectories.times / trajectories.steps
    return trajectories._replace(z=trajectories.z + fade * (z0 - trajectories.z[0]))
