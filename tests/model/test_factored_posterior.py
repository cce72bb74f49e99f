"""Models whose sentences factor over latent axes: nothing is listed, and all is as if it were."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from pyro.distributions import Normal

from plot_attractors.evaluation import sampling
from plot_attractors.gflownet import EnumeratedFlow, FactoredFlow
from plot_attractors.language.factored import FactoredSentences
from plot_attractors.model.attractor import gaussian_kl
from plot_attractors.runs import registry


def small(**settings: Any) -> tuple[Any, Any]:
    torch.manual_seed(1)
    program = registry.load("models", "dsprites")
    config = program.Config(
        **{**program.PRESETS["smoke"], "max_length": 3, "odds_cost": 0.0, **settings}
    )
    data = program.load_data(config)
    model = program.build(config, data)
    for p in model.sentence_encoder.parameters():
        torch.nn.init.normal_(p)
    return model, data


@pytest.mark.parametrize("settings", [{}, {"length_cost": 0.5}, {"latent": 12}], ids=str)
def test_posterior_and_readout_of_a_model_are_exact(settings: dict[str, Any]) -> None:
    model, data = small(**settings)
    assert model.factors() is not None
    q = model.encoder(data.batch(5).x)
    law = model.posterior(q)
    assert isinstance(law, FactoredSentences)
    log_p = torch.stack([law.log_prob(s) for s in model.sentences], -1)
    assert torch.allclose(log_p, model.log_posterior(q), atol=1e-4)
    assert torch.allclose(law.log_z, model.log_reward(q).logsumexp(-1), rtol=1e-5)
    z = model.embed(model.sentences[:7]) + model.epsilon * torch.randn(7, model.latent)
    read = model.sentence_given_state(z)
    assert isinstance(read, FactoredSentences)
    log_p = torch.stack([read.log_prob(s) for s in model.sentences], -1)
    assert torch.allclose(log_p.exp(), model.log_sentence_given_state(z).exp(), atol=1e-3)


def priced(
    odds_cost: float = 3.0, least_share: float = 0.05, **settings: Any
) -> tuple[Any, Normal]:
    """A model of six tokens, some said far more than others, and the inputs of which it has learned
    P(s).
    """
    model, _ = small(odds_cost=odds_cost, least_share=least_share, max_length=6, **settings)
    layer = model.sentence_encoder.mean
    layer.weight.data[layer.axes, torch.arange(6)] = 1.5
    model.sentence_encoder.sd.weight.data.zero_()
    model.sentence_encoder.sd.bias.data.zero_()
    s = (torch.rand(500, 6) < torch.tensor([0.45, 0.35, 0.25, 0.15, 0.06, 0.02])).float()
    with torch.no_grad():
        q = Normal(
            model.embed(s) + 0.3 * torch.randn(500, model.latent),
            torch.full((500, model.latent), 0.4),
        )
    model.learn_prior(q)
    return model, q


def test_a_prior_that_was_learned_is_part_of_the_state() -> None:
    model, q = priced()
    other, _ = small(odds_cost=3.0, least_share=0.05, max_length=6)
    assert other.language != model.language
    other.load_state_dict(model.state_dict())
    assert other.language == model.language
    assert torch.equal(other.posterior(q).mean, model.posterior(q).mean)
    model.price_by_share(2.0, 0.05)  # anew
    assert len(set(model.language.token_costs)) == 1
    assert model.token_costs.tolist() == list(model.language.token_costs)
    plain, _ = small(max_length=6)
    plain.learn_prior(q)
    assert not plain.language.token_costs


def test_where_sentences_do_not_factor_tokens_cost_alike() -> None:
    model, data = small(odds_cost=2.0, token_axes=False)
    model.learn_prior(model.encoder(data.batch(4).x))
    assert model.language.token_costs == (0.0,) * 6  # half of six tokens in a sentence at most
    model, _ = small(odds_cost=2.0, token_axes=False, max_length=2)
    assert model.language.token_costs == pytest.approx((2 * math.log(2),) * 6)


@pytest.mark.parametrize(
    "settings", [{"length_cost": 0.5}, {"odds_cost": 2.0}, {"token_axes": False}], ids=str
)
def test_a_tempered_reward_is_a_power_of_the_reward(settings: dict[str, Any]) -> None:
    plain, data = small(**settings)
    model, _ = small(**settings, reward_exponent=0.3)
    q = plain.encoder(data.batch(50).x)
    for each in (plain, model):
        each.learn_prior(q)
    assert torch.equal(model.log_posterior(q), plain.log_posterior(q))
    model.temper(True)
    log_p = (0.3 * plain.log_reward(q)).log_softmax(-1)
    assert (log_p - plain.log_posterior(q)).abs().max() > 1
    assert torch.allclose(model.log_posterior(q), log_p, atol=1e-4)
    assert float(model.language.log_prior(model.sentences).logsumexp(-1)) == pytest.approx(
        0.0, abs=1e-4
    )
    law = model.posterior(q)
    assert torch.allclose(
        torch.stack([law.log_prob(s) for s in model.sentences], -1), log_p, atol=1e-4
    )
    if model.factored:
        assert torch.allclose(law.log_z, model.log_reward(q).logsumexp(-1), atol=1e-4)
    other, _ = small(**settings, reward_exponent=0.3)
    other.load_state_dict(model.state_dict())
    assert other.language == model.language
    assert torch.equal(other.log_posterior(q), model.log_posterior(q))
    model.temper(False)
    assert model.language == plain.language
    assert torch.equal(model.log_posterior(q), plain.log_posterior(q))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"odds_cost": -1.0}, "odds_cost must be above 0"),
        ({"odds_cost": 1.0, "least_share": 0.0}, "least_share above 0"),
        (
            {"odds_cost": 1.0, "least_share": 0.4, "max_length": 2},
            "below 0.333, which 6 tokens can have in sentences",
        ),
        (
            {"odds_cost": 1.0, "ordered": True},
            "odds_cost needs bags of words: set it to 0, or ordered to false",
        ),
    ],
)
def test_prices_that_cannot_be_found(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        small(**settings)


def test_posterior_in_another_language_of_the_same_tokens() -> None:
    model, data = small(length_cost=0.5)
    language = replace(model.language, max_length=5, length_cost=-0.2)
    assert language.count > model.language.count
    q = model.encoder(data.batch(4).x)
    law = model.posterior(q, language)
    s = language.sentences
    kl = gaussian_kl(Normal(q.loc[:, None], q.scale[:, None]), model.sentence_encoder(s))
    total = language.log_prior(s) - kl
    assert torch.allclose(
        torch.stack([law.log_prob(row) for row in s], -1), total.log_softmax(-1), atol=1e-4
    )
    assert torch.allclose(law.log_z, total.logsumexp(-1), rtol=1e-5)
    listed, _ = small(token_axes=False)
    with pytest.raises(ValueError, match="token_axes"):
        listed.posterior(q, language)


def test_nearest_sentence_and_draws_need_no_list(monkeypatch: pytest.MonkeyPatch) -> None:
    model, data = small(length_cost=2.0)
    z = 2 * torch.randn(50, model.latent)
    listed = sampling.nearest_sentence(model, z)
    q = model.encoder(data.batch(3).x)
    total = model.log_reward(q)
    monkeypatch.setattr(sampling, "MOST_SENTENCES", 0)
    found = sampling.nearest_sentence(model, z)
    assert torch.allclose(found.distance, listed.distance, atol=1e-4)
    assert torch.equal(found.s, listed.s)
    exact = sampling.exact_draws(model, q, 4000)
    assert torch.allclose(exact.log_z, total.logsumexp(-1).double(), rtol=1e-5)
    share = (exact.s[:, :, None] == model.sentences).all(-1).float().mean(1)
    assert torch.allclose(share, total.softmax(-1), atol=0.04)


def test_models_without_factors_list_their_sentences() -> None:
    model, data = small(token_axes=False)
    q = model.encoder(data.batch(3).x)
    assert torch.allclose(model.posterior(q).log_p, model.log_posterior(q), atol=1e-5)


@pytest.mark.parametrize("settings", [{}, {"latent": 12}], ids=str)
def test_the_flow_is_that_of_all_sentences(settings: dict[str, Any]) -> None:
    model, data = small(**settings)
    em = registry.load("inference", "gflownet_em_sampled")
    inference = em.build(model, data, em.Config(**em.PRESETS["smoke"]))
    e = model.encode(data.batch(4).x)
    flow = inference.flow(e)
    assert isinstance(flow, FactoredFlow)
    listed = EnumeratedFlow(
        model.log_reward(e.distribution),
        model.embeddings(),
        flow.epsilon,
        flow.steps,
        flow.widening,
        flow.correction,
    )
    t = torch.arange(model.steps + 1.0)[:, None, None]
    z = torch.randn(model.steps + 1, 4, model.latent)
    assert torch.allclose(flow.log_flow(z, t), listed.log_flow(z, t), rtol=1e-3, atol=1e-2)
    assert torch.allclose(flow.log_z, listed.log_z, rtol=1e-4)
