"""Balance of the dynamics on their own trajectories, with a flow of proposed sentences."""

from __future__ import annotations

from typing import Literal

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
from plot_attractors.training.sentences import SampledSentences

__all__ = ["BALANCE_INPUTS", "Balance", "balance_loss", "proposed_flow"]

Balance = Literal["detailed", "sub_trajectory", "trajectory", "vargrad"]

BALANCE_INPUTS = 8  # inputs in an update
TRAJECTORIES = 8  # of each
READINGS = 4  # sentences that the discretizer reads at the end of each
HUBER = 3.0  # nats of a residual beyond which the loss is linear


def balance_loss(
    model: AttractorModel, e: Encoding, sentences: SampledSentences, kind: Balance
) -> Tensor:
    """Mean loss, nats², of 8 forward trajectories of each of the inputs e.

    With u_t = log F(z_t) − Σ_{k<t} (log P_F − log P_B)(k): *detailed* balance has the residuals
    u_t − u_{t+1}, *sub_trajectory* all u_i − u_j with weights λ^{j−i}, *trajectory* balance
    log Z(x) − u_T, and *vargrad* u_T less its mean over the trajectories of the input.
    """
    z, e, flow = proposed_flow(model, e, sentences)
    trajectories = Trajectories(z, e.z0)
    step, back = model.forward_step, model.backward_step
    if kind == "detailed":
        return DetailedBalance(step, back, "huber", HUBER, "known")(trajectories, flow)
    if kind == "sub_trajectory":
        return SubTrajectoryBalance(step, back, "huber", HUBER, "known")(trajectories, flow)
    log_r = flow.log_flow(trajectories.z[-1:], trajectories.times[-1:])[0]  # F at T alone
    u = log_r - (score_forward(step, trajectories) - score_backward(back, trajectories)).sum(0)
    if kind == "trajectory":
        return robust_loss(flow.log_z - u, "huber", HUBER).mean()
    u = u.unflatten(0, (TRAJECTORIES, -1))
    return robust_loss(u - u.mean(0).detach(), "huber", HUBER).mean()


@torch.no_grad()
def proposed_flow(
    model: AttractorModel, e: Encoding, sentences: SampledSentences
) -> tuple[Tensor, Encoding, EnumeratedFlow]:
    """Trajectories z (T + 1, 8 n, d) of n inputs, these inputs, and the flow summed over the
    different sentences among the input's candidates and those read at the trajectory's end.

    One sampled sentence, drawn anew at every state, moves log F by hundreds of nats; these
    sentences are the same at all states of a trajectory. At T the sum is all but complete, since
    the nearest sentences are among them.
    """
    candidates = sentences.population(e.distribution).s  # (K, n, width)
    e = e[torch.arange(len(e.z0)).repeat(TRAJECTORIES)]
    z = model.whole_trajectories(e.z0)
    read = model.discretizer(z[-1], e.z0).sample(torch.Size([READINGS]))
    s = torch.cat([candidates.repeat(1, TRAJECTORIES, 1), read])
    key = model.language.key(s)  # (K + readings, 8 n)
    log_r = model.reward(e.distribution, None, s).masked_fill(_repeated(key), -torch.inf)
    flow = EnumeratedFlow(
        log_r.T,
        model.embed(s).transpose(0, 1),
        model.epsilon,
        model.steps,
        correction=lambda z, t: model.flow_correction(z, t, e.z0),
    )
    return z, e, flow


def _repeated(key: Tensor) -> Tensor:
    """(n, B) whether an earlier row of key (n, B) has the same number."""
    same = key[:, None] == key[None]
    earlier = torch.ones(len(key), len(key), device=key.device).tril(-1).bool()
    return (same & earlier[..., None]).any(1)
