"""Flows: the exact sum over sentences, its normaliser, and estimates of it from sampled
sentences.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from pyro.distributions import Normal
from torch import Tensor

from plot_attractors.gflownet import EnumeratedFlow, SampledFlow
from plot_attractors.gflownet.flows import forward_looking_variance, log_isotropic
from plot_attractors.language import Language
from plot_attractors.language.policy import SentencePolicy, TabulatedSentences
from plot_attractors.model.nn import MLP

T, EPSILON, SIGMA = 5, 0.2, 0.1
float64 = torch.float64
TIMES = torch.arange(T + 1, dtype=float64)[:, None, None]


def enumerated(language: Language, batch: int = 3, d: int = 4, **options: Any) -> EnumeratedFlow:
    embeddings = language.sentences.double() @ (0.5 * torch.randn(language.width, d, dtype=float64))
    log_r = -5 * torch.rand(batch, language.count, dtype=float64)
    return EnumeratedFlow(log_r, embeddings, EPSILON, T, **{"widening": SIGMA, **options})


def states(flow: EnumeratedFlow) -> Tensor:
    b, d = flow.log_reward.shape[0], flow.embeddings.shape[-1]
    return torch.randn(T + 1, b, d, dtype=float64)


@pytest.mark.parametrize("widening", [0.0, SIGMA])
def test_equals_the_sum_over_728_sentences(widening: float) -> None:
    flow = enumerated(Language((2,) * 6), widening=widening)
    z = states(flow)
    got = flow.log_flow(z, TIMES)
    assert got.shape == (T + 1, 3)
    for t in range(T + 1):
        sd = math.sqrt(EPSILON**2 + (T - t) * widening**2)
        for b in range(3):
            terms = flow.log_reward[b] + Normal(flow.embeddings, sd).log_prob(z[t, b]).sum(-1)
            assert float(got[t, b]) == pytest.approx(float(terms.logsumexp(0)), abs=1e-9)


def test_each_input_may_have_sentences_of_its_own() -> None:
    """In any order the whole list gives the same sum; the best of it, all but what was left out."""
    flow = enumerated(Language((2,) * 4))
    z = states(flow)
    log_r, order = flow.log_reward.sort(1, descending=True)
    own = replace(flow, log_reward=log_r, embeddings=flow.embeddings[order])
    assert torch.allclose(own.log_flow(z, TIMES), flow.log_flow(z, TIMES), atol=1e-9)
    best = replace(own, log_reward=log_r[:, :20], embeddings=own.embeddings[:, :20])
    worst = replace(own, log_reward=log_r[:, 20:], embeddings=own.embeddings[:, 20:])
    parts = torch.logaddexp(best.log_flow(z, TIMES), worst.log_flow(z, TIMES))
    assert torch.allclose(parts, flow.log_flow(z, TIMES), atol=1e-9)
    fewer = torch.cat(
        [log_r[:, :20], torch.full_like(log_r[:, 20:], -math.inf)], 1
    )  # a search that met 20
    assert torch.allclose(
        replace(own, log_reward=fewer).log_flow(z, TIMES), best.log_flow(z, TIMES), atol=1e-9
    )


def test_decodability_and_correction_enter_where_they_should() -> None:
    """R may involve z, inside of the sum; the correction stands outside, and is 0 at t = T."""
    plain = enumerated(Language((2, 2, 2)))
    z = states(plain)
    factor = torch.randn(T + 1, 3, plain.log_reward.shape[1], dtype=float64)
    flow = replace(
        plain,
        log_decodability=lambda z: factor,
        correction=lambda z, t: (T - t)[..., 0] * z.sum(-1),
    )
    var = forward_looking_variance(TIMES, T, EPSILON, SIGMA)
    terms = (
        plain.log_reward + log_isotropic(z[:, :, None], plain.embeddings, var[..., None]) + factor
    )
    expected = terms.logsumexp(-1) + (T - TIMES)[..., 0] * z.sum(-1)
    assert torch.allclose(flow.log_flow(z, TIMES), expected, atol=1e-9)


def test_at_the_end_it_is_the_reward() -> None:
    flow = enumerated(
        Language((2, 2, 2)), correction=lambda z, t: (T - t)[..., 0] * z.square().sum(-1)
    )
    z = states(flow)
    log_r = (
        flow.log_reward + Normal(flow.embeddings, EPSILON).log_prob(z[-1][:, None]).sum(-1)
    ).logsumexp(-1)
    assert torch.allclose(flow.log_flow(z, TIMES)[-1], log_r, atol=1e-9)


def test_forward_looking_variance() -> None:
    v = forward_looking_variance(torch.arange(T + 3.0), T, EPSILON, SIGMA)
    assert torch.allclose(v[: T + 1], EPSILON**2 + (T - torch.arange(T + 1.0)) * SIGMA**2)
    assert torch.allclose(v[T:], torch.full((3,), EPSILON**2)), "as narrow as ε from T on"


@pytest.mark.parametrize("widening", [0.0, SIGMA])
@pytest.mark.parametrize("d", [1, 2])
def test_integrates_to_z(d: int, widening: float) -> None:
    """∫ F(z, t; x) dz = Σ_s R(s; x) at every t, on a grid that resolves ε."""
    language = Language((2,) * 6) if d == 1 else Language((2, 2))
    flow = enumerated(language, batch=2, d=d, widening=widening)
    axis = torch.arange(-5.0, 5.0, 0.1, dtype=float64)
    grid = torch.cartesian_prod(*[axis] * d).view(-1, 1, d)  # (points, 1, d), in the place of time
    for t in (0.0, 3.0, 5.0):
        log_f = flow.log_flow(
            grid.expand(-1, 2, -1), torch.full((len(grid), 1, 1), t, dtype=float64)
        )
        log_z = log_f.logsumexp(0) + d * math.log(0.1)
        assert torch.allclose(log_z, flow.log_z, atol=1e-3)
    assert torch.allclose(flow.log_z.exp(), flow.log_reward.exp().sum(-1))


def test_learned_first_step_equals_the_fixed_one_when_it_is_the_same() -> None:
    fixed = enumerated(Language((2, 2, 2)))
    embeddings = fixed.embeddings.expand(3, -1, -1)
    learned = replace(
        fixed, embeddings=embeddings, variance=torch.full_like(embeddings, EPSILON**2)
    )
    z = states(fixed)
    assert torch.allclose(learned.log_flow(z, TIMES), fixed.log_flow(z, TIMES), atol=1e-9)
    assert torch.allclose(
        replace(learned, variance=None).log_flow(z, TIMES), fixed.log_flow(z, TIMES), atol=1e-9
    )
    moved = replace(learned, embeddings=embeddings + 0.1)
    assert not torch.allclose(moved.log_flow(z, TIMES), fixed.log_flow(z, TIMES), atol=1e-3)


def test_learned_first_step_has_a_kernel_for_every_input_and_dimension() -> None:
    flow = enumerated(Language((2, 2)), widening=SIGMA)
    means = torch.randn(3, 8, 4, dtype=float64)
    var = 0.01 + 0.1 * torch.rand(3, 8, 4, dtype=float64)
    z = states(flow)
    got = replace(flow, embeddings=means, variance=var).log_flow(z, TIMES)
    for t in (0, T):
        kernel = Normal(means, (var + (T - t) * SIGMA**2).sqrt()).log_prob(z[t][:, None]).sum(-1)
        assert torch.allclose(got[t], (flow.log_reward + kernel).logsumexp(-1), atol=1e-9)


def test_float32_is_good_to_a_hundredth_of_a_nat() -> None:
    """At the paper's sizes, ε = 0.04 and states near and far from embeddings that are not centred
    at 0.
    """
    torch.manual_seed(3)
    flow = replace(enumerated(Language((2,) * 6), batch=16, d=8), epsilon=0.04, widening=0.08)
    z = torch.cat([states(flow)[:3], flow.embeddings[torch.randint(728, (3, 16))]])
    single = replace(flow, log_reward=flow.log_reward.float(), embeddings=flow.embeddings.float())
    error = single.log_flow(z.float(), TIMES.float()) - flow.log_flow(z, TIMES)
    assert error.abs().max() < 0.01


def test_flows_do_not_depend_on_the_batch_order() -> None:
    flow = enumerated(Language((2, 2, 2)))
    z, order = states(flow), torch.tensor([2, 0, 1])
    shuffled = replace(flow, log_reward=flow.log_reward[order])
    assert torch.allclose(
        shuffled.log_flow(z[:, order], TIMES), flow.log_flow(z, TIMES)[:, order], atol=1e-12
    )


# -- sampled sentences


class Setting:
    """A flow over the 26 sentences of three pairs, exact and sampled, with a discretizer that is
    far from ideal.
    """

    def __init__(self, kind: str = "tabulated") -> None:
        self.language = language = Language((2, 2, 2))
        self.exact = enumerated(language, batch=2, d=2, widening=0.3)
        self.z = 0.4 * torch.randn(T + 1, 2, 2, dtype=float64)
        self.weights = torch.randn(2, language.count, dtype=float64)
        self.net = MLP(language.width + 2, language.width + 1, units=16, layers=2).double()
        self.kind = kind

    def discretizer(self, z: Tensor) -> SentencePolicy | TabulatedSentences:
        if self.kind == "tabulated":
            return TabulatedSentences(z @ self.weights, self.language)

        def logits(partial: Tensor) -> Tensor:
            return self.net(torch.cat([partial.double(), z.expand(*partial.shape[:-1], -1)], -1))

        return SentencePolicy(
            logits, self.language, z.shape[:-1], canonical=self.kind == "canonical"
        )

    def row(self, s: Tensor) -> Tensor:
        return (2 * s @ self.language.sentences.T - self.language.sentences.sum(-1)).argmax(-1)

    def log_reward(self, s: Tensor) -> Tensor:
        """(K, T + 1, B, width) → (K, T + 1, B)."""
        row = self.row(s)
        return self.exact.log_reward.expand(*row.shape, -1).gather(-1, row[..., None])[..., 0]

    def flow(self, samples: int, **options: Any) -> SampledFlow:
        def embed(s: Tensor) -> Tensor:
            return self.exact.embeddings[self.row(s)]

        return SampledFlow(
            self.log_reward, embed, self.discretizer, EPSILON, T, samples, 0.3, **options
        )


@pytest.mark.parametrize("kind", ["tabulated", "canonical", "any order"])
def test_sampled_flow_becomes_the_exact_one_as_k_grows(kind: str) -> None:
    setting = Setting(kind)
    exact = setting.exact.log_flow(setting.z, TIMES)
    with torch.no_grad():
        error = [
            (setting.flow(k).log_flow(setting.z, TIMES) - exact).abs().max() for k in (1, 10_000)
        ]
    assert error[1] < 0.15
    assert error[1] < 0.1 * error[0]


def test_its_exponential_is_unbiased_and_its_logarithm_biased_downwards_the_less_the_larger_k() -> (
    None
):
    setting, repeats = Setting(), 4000
    exact = setting.exact.log_flow(setting.z, TIMES)
    z, t = setting.z.repeat_interleave(repeats, 0), TIMES.repeat_interleave(repeats, 0)
    bias = []
    for k in (1, 8):
        log_f = setting.flow(k).log_flow(z, t).view(T + 1, repeats, 2).transpose(0, 1)
        ratio = (log_f - exact).exp()
        z_score = (ratio.mean(0) - 1) / (ratio.std(0) / repeats**0.5)
        assert z_score.abs().max() < 4.5
        bias.append((log_f - exact).mean(0))
    assert (bias[0] < bias[1]).all()
    assert (bias[1] < 0).all()


def test_the_ideal_discretizer_needs_one_sentence() -> None:
    """With P(s | z) ∝ R(s; x) N(z; ẑ_s, ·) a single sentence gives the flow without any
    variance.
    """
    setting = Setting()
    exact = setting.exact
    var = forward_looking_variance(TIMES, T, EPSILON, 0.3)
    logits = exact.log_reward + log_isotropic(
        setting.z[:, :, None], exact.embeddings, var[..., None]
    )
    flow = replace(
        setting.flow(1), discretizer=lambda z: TabulatedSentences(logits, setting.language)
    )
    assert torch.allclose(
        flow.log_flow(setting.z, TIMES), exact.log_flow(setting.z, TIMES), atol=1e-9
    )


def test_sampled_correction_and_decodability() -> None:
    setting = Setting()
    torch.manual_seed(1)
    plain = setting.flow(3).log_flow(setting.z, TIMES)
    torch.manual_seed(1)
    options = {
        "correction": lambda z, t: (T - t)[..., 0] * 0.5,
        "log_decodability": lambda z, s: torch.full(s.shape[:-1], 0.1),
    }
    more = setting.flow(3, **options).log_flow(setting.z, TIMES)
    assert torch.allclose(more - plain, (T - TIMES)[..., 0] * 0.5 + 0.1, atol=1e-7)


@pytest.mark.parametrize("kind", ["canonical", "any order"])
def test_the_loss_reaches_the_discretizer(kind: str) -> None:
    setting = Setting(kind)
    setting.flow(2).log_flow(setting.z, TIMES).sum().backward()
    assert all(
        p.grad is not None and torch.isfinite(p.grad).all() for p in setting.net.parameters()
    )
