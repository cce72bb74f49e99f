"""Restarts of the tokens: what they are judged by, and which is kept."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.distributions import Normal

from plot_attractors.language import Language
from plot_attractors.training import ExactSentences, SampledSentences, Sampling
from plot_attractors.training.vocabulary.restarts import Restarts

LANGUAGE = Language((1,) * 4, max_length=3)
OPTIONS: dict[str, Any] = {"latent": 2, "language": LANGUAGE, "odds_cost": 2.0}


def states(n: int = 512) -> Normal:
    """Of two bits."""
    mean = torch.randint(2, (n, 2)).float() + 0.05 * torch.randn(n, 2)
    return Normal(mean, torch.full_like(mean, 0.1))


def place(model: Any, size: float) -> None:
    """Two tokens an axis, one that moves by `size` and one that hardly moves."""
    encoder, tokens = model.sentence_encoder, torch.arange(4)
    with torch.no_grad():
        for layer in (encoder.mean, encoder.sd):
            layer.place(tokens, tokens // 2)
        encoder.mean.weight[tokens // 2, tokens] = torch.tensor([size, 0.01, size, 0.02])
        encoder.mean.bias.zero_()
        encoder.sd.bias.fill_(-2.0)


@pytest.mark.parametrize("best", [0, 1, 2])
def test_the_restart_with_the_greatest_log_z_is_kept_with_its_costs(build: Any, best: int) -> None:
    model, restarts, q = build(**OPTIONS), Restarts(), states()
    sizes, kept = [0.3, 0.5, 0.7], {}
    sizes[best] = 1.0
    for k, size in enumerate(sizes):
        place(model, size)
        model.prior.reset()
        found = restarts.add(model, q, ExactSentences(model))
        log_r = model.reward.log_pairs(q, model.sentences, 1.0)
        assert found == pytest.approx(float(log_r.detach().logsumexp(-1).mean()), abs=1e-3)
        if k == best:
            kept = {name: part.clone() for name, part in model.state_dict().items()}
    assert max(range(3), key=restarts.log_z.__getitem__) == best
    restarts.take_best(model)
    assert all(torch.equal(part, kept[name]) for name, part in model.state_dict().items())
    assert len(set(model.prior.token_costs.tolist())) > 1


def test_all_are_judged_by_the_first_inputs(build: Any) -> None:
    model, restarts = build(**OPTIONS), Restarts()
    place(model, 1.0)
    for q in (states(), Normal(torch.randn(9, 2), torch.ones(9, 2))):
        restarts.add(model, q, ExactSentences(model))
    assert len(restarts.q[0]) == 512
    assert restarts.log_z[1] == pytest.approx(restarts.log_z[0], abs=1e-4)


def test_log_z_of_sampled_sentences_is_near_the_exact_one(build: Any) -> None:
    model, q = build(**OPTIONS), states(64)
    place(model, 1.0)
    exact = ExactSentences(model).log_z(q)
    policy = model.add_sentence_policy()
    sampled = SampledSentences(model, policy, Sampling(64, 8, 2)).log_z(q)
    assert torch.allclose(sampled, exact, atol=0.5)
    assert float((sampled - exact).detach().mean()) == pytest.approx(0, abs=0.05)
