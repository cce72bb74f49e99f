"""The backward kernel of the sleep phase: from an embedding, where it stays, back to z0."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.distributions import Normal

from plot_attractors.gflownet.trajectories import Trajectories

__all__ = ["Bridge"]


@dataclass(frozen=True)
class Bridge:
    """A fixed Gaussian backward kernel Q given z0 and ẑ: first an AR(1) at ẑ, then a walk to z0.

    z_T ~ N(ẑ, ε²); back to time `walk`, z_t = ẑ + ρ(z_{t+1} − ẑ) + √(1−ρ²) ε η, stationary and
    reversible at N(ẑ, ε²); from there to 0 a Brownian bridge pinned at z0,
    z_{t−1} ~ N(z0 + (τ′/τ)(z_t − z0), noise² τ′(τ−τ′)/τ), on a clock τ from 0 to 1 that covers the
    part `first` of the way in the step from z0 and the rest evenly. Input-independent dynamics
    know the input from z0 only: a large `first` decides for a sentence there. Q is Gaussian, so
    its forward transitions are known in closed form.

    Args:
        steps: T.
        epsilon, persistence: ε and ρ of the stationary part.
        walk: steps of the walk.
        first: part of the way in the step from z0, 1 / walk for an even pace.
        noise: standard deviation of the walk's Brownian motion.

    Raises ValueError for a walk longer than T or parts outside their range.

    Example:
        >>> kernel = Bridge(steps=20, epsilon=0.04)
        >>> z = kernel.sample(torch.zeros(5, 8), torch.ones(5, 8)).z
        >>> z.shape, float(z[0].abs().max())
        (torch.Size([21, 5, 8]), 0.0)
    """

    steps: int
    epsilon: float
    walk: int = 4
    first: float = 0.25
    noise: float = 0.06
    persistence: float = 0.5

    def __post_init__(self) -> None:
        if not 1 <= self.walk <= self.steps or not 0 < self.first <= 1:
            raise ValueError(
                f"a bridge needs 1 <= walk <= {self.steps} steps and 0 < first <= 1, not "
                f"{self.walk} and {self.first}."
            )
        if not 0 <= self.persistence < 1 or self.noise < 0 or self.epsilon <= 0:
            raise ValueError(
                "a bridge needs 0 <= persistence < 1, noise >= 0 and epsilon > 0, not "
                f"{self.persistence}, {self.noise} and {self.epsilon}."
            )

    @cached_property
    def clock(self) -> Tensor:
        """(T + 1,) the part of the way covered at time t: E[z_t] = z0 + clock_t (ẑ − z0)."""
        walked = [
            self.first + (1 - self.first) * (t - 1) / (self.walk - 1) for t in range(1, self.walk)
        ]
        return torch.tensor([0.0, *walked] + [1.0] * (self.steps - self.walk + 1))

    @cached_property
    def backward(self) -> tuple[Tensor, Tensor]:
        """(T,) a, q of the backward kernel: z_t − E[z_t] = a_t (z_{t+1} − E[z_{t+1}]) + √q_t η."""
        now, before = self.clock[1:], self.clock[:-1]
        stationary = torch.arange(self.steps) >= self.walk
        gain = torch.where(stationary, self.persistence, before / now)
        walk_variance = self.noise**2 * before * (now - before) / now
        stays = self.epsilon**2 * (1 - self.persistence**2)
        return gain, torch.where(stationary, stays, walk_variance)

    @cached_property
    def variance(self) -> Tensor:
        """(T + 1,) Var[z_t] given z0 and ẑ, in every dimension."""
        gain, q = self.backward
        v = [torch.tensor(self.epsilon**2)]
        for t in reversed(range(self.steps)):
            v.append(gain[t].square() * v[-1] + q[t])
        return torch.stack(v[::-1])

    @cached_property
    def forward(self) -> tuple[Tensor, Tensor]:
        """(T,) gain and variance of the forward transitions of the same process, by Bayes' rule."""
        v, (gain, _) = self.variance, self.backward
        g = torch.where(v[:-1] > 0, gain * v[1:] / v[:-1].clamp(min=1e-20), 0.0)
        return g, (v[1:] - g.square() * v[:-1]).clamp(min=1e-12)

    @torch.no_grad()
    def sample(self, z0: Tensor, z_hat: Tensor) -> Trajectories:
        """Trajectories from z0 (B, d) to ẑ (B, d), z0 their context."""
        mean = self.mean(torch.arange(self.steps + 1), z0, z_hat)
        gain, q = self.backward
        eta = torch.randn_like(mean)
        off = [self.epsilon * eta[-1]]
        for t in reversed(range(self.steps)):
            off.append(gain[t] * off[-1] + q[t].sqrt() * eta[t])
        return Trajectories(mean + torch.stack(off[::-1]), z0)

    def mean(self, t: Tensor, z0: Tensor, z_hat: Tensor) -> Tensor:
        """(n, B, d) E[z_t | z0, ẑ] at times t (n,)."""
        return torch.lerp(z0, z_hat, self.clock.to(z0)[t, None, None])

    def forward_transition(self, t: Tensor, z: Tensor, z0: Tensor, z_hat: Tensor) -> Normal:
        """Q(z_{t+1} | z_t, z0, ẑ) for states z (n, B, d) at times t (n,), 0 … T − 1."""
        g, v = (part.to(z0)[t, None, None] for part in self.forward)
        return Normal(
            self.mean(t + 1, z0, z_hat) + g * (z - self.mean(t, z0, z_hat)), v.sqrt().expand_as(z)
        )

    def stationary(self, z: Tensor, z_hat: Tensor) -> Normal:
        """One stationary step at ẑ, forward or backward: N(ẑ + ρ(z − ẑ), (1 − ρ²)ε²)."""
        sd = self.epsilon * (1 - self.persistence**2) ** 0.5
        return Normal(torch.lerp(z_hat, z, self.persistence), sd)
