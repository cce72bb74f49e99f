"""What an input adds to the state at t = 0, and how it fades."""

from __future__ import annotations

import logging

import torch
from pyro.distributions import Normal
from torch import Tensor, nn

__all__ = ["PERSISTENCE", "STATIONARY_SD", "Onset"]

logger = logging.getLogger(__name__)

PERSISTENCE = 0.7  # ρ of steps that stay, too
STATIONARY_SD = (1 - PERSISTENCE**2) ** 0.5  # √(1 − ρ²) of their noise, in ε
MOST_SPREAD = 0.15  # of z0 along the onset, in units of it


class Onset(nn.Module):
    """z_0 = z0 + v, and in the latent axis of v steps of an AR(1), which are in balance.

    Dynamics of z alone tell states that have just begun from states that have settled by v, which
    lies along an axis j in which embeddings do not vary: c for all. So F(z) = Σ_s R N(z; ẑ_s, ε²)
    is N(c, ε²) in it, whatever the sentence, and detailed balance holds for the steps of an AR(1),
    of any ρ, with a_t = z_{t,j} − c and v_t = ε²(1 − ρ^{2t})::

        a_{t+1} | a_t      ~ N(ρ a_t, (1 − ρ²) ε²)
        a_t | a_0          ~ N(ρ^t a_0, v_t)
        a_t | a_{t+1}, a_0 ~ N(ρ^t a_0 + ρ (v_t / v_{t+1}) (a_{t+1} − ρ^{t+1} a_0),
                               (1 − ρ²) ε² v_t / v_{t+1})

    It is no path to a sentence: all other axes are learned. Until `orient` there is no onset.

    Args:
        latent: d.
        norm: ‖v‖; 0: there is none.
        epsilon: ε.
    """

    vector: Tensor  # (d,) v
    center: Tensor  # (d,) c, 0 in the other axes

    def __init__(self, latent: int, norm: float, epsilon: float) -> None:
        super().__init__()
        self.norm, self.epsilon = norm, epsilon
        self.register_buffer("vector", torch.zeros(latent))
        self.register_buffer("center", torch.zeros(latent))

    @torch.no_grad()
    def orient(self, z0: Tensor, z_hat: Tensor) -> None:
        """Points v along the axis in which z0 (n, d) and embeddings (m, d) vary least. Later calls
        move c alone, unless embeddings have come to vary by more than ε in it. Where they do in
        all axes there is no onset, with a warning: states that have just begun would be where
        others have settled.
        """
        if not self.norm:
            return
        spread = torch.maximum(z0.std(0) / (MOST_SPREAD * self.norm), z_hat.std(0) / self.epsilon)
        axis = spread.masked_fill(self.axis & (spread <= 1), 0).argmin()
        self.vector.zero_()
        self.center.zero_()
        if spread[axis] <= 1:
            self.vector[axis], self.center[axis] = self.norm, z_hat[:, axis].mean()
            return
        logger.warning(
            "inputs or embeddings vary in all latent axes (in one the standard deviations are %.2g "
            "and %.2g), so trajectories begin at z0 itself (dynamics.onset=0): set latent to one "
            "more",
            *(float(z[:, axis].std()) for z in (z0, z_hat)),
        )

    @property
    def axis(self) -> Tensor:
        """(d,) which axis it is; none before `orient`."""
        return self.vector != 0

    def law(self, z0: Tensor, t: Tensor | float) -> Normal:
        """(…, d) states at time t, a number or (…, 1), in the axis; of others any."""
        a, t = z0 + self.vector - self.center, torch.as_tensor(t, dtype=z0.dtype, device=z0.device)
        variance = self.epsilon**2 * (1 - PERSISTENCE ** (2 * t))
        sd = variance.clamp(min=1e-10).sqrt()
        return Normal(self.center + PERSISTENCE**t * a, sd, validate_args=False)

    def forward_step(self, to: Normal, z: Tensor) -> Normal:
        """The transition from z (…, d), in the axis as above, elsewhere `to`."""
        mean = torch.lerp(self.center, z, PERSISTENCE)
        sd = to.scale.new_tensor(STATIONARY_SD * self.epsilon)
        return self._inside(to, mean, sd)

    def backward_step(self, to: Normal, z: Tensor, t: Tensor | float, z0: Tensor) -> Normal:
        """The transition to time t − 1 from z (…, d) at t, in the axis as above, elsewhere `to`."""
        before, now = self.law(z0, t - 1), self.law(z0, t)
        ratio = (before.scale / now.scale).square()
        mean = before.loc + PERSISTENCE * ratio * (z - now.loc)
        sd = STATIONARY_SD * self.epsilon * ratio.sqrt()
        return self._inside(to, mean, sd)

    def _inside(self, to: Normal, mean: Tensor, sd: Tensor) -> Normal:
        axis = self.axis
        loc, scale = torch.where(axis, mean, to.loc), torch.where(axis, sd, to.scale)
        return Normal(loc, scale, validate_args=False)
