"""Exploration: off-policy steps, and sentences visited along trajectories."""

from __future__ import annotations

from collections.abc import Callable

import pyro
import torch
from pyro.distributions import Normal
from torch import Tensor

from plot_attractors.gflownet.trajectories import Step

__all__ = ["choose_visited", "exploring"]


def exploring(
    dynamics: Callable[..., Normal], probability: float, max_step: float, axes: int | None = None
) -> Step:
    """The forward step whose mean is, with probability α_dyn, drawn uniformly round the state.

    The region is the ball of radius max_step, all that a bounded step reaches, as in the paper's
    text (*Off-policy sampling*), in so many first axes of the state, or all. The rest, and the
    standard deviation, stay the policy's.
    """

    def step(z: Tensor, t: Tensor | float, context: Tensor) -> Tensor:
        policy = dynamics(z, t, context)
        away = torch.rand(*z.shape[:-1], 1, device=z.device) < probability
        here = z[..., :axes]
        d = here.shape[-1]
        direction = torch.nn.functional.normalize(torch.randn_like(here), dim=-1)
        offset = torch.rand_like(z[..., :1]) ** (1 / d) * direction
        moved = torch.cat([here + max_step * offset, policy.loc[..., d:]], -1)
        mean = torch.where(away, moved, policy.loc)
        return pyro.sample("z", Normal(mean, policy.scale).to_event(1))

    return step


def choose_visited(score: Tensor, index: Tensor, power: float = 1.0) -> Tensor:
    """One of the sentences visited along each trajectory, ∝ exp(power · score) / count of it there.

    The count is divided out, so that a sentence visited ten times is no likelier than one visited
    once (*Wake-sleep*).

    Args:
        score: (T, B) nats, usually log R(s_t; x).
        index: (T, B) an integer that identifies the sentence, as `Language.key` gives.
        power: inverse temperature; ∞ takes the best.

    Returns:
        (B,) a time at which the chosen sentence was visited.
    """
    if power == float("inf"):
        return score.argmax(0)
    count = (index[:, None] == index[None, :]).sum(1)
    logits = power * score - count.to(score).log()
    return torch.distributions.Categorical(logits=logits.T, validate_args=False).sample()
