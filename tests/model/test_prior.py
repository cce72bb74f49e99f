"""The prior: token costs by shares, their fixed point, and their place in the state."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from pyro.distributions import Normal

from plot_attractors.language import Language
from plot_attractors.model.prior import SentencePrior

from ..attractors import sprites

KAPPA, LEAST = 3.0, 0.05


def priced(settings: dict[str, Any] | None = None) -> tuple[Any, Normal]:
    """A model of six tokens, some present far more often than others, and inputs of theirs."""
    costs = {"language.odds_cost": KAPPA, "language.least_share": LEAST}
    model, _ = sprites({**costs, "language.max_length": 6, **(settings or {})})
    layer = model.sentence_encoder.mean
    layer.weight.data[layer.axes, torch.arange(6)] = 1.5
    model.sentence_encoder.sd.weight.data.zero_()
    model.sentence_encoder.sd.bias.data.zero_()
    s = (torch.rand(500, 6) < torch.tensor([0.45, 0.35, 0.25, 0.15, 0.06, 0.02])).float()
    with torch.no_grad():
        z = model.embed(s) + 0.3 * torch.randn(500, model.latent)
    return model, Normal(z, torch.full_like(z, 0.4))


def test_costs_agree_with_the_shares_that_they_bring_about() -> None:
    model, q = priced()
    before = model.posterior(q)
    assert len(set(model.prior.language.token_costs)) == 1
    model.prior.fit(before)
    costs, share = model.prior.token_costs, model.posterior(q).mean.mean(0)
    odds = KAPPA * ((1 - share) / share).log()
    rare = share < 1.05 * LEAST  # held up by the least share: they cost less than their odds
    assert 0 < int(rare.sum()) < 5
    assert torch.allclose(costs[~rare], odds[~rare].clamp(min=0), atol=0.05)
    assert (costs[rare] < odds[rare]).all()
    assert (share > 0.97 * LEAST).all()
    assert len(set(costs.tolist())) > 3


def test_costs_are_in_the_prior_and_not_in_the_language_of_the_model() -> None:
    model, q = priced()
    before = model.language
    model.prior.fit(model.posterior(q))
    assert model.language == before != model.prior.language
    assert model.prior.language.token_costs == tuple(model.prior.token_costs.tolist())
    s = model.sentences
    cost = s @ model.prior.token_costs + 2.0 * s.sum(-1)
    for beta in (1.0, 0.3):
        expected = (-beta * cost).log_softmax(-1)
        assert torch.allclose(model.prior.log_prob(s, beta), expected, atol=1e-4)
        policy = model.prior.policy(1, beta)
        assert torch.allclose(policy.log_prob(s[:, None])[:, 0], expected, atol=1e-4)
    model.prior.reset()
    assert len(set(model.prior.language.token_costs)) == 1


@pytest.mark.parametrize(("longest", "cost"), [(6, 0.0), (2, KAPPA * math.log(2))])
def test_where_sentences_do_not_factor_tokens_cost_alike(longest: int, cost: float) -> None:
    model, q = priced({"language.max_length": longest})
    model.reward.floor = -50.0
    assert not model.posterior.factored
    model.prior.fit(model.posterior(q))
    assert model.prior.language.token_costs == pytest.approx((cost,) * 6)


def test_without_an_odds_cost_nothing_is_fitted() -> None:
    model, q = priced({"language.odds_cost": 0.0})
    model.prior.fit(model.posterior(q))
    model.prior.reset()
    assert model.prior.language == model.language
    assert "prior.token_costs" not in model.state_dict()


@pytest.mark.parametrize(
    ("language", "costs", "sentence"),
    [
        (Language((1,) * 6), (-1.0, 0.02), "odds_cost must be above 0"),
        (Language((1,) * 6), (1.0, 0.0), "least_share above 0"),
        (Language((1,) * 6, max_length=2), (1.0, 0.4), "below 0.333, which 6 tokens can have"),
        (Language((2, 2), ordered=True), (1.0, 0.02), "odds_cost needs bags of words"),
    ],
)
def test_costs_that_cannot_be_found(
    language: Language, costs: tuple[float, float], sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        SentencePrior(language, *costs)
