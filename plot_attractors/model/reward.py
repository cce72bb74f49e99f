"""The reward R(z_T, s; x)."""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
from pyro.distributions import Normal
from torch import Tensor, nn

from plot_attractors.language import Language
from plot_attractors.language.moves import additions
from plot_attractors.model import protocols

__all__ = ["Decodability", "Reward", "gaussian_kl", "pairwise_kl"]

Decodability = Literal["none", "posterior", "density"]

CELLS = 10_000_000  # entries of a table (sentences, all sentences) held at once


def _kl(p: Normal, q: Normal) -> Tensor:
    """D_KL(p ‖ q) in nats of Gaussians, each alone."""
    ratio = (p.scale / q.scale).square()
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).square() - 1 - ratio.log())


def gaussian_kl(p: Normal, q: Normal) -> Tensor:
    """D_KL(p ‖ q) in nats of diagonal Gaussians, summed over the last dimension."""
    return _kl(p, q).sum(-1)


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
    R(s; x), of which posterior, samplers and path weights are made, is R(ẑ_s, s; x): in Eq.
    *traj_prob_backward* s is drawn before z_T.

    Args:
        sentence_encoder, language: P(z0 | ẑ_s) and P(s).
        decodability: the factor in z_T: 'none' (the E-step's text: R does not involve z),
            'posterior' (P(s | z_T) ∝ N(z_T; ẑ_s, σ_s²) P(s)^β, over listed sentences) or 'density'
            (that N, not normalised).
        beta: β > 0, the inverse temperature; another may be given in each call.
    """

    def __init__(
        self,
        sentence_encoder: nn.Module,
        language: Language,
        decodability: Decodability = "none",
        beta: float = 1.0,
    ) -> None:
        self.sentence_encoder, self.language = sentence_encoder, language
        self.decodability, self.beta = decodability, beta

    def __call__(
        self,
        q: Normal,
        z: Tensor | None,
        s: Tensor,
        beta: float | None = None,
        language: Language | None = None,
    ) -> Tensor:
        """(…) log R(z, s; x) of inputs with P(z0 | x) = q (…, d), states z (…, d) and sentences s
        (…, width); without z log R(s; x). The one definition: the forms below are faster. The prior
        may be that of another `language`.
        """
        p = self.sentence_encoder(s)
        factor = self._log_factor(z, s, p, beta)
        prior = self._spoken(beta, language).log_prior(s)
        return self._sum(-gaussian_kl(q, p), factor, prior, beta)

    def log_pairs(self, q: Normal, s: Tensor, beta: float | None = None) -> Tensor:
        """(B, n) log R(s; x) of all pairs of B inputs and n sentences (n, width)."""
        p = self.sentence_encoder(s)
        factor = self._log_factor(None, s, p, beta)
        return self._sum(-pairwise_kl(q, p), factor, self.log_prior(s, beta), beta)

    def log_additions(
        self, q: Normal, s: Tensor, beta: float | None = None, language: Language | None = None
    ) -> Tensor:
        """(tokens + 1, …) log R(s; x) of bags s (…, tokens) with each token added, and of s. What
        is too long counts as if it were not. Faster where R is a product over axes.
        """
        if self.decodability != "none" or protocols.along_axes(self.sentence_encoder) is None:
            return additions(lambda bags: self(q, None, bags, beta, language), s)
        prior = self._spoken(beta, language).log_prior_of_additions(s)
        return self._sum(-self._kl_of_additions(q, s), None, prior, beta)

    def _kl_of_additions(self, q: Normal, s: Tensor) -> Tensor:
        """(tokens + 1, …) D_KL where a token changes P(z0 | ẑ) along its own axis alone."""
        encoder: Any = self.sentence_encoder
        axes = encoder.along_axes.axes
        p, more = encoder.additions_along_axes(s)
        here = _kl(q, p)
        along = Normal(q.loc[..., axes], q.scale[..., axes], validate_args=False)
        there = _kl(along, more) - here[..., axes]
        total = here.sum(-1, keepdim=True)
        return torch.cat([total + there, total], -1).movedim(-1, 0)

    def log_prior(self, s: Tensor, beta: float | None = None) -> Tensor:
        """(…) log P(s)^β, normalised, nats, of sentences s (…, width)."""
        return self._spoken(beta).log_prior(s)

    def _spoken(self, beta: float | None, language: Language | None = None) -> Language:
        return (language or self.language).power(self.beta if beta is None else beta)

    def _sum(
        self, fidelity: Tensor, factor: Tensor | None, prior: Tensor, beta: float | None
    ) -> Tensor:
        """log R of −D_KL, the factor in z_T (None: there is none) and log P(s)^β."""
        beta = self.beta if beta is None else beta
        return (beta * fidelity if factor is None else beta * fidelity + factor) + prior

    def _log_factor(
        self, z: Tensor | None, s: Tensor, p: Normal, beta: float | None
    ) -> Tensor | None:
        """(…) the factor in z_T of sentences s with P(z0 | ẑ_s) = p, at z or at ẑ_s; nats.

        Without gradients of φ, which is fixed in the E-step.
        """
        if self.decodability == "none":
            return None
        p = Normal(p.loc.detach(), p.scale.detach())
        if self.decodability == "density":
            return p.log_prob(p.loc if z is None else z).sum(-1)
        if z is not None:
            return self._log_posterior(z, s, beta)
        s, z = s.reshape(-1, s.shape[-1]), p.loc.reshape(-1, p.loc.shape[-1])
        different, number = self.language.key(s).unique(return_inverse=True)
        row = torch.empty_like(different)
        row[number] = torch.arange(len(s), device=s.device)
        parts = row.split(max(1, CELLS // self.language.count))
        log_p = torch.cat([self._log_posterior(z[some], s[some], beta) for some in parts])
        return log_p[number].view(p.loc.shape[:-1])

    def _log_posterior(self, z: Tensor, s: Tensor, beta: float | None) -> Tensor:
        """(…) log P(s | z) ∝ N(z; ẑ_s, σ_s²) P(s)^β, over listed sentences."""
        listed = self.language.sentences.to(z)
        with torch.no_grad():
            q = self.sentence_encoder(listed)
        v = q.scale.square()
        log_n = z.square() @ (-0.5 / v).T + z @ (q.loc / v).T
        log_n = log_n - (q.loc.square() / (2 * v) + v.log() / 2).sum(-1)
        log_n = log_n - 0.5 * z.shape[-1] * math.log(2 * math.pi)
        log_p = (log_n + self.log_prior(listed, beta)).log_softmax(-1)
        shape = torch.broadcast_shapes(z.shape[:-1], s.shape[:-1])
        row = self.language.row(s).expand(shape)[..., None]
        return log_p.expand(*shape, -1).gather(-1, row)[..., 0]
