"""P(s | z): which sentence a state is read as."""

from __future__ import annotations

import torch
from pyro.distributions import Normal
from torch import Tensor

from plot_attractors.language.factored import Factor, FactoredSentences
from plot_attractors.language.policy import SentencePolicy, TabulatedSentences
from plot_attractors.model.networks import Discretizer
from plot_attractors.model.posterior import ExactPosterior

__all__ = ["Readout"]


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
        """The distribution over sentences of states z (…, d)."""
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
        log_n = (z @ z_hat.T - 0.5 * z_hat.square().sum(-1)) / v
        return (log_n + reward.log_prior(sentences)).log_softmax(-1)

    def nearest(self, z: Tensor) -> Tensor:
        """(…, width) the sentence whose ẑ_s is nearest to each state z (…, d), where sentences
        factor; raises ValueError where they do not.
        """
        factors, language = self.posterior.factors(), self.posterior.reward.language
        if factors is None:
            raise ValueError("the nearest sentence needs sentences that factor: set token_axes")
        return FactoredSentences(language.power(0.0), factors, self.scores(z, factors)).mode

    def scores(self, z: Tensor, factors: tuple[Factor, ...]) -> Tensor:
        """(…, U) log N(z; ẑ_s, ε²) of states z (…, d) along the axis of each factor, for all
        subsets of all factors.
        """
        with torch.no_grad():
            axes, p = self.posterior.along_axes(factors)
        return Normal(p.loc, self.epsilon, validate_args=False).log_prob(z[..., axes])
