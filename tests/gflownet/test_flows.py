"""Flows: the exact sum over sentences, its normaliser, and estimates from sampled sentences."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from plot_attractors.gflownet import EnumeratedFlow, SampledFlow
from plot_attractors.gflownet.flows import forward_looking_variance
from plot_attractors.language import Language
from plot_attractors.language.policy import TabulatedSentences

from ..problems import EMBEDDINGS, EPSILON, LOG_REWARDS, TWO_TOKENS, float64, two_token_log_joint

T, SIGMA = 5, 0.1
EVEN = torch.zeros(TWO_TOKENS.count, dtype=float64)
TIMES = torch.arange(T + 1, dtype=float64)[:, None, None]
BATCH = 3


def two_token_flow(kind: str, **options: Any) -> Any:
    """The flow of two tokens, the exact sum, or by samples, which have the ideal discretizer."""
    shared = {"epsilon": EPSILON, "steps": T, "widening": SIGMA, **options}
    log_reward = LOG_REWARDS.expand(BATCH, -1)
    if kind == "enumerated":
        return EnumeratedFlow(log_reward, EMBEDDINGS, **shared)

    def row(s: Tensor) -> Tensor:
        return (s.double() @ torch.tensor([1.0, 2.0], dtype=float64)).long()

    def discretizer(z: Tensor) -> TabulatedSentences:
        v = forward_looking_variance(TIMES, T, EPSILON, shared["widening"])
        logits = torch.stack([two_token_log_joint(z[t], float(v[t])) for t in range(T + 1)])
        return TabulatedSentences(logits, TWO_TOKENS)

    return SampledFlow(
        lambda z, s: LOG_REWARDS[row(s)], lambda s: EMBEDDINGS[row(s)], discretizer, **shared
    )


KINDS = ("enumerated", "sampled")


@pytest.mark.parametrize("widening", [0.0, SIGMA])
@pytest.mark.parametrize("kind", KINDS)
def test_every_flow_is_the_sum_over_two_tokens(kind: str, widening: float) -> None:
    """The sampled one, too: with P(s | z) ∝ R N a single sentence gives it without variance."""
    z = 0.5 * torch.randn(T + 1, BATCH, 2, dtype=float64)
    sd = [math.sqrt(EPSILON**2 + (T - t) * widening**2) for t in range(T + 1)]
    expected = torch.stack([two_token_log_joint(z[t], sd[t] ** 2) for t in range(T + 1)])
    expected = expected.logsumexp(-1)
    flow = two_token_flow(kind, widening=widening)
    result = flow.log_flow(z, TIMES)
    assert result.shape == (T + 1, BATCH)
    assert torch.allclose(result, expected, atol=1e-6)
    corrected = replace(flow, correction=lambda z, t: (T - t)[..., 0] * z.sum(-1))
    more = corrected.log_flow(z, TIMES) - expected
    assert torch.allclose(more, (T - TIMES)[..., 0] * z.sum(-1), atol=1e-6)


def test_a_sampled_flow_of_one_sentence_a_trajectory() -> None:
    """With P(s | z) ∝ R N it is the sum whatever the sentence; with another, log R N − log P."""
    z = 0.5 * torch.randn(T + 1, 2, 2, dtype=float64)
    s = TWO_TOKENS.sentences.double()[:2]
    expected = two_token_flow("enumerated").log_flow(z.repeat(1, 2, 1)[:, :BATCH], TIMES)[:, :2]
    flow = two_token_flow("sampled", sentences=s)
    assert torch.allclose(flow.log_flow(z, TIMES), expected, atol=1e-6)
    even = replace(
        flow, discretizer=lambda z: TabulatedSentences(0 * z[..., :1] + EVEN, TWO_TOKENS)
    )
    row = (s @ torch.tensor([1.0, 2.0], dtype=float64)).long()
    v = EPSILON**2 + (T - TIMES[..., 0]) * SIGMA**2
    square = (z - EMBEDDINGS[row]).square().sum(-1)
    log_n = -0.5 * (square / v + 2 * torch.log(2 * math.pi * v))
    by_hand = LOG_REWARDS[row] + log_n + math.log(TWO_TOKENS.count)
    assert torch.allclose(even.log_flow(z, TIMES), by_hand, atol=1e-6)


def test_float32_is_good_to_a_hundredth_of_a_nat() -> None:
    """At the paper's ε = 0.04, near and far from embeddings that are not centred at 0."""
    torch.manual_seed(3)
    language = Language((2,) * 6)
    embeddings = language.sentences.double() @ (0.5 * torch.randn(language.width, 8).double())
    log_r = -5 * torch.rand(16, language.count, dtype=float64)
    flow = EnumeratedFlow(log_r, embeddings, 0.04, T, 0.08)
    z = torch.randn(T + 1, 16, 8, dtype=float64)
    z[3:] = embeddings[torch.randint(728, (3, 16))]
    single = replace(flow, log_reward=log_r.float(), embeddings=embeddings.float())
    error = single.log_flow(z.float(), TIMES.float()) - flow.log_flow(z, TIMES)
    assert error.abs().max() < 0.01


def test_exponential_is_unbiased_and_logarithm_biased_downwards_the_less_the_larger_k() -> None:
    """Of a discretizer that is far from ideal."""
    weights, repeats = torch.randn(2, TWO_TOKENS.count, dtype=float64), 4000
    states = 0.4 * torch.randn(T + 1, BATCH, 2, dtype=float64)
    exact = two_token_flow("enumerated", widening=0.3).log_flow(states, TIMES)
    z, t = states.repeat_interleave(repeats, 0), TIMES.repeat_interleave(repeats, 0)
    bias = []
    for k in (1, 8):
        flow = replace(
            two_token_flow("sampled", widening=0.3, samples=k),
            discretizer=lambda z: TabulatedSentences(z @ weights, TWO_TOKENS),
        )
        log_f = flow.log_flow(z, t).view(T + 1, repeats, BATCH).transpose(0, 1)
        ratio = (log_f - exact).exp()
        z_score = (ratio.mean(0) - 1) / (ratio.std(0) / repeats**0.5)
        assert z_score.abs().max() < 4.5
        bias.append((log_f - exact).mean(0))
    assert (bias[0] < bias[1]).all()
    assert (bias[1] < 0).all()
