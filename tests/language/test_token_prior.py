"""Token costs: what a token costs agrees with how often it is present at that cost."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from plot_attractors.language import Language
from plot_attractors.language.factored import FactoredSentences, factors
from plot_attractors.language.token_prior import (
    costs_by_share,
    equal_costs,
    shares_of_draws,
    shares_of_factors,
)

SHARES = torch.tensor([0.45, 0.35, 0.25, 0.15, 0.06, 0.02])


def posterior(least: float = 5.0, **settings: float) -> FactoredSentences:
    """P(s | x) of 500 inputs: six tokens, some present far more often than others."""
    language = Language((1,) * 6, **settings)  # type: ignore[arg-type]
    of = factors(language, tuple(range(6)))
    assert of is not None
    evidence = torch.where(torch.rand(500, 6) < SHARES, 4.0, -4.0) + torch.randn(500, 6)
    evidence[:, 5] -= 5.0 - least
    scores = [torch.stack([torch.zeros(500), e], -1).double() for e in evidence.T]
    return FactoredSentences(language, of, scores)


def at(found: FactoredSentences, costs: torch.Tensor) -> FactoredSentences:
    language = replace(found.language, token_costs=tuple(costs.tolist()))
    return FactoredSentences(language, found.factors, found.scores)


def fitted(found: FactoredSentences, odds_cost: float, least_share: float) -> torch.Tensor:
    return costs_by_share(found.language, shares_of_factors(found), odds_cost, least_share)


def test_draws_tell_the_shares_at_other_costs() -> None:
    """Self-normalised weights of draws at some costs, against the exact shares at others."""
    found = posterior()
    drawn_at, costs = torch.linspace(0, 1, 6), torch.linspace(1, 0.5, 6)
    s = at(found, drawn_at).sample(torch.Size([2000]))
    exact = shares_of_factors(found)(costs)
    assert torch.allclose(shares_of_draws(s.double(), drawn_at.double())(costs), exact, atol=0.01)


def test_a_token_costs_its_log_odds_unless_it_would_be_too_rare() -> None:
    found = posterior(length_cost=0.4)
    costs = fitted(found, odds_cost=3.0, least_share=0.05)
    p = at(found, costs).mean.mean(0)
    of_odds, rare = 3 * torch.logit(1 - p).clamp(min=0), p < 0.051
    assert 0 < int(rare.sum()) < 6
    assert torch.allclose(p[rare], torch.tensor(0.05).double(), atol=2e-3)
    assert (costs[rare] < of_odds[rare] - 0.1).all()
    assert torch.allclose(costs[~rare], of_odds[~rare], atol=0.05)


def test_at_odds_cost_1_no_other_independent_prior_makes_the_sentences_more_probable() -> None:
    found = posterior(min_length=0)
    costs = fitted(found, odds_cost=1.0, least_share=1e-4)
    assert costs.min() > 0
    shares = at(found, costs).mean.mean(0)

    def log_p(costs: torch.Tensor) -> float:
        """E[log P(s)] of sentences with these shares of tokens."""
        language = replace(found.language, token_costs=tuple(costs.tolist()))
        return float(language.log_prior(torch.zeros(6)) - shares @ costs)

    for change in 0.2 * torch.eye(6):
        assert max(log_p(costs - change), log_p(costs + change)) < log_p(costs)


def test_a_token_that_is_never_present_costs_nothing() -> None:
    costs = fitted(posterior(least=-60.0), odds_cost=3.0, least_share=0.05)
    assert costs[5] == 0.0


@pytest.mark.parametrize(("longest", "cost"), [(6, 0.0), (2, 2 * math.log(2))])
def test_equal_costs(longest: int, cost: float) -> None:
    """Tokens of one share; of half of all sentences where these may hold all six tokens."""
    costs = equal_costs(Language((1,) * 6, max_length=longest), odds_cost=2.0)
    assert torch.allclose(costs, torch.tensor(cost))
