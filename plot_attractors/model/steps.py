"""The transition kernel of both dynamics: a Gaussian whose mean moves by a bounded step."""

from __future__ import annotations

import torch
from pyro.distributions import Normal
from torch import Tensor

__all__ = ["bounded_step"]


def bounded_step(z: Tensor, out: Tensor, max_step: float, sd_range: tuple[float, float]) -> Normal:
    """N(z + max_step · sigmoid(m) · v/‖v‖, σ²): the transition kernel of both dynamics (Section
    *Model*).

    The mean moves by less than `max_step`, which is the paper's prior on gradual change; every σ
    lies in `sd_range`.

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
