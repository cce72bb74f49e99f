"""The M-step: its loss, what it moves, and the sentences that it learns from."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from plot_attractors.language import Language, usage
from plot_attractors.training import ExactSentences, MStep, MStepConfig, summary
from plot_attractors.training.m_step import visited_sentences

from .models import build_model as build


def bits(n: int) -> Tensor:
    """Inputs of three independent bits, which are all that their eight bits tell."""
    return torch.randint(2, (n, 3)).float()[:, torch.arange(8) % 3]


def frequency(language: Language, s: Tensor) -> Tensor:
    return torch.bincount(language.row(s), minlength=language.count) / len(s)


@pytest.mark.parametrize("sentences", [False, True])
def test_the_loss_is_that_of_a_weighted_vae_and_the_information_loss(sentences: bool) -> None:
    model, x = build(), bits(5)
    m = MStep(model, bits, MStepConfig(vae_weight=0.5, kl_weight=0.6), beta=0.25)
    torch.nn.init.zeros_(model.decoder.logits[-1].weight)  # what is decoded depends on no sample
    s = torch.eye(6)[:5] if sentences else None
    q, decoded = model.encoder(x), model.decoder(torch.zeros(3))
    kl = 0.5 * (q.loc.square() + q.scale.square() - 1 - 2 * q.scale.log()).sum(-1)
    loss = 0.5 * (0.6 * kl - decoded.log_prob(x).sum(-1))
    if s is not None:
        p = model.sentence_encoder(s)
        loss = loss + 1.25 * torch.distributions.kl_divergence(q, p).sum(-1)
    assert m.update(x, s)["m_loss"] == pytest.approx(loss.mean().item(), rel=1e-4)


@pytest.mark.parametrize("beta", [1.0, 0.3])
def test_exact_labels_follow_the_sharpened_posterior_at_beta_one(beta: float) -> None:
    model, n = build(inverse_temperature=beta), 20_000
    x = bits(1)
    m, seen = MStep(model, lambda _: x.expand(n, -1), MStepConfig()), list[Tensor]()
    m.update = lambda x, s, q: seen.append(s) or {}
    longer = Language((1,) * 6, min_length=1, max_length=4, length_cost=0.5)
    for language in (None, longer):
        m.sharpened(ExactSentences(model), 3.0, language)
        of = language or model.language
        log_r = model.reward.log_pairs(model.encoder(x), of.sentences, beta=1.0)[0]
        log_r = log_r - model.language.log_prior(of.sentences) + of.log_prior(of.sentences)
        expected = (3.0 * log_r).softmax(-1)
        assert torch.allclose(frequency(of, seen[-1]), expected, atol=4.5 * (0.25 / n) ** 0.5)
        assert expected.max() < 0.9


def test_the_summary_is_of_the_exact_posterior() -> None:
    model = build(language=Language((1,) * 4, min_length=0), sd=0.2, shape=(3,))
    torch.nn.init.normal_(model.sentence_encoder.mean.weight, std=4.0)
    x = bits(200)[:, :3]
    log_r = model.reward.log_pairs(model.encoder(x), model.sentences)
    p, result = log_r.softmax(-1), summary(model, x)
    used = p.mean(0) > 0.1 / 16
    assert 1 < used.sum() < 16
    assert result["sentences_in_use"] == used.sum()
    assert result["tokens_in_use"] == model.sentences[used].amax(0).sum()
    assert result["log_z"] == pytest.approx(float(log_r.exp().sum(-1).log().mean().detach()))
    entropy = torch.distributions.Categorical(p).entropy().mean()
    assert result["posterior_entropy"] == pytest.approx(float(entropy.detach()), rel=1e-4)
    assert set(summary(model, x, exact=False)) == {"sentences_in_use", "tokens_in_use"}


@pytest.mark.parametrize("factor", ["none", "posterior", "density"])
@pytest.mark.parametrize("power", [1.5, math.inf])
def test_visited_sentences_are_drawn_by_reward_whatever_their_count(
    power: float, factor: str
) -> None:
    """Two trajectories visit s0 at z_0, where R is greatest, then s1, s2, s2 and s2 or s3."""
    model, n = build(sd=0.5, steps=4, inverse_temperature=0.3, decodability=factor), 6000
    sentences = torch.eye(6)[[0, 1, 2, 3]]
    with torch.no_grad():
        size = torch.tensor([1.0, 1.0, 1.0, 3.0, -4.0, -4.0])  # of tokens on axes 0, 1, 2, 0, 1, 2
        model.sentence_encoder.mean.weight.copy_(size * model.sentence_encoder.mean.mask)
    x = torch.tensor([1.0, 0.6, 0.5]).expand(n, 3)
    path = torch.tensor([[0, 0], [1, 1], [2, 2], [2, 2], [2, 3]]).repeat_interleave(n, 1)
    model.trajectories = lambda z0: model.embed(sentences[path])
    log_r = model.reward(model.encoder(x[:4]), None, sentences, beta=1.0)
    assert log_r.argmax() == 0
    logits = power * (log_r - log_r[1:].max()).detach()
    p = torch.cat([torch.zeros(1), logits[1:].nan_to_num(0).softmax(0)])
    share = visited_sentences(model, x, 2, power)[:, :4].mean(0)
    assert torch.allclose(share, p, atol=4.5 * (0.25 / n) ** 0.5)


def test_what_is_used_often_enough_is_in_use() -> None:
    language = Language((1,) * 4, max_length=1)  # 4 sentences: in use from 1/40 of the inputs on
    s = torch.eye(4)[[0] * 90 + [1] * 8 + [2] * 2]
    assert usage(language, s) == {"sentences_in_use": 2.0, "tokens_in_use": 2.0}
