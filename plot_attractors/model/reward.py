"""The reward R(z_T, s; x)."""

from __future__ import annotations

import math
from typing import Literal

import torch
from pyro.distributions import Normal
from torch import Tensor, nn

from plot_attractors.language import MOST_SENTENCES, Language
from plot_attractors.model.protocols import additions

__all__ = ["Clamp", "Decodability", "Reward", "gaussian_kl", "pairwise_kl"]

Decodability = Literal["none", "posterior", "density"]
Clamp = Literal["kl", "reward"]


def gaussian_kl(p: Normal, q: Normal) -> Tensor:
    """D_KL(p ‖ q) in nats of diagonal Gaussians, summed over the last dimension."""
    ratio = (p.scale / q.scale).square()
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).square() - 1 - ratio.log()).sum(-1)


def pairwise_kl(p: Normal, q: Normal) -> Tensor:
    """(B, S) D_KL(p_b ‖ q_s) in nats of (B, d) and (S, d) Gaussians, as three matrix products."""
    precision = q.scale.square().reciprocal()
    square = (p.scale.square() + p.loc.square()) @ precision.T - 2 * p.loc @ (q.loc * precision).T
    constant = (q.loc.square() * precision).sum(-1) + 2 * q.scale.log().sum(-1) - q.loc.shape[-1]
    return 0.5 * (square + constant) - p.scale.log().sum(-1, keepdim=True)


class Reward:
    r"""log R(z_T, s; x) = β (−D_KL(P(z0|x) ‖ P(z0|ẑ_s)) + log P(s)) + log P(s | z_T), nats.

    Eq. *reward*, to the power β but for the factor in z_T; P(s)^β is normalised. β below 1 makes
    sentences more diverse, as in Bengio et al. (2021), "Flow network based generative models".

    Args:
        sentence_encoder, language: P(z0 | ẑ_s) and P(s).
        decodability: the factor in z_T: 'none' (the E-step's text: R does not involve z),
            'posterior' (P(s | z_T) ∝ N(z_T; ẑ_s, σ_s²) P(s), over listed sentences) or 'density'
            (that N, not normalised).
        floor: nats, clamps from below ...
        clamp: ... 'kl', −D_KL; or 'reward', −D_KL + log P(s | z_T), as the authors do (notes, 4).
        beta: β, the inverse temperature.

    Raises ValueError where β is not a finite number above 0, and for the decodability 'posterior'
    where sentences are too many to list.
    """

    def __init__(
        self,
        sentence_encoder: nn.Module,
        language: Language,
        decodability: Decodability = "none",
        floor: float = -math.inf,
        clamp: Clamp = "kl",
        beta: float = 1.0,
    ) -> None:
        if not 0 < beta < math.inf:
            raise ValueError(
                "the inverse temperature β must be a finite number above 0 (1: R itself), "
                f"not {beta:g}"
            )
        if decodability == "posterior" and language.count > MOST_SENTENCES:
            raise ValueError(
                "the decodability 'posterior' sums over all sentences, and "
                f"{language.count:,} are too many to list: choose 'none' or 'density'"
            )
        self.sentence_encoder, self.language = sentence_encoder, language
        self.decodability, self.floor, self.clamp, self.beta = decodability, floor, clamp, beta

    def __call__(self, q: Normal, z: Tensor, s: Tensor, beta: float | None = None) -> Tensor:
        """(…) log R(z, s; x) of inputs with P(z0 | x) = q (…, d), states z (…, d), sentences s."""
        kl = gaussian_kl(q, self.sentence_encoder(s))
        return self._sum(-kl, self.log_decodability(z, s), self.log_prior(s, beta), beta)

    def log(self, q: Normal, s: Tensor, beta: float | None = None) -> Tensor:
        """(…) log R(s; x) without the factor in z, of one sentence s (…, width) an input."""
        kl = gaussian_kl(q, self.sentence_encoder(s))
        return self._sum(-kl, None, self.log_prior(s, beta), beta)

    def log_additions(self, q: Normal, s: Tensor, beta: float | None = None) -> Tensor:
        """(tokens + 1, …) log R without the factor in z, of bags s (…, tokens) with each token
        added, and of s; faster than `log` of all these. What is too long counts as if it were not.
        """
        beta = self.beta if beta is None else beta
        fidelity = -gaussian_kl(q, additions(self.sentence_encoder, s))
        prior = self.language.power(beta).log_prior_of_additions(s)
        return self._sum(fidelity, None, prior, beta)

    def log_pairs(
        self,
        q: Normal,
        s: Tensor,
        beta: float | None = None,
        log_decodability: Tensor | None = None,
    ) -> Tensor:
        """(B, n) log R(s; x) of all pairs of B inputs and n sentences (n, width), with a given
        factor in z (n,), or without.
        """
        kl = pairwise_kl(q, self.sentence_encoder(s))
        return self._sum(-kl, log_decodability, self.log_prior(s, beta), beta)

    def log_prior(self, s: Tensor, beta: float | None = None) -> Tensor:
        """(…) log P(s)^β, normalised, nats, of sentences s (…, width)."""
        return self.language.power(self.beta if beta is None else beta).log_prior(s)

    def _sum(
        self, fidelity: Tensor, decodability: Tensor | None, prior: Tensor, beta: float | None
    ) -> Tensor:
        beta = self.beta if beta is None else beta
        if self.clamp == "kl" or decodability is None or self.decodability == "none":
            total = beta * fidelity.clamp(min=self.floor) + prior
            return total if decodability is None else total + decodability
        return (beta * fidelity + decodability).clamp(min=self.floor) + prior

    def log_decodability(self, z: Tensor, s: Tensor | None = None) -> Tensor:
        """The factor in z_T: (…, S) of all sentences, or (…) of given ones; 0 for 'none'."""
        if self.decodability == "none":
            return torch.zeros((), device=z.device)
        language = self.language
        sentences = s if s is not None and self.decodability == "density" else None
        with torch.no_grad():  # φ is fixed in the E-step
            listed = language.sentences.to(z) if sentences is None else sentences
            q = self.sentence_encoder(listed)
        if sentences is not None:
            return q.log_prob(z).sum(-1)
        v = q.scale.square()
        log_n = z.square() @ (-0.5 / v).T + z @ (q.loc / v).T
        log_n = log_n - (q.loc.square() / (2 * v) + v.log() / 2).sum(-1)
        log_n = log_n - 0.5 * z.shape[-1] * math.log(2 * math.pi)
        if self.decodability == "posterior":
            log_n = (log_n + self.log_prior(listed)).log_softmax(-1)
        if s is None:
            return log_n
        row = language.row(s)[..., None]  # s may have more leading dimensions than z
        return log_n.expand(*row.shape[:-1], -1).gather(-1, row)[..., 0]
