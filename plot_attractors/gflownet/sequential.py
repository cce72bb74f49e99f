"""Sequential Monte Carlo over the steps of a policy, with a learned flow as its twist."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from plot_attractors.gflownet.balance import Flow
from plot_attractors.gflownet.trajectories import Step, Trajectories, score_step

__all__ = ["WeightedTrajectories", "sequential_monte_carlo"]


class WeightedTrajectories(NamedTuple):
    """Trajectories with their log-weights (B,), and an estimate of log Z from all steps, nats."""

    trajectories: Trajectories
    log_weight: Tensor
    log_z: Tensor


@torch.no_grad()
def sequential_monte_carlo(
    forward_step: Step,
    backward_step: Step,
    flow: Flow,
    z0: Tensor,
    steps: int,
    context: Tensor,
    least: float = 0.5,
) -> WeightedTrajectories:
    r"""Trajectories of the forward policy, resampled on their way by what the flow says of them.

    .. math:: \log w_t = \log F(z_{t+1}) + \log P_B(z_t | z_{t+1})
              - \log F(z_t) - \log P_F(z_{t+1} | z_t)

    which is minus the residual of detailed balance: 0 for a solution, whose particles are never
    resampled. For any flow, exp(`log_z`) is an unbiased estimate of Z, and particles with their
    weights are those of R(z_T) Π P_B, as the number of particles grows; a flow only says where to
    look. As a behaviour policy: draw B of them by ``log_weight.softmax(0)`` and train on what was
    drawn, since balance losses take trajectories from anywhere. Source: twisted particle filters,
    Guarniero et al. (2017); in training, Choi et al. (2025), "Reinforced sequential Monte Carlo for
    amortised sampling".

    Args:
        forward_step, backward_step: one-step Pyro programs.
        flow: F, which at t = `steps` is the reward itself; F at t = 0 must be the same for all z0.
        z0: (B, d), B particles; context (B, c).
        least: effective share of particles below which they are resampled, systematically; 0 never.

    Raises ValueError for a share outside [0, 1], or weights that are all 0 or no numbers.
    """
    if not 0 <= least <= 1:
        raise ValueError(f"The least effective share must lie between 0 and 1, not {least:g}.")
    n, log_w = len(z0), torch.zeros(len(z0), device=z0.device, dtype=z0.dtype)
    states, ancestors = [z0], []
    order = torch.arange(n, device=z0.device)
    both = torch.arange(2, device=z0.device, dtype=z0.dtype)[:, None, None]
    log_z = flow.log_flow(torch.stack([z0, z0]), 0 * both)[0].mean()
    for t in range(steps):
        z = states[-1]
        to = forward_step(z, float(t), context)
        log_f = flow.log_flow(torch.stack([z, to]), both + t)
        log_w = log_w + log_f[1] - log_f[0] - score_step(forward_step, z, to, float(t), context)
        if t:
            log_w = log_w + score_step(backward_step, to, z, float(t + 1), context)
        share = log_w.softmax(0)
        if not bool(share.isfinite().all()):
            raise ValueError(
                f"The weights of all particles are 0 or no numbers at step {t}: give the reward a "
                "floor, and a flow that is finite where the policy goes."
            )
        chosen = order
        if t < steps - 1 and float(1 / share.square().sum()) < least * n:
            chosen = systematic(share)
            log_z = log_z + log_w.logsumexp(0) - math.log(n)
            log_w = torch.zeros_like(log_w)
            context = context[chosen]
        states.append(to[chosen])
        ancestors.append(chosen)
    log_z = log_z + log_w.logsumexp(0) - math.log(n)
    # Back along the ancestors: states were put in the order of their own step
    line = [states[-1]]
    at = order
    for state, chosen in zip(states[-2::-1], ancestors[::-1], strict=True):
        at = chosen[at]
        line.append(state[at])
    return WeightedTrajectories(Trajectories(torch.stack(line[::-1]), context), log_w, log_z)


def systematic(share: Tensor) -> Tensor:
    """(n,) indices, each about n · share times."""
    n = len(share)
    points = (torch.arange(n, device=share.device) + torch.rand((), device=share.device)) / n
    return torch.searchsorted(share.double().cumsum(0), points.double()).clamp(max=n - 1)
