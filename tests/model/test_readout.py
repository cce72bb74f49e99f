"""P(s | z): by Bayes' rule, by factors, by the discretizer; and the nearest sentence."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from pyro.distributions import Normal

from plot_attractors.language.factored import FactoredSentences
from plot_attractors.language.policy import SentencePolicy, TabulatedSentences

from ..attractors import B, D, sprites, tiny


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


def test_sentences_that_neither_factor_nor_can_be_listed_are_read_by_the_discretizer() -> None:
    model = tiny({"language.groups": (1,) * 32, "language.max_length": 7})
    of = model.readout(torch.randn(2, D))
    assert isinstance(of, SentencePolicy)
    assert of.sample().shape == (2, 32)


def test_the_nearest_sentence_whatever_the_prior() -> None:
    model, _ = sprites({"epsilon": 1.0, "language.length_cost": 5.0})
    z = 2 * torch.randn(50, model.latent)
    nearest = torch.cdist(z, model.embeddings()).argmin(-1)
    assert torch.equal(model.readout.nearest(z), model.sentences[nearest])
    with pytest.raises(ValueError, match="the nearest sentence needs sentences that factor"):
        tiny().readout.nearest(torch.randn(2, D))
