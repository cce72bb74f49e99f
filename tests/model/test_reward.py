"""KL divergences, and the reward: each of its parts against torch.distributions."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from pyro.distributions import Normal
from torch import Tensor
from torch.distributions import kl_divergence

from plot_attractors.model.reward import gaussian_kl, pairwise_kl

from ..attractors import B, D, T, inputs, tiny


def gaussians(n: int) -> Normal:
    return Normal(torch.randn(n, D), 0.1 + torch.rand(n, D))


def test_kl_divergences_against_torch() -> None:
    p, q = gaussians(B), gaussians(7)
    expected = kl_divergence(Normal(p.loc[:, None], p.scale[:, None]), q).sum(-1)
    assert torch.allclose(pairwise_kl(p, q), expected, rtol=1e-4, atol=1e-4)
    assert torch.allclose(gaussian_kl(p, p), torch.zeros(B), atol=1e-6)
    few = Normal(q.loc[:B], q.scale[:B])
    assert torch.allclose(gaussian_kl(p, few), expected.diagonal(), rtol=1e-4, atol=1e-4)


def test_pairwise_kl_in_float32_is_good_to_a_hundredth_of_a_nat() -> None:
    """With narrow standard deviations far from 0, where the products cancel."""
    p = Normal(1.5 * torch.randn(64, 8), torch.full((64, 8), 0.05))
    q = Normal(p.loc + 0.05 * torch.randn(64, 8), torch.full((64, 8), 0.05))
    exact = kl_divergence(
        Normal(p.loc.double(), p.scale.double()), Normal(q.loc.double(), q.scale.double())
    ).sum(-1)
    assert (pairwise_kl(p, q).diagonal() - exact).abs().max() < 0.01


def parts(model: Any, q: Normal, z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(B, S) −KL, (S,) number of tokens, and (…, B, S) log N(z; ẑ_s, σ_s²), by torch."""
    p = model.sentence_encoder(model.sentences)
    fidelity = -kl_divergence(Normal(q.loc[:, None], q.scale[:, None]), p).sum(-1)
    return fidelity, model.sentences.sum(-1), p.log_prob(z[..., None, :]).sum(-1)


@pytest.mark.parametrize("clamp", ["kl", "reward"])
@pytest.mark.parametrize("floor", [-math.inf, -1.0])
@pytest.mark.parametrize("beta", [1.0, 0.3])
@pytest.mark.parametrize("decodability", ["none", "posterior", "density"])
def test_log_reward_is_the_sum_of_its_parts(
    decodability: str, beta: float, floor: float, clamp: str
) -> None:
    of_reward = {"decodability": decodability, "beta": beta, "floor": floor, "clamp": clamp}
    settings = {f"reward.{name}": value for name, value in of_reward.items()}
    model = tiny({"language.length_cost": 0.5, **settings})
    q, z, rows = (
        model.encode(inputs()).distribution,
        torch.randn(T, B, D),
        torch.randint(26, (T, B)),
    )
    fidelity, length, density = parts(model, q, z)
    log_prior = (-beta * 0.5 * length).log_softmax(-1)  # P(s)^β is normalised
    factor = {
        "none": torch.zeros(T, B, 26),
        "density": density,
        "posterior": (density + log_prior).log_softmax(-1),
    }[decodability]
    if clamp == "kl":
        expected = beta * fidelity.clamp(min=floor) + factor + log_prior
    else:
        expected = (beta * fidelity + factor).clamp(min=floor) + log_prior
    close: dict[str, Any] = {"rtol": 1e-3, "atol": 2e-3}
    s = model.sentences[rows]

    def of_rows(every: Tensor) -> Tensor:
        return every.expand(T, B, 26).gather(-1, rows[..., None])[..., 0]

    assert torch.allclose(model.reward(q, z, s), of_rows(expected), **close)
    decoded = model.reward.log_decodability(z, s)
    assert torch.allclose(decoded.expand(T, B), of_rows(factor), **close)
    low = floor if clamp == "reward" else beta * floor
    without = (beta * fidelity).clamp(min=low) + log_prior
    assert torch.allclose(model.reward.log_pairs(q, model.sentences), without, **close)
    assert torch.allclose(model.reward.log(q, s), of_rows(without), **close)
    plain = fidelity.clamp(min=floor) + (-0.5 * length).log_softmax(-1)
    assert torch.allclose(model.reward.log_pairs(q, model.sentences, 1.0), plain, **close)
    assert fidelity.min() < -1.0, "the floor acts"


def test_the_factor_in_z_of_several_sentences_of_a_state() -> None:
    model = tiny({"reward.decodability": "posterior"})
    z, rows = torch.randn(B, D), torch.randint(26, (6, B))
    every = model.reward.log_decodability(z)
    found = model.reward.log_decodability(z, model.sentences[rows])
    assert torch.allclose(found, every.T.gather(0, rows), atol=1e-5)


@pytest.mark.parametrize("beta", [0.0, -1.0, math.inf])
def test_impossible_inverse_temperatures(beta: float) -> None:
    with pytest.raises(ValueError, match="must be a finite number above 0"):
        tiny({"reward.beta": beta})


def test_a_posterior_over_too_many_sentences_is_refused() -> None:
    settings = {"language.groups": (1,) * 32, "language.max_length": 7}
    with pytest.raises(ValueError, match=r"sums over all sentences, and 4,514,872 .*'density'"):
        tiny({**settings, "reward.decodability": "posterior"})
    tiny({**settings, "reward.decodability": "density"})
