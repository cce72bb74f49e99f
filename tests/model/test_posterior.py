"""P(s | x) and P(s | z), listed and factored, against sums over all sentences."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from pyro.distributions import Normal
from torch import Tensor
from torch.distributions import kl_divergence

from plot_attractors.language import Language
from plot_attractors.language.factored import FactoredSentences
from plot_attractors.language.policy import SentencePolicy, TabulatedSentences

from ..attractors import B, D, sprites, tiny


def log_joint(model: Any, q: Normal, language: Language, beta: float = 1.0) -> Tensor:
    """(B, S) β (−KL) + log P(s), sentence by sentence."""
    columns = []
    for s in language.sentences:
        kl = kl_divergence(q, model.sentence_encoder(s)).sum(-1)
        columns.append(-beta * kl + language.log_prior(s))
    return torch.stack(columns, -1)


def table(distribution: Any, sentences: Tensor) -> Tensor:
    return torch.stack([distribution.log_prob(s) for s in sentences], -1)


@pytest.mark.parametrize(
    "settings",
    [
        {}, {"language.length_cost": 0.5}, {"latent": 12}, {"reward.beta": 0.3},
        {"language.length_cost": 0.5, "reward.beta": 0.3},
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("token_axes", [True, False])
def test_the_posterior_is_exact(settings: dict[str, Any], token_axes: bool) -> None:
    model, data = sprites({**settings, "token_axes": token_axes})
    q, beta = model.encoder(data.batch(B).x), model.reward.beta
    of = model.posterior(q)
    assert isinstance(of, FactoredSentences if token_axes else TabulatedSentences)
    assert model.posterior.factored is token_axes
    joint = log_joint(model, q, model.language.power(beta), beta)
    expected = joint.log_softmax(-1)
    assert torch.allclose(table(of, model.sentences), expected, atol=1e-3)
    assert torch.allclose(model.posterior.log_prob(q), expected, atol=1e-3)
    plain = log_joint(model, q, model.language).log_softmax(-1)
    assert torch.allclose(table(model.posterior(q, beta=1.0), model.sentences), plain, atol=1e-3)
    assert (plain - expected).abs().max() > 1 or beta == 1
    if token_axes:
        assert torch.allclose(of.log_z, joint.logsumexp(-1), rtol=1e-4)
    one = Normal(q.loc[:1], q.scale[:1])
    drawn = model.posterior(one).sample((4000,))[:, 0]
    share = (drawn[:, None] == model.sentences).all(-1).float().mean(0)
    assert torch.allclose(share, expected[0].exp(), atol=0.04)


def test_another_language_of_the_same_tokens() -> None:
    model, data = sprites({"language.length_cost": 0.5})
    language = replace(model.language, max_length=5, length_cost=-0.2)
    q = model.encoder(data.batch(4).x)
    of, joint = model.posterior(q, language), log_joint(model, q, language)
    assert language.count > model.language.count
    assert torch.allclose(table(of, language.sentences), joint.log_softmax(-1), atol=1e-4)
    assert torch.allclose(of.log_z, joint.logsumexp(-1), rtol=1e-5)
    listed, _ = sprites({"token_axes": False})
    with pytest.raises(ValueError, match="token_axes"):
        listed.posterior(q, language)


@pytest.mark.parametrize(
    "settings", [{"reward.decodability": "density"}, {"language.groups": (2, 2, 2)}], ids=str
)
def test_rewards_that_are_no_product_are_listed(settings: dict[str, Any]) -> None:
    model, data = sprites(settings)
    assert not model.posterior.factored
    assert isinstance(model.posterior(model.encoder(data.batch(B).x)), TabulatedSentences)


def test_millions_of_sentences_are_factored_and_not_listed() -> None:
    model, data = sprites({"language.groups": (1,) * 32, "language.max_length": 7})
    assert model.posterior.factored
    assert not model.posterior.listed
    q = model.encoder(data.batch(3).x)
    s = model.posterior(q).sample((5,))
    ratio = model.posterior(q).log_prob(s) + model.posterior(q).log_z
    assert torch.allclose(ratio, model.reward(q, None, s), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("beta", [1.0, 0.3])
def test_listed_sentences_by_bayes_rule(beta: float) -> None:
    model = tiny({"language.length_cost": 0.5, "epsilon": 0.3, "reward.beta": beta})
    z = torch.randn(6, B, D)
    log_n = Normal(model.embeddings(), 0.3).log_prob(z[..., None, :]).sum(-1)
    expected = (log_n - beta * 0.5 * model.sentences.sum(-1)).log_softmax(-1)
    assert torch.allclose(model.readout.log_prob(z), expected, rtol=1e-4, atol=1e-3)
    of = model.readout(z)
    assert isinstance(of, TabulatedSentences)
    assert torch.allclose(of.log_p, expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    "settings",
    [{}, {"latent": 12}, {"reward.beta": 0.3}, {"reward.decodability": "density"}],
    ids=str,
)
def test_factored_sentences_as_if_listed(settings: dict[str, Any]) -> None:
    model, _ = sprites({"epsilon": 0.5, **settings})
    z = model.embed(model.sentences[:7]) + model.epsilon * torch.randn(7, model.latent)
    of = model.readout(z)
    assert isinstance(of, FactoredSentences)
    log_p = torch.stack([of.log_prob(s) for s in model.sentences], -1)
    assert torch.allclose(log_p, model.readout.log_prob(z), atol=1e-3)


@pytest.mark.parametrize("token_axes", [True, False])
def test_a_learned_readout_is_that_of_the_discretizer(token_axes: bool) -> None:
    model = tiny({"readout": "discretizer", "token_axes": token_axes})
    z = torch.randn(6, B, D)
    of, s = model.readout(z), model.sentences.view(26, 1, 1, -1)
    assert isinstance(of, SentencePolicy)
    assert torch.allclose(of.log_prob(s).exp().sum(0), torch.ones(6, B), atol=1e-5)
    assert torch.equal(of.log_prob(s), model.discretizer(z).log_prob(s))
    many = tiny({"language.groups": (1,) * 32, "language.max_length": 7})
    assert isinstance(many.readout(z), SentencePolicy), "they neither factor nor can be listed"


def test_the_nearest_sentence_whatever_the_prior() -> None:
    model, _ = sprites({"epsilon": 1.0, "language.length_cost": 5.0})
    z = 2 * torch.randn(50, model.latent)
    nearest = torch.cdist(z, model.embeddings()).argmin(-1)
    assert torch.equal(model.readout.nearest(z), model.sentences[nearest])
