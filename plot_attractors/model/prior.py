"""The prior P(s), whose token costs may depend on how often each token is present."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from plot_attractors.language import Language
from plot_attractors.language.factored import FactoredSentences
from plot_attractors.language.policy import SentencePolicy, prior_policy
from plot_attractors.language.token_prior import (
    Shares,
    costs_by_share,
    equal_costs,
    shares_of_factors,
)

__all__ = ["SentencePrior"]


class SentencePrior(nn.Module):
    """P(s) ∝ exp(−Σ_w (length_cost + c_w)) over the tokens w of s; c_w in nats.

    With `odds_cost` = 0 the c_w are those of the language. Else they are found, once, from the
    shares p_w of sentences that hold w: c_w = odds_cost · log((1 − p_w) / p_w), and are equal
    before (`costs_by_share`, `equal_costs`). They are part of the state of the module.

    Args:
        language: the sentences, and their `length_cost`.
        odds_cost, least_share: κ; and the share below which costs do not push a token.

    Raises ValueError for ordered sequences with an odds_cost, and where odds_cost is below 0 or
    sentences are too short for every token to have the least share.
    """

    token_costs: Tensor  # (tokens,) nats, where odds_cost is above 0

    def __init__(
        self, language: Language, odds_cost: float = 0.0, least_share: float = 0.02
    ) -> None:
        super().__init__()
        self.base, self.odds_cost, self.least_share = language, odds_cost, least_share
        self._of_costs: tuple[tuple[float, ...], Language] = ((), language)
        if odds_cost == 0:
            return
        if language.ordered:
            raise ValueError("odds_cost needs bags of words: set it to 0, or ordered to false")
        most = min(language.longest / language.tokens, 1 / max(language.groups))
        if odds_cost < 0 or not 0 < least_share < most:
            raise ValueError(
                "odds_cost must be above 0 (0: all cost alike), and least_share above 0 and below "
                f"{most:.3g}, which {language.tokens} tokens can have in sentences of "
                f"{language.longest}, not {odds_cost:g} and {least_share:g}"
            )
        self.register_buffer("token_costs", equal_costs(language, odds_cost))

    @property
    def language(self) -> Language:
        """The language with the token costs in force."""
        if not self.odds_cost:
            return self.base
        costs = tuple(self.token_costs.tolist())
        if costs != self._of_costs[0]:  # a language caches what is computed of it
            self._of_costs = costs, replace(self.base, token_costs=costs)
        return self._of_costs[1]

    def log_prob(self, s: Tensor, beta: float = 1.0) -> Tensor:
        """(…) log P(s)^β, normalised, nats, of sentences s (…, width)."""
        return self.language.power(beta).log_prior(s)

    def policy(
        self, n: int, beta: float = 1.0, device: torch.device | str | None = None
    ) -> SentencePolicy:
        """n sentences from P(s)^β, normalised, as a policy that builds them token by token."""
        return prior_policy(self.language.power(beta), (n,), device)

    def set_costs(self, costs: Tensor) -> None:
        """Sets the token costs (tokens,), nats, where odds_cost is above 0."""
        self.token_costs.copy_(costs)

    def reset(self) -> None:
        """All tokens cost alike again."""
        if self.odds_cost:
            self.set_costs(equal_costs(self.base, self.odds_cost))

    def fit(self, posterior: object) -> None:
        """Tokens cost what their shares in P(s | x) say, where the posterior factors."""
        if isinstance(posterior, FactoredSentences):
            self.fit_shares(shares_of_factors(posterior))

    def fit_shares(self, shares: Shares) -> None:
        """Tokens cost what their shares say, where odds_cost is above 0 (`costs_by_share`)."""
        if self.odds_cost:
            self.set_costs(costs_by_share(self.base, shares, self.odds_cost, self.least_share))
