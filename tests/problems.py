"""Problems with known answers: a bridge to a mixture, conjugate Gaussians, two tokens."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pyro
import pyro.distributions as dist
import torch
from pyro.distributions import Categorical, Independent, MixtureSameFamily, Normal
from torch import Tensor

from plot_attractors.gflownet import (
    LogRatios,
    Trajectories,
    score_trajectories,
    simulate,
    simulate_backward,
)
from plot_attractors.language import Language

float64 = torch.float64


# -- a bridge

T, B = 6, 8


@dataclass(frozen=True)
class Bridge:
    """A chain in the plane with exact policies and flow; later fields are errors, none by default.

    The backward kernel is a Brownian bridge pinned at z0 and the target a mixture of Gaussians, so
    that F(z, t) = Σ_s w_s N(z; z0 + (t/T)(m_s − z0), (t/T)² v + σ² t (T − t)/T), and the forward
    policy is its Doob transform, a mixture with weights that depend on the state.
    """

    z0 = torch.tensor([0.3, -0.2], dtype=float64)
    means = torch.tensor([[1.0, 0], [0, 1.5], [-1, -1]], dtype=float64)
    weights = torch.tensor([0.5, 2.0, 1.0], dtype=float64)
    v, sigma = 0.05, 0.4
    flow_weights: Tensor = weights
    flow_offset: float = 0.0  # nats, from z_1 on
    flow_clock: float = 1.0  # factor of time
    forward_shift: float = 0.0
    forward_weights: Tensor | None = None
    backward_shift: float = 0.0
    backward_sigma: float = 0.4
    log_z_offset: float | Tensor = 0.0

    def moments(self, t: Tensor) -> tuple[Tensor, Tensor]:
        """Mean (…, S, d) and variance (…, 1) of z_t given the component, t (…, 1)."""
        u = t / T
        mean = self.z0 + u[..., None] * (self.means - self.z0)
        return mean, u**2 * self.v + self.sigma**2 * t * (1 - u)

    def components(self, z: Tensor, t: Tensor, weights: Tensor) -> Tensor:
        """(…, S) log w_s N(z; …); log w_s where the variance is 0, at t = 0."""
        mean, var = self.moments(t)
        kernel = Normal(mean, var.clamp(min=1e-300).sqrt()[..., None])
        return torch.where(t == 0, 0.0, kernel.log_prob(z[..., None, :]).sum(-1)) + weights.log()

    def forward_step(self, z: Tensor, t: Any, context: Tensor) -> Tensor:
        t = torch.as_tensor(t, dtype=float64)
        t = t.reshape(1) if t.dim() == 0 else t
        (now, before), (mean, var) = self.moments(t), self.moments(t + 1)
        c = (t / (t + 1))[..., None]
        gain = torch.where(t > 0, var * c[..., 0] / before.clamp(min=1e-300), 0.0)[..., None]
        loc = mean + gain * (z[..., None, :] - now) + self.forward_shift
        scale = (var[..., None] * (1 - gain * c)).sqrt().expand_as(loc)
        weights = self.weights if self.forward_weights is None else self.forward_weights
        logits = self.components(z, t, weights)
        mixture = MixtureSameFamily(Categorical(logits=logits), Independent(Normal(loc, scale), 1))
        return pyro.sample("z", mixture)

    def backward_step(self, z: Tensor, t: Any, context: Tensor) -> Tensor:
        t = torch.as_tensor(t, dtype=float64)
        loc = self.z0 + (t - 1) / t * (z - self.z0) + self.backward_shift
        scale = (self.backward_sigma * ((t - 1) / t).sqrt()).clamp(min=1e-12)
        return pyro.sample("z", Normal(loc, scale.expand_as(loc)).to_event(1))

    def log_flow(self, z: Tensor, t: Tensor) -> Tensor:
        log_f = self.components(z, t * self.flow_clock, self.flow_weights).logsumexp(-1)
        return torch.where(t[..., 0] > 0, log_f + self.flow_offset, self.log_z)

    @property
    def log_z(self) -> Tensor:
        return self.weights.sum().log().expand(B) + self.log_z_offset

    def log_ratios(self, trajectories: Trajectories) -> LogRatios:
        components = Independent(Normal(self.means, self.v**0.5), 1)
        target = MixtureSameFamily(Categorical(self.weights), components)
        log_r = target.log_prob(trajectories.z[-1]) + self.weights.sum().log()
        return score_trajectories(self.forward_step, self.backward_step, trajectories, log_r)


def off_policy(bridge: Bridge) -> Trajectories:
    z = torch.cat([bridge.z0.expand(1, B, 2), 1.5 * torch.randn(T, B, 2, dtype=float64)])
    return Trajectories(z, bridge.z0.expand(B, 2))


def on_policy(bridge: Bridge) -> Trajectories:
    return simulate(bridge.forward_step, bridge.z0.expand(B, 2), T, bridge.z0.expand(B, 2))


def backward(bridge: Bridge) -> Trajectories:
    end = bridge.means[torch.randint(3, (B,))] + bridge.v**0.5 * torch.randn(B, 2, dtype=float64)
    return simulate_backward(bridge.backward_step, end, T, bridge.z0.expand(B, 2))


# -- conjugate Gaussians: z ~ N(0, 2), x_i ~ N(z, 1)

DATA = torch.tensor([2.1, 3.4, 2.9, 3.8, 2.6])
POSTERIOR_SD = (1 / 4 + len(DATA)) ** -0.5
POSTERIOR_MEAN = float(DATA.sum()) * POSTERIOR_SD**2
COVARIANCE = torch.eye(5) + 4
LOG_EVIDENCE = float(dist.MultivariateNormal(torch.zeros(5), COVARIANCE).log_prob(DATA))


def gaussian_model(x: Tensor = DATA) -> None:
    z = pyro.sample("z", dist.Normal(0.0, 2.0))
    with pyro.plate("data", len(x)):
        pyro.sample("x", dist.Normal(z, 1.0), obs=x)


def gaussian_guide() -> None:
    loc = pyro.param("loc", torch.tensor(0.0))
    scale = pyro.param("scale", torch.tensor(1.0), constraint=dist.constraints.positive)
    pyro.sample("z", dist.Normal(loc, scale))


# -- two tokens A and B, each along an axis: ∅, A, B, A·B

TWO_TOKENS = Language((1, 1), min_length=0)
EMBEDDINGS = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, -0.8], [1.0, -0.8]], dtype=float64)
LOG_REWARDS = torch.tensor([0.1, 0.5, -0.4, 0.0], dtype=float64)  # a product over tokens
EPSILON = 0.2


def two_token_log_joint(z: Tensor, variance: float) -> Tensor:
    """(…, 4) log R(s) N(z; ẑ_s, variance · I), written out."""
    square = (z[..., None, :] - EMBEDDINGS).square().sum(-1)
    return LOG_REWARDS - square / (2 * variance) - math.log(2 * math.pi * variance)
