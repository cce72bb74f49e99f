"""Forward-looking flows over latent states: exact sums over sentences, or estimates from samples.

log F(z, t; x) = log Σ_s R(s; x) N(z; ẑ_s, ε² + (T − t)σ²) + correction(z, t), nats: the flow
equation of the paper with P(s | z) eliminated. At t = T it is log R(z_T, x) itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

__all__ = [
    "Correction",
    "EnumeratedFlow",
    "SampledFlow",
    "forward_looking_variance",
    "log_isotropic",
]

Correction = Callable[[Tensor, Tensor], Tensor]
"""(z (T + 1, B, d), t (T + 1, 1, 1)) → (T + 1, B) log-space correction, 0 at t = T."""


def forward_looking_variance(t: Tensor, steps: int, epsilon: float, widening: float) -> Tensor:
    """ε² + (T − t) σ²: the variance with which a state at time t looks forward to an embedding.

    With σ = 0, as in the paper, guidance is almost useless far from embeddings: 200 nats for a
    distance of 1. σ > 0 is about what a random walk of step σ would have left to go.
    """
    return epsilon**2 + (steps - t).clamp(min=0) * widening**2


def log_isotropic(z: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    """log N(z; mean, variance · I), nats, over the last dimension; `variance` (…, 1)."""
    return _log_normal((z - mean).square().sum(-1), variance[..., 0], z.shape[-1])


def _log_normal(square: Tensor, v: Tensor, d: int) -> Tensor:
    return -0.5 * (square / v + d * v.log() + d * math.log(2 * math.pi))


def _logsumexp(x: Tensor) -> Tensor:
    """log Σ exp over the last dimension, fast where exp would underflow."""
    top = x.detach().amax(-1, keepdim=True)
    return (x - top).clamp(min=-80.0).exp().sum(-1).log() + top[..., 0]


@dataclass(frozen=True)
class EnumeratedFlow:
    """Eq. *flow* by the sum over listed sentences: no sampled sentence, so no Jensen bias.

    The distances of all states to all embeddings are one matrix product.

    Args:
        log_reward: (B, S) log R(s; x), nats.
        embeddings: (S, d) ẑ_s.
        epsilon: ε.
        steps: T.
        widening: σ; 0 is the paper's flow.
        correction: (T − t)·g, or None.
    """

    log_reward: Tensor
    embeddings: Tensor
    epsilon: float
    steps: int
    widening: float = 0.0
    correction: Correction | None = None

    def log_flow(self, z: Tensor, t: Tensor) -> Tensor:
        """z (T + 1, B, d), t (T + 1, 1, 1) → (T + 1, B), nats."""
        v = forward_looking_variance(t, self.steps, self.epsilon, self.widening)
        # float32 keeps ‖z − ẑ‖²/ε² to 1e-3 nats near the origin only
        center = self.embeddings.mean(0)
        z_c, e_c = z - center, self.embeddings - center
        z_1 = torch.cat([z_c, torch.ones_like(z_c[..., :1])], -1) / v
        e_1 = torch.cat([e_c, -0.5 * e_c.square().sum(-1, keepdim=True)], -1)
        # (z·ẑ_s − ‖ẑ_s‖²/2)/v + log R in one pass over (B, T + 1, S)
        e_1 = e_1.T.expand(z.shape[1], -1, -1)
        total = torch.baddbmm(self.log_reward[:, None], z_1.transpose(0, 1), e_1)
        total = total.transpose(0, 1)
        rest = _log_normal(z_c.square().sum(-1), v[..., 0], z.shape[-1])
        log_f = _logsumexp(total) + rest
        return log_f if self.correction is None else log_f + self.correction(z, t)


@dataclass(frozen=True)
class SampledFlow:
    """Eq. *flow* by Eq. *flow_estimate* (Algorithm 4): log (1/K) Σ_k R(s_k; x) N(z; ẑ_{s_k}, ·) /
    P(s_k | z) + correction.

    s_k ~ P(s | z) of the discretizer, drawn afresh for every state. The exponential is an unbiased
    estimate of the sum, so the logarithm is biased downwards, the less the larger K (1 in the
    paper). Or one sentence a trajectory, as Algorithm 3 has it: then log F is that of the state
    and this sentence, R(s; x) counts at the ends alone, and balance holds where P(s | z) is
    ∝ R(s; x) N(z; ẑ_s, ·).

    Args:
        log_reward: (z, s) → log R(z, s; x), of z (…, B, d) and s (K, …, B, width) → (K, …, B).
        embed: s → ẑ_s.
        discretizer: z → P(s | z), which has `sample` and `log_prob`: of all orders of tokens, or of
            one, divided by the paper's factor P←(tokens).
        epsilon, steps, widening, correction: as in `EnumeratedFlow`.
        samples: K.
        sentences: (B, width) the one sentence of each trajectory; None: drawn afresh.
    """

    log_reward: Callable[[Tensor, Tensor], Tensor]
    embed: Callable[[Tensor], Tensor]
    discretizer: Callable[[Tensor], Any]
    epsilon: float
    steps: int
    samples: int = 1
    widening: float = 0.0
    correction: Correction | None = None
    sentences: Tensor | None = None

    def log_flow(self, z: Tensor, t: Tensor) -> Tensor:
        """z (T + 1, B, d), t (T + 1, 1, 1) → (T + 1, B), nats."""
        v = forward_looking_variance(t, self.steps, self.epsilon, self.widening)
        policy = self.discretizer(z)
        if self.sentences is None:
            s = policy.sample((self.samples,))
        else:
            s = self.sentences.expand(1, len(z), *self.sentences.shape)
        log_q = policy.log_prob(s)
        log_w = self.log_reward(z, s) + log_isotropic(z, self.embed(s), v) - log_q
        log_f = log_w.logsumexp(0) - math.log(len(s))
        return log_f if self.correction is None else log_f + self.correction(z, t)
