"""Balance of the dynamics: which steps leave the flow as it must be, in closed form.

P← is a `Bridge`, so that the flow is known, of inputs with candidates s_j ~ P(s | x)::

    F(z, t; x) ∝ Σ_j N(z; z_t | s_j),   and after the walk Σ_j N(z; ẑ_j, ε²)

Balance asks that P_θ(z′ | z) = Σ_j P(s_j | z, t; x) N(z′; a + b ẑ_j, v). The Gaussian nearest to it
has its mean and variance. At states of F itself this is the likelihood of sampled bridges with the
sentence integrated out: unbiased, however few candidates there are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from pyro.distributions import Normal
from torch import Tensor

from plot_attractors.model.attractor import AttractorModel, Encoding
from plot_attractors.model.memory import PERSISTENCE, STATIONARY_SD, Bridge

__all__ = [
    "Transitions",
    "balanced_transitions",
    "log_flow",
    "restoring_transitions",
]

PRIOR_STATES = 128  # at embeddings of sentences from P(s): rare ones need basins as deep as any
PRIOR_WEIGHT = 0.3  # of these, beside the states of sentences of the posterior
PERTURBED = 1 / 6  # part of these that start far from embeddings
FORGOTTEN = 1 / 3  # part of the states in basins whose memory has faded
RETURN_SPEED = 0.9  # of max_step: length of a mean step of restoring transitions


class Transitions(NamedTuple):
    """States, one a row, with the distribution N(mean, sd²) that their next state should have.

    `z` (n, d + m), `mean`, `sd` (n, d), `time` (n, 1), `context` (n, d), `weight` (n, 1).
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

    def divergence(self, dynamics: Callable[..., Normal]) -> Tensor:
        """Σ weight · KL(N(mean, sd²) ‖ P_θ(· | z)), nats."""
        step = dynamics(self.z, self.time, self.context)
        ratio = self.sd / step.scale
        distance = (self.mean - step.loc) / step.scale
        kl = 0.5 * (ratio.square() + distance.square() - 1) - ratio.log()
        return (kl.sum(-1) * self.weight[:, 0]).sum()


def balanced_transitions(model: AttractorModel, e: Encoding, s: Tensor, walks: int) -> Transitions:
    """A step of n states of F of inputs e (n,) with candidates s (n, C, width), of which one drawn
    at random is a draw of P(s | x); `walks` of them at times t < K, the others after it.
    """
    bridge: Bridge = model.backward_dynamics  # type: ignore[assignment]
    n, k, z0 = len(s), bridge.walk, e.z0
    z_hat = model.embed(s)
    t = torch.cat([
        torch.randint(k, (walks, 1)),
        torch.randint(k, max(model.steps, k + 1), (n - walks, 1)),
    ]).to(z0)  # fmt: skip
    own = z_hat[torch.arange(n), torch.randint(s.shape[1], (n,))]
    z = bridge.marginal(z0, own, t).sample()
    w = _log_near(bridge, z, t, z0, z_hat).softmax(-1)[..., None]
    end = (w * z_hat).sum(1)
    spread = (w * (z_hat - end[:, None]).square()).sum(1)
    a, b, v = bridge.step(z, z0, t)
    weight = torch.where(t < k, k / walks, (model.steps - k) / max(n - walks, 1))
    sd = (b**2 * spread + v).sqrt()
    return Transitions(_with_memory(model, z, t, z0), a + b * end, sd, t, z0, weight)


def _log_near(bridge: Bridge, z: Tensor, t: Tensor, z0: Tensor, z_hat: Tensor) -> Tensor:
    """(n, C) log N(z; z_t | s_j) of latent states z (n, d) at t (n, 1) or (1,), of embeddings
    (n, C, d) or (C, d) of sentences.
    """
    at = bridge.marginal(z0[:, None], z_hat, t[..., None] if t.dim() > 1 else t)
    sd = at.scale[:, :1]  # the same of all sentences
    far = ((z[:, None] - at.loc) / sd).square().sum(-1)
    return -0.5 * far - sd.log().sum(-1) - 0.5 * sd.shape[-1] * math.log(2 * math.pi)


def log_flow(
    model: AttractorModel, z: Tensor, t: Tensor, z0: Tensor, log_w: Tensor, z_hat: Tensor
) -> Tensor:
    """(n,) log F(z, t; x) of states z (n, d + m) at one time t (1,), of inputs with z0 (n, d) and
    sentences of embeddings (n, C, d) or (C, d), whose shares are w (n, C); nats.
    """
    if not t:
        return log_w.logsumexp(-1)
    d, memory = model.latent, model.memory
    bridge: Bridge = model.backward_dynamics  # type: ignore[assignment]
    log_f = (log_w + _log_near(bridge, z[:, :d], t, z0, z_hat)).logsumexp(-1)
    return log_f + memory.log_prob(z[:, d:], t, z0)


def _with_memory(model: AttractorModel, z: Tensor, t: Tensor, z0: Tensor) -> Tensor:
    """(n, d + m) states z (n, d) with memory as at t; some in basins have been there for long."""
    bridge: Any = model.backward_dynamics
    forgets = (torch.rand_like(t) < FORGOTTEN) & (t >= bridge.walk)
    memory = model.memory.marginal(z0, torch.where(forgets, torch.inf, t)).sample()
    return torch.cat([z, memory], -1)


def restoring_transitions(
    model: AttractorModel, e: Encoding, perturbed_sd: tuple[float, float]
) -> Transitions:
    """Stationary steps at sentences from the prior, and perturbed starts that are restored to
    theirs in a straight line: without these the few states that leave where trajectories pass drift
    away.
    """
    n, epsilon = PRIOR_STATES, model.epsilon
    s = model.draw_prior(n)
    z0 = e.z0[torch.randint(len(e.z0), (n,))]
    z_hat = model.embed(s)
    few, (least, greatest) = round(PERTURBED * n), perturbed_sd
    perturbed = least + (greatest - least) * torch.rand(few, 1)
    sd = torch.cat([perturbed, torch.full((n - few, 1), epsilon)]).to(z_hat)
    z = z_hat + sd * torch.randn_like(z_hat)
    dynamics: Any = model.forward_dynamics
    bridge: Any = model.backward_dynamics
    time = torch.randint(bridge.walk, max(model.steps, bridge.walk + 1), (len(z), 1)).to(z)
    step = (1 - PERSISTENCE) * (z_hat - z)
    speed = RETURN_SPEED * dynamics.max_step / step.norm(dim=-1, keepdim=True)
    sd = torch.full_like(z, STATIONARY_SD * epsilon)
    weight = torch.full_like(time, PRIOR_WEIGHT * (model.steps - bridge.walk) / n)
    states = _with_memory(model, z, time, z0)
    return Transitions(states, z + speed.clamp(max=1) * step, sd, time, z0, weight)
