"""Balance losses over whole trajectories of one-step Pyro programs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal, Protocol

import torch
from torch import Tensor
from torch.nn.functional import huber_loss

from plot_attractors.gflownet.trajectories import Step, Trajectories, score_backward, score_forward

__all__ = ["DetailedBalance", "Flow", "SubTrajectoryBalance", "discretizer_balance", "robust_loss"]


class Flow(Protocol):
    """`log_flow(z, t)`: states (T + 1, B, d) and times (T + 1, 1, 1) → (T + 1, B) nats."""

    def log_flow(self, z: Tensor, t: Tensor) -> Tensor: ...


def robust_loss(
    residual: Tensor, kind: Literal["squared", "huber"] = "squared", delta: float = 1.0
) -> Tensor:
    """r², or Huber's loss scaled to r² near 0: 2·huber_δ(r), linear beyond δ nats; elementwise.

    Raises ValueError for another kind.
    """
    if kind not in ("squared", "huber"):
        raise ValueError(f"loss must be 'squared' or 'huber', not {kind!r}.")
    if kind == "squared":
        return residual.square()
    return 2 * huber_loss(residual, torch.zeros_like(residual), reduction="none", delta=delta)


def penalty(kind: Literal["squared", "huber"], delta: float) -> Callable[[Tensor], Tensor]:
    """`robust_loss` of one kind, refused at once if there is no such loss."""
    robust_loss(torch.zeros(()), kind, delta)
    return partial(robust_loss, kind=kind, delta=delta)


@dataclass(frozen=True)
class DetailedBalance:
    """(log F(z_t) + log P_F(z_{t+1} | z_t) − log F(z_{t+1}) − log P_B(z_t | z_{t+1}))², all steps
    at once: Eq. *traj_loss*, of Eq. *detailed_balance*; Algorithm 3.

    log P_B is 0 at t = 0, where z0 is given. The trajectories may come from anywhere (on-policy, a
    buffer, backward): only the four terms carry a gradient.

    Args:
        forward_step, backward_step: one-step Pyro programs.
        loss, delta: see `robust_loss`.
    """

    forward_step: Step
    backward_step: Step
    loss: Literal["squared", "huber"] = "squared"
    delta: float = 1.0

    def potentials(self, trajectories: Trajectories, flow: Flow) -> Tensor:
        """(T + 1, B) u_t = log F(z_t) − Σ_{k<t} (log P_F − log P_B)(k).

        The residual of the sub-trajectory from i to j is u_i − u_j.
        """
        log_f = flow.log_flow(trajectories.z, trajectories.times)
        log_pf = score_forward(self.forward_step, trajectories)
        ratio = log_pf - score_backward(self.backward_step, trajectories)
        return log_f - torch.cat([torch.zeros_like(ratio[:1]), ratio.cumsum(0)])

    def residuals(self, trajectories: Trajectories, flow: Flow) -> Tensor:
        """(T, B) residuals of single transitions, nats."""
        u = self.potentials(trajectories, flow)
        return u[:-1] - u[1:]

    def __call__(self, trajectories: Trajectories, flow: Flow) -> Tensor:
        """Mean loss over transitions."""
        return robust_loss(self.residuals(trajectories, flow), self.loss, self.delta).mean()


@dataclass(frozen=True)
class SubTrajectoryBalance(DetailedBalance):
    """Σ_{i<j} λ^{j−i} r_ij² / Σ_{i<j} λ^{j−i} over all sub-trajectories (Madan et al. 2023).

    λ = 0 is detailed balance, a large λ nearly trajectory balance. Raises ValueError for a λ that
    is below 0 or not finite.
    """

    lam: float = 0.9

    def __post_init__(self) -> None:
        if not 0 <= self.lam < math.inf:
            raise ValueError(f"λ must be a finite number, 0 or more, not {self.lam:g}")

    def __call__(self, trajectories: Trajectories, flow: Flow) -> Tensor:
        u = self.potentials(trajectories, flow)
        i, j = torch.triu_indices(len(u), len(u), offset=1, device=u.device)
        longest = (len(u) - 2) * (self.lam > 1)  # whose weight is 1 then: no overflow
        weight = float(self.lam) ** (j - i - 1 - longest).to(u.dtype)
        losses = robust_loss(u[i] - u[j], self.loss, self.delta).mean(-1)
        return (weight * losses).sum() / weight.sum()


def discretizer_balance(
    log_z: Tensor,
    log_pf: Tensor,
    log_reward: Tensor,
    log_kernel: Tensor,
    log_pb: Tensor | float = 0.0,
) -> Tensor:
    """(…) residual of Eq. *discretizer_loss* (Algorithm 5), nats: log Z(z, x) + Σ_i log P(s_i |
    s_:i, z) − log R(s, x) − log P(z | ẑ_s) − Σ_i log P←(s_:i | s_:i+1, z).
    """
    return log_z + log_pf - log_reward - log_kernel - log_pb
