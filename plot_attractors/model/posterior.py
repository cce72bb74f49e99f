"""The exact posterior P(s | x) ∝ R(s; x), the ground truth, listed or factored along the axes; and
P(s | z), which sentence a state is read as.
"""

from __future__ import annotations

from typing import Any

import torch
from pyro.distributions import Normal
from torch import Tensor

from plot_attractors.language import MOST_SENTENCES, Language
from plot_attractors.language.factored import Factor, FactoredSentences, all_subsets, factors
from plot_attractors.language.policy import SentencePolicy, TabulatedSentences
from plot_attractors.model.networks import Discretizer
from plot_attractors.model.protocols import along_axes
from plot_attractors.model.reward import Reward, gaussian_kl

__all__ = ["ExactPosterior", "Readout"]


class ExactPosterior:
    """P(s | x) ∝ R(s; x) of inputs with P(z0 | x) = q; R's factor in z_T is at ẑ_s (`Reward`).

    Where every token moves ẑ_s along one latent axis, R is a product over axes, and sums over all
    sentences are exact however many there are. Else sentences are listed, up to 100,000.
    """

    def __init__(self, reward: Reward) -> None:
        self.reward = reward

    def __call__(
        self, q: Normal, language: Language | None = None, beta: float | None = None
    ) -> TabulatedSentences | FactoredSentences:
        """P(s | x)^β, normalised, of q (…, d); β is that of the reward unless given.

        Where sentences factor, another language of the same tokens may take the place of the
        prior's: its P(s), and its fewest and most tokens. Raises ValueError where sentences
        neither factor nor can be listed.
        """
        beta = self.reward.beta if beta is None else beta
        own = self.reward.language.power(beta)
        parts = self.factors(language)
        if parts is None or not self.factored:
            if language is not None and language != own:
                raise ValueError(
                    "another language needs sentences that factor: set token_axes, or leave it out"
                )
            return TabulatedSentences(self.log_prob(q, beta), self.reward.language)

        axes, p = self.along_axes(parts)
        scores = self._fidelity(q, axes, p, beta)
        unused = self._layer.unused
        if len(unused):  # the same for all sentences, so it goes to the first factor
            empty = self.reward.sentence_encoder(torch.zeros(1, own.width, device=q.loc.device))
            p = Normal(empty.loc[0, unused], empty.scale[0, unused])
            rest = self._fidelity(q, unused, p, beta).sum(-1, keepdim=True)
            scores = scores + (all_subsets(parts).factor == 0).to(rest.device) * rest
        return FactoredSentences(own if language is None else language, parts, scores)

    def log_prob(self, q: Normal, beta: float | None = None) -> Tensor:
        """(B, S) log P(s | x) of all listed sentences."""
        sentences = self.reward.language.sentences.to(q.loc)
        return self.reward.log_pairs(q, sentences, beta).log_softmax(-1)

    @property
    def _layer(self) -> Any:
        return along_axes(self.reward.sentence_encoder)

    @property
    def listed(self) -> bool:
        """Whether sentences can be listed."""
        return self.reward.language.count <= MOST_SENTENCES

    @property
    def factored(self) -> bool:
        """Whether P(s | x) is a product of factors."""
        return self.reward.decodability == "none" and self.factors() is not None

    def factors(self, language: Language | None = None) -> tuple[Factor, ...] | None:
        """The parts of the language, or of another of the same tokens, whose tokens move one axis
        each; None where ẑ_s has no such parts.
        """
        if self._layer is None:
            return None
        spoken = self.reward.language if language is None else language
        return factors(spoken, tuple(self._layer.axes.tolist()))

    def along_axes(self, parts: tuple[Factor, ...]) -> tuple[Tensor, Normal]:
        """The latent axis (U,) of all subsets of the factors, those of the first one first, and
        P(z0 | ẑ_s) (U,) along it.
        """
        every, axes = all_subsets(parts), self._layer.axes.unique()
        axes = axes[every.factor.to(axes.device)]
        p = self.reward.sentence_encoder(every.subsets.to(self._layer.weight))
        row = torch.arange(len(axes), device=axes.device)
        return axes, Normal(p.loc[row, axes], p.scale[row, axes], validate_args=False)

    @staticmethod
    def _fidelity(q: Normal, axes: Tensor, p: Normal, beta: float) -> Tensor:
        """(…, n) −β D_KL of P(z0 | x) (…, d) along each of n axes from p (n,)."""
        along = Normal(q.loc[..., axes, None], q.scale[..., axes, None], validate_args=False)
        return -beta * gaussian_kl(along, Normal(p.loc[:, None], p.scale[:, None]))


class Readout:
    """P(s | z) ∝ N(z; ẑ_s, ε²) P(s), where sentences factor or can be listed and `exact` is true
    (the relation under Eq. *mstep_loss*); else that of the learned discretizer.
    """

    def __init__(
        self,
        posterior: ExactPosterior,
        discretizer: Discretizer,
        epsilon: float,
        exact: bool = True,
    ) -> None:
        self.posterior, self.discretizer = posterior, discretizer
        self.epsilon, self.exact = epsilon, exact

    def __call__(
        self, z: Tensor, context: Tensor | None = None
    ) -> SentencePolicy | TabulatedSentences | FactoredSentences:
        """The distribution over sentences of states z (…, d), or with their memory."""
        if self.exact and (factors := self.posterior.factors()) is not None:
            reward = self.posterior.reward
            language = reward.language.power(reward.beta)
            return FactoredSentences(language, factors, self.scores(z, factors))
        if self.exact and self.posterior.listed:
            return TabulatedSentences(self.log_prob(z), self.posterior.reward.language)
        return self.discretizer(z, context)

    def log_prob(self, z: Tensor) -> Tensor:
        """(…, S) exact log P(s | z) of all listed sentences."""
        reward = self.posterior.reward
        sentences = reward.language.sentences.to(z)
        z_hat, v = reward.sentence_encoder(sentences).loc, self.epsilon**2
        z = z[..., : z_hat.shape[-1]]
        log_n = (z @ z_hat.T - 0.5 * z_hat.square().sum(-1)) / v
        return (log_n + reward.log_prior(sentences)).log_softmax(-1)

    def nearest(self, z: Tensor) -> Tensor:
        """(…, width) the sentence whose ẑ_s is nearest to each state z (…, d), where sentences
        factor.
        """
        factors: Any = self.posterior.factors()
        language = self.posterior.reward.language
        return FactoredSentences(language.power(0.0), factors, self.scores(z, factors)).mode

    def scores(self, z: Tensor, factors: tuple[Factor, ...]) -> Tensor:
        """(…, U) log N(z; ẑ_s, ε²) of states z (…, d) along the axis of each factor, for all
        subsets of all factors.
        """
        with torch.no_grad():
            axes, p = self.posterior.along_axes(factors)
        return Normal(p.loc, self.epsilon, validate_args=False).log_prob(z[..., axes])
