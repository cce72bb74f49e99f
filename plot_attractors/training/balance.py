"""Balance of the walk, forward and backward trajectories, with a flow of proposed sentences."""

from __future__ import annotations

import torch
from torch import Tensor

from plot_attractors.gflownet import (
    DetailedBalance,
    EnumeratedFlow,
    SubTrajectoryBalance,
    Trajectories,
)
from plot_attractors.gflownet.balance import robust_loss
from plot_attractors.gflownet.trajectories import score_backward, score_forward
from plot_attractors.model.attractor import AttractorModel, Encoding
from plot_attractors.training.pool import Pool
from plot_attractors.training.stay import HUBER
from plot_attractors.training.walk import Balance, backward_walks

__all__ = ["BALANCE_INPUTS", "balance_loss", "proposed_flow"]

BALANCE_INPUTS = 8  # inputs in an update
TRAJECTORIES = 8  # of each, half of them backward
READINGS = 4  # sentences that the discretizer reads at the end of each


def balance_loss(
    model: AttractorModel, e: Encoding, pool: Pool, kind: Balance, walk: int
) -> Tensor:
    """Mean loss, nats², of 8 trajectories of `walk` = K steps of each of the inputs e, half of them
    forward, the others backward from sentences of P(s | x) (*Wake-sleep*).

    With u_t = log F(z_t) − Σ_{k<t} (log P_F − log P_B)(k): *detailed* balance has the residuals
    u_t − u_{t+1}, *sub_trajectory* all u_i − u_j with weights λ^{j−i}, *trajectory* balance
    log Z(x) − u_K, and *vargrad* u_K less its mean over the trajectories of the input. K is in the
    place of T: F = R is assumed from then on. The first two read F before K: they need a flow
    correction.
    """
    z, e, flow = proposed_flow(model, e, pool, walk)
    trajectories = Trajectories(z, e.z0)
    step, back = model.forward_step, model.backward_step
    if kind == "detailed":
        return DetailedBalance(step, back, "huber", HUBER, "known")(trajectories, flow)
    if kind == "sub_trajectory":
        return SubTrajectoryBalance(step, back, "huber", HUBER, "known")(trajectories, flow)
    log_r = flow.log_flow(trajectories.z[-1:], trajectories.times[-1:])[0]  # F at K alone
    u = log_r - (score_forward(step, trajectories) - score_backward(back, trajectories)).sum(0)
    if kind == "trajectory":
        return robust_loss(flow.log_z - u, "huber", HUBER).mean()
    u = u.unflatten(0, (TRAJECTORIES, -1))
    return robust_loss(u - u.mean(0).detach(), "huber", HUBER).mean()


@torch.no_grad()
def proposed_flow(
    model: AttractorModel, e: Encoding, pool: Pool, walk: int
) -> tuple[Tensor, Encoding, EnumeratedFlow]:
    """Trajectories z (K + 1, 8 n, d) of n inputs, these inputs, and the flow summed over the
    different sentences among the input's candidates and those read at the trajectory's end.

    One sampled sentence, drawn anew at every state, moves log F by hundreds of nats; these
    sentences are the same at all states of a trajectory. At K the sum is all but complete, since
    the nearest sentences are among them.
    """
    candidates, n, half = pool.candidates(e), len(e.z0), TRAJECTORIES // 2  # (C, n, width)
    few = candidates[torch.randint(len(candidates), (half, n)), torch.arange(n)]
    z0 = e.z0.repeat(half, 1)
    z = torch.cat(
        [model.trajectories(z0, walk), backward_walks(model, z0, few.flatten(0, 1), walk)], 1
    )
    e = e[torch.arange(n).repeat(TRAJECTORIES)]
    read = model.discretizer(z[-1], e.z0).sample(torch.Size([READINGS]))
    s = torch.cat([candidates.repeat(1, TRAJECTORIES, 1), read])
    key = model.language.key(s)  # (C + readings, 8 n)
    log_r = model.reward(e.distribution, None, s).masked_fill(_repeated(key), -torch.inf)

    def correction(z: Tensor, t: Tensor) -> Tensor:  # (K − t) g
        fading = model.onset.log_ratio(z, t, e.z0)
        if model.flow_correction is None:  # at K alone, where it is 0
            return fading
        left = (walk - t) / (model.steps - t).clamp(min=1)
        return left[..., 0] * model.flow_correction(z, t, e.z0) + fading

    z_hat = model.embed(s).transpose(0, 1)
    return z, e, EnumeratedFlow(log_r.T, z_hat, model.epsilon, walk, correction=correction)


def _repeated(key: Tensor) -> Tensor:
    """(n, B) whether an earlier row of key (n, B) has the same number."""
    same = key[:, None] == key[None]
    earlier = torch.ones(len(key), len(key), device=key.device).tril(-1).bool()
    return (same & earlier[..., None]).any(1)
