"""KL divergences, and the reward: each of its parts against torch.distributions."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from pyro.distributions import Normal
from torch import Tensor
from torch.distributions import kl_divergence

from plot_attractors.model.reward import gaussian_kl, pairwise_kl

from ..attractors import B, D, T, inputs, tiny


def test_kl_divergences_against_torch() -> None:
    p, q = (Normal(torch.randn(n, D), 0.1 + torch.rand(n, D)) for n in (B, 7))
    expected = kl_divergence(Normal(p.loc[:, None], p.scale[:, None]), q).sum(-1)
    assert torch.allclose(pairwise_kl(p, q), expected, rtol=1e-4, atol=1e-4)
    few = Normal(q.loc[:B], q.scale[:B])
    assert torch.allclose(gaussian_kl(p, few), expected.diagonal(), rtol=1e-4, atol=1e-4)


def test_pairwise_kl_in_float32_is_good_to_a_hundredth_of_a_nat() -> None:
    """With narrow standard deviations far from 0, where the products cancel."""
    p = Normal(1.5 * torch.randn(64, 8), torch.full((64, 8), 0.05))
    q = Normal(p.loc + 0.05 * torch.randn(64, 8), torch.full((64, 8), 0.05))
    p64, q64 = (Normal(of.loc.double(), of.scale.double()) for of in (p, q))
    exact = kl_divergence(p64, q64).sum(-1)
    assert (pairwise_kl(p, q).diagonal() - exact).abs().max() < 0.01


@pytest.mark.parametrize("beta", [1.0, 0.3])
@pytest.mark.parametrize("decodability", ["none", "posterior", "density"])
def test_log_reward_is_the_sum_of_its_parts(decodability: str, beta: float) -> None:
    settings = {"reward.decodability": decodability, "reward.beta": beta}
    model = tiny({"language.length_cost": 0.5, **settings})
    q, z, rows = (
        model.encode(inputs()).distribution,
        torch.randn(T, B, D),
        torch.randint(26, (T, B)),
    )
    s, of_s = model.sentences[rows], model.sentence_encoder(model.sentences)
    z_hat = of_s.loc
    kl = kl_divergence(Normal(q.loc[:, None], q.scale[:, None]), of_s).sum(-1)  # (B, S)
    log_prior = (-beta * 0.5 * model.sentences.sum(-1)).log_softmax(-1)  # P(s)^β is normalised

    def factor(z: Tensor, log_prior: Tensor) -> Tensor:
        density = of_s.log_prob(z[..., None, :]).sum(-1)  # (…, S)
        posterior = (density + log_prior).log_softmax(-1)
        found = {"none": 0 * density, "density": density, "posterior": posterior}
        return found[decodability]

    def log_r(factor: Tensor, log_prior: Tensor, beta: float) -> Tensor:
        return -beta * kl + factor + log_prior

    expected = log_r(factor(z, log_prior), log_prior, beta)
    at_embedding = log_r(factor(z_hat, log_prior).diagonal(), log_prior, beta)

    def close(found: Tensor, every: Tensor) -> bool:
        every = every.expand(T, B, 26).gather(-1, rows[..., None])[..., 0]
        return torch.allclose(found.expand(T, B), every, rtol=1e-3, atol=2e-3)

    assert close(model.reward(q, z, s), expected)
    assert close(model.reward(q, None, s), at_embedding)
    tolerance: dict[str, Any] = {"rtol": 1e-3, "atol": 2e-3}
    assert torch.allclose(model.reward.log_pairs(q, model.sentences), at_embedding, **tolerance)
    found = model.posterior.log_prob(q)
    assert torch.allclose(found, at_embedding.log_softmax(-1), **tolerance)
    prior = (-0.5 * model.sentences.sum(-1)).log_softmax(-1)
    plain = log_r(factor(z_hat, prior).diagonal(), prior, 1.0)
    assert torch.allclose(model.reward.log_pairs(q, model.sentences, 1.0), plain, **tolerance)
    assert torch.allclose(model.posterior.log_prob(q, 1.0), plain.log_softmax(-1), **tolerance)


@pytest.mark.parametrize("axes", [True, False])
@pytest.mark.parametrize("beta", [None, 0.3])
@pytest.mark.parametrize("decodability", ["none", "posterior", "density"])
def test_rewards_with_a_token_more(decodability: str, axes: bool, beta: float | None) -> None:
    """Of partial sentences (2, 5, tokens) every token is added, and nothing."""
    settings = {"token_axes": axes, "language.length_cost": 0.7}
    settings |= {"reward.decodability": decodability}
    model = tiny({**settings, "language.groups": (1,) * 6, "language.max_length": 4})
    q = model.encode(inputs()).distribution
    s = model.sentences[torch.randint(len(model.sentences), (2, B))]
    result = model.reward.log_additions(q, s, beta)
    assert result.shape == (7, 2, B)
    assert torch.allclose(result[-1], model.reward(q, None, s, beta), atol=1e-4)
    for token in range(6):
        longer = s.clone()
        longer[..., token] = 1
        expected = model.reward(q, None, longer, beta)
        new = (s[..., token] == 0) & (longer.sum(-1) <= 4)
        assert torch.allclose(result[token][new], expected[new], atol=1e-4)
    none = Normal(q.loc[:0], q.scale[:0])
    assert model.reward.log_additions(none, s[:, :0]).shape == (7, 2, 0)
