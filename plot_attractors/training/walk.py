"""The walk of trajectories from inputs to sentences: wake-sleep of both dynamics.

For t = 0 … K the dynamics carry inputs to sentences, after that they stay (`training.stay`). Sleep:
the forward dynamics are fit to backward trajectories, z_K ~ N(ẑ_s, ε²) of sentences s ~ P(s | x),
then z_t ~ P←(z_t | z_{t+1}, t+1, z0). Wake: the backward dynamics are fit to forward trajectories.
Both likelihoods meet where P_θ and P← R agree (*Wake-sleep*): each half-step is that of iterative
proportional fitting, whose solution is a Schrödinger bridge.
Source: De Bortoli et al. (2021), "Diffusion Schrödinger bridge".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from plot_attractors.gflownet.trajectories import (
    Trajectories,
    rollout,
    score_forward,
    score_step,
)
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.ranges import Range, setting

__all__ = ["Walk", "backward_walks", "sleep_loss", "wake_loss"]


@dataclass(frozen=True)
class Walk:
    share: Annotated[float, Range(0, 1, above=True)] = setting(
        0.4, "K = share · T steps walk, then states stay"
    )

    def steps(self, model: AttractorModel) -> int:
        """K."""
        return max(1, round(self.share * model.steps))


@torch.no_grad()
def backward_walks(model: AttractorModel, z0: Tensor, s: Tensor, steps: int) -> Tensor:
    """(K + 1, n, d) backward trajectories from N(ẑ_s, ε²) of sentences s (n, width) at K = `steps`
    to the initial states of inputs with z0 (n, d), which are given.
    """
    z = model.terminal_kernel(s).sample()
    states = rollout(model.backward_step, z, range(steps, 1, -1), z0, -1)
    return torch.stack([*states, model.initial(z0)][::-1])


def sleep_loss(model: AttractorModel, walks: Trajectories) -> Tensor:
    """−log P_θ of backward trajectories, nats a step of T."""
    return -score_forward(model.forward_step, walks).sum(0).mean() / model.steps


def wake_loss(model: AttractorModel, forward: Trajectories, walk: int) -> Tensor:
    """−log P← of forward trajectories, nats a step of T: of all steps of the walk, and of the last
    one, which stands for all after it where trajectories are longer, of a drawn length.
    """
    z, context, times = *forward, forward.times
    t = [*range(2, walk + 1), *[forward.steps] * (forward.steps > walk)]
    log_p = score_step(model.backward_step, z[t], z[[k - 1 for k in t]], times[t], context)
    total = log_p[: walk - 1].sum(0) + (model.steps - walk) * log_p[walk - 1 :].sum(0)
    return -total.mean() / max(model.steps - 1, 1)
