"""Maximum likelihood of the forward dynamics on go-and-wait trajectories, without sampled next
states.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributions import Normal

from plot_attractors.gflownet.trajectories import Step, Trajectories, expected_score_step
from plot_attractors.training.bridge import GoAndWait

__all__ = ["Transitions", "homing_transitions", "waiting_transitions", "walking_transitions"]


class Transitions(NamedTuple):
    """States with the known law of their next state, N(mean, sd²), one a row: what a forward kernel
    is fitted to.

    `z`, `mean`, `sd` (n, d), `time` (n, 1), `context` (n, c), `weight` (n, 1).
    """

    z: Tensor
    mean: Tensor
    sd: Tensor
    time: Tensor
    context: Tensor
    weight: Tensor

    def join(self, other: Transitions) -> Transitions:
        """The rows of both."""
        return Transitions(*(torch.cat(pair) for pair in zip(self, other, strict=True)))

    def cross_entropy(self, step: Step) -> Tensor:
        """−Σ weight · E[log P_F(z′ | z)], z′ ~ N(mean, sd²), nats; as its expectation is known, its
        gradient has no noise.
        """
        law = Normal(self.mean, self.sd, validate_args=False)
        return -(
            expected_score_step(step, self.z, law, self.time, self.context) * self.weight[:, 0]
        ).sum()


def walking_transitions(
    kernel: GoAndWait, trajectories: Trajectories, z_hat: Tensor, waits: int
) -> Transitions:
    """The walk of go-and-wait trajectories to ẑ (B, d), and `waits` of their waiting steps, drawn
    anew for every call.

    Waiting looks alike at all times, so a few steps of it stand for all. The weights are for the
    mean over trajectories of the sum over steps.
    """
    z, context = trajectories
    waiting = kernel.steps - kernel.walk
    waits = min(waits, waiting)
    t = torch.cat([torch.arange(kernel.walk), kernel.walk + torch.randperm(waiting)[:waits]])
    weight = torch.tensor([1.0] * kernel.walk + [waiting / max(waits, 1)] * waits) / z.shape[1]
    to = kernel.forward_transition(t, z[t], z[0], z_hat)
    rows = [z[t], to.mean, to.stddev, t[:, None, None], context, weight[:, None, None]]
    return Transitions(*(r.to(z).expand(len(t), z.shape[1], -1).flatten(0, 1) for r in rows))


@torch.no_grad()
def waiting_transitions(
    kernel: GoAndWait,
    z_hat: Tensor,
    context: Tensor,
    strays: int,
    stray_sd: tuple[float, float],
    max_step: float,
) -> Transitions:
    """One waiting step at every ẑ (n, d); the first `strays` states are strays that walk back to
    theirs. Together the rows weigh as much as all the waiting of one trajectory.

    Strays start N(ẑ, sd²) away, sd uniform within `stray_sd`, and their mean step is at most
    `max_step` long: without them the few states that leave where trajectories pass run away from
    there.
    """
    n = len(z_hat)
    sd = torch.full((n, 1), kernel.epsilon).to(z_hat)
    sd[:strays].uniform_(*stray_sd)
    weight = (kernel.steps - kernel.walk) / n
    return homing_transitions(
        kernel, z_hat + sd * torch.randn_like(z_hat), z_hat, context, max_step, weight
    )


def homing_transitions(
    kernel: GoAndWait, z: Tensor, z_hat: Tensor, context: Tensor, max_step: float, weight: float
) -> Transitions:
    """One waiting step of states z (n, d) at ẑ (n, d) each, the mean of which is at most `max_step`
    long: where z is far from ẑ, it walks there. Each row has this weight.
    """
    to = kernel.waiting(z, z_hat)
    step = to.mean - z
    speed = max_step / step.norm(dim=-1, keepdim=True)
    time = torch.randint(kernel.walk, kernel.steps, (len(z), 1)).to(z)
    return Transitions(
        z, z + speed.clamp(max=1) * step, to.stddev, time, context, torch.full_like(time, weight)
    )
