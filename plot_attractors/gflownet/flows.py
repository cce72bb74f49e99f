"""Forward-looking flows over latent states: exact sums over listed sentences, or estimates from
sampled ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from pyro.distributions import Normal
from torch import Tensor

from plot_attractors.language.factored import FactoredSentences
from plot_attractors.language.policy import SentencePolicy, TabulatedSentences

if TYPE_CHECKING:
    from plot_attractors.model.attractor import AttractorModel

__all__ = [
    "Correction",
    "EnumeratedFlow",
    "FactoredFlow",
    "SampledFlow",
    "forward_looking_variance",
    "log_isotropic",
]

Correction = Callable[[Tensor, Tensor], Tensor]
"""(z (T + 1, B, d), t (T + 1, 1, 1)) → (T + 1, B) log-space correction, 0 at t = T."""


def forward_looking_variance(t: Tensor, steps: int, epsilon: float, widening: float) -> Tensor:
    """ε² + (T − t) σ²: the variance with which a state at time t looks forward to an embedding.

    With the same narrow ε at every t (σ = 0, as in the paper) the guidance is almost useless far
    from embeddings: 200 nats for a distance of 1; widened as time runs back, it is about what a
    random walk of step σ would have left to go.
    """
    return epsilon**2 + (steps - t).clamp(min=0) * widening**2


def log_isotropic(z: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    """log N(z; mean, variance · I), nats, over the last dimension; `variance` (…, 1)."""
    d = z.shape[-1]
    square = (z - mean).square().sum(-1)
    return -0.5 * (
        square / variance[..., 0] + d * variance[..., 0].log() + d * math.log(2 * math.pi)
    )


def _logsumexp(x: Tensor) -> Tensor:
    """log Σ exp over the last dimension; no term is below e⁻⁸⁰ of the largest, as exp is slow where
    it underflows.
    """
    top = x.detach().amax(-1, keepdim=True)
    return (x - top).clamp(min=-80.0).exp().sum(-1).log() + top[..., 0]


@dataclass(frozen=True)
class EnumeratedFlow:
    """log F(z, t; x) = log Σ_s R(z, s; x) N(z; ẑ_s, ε² + (T − t)σ²) + correction(z, t), the sum
    over all sentences exactly.

    The flow equation of the paper with P(s | z) eliminated: at t = T it is log R(z_T, x) itself,
    and log Z(x) = log Σ_s R(s; x) is known. No sampled sentence, so no Jensen bias. The distances
    of (T + 1, B, d) states to S embeddings are one matrix product; (batch, sentences, latent) is
    never materialised.

    Args:
        log_reward: (B, S) log R(s; x), nats.
        embeddings: (S, d) ẑ_s; or (B, S, d), each input's own: of its best sentences, or means of a
            learned first backward step.
        epsilon: ε.
        steps: T.
        widening: σ; 0 is the paper's flow.
        correction: (T − t)·g, or None.
        log_decodability: z → (…, S), the reward's factor in z, or None.
        variance: (B, S, d) extra variances of a learned first backward step, which replace ε².
    """

    log_reward: Tensor
    embeddings: Tensor
    epsilon: float
    steps: int
    widening: float = 0.0
    correction: Correction | None = None
    log_decodability: Callable[[Tensor], Tensor] | None = None
    variance: Tensor | None = None

    @property
    def log_z(self) -> Tensor:
        """(B,) log Z(x) = log Σ_s R(s; x), exact when R does not involve z."""
        return self.log_reward.logsumexp(-1)

    def log_flow(self, z: Tensor, t: Tensor) -> Tensor:
        """z (T + 1, B, d), t (T + 1, 1, 1) → (T + 1, B), nats."""
        d = z.shape[-1]
        if self.variance is None:
            v = forward_looking_variance(t, self.steps, self.epsilon, self.widening)
            # float32 keeps ‖z − ẑ‖²/ε² to 1e-3 nats near the origin only
            center = self.embeddings.flatten(0, -2).mean(0)
            z_c, e_c = z - center, self.embeddings - center
            z_1 = torch.cat([z_c, torch.ones_like(z_c[..., :1])], -1) / v
            e_1 = torch.cat([e_c, -0.5 * e_c.square().sum(-1, keepdim=True)], -1)
            # (z·ẑ_s − ‖ẑ_s‖²/2)/v + log R in one pass over (B, T + 1, S)
            e_1 = e_1.expand(z.shape[1], -1, -1).transpose(1, 2)
            total = torch.baddbmm(self.log_reward[:, None], z_1.transpose(0, 1), e_1).transpose(
                0, 1
            )
            rest = -0.5 * (
                z_c.square().sum(-1) / v[..., 0] + d * v[..., 0].log() + d * math.log(2 * math.pi)
            )
        else:
            # over (T + 1, B, S, d)
            v = (
                self.variance
                + forward_looking_variance(t, self.steps, 0.0, self.widening)[..., None]
            )
            total = self.log_reward - 0.5 * (
                (z[..., None, :] - self.embeddings).square() / v + v.log()
            ).sum(-1)
            rest = torch.full(
                z.shape[:-1], -0.5 * d * math.log(2 * math.pi), device=z.device, dtype=z.dtype
            )
        if self.log_decodability is not None:
            total = total + self.log_decodability(z)
        log_f = _logsumexp(total) + rest
        return log_f if self.correction is None else log_f + self.correction(z, t)


@dataclass(frozen=True)
class FactoredFlow:
    """The flow of `EnumeratedFlow` where every token moves ẑ_s along one latent axis: exact, and
    nothing is listed.

    R(s; x) and N(z; ẑ_s, v) are then products over axes, and their sum over all sentences is that
    of `FactoredSentences`.

    Args:
        posterior: P(s | x) of B inputs, whose scores are log R along each axis.
        embeddings: for each factor its axis and (U,) ẑ of its subsets along it.
        silence: (d,) ẑ of the empty sentence, where embeddings are along all other axes.
        epsilon, steps, widening, correction: as in `EnumeratedFlow`.
    """

    posterior: FactoredSentences
    embeddings: Sequence[tuple[int, Tensor]]
    silence: Tensor
    epsilon: float
    steps: int
    widening: float = 0.0
    correction: Correction | None = None

    @classmethod
    @torch.no_grad()
    def of(
        cls,
        model: AttractorModel,
        q: Normal,
        widening: float = 0.0,
        correction: Correction | None = None,
    ) -> FactoredFlow:
        """The flow of a model whose posterior factors, for inputs with P(z0 | x) = q (B, d).

        Raises ValueError where it does not.
        """
        of, posterior = model.factors(), model.posterior(q)
        if of is None or not isinstance(posterior, FactoredSentences):
            raise ValueError(
                "the posterior does not factor: set token_axes, and no decodability and no "
                "reward_floor"
            )
        embeddings = [(axis, p.loc[:, 0]) for axis, p in model.along_axes(of)]
        silence = model.embed(torch.zeros(model.language.width, device=model.device))
        return cls(posterior, embeddings, silence, model.epsilon, model.steps, widening, correction)

    @property
    def log_z(self) -> Tensor:
        """(B,) log Z(x) = log Σ_s R(s; x), exact."""
        return self.posterior.log_z

    def log_flow(self, z: Tensor, t: Tensor) -> Tensor:
        """z (T + 1, B, d), t (T + 1, 1, 1) → (T + 1, B), nats."""
        v = forward_looking_variance(t, self.steps, self.epsilon, self.widening)
        scores = [
            score + log_isotropic(z[..., axis, None, None], e[:, None], v[..., None])
            for score, (axis, e) in zip(self.posterior.scores, self.embeddings, strict=True)
        ]
        idle = sorted(set(range(z.shape[-1])) - {axis for axis, _ in self.embeddings})
        log_f = FactoredSentences(self.posterior.language, self.posterior.factors, scores).log_z
        log_f = log_f + log_isotropic(z[..., idle], self.silence[idle], v)
        return log_f if self.correction is None else log_f + self.correction(z, t)


@dataclass(frozen=True)
class SampledFlow:
    """The paper's flow with K sampled sentences: log (1/K) Σ_k R(s_k; x) N(z; ẑ_{s_k}, ·) / P(s_k |
    z) + correction.

    s_k ~ P(s | z) of the discretizer, drawn afresh for every state. Its exponential is an unbiased
    estimate of the enumerated sum, its logarithm biased downwards by Jensen's inequality, the less
    the larger K (K = 1 in the paper). The paper's factor P←(tokens) is left out: P(s | z) here is
    that of the sentence, summed over the orders in which its tokens may come.

    Args:
        log_reward: s (K, …, B, width) → (K, …, B) log R(s; x).
        embed: s → ẑ_s.
        discretizer: z → distribution over sentences.
        epsilon, steps, widening, correction: as in `EnumeratedFlow`.
        samples: K.
        log_decodability: (z, s) → the logarithm of the reward's factor in z_T; None: the reward has
        none.
    """

    log_reward: Callable[[Tensor], Tensor]
    embed: Callable[[Tensor], Tensor]
    discretizer: Callable[[Tensor], SentencePolicy | TabulatedSentences]
    epsilon: float
    steps: int
    samples: int = 1
    widening: float = 0.0
    correction: Correction | None = None
    log_decodability: Callable[[Tensor, Tensor], Tensor] | None = None

    def log_flow(self, z: Tensor, t: Tensor) -> Tensor:
        """z (T + 1, B, d), t (T + 1, 1, 1) → (T + 1, B), nats."""
        policy = self.discretizer(z)
        s = policy.sample((self.samples,))
        log_q = policy.log_prob(s)
        v = forward_looking_variance(t, self.steps, self.epsilon, self.widening)
        log_w = self.log_reward(s) + log_isotropic(z, self.embed(s), v) - log_q
        if self.log_decodability is not None:
            log_w = log_w + self.log_decodability(z, s)
        log_f = log_w.logsumexp(0) - math.log(self.samples)
        return log_f if self.correction is None else log_f + self.correction(z, t)
