"""The transition kernel of both dynamics: a Gaussian whose mean moves by a bounded step."""

from __future__ import annotations

import torch
from pyro.distributions import Normal
from torch import Tensor
from torch.distributions import Distribution

__all__ = ["bounded_step", "step_output"]

EDGE = 1e-3  # least distance of a sigmoid from 0 and from 1, of steps that no network makes


def bounded_step(
    z: Tensor, out: Tensor, max_step: float, sd_range: tuple[float, float | Tensor]
) -> Normal:
    """N(z + max_step · sigmoid(m) · v/‖v‖, σ²): the transition kernel of both dynamics (Section
    *Model*).

    The mean moves by less than `max_step`, which is the paper's prior on gradual change; every σ
    lies in `sd_range`, whose upper bound may be (d,).

    Args:
        z: (…, d) the state.
        out: (…, 2d + 1) network output: direction v, pre-sigmoid size m, pre-sigmoid standard
        deviations.
    """
    d = z.shape[-1]
    v, m, r = out.split([d, 1, d], -1)
    norm = v.square().sum(-1, keepdim=True).clamp(min=1e-12).sqrt()
    low, high = sd_range
    return Normal(z + max_step * torch.sigmoid(m) * v / norm, low + (high - low) * torch.sigmoid(r))


def step_output(
    z: Tensor, to: Distribution, max_step: float, sd_range: tuple[float, float | Tensor]
) -> Tensor:
    """(…, 2d + 1) the output of which `bounded_step` makes the transition `to` from z (…, d), or
    the nearest within its bounds: its inverse, for dynamics that are no such network.
    """
    move, (low, high) = to.mean - z, sd_range
    size = move.norm(dim=-1, keepdim=True) / max_step
    sd = (to.stddev - low) / (high - low)
    m, r = (part.clamp(EDGE, 1 - EDGE).logit() for part in (size, sd))
    return torch.cat([move, m, r], -1)
