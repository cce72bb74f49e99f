"""Steps in balance, and the flow, against algebra, brute force and sums over all sentences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from pyro.distributions import Normal
from torch import Tensor

from plot_attractors.language import Language
from plot_attractors.training import ExactSentences, Pool, balance
from plot_attractors.training.balance import (
    Transitions,
    balanced_transitions,
    log_flow,
    restoring_transitions,
)

from .models import build_model as build
from .test_sentences import sampled

T, K, D = 10, 4, 3  # K = 0.4 T
PERTURBED = 1.0, 1.5


@pytest.fixture(autouse=True)
def _double() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def walking(epsilon: float = 0.1, **options: Any) -> Any:
    """A model with memory, whose bridge has another width along each axis."""
    model = build(axes=False, epsilon=epsilon, steps=T, amplitude=2.0, **options)
    model.backward_dynamics.sd.copy_(0.2 + 0.2 * torch.arange(model.latent))
    return model.requires_grad_(False)


def encoded(model: Any, n: int) -> Any:
    """One input, n times."""
    return model.encode(torch.rand(1, 8))[torch.zeros(n).long()]


@pytest.mark.parametrize("sentences", [1, 22])
@pytest.mark.parametrize("shift", [0.0, 0.03])
@pytest.mark.parametrize("t", range(T))
def test_the_flow_is_in_detailed_balance_with_steps_to_sentences(
    t: int, shift: float, sentences: int
) -> None:
    """log F(z_t) + log P(z_{t+1} | z_t) = log F(z_{t+1}) + log P←(z_t | z_{t+1}) wherever states
    and memory are, with P = Σ_s P(s | z_t) N(a + b ẑ_s, v); not if it goes a bit further.
    """
    model, n = walking(0.3), 40
    z0, z, to = torch.randn(3, n, D)
    log_w, z_hat = torch.randn(n, sentences), model.embeddings()[-sentences:]
    z, to = model.initial(z if t else z0), model.initial(to)
    z[:, D:], to[:, D:] = z[:, D:] + 0.1 * bool(t), to[:, D:] - 0.3
    now, then = torch.full((n, 1), t), torch.full((n, 1), t + 1)

    def flow(z: Tensor, t: int, j: Any = slice(None)) -> Tensor:
        return log_flow(model, z, torch.tensor([t]), z0, log_w[:, j], z_hat[j])

    def step(z: Tensor, to: Tensor) -> Tensor:
        log_p = torch.stack([flow(z, t, [j]) for j in range(sentences)], -1).log_softmax(-1)
        a, b, v = (part[:, None] for part in model.backward_dynamics.step(z[:, :D], z0, now))
        of = Normal(a + b * z_hat + shift, v.sqrt()).log_prob(to[:, None, :D]).sum(-1)
        return (log_p + of).logsumexp(-1)

    back = model.memory.backward_step(to[:, D:], then, z0).log_prob(z[:, D:]).sum(-1)
    walks = model.backward_dynamics(to, then, z0).log_prob(z[:, :D]).sum(-1)
    back = torch.zeros(n) if t == 0 else back + (walks if t < K else step(to, z))
    left = flow(z, t) + step(z, to) + model.memory(z[:, D:]).log_prob(to[:, D:]).sum(-1)
    residual = (left - flow(to, t + 1) - back).abs()
    assert residual.max() < 1e-7 if not shift else residual.max() > 0.01
    kernel = model.terminal_kernel(model.sentences[[-sentences] * n], z0)
    end = log_w[:, 0] + kernel.log_prob(to).sum(-1)
    assert t < T - 1 or torch.allclose(flow(to, T, [0]), end)


def test_a_step_with_one_candidate_is_that_of_its_bridge() -> None:
    model = walking()
    e, s = encoded(model, 6000), model.sentences[torch.randint(22, (6000, 1))]
    to = balanced_transitions(model, e, s, 2000)
    z_hat = model.embed(s[:, 0])
    a, b, v = model.backward_dynamics.step(to.z[:, :D], e.z0, to.time)
    assert torch.allclose(to.mean, a + b * z_hat)
    assert torch.allclose(to.sd, v.sqrt().expand_as(to.sd))
    assert torch.equal(to.context, e.z0)
    walks, t = to.time[:, 0] < K, to.time[:, 0]
    assert walks.tolist() == [True] * 2000 + [False] * 4000
    assert ({*t[walks].tolist()}, {*t[~walks].tolist()}) == ({*range(K)}, {*range(K, T)})
    assert [float(to.weight[rows].sum()) for rows in (walks, ~walks)] == pytest.approx([K, T - K])
    at = model.backward_dynamics.marginal(e.z0, z_hat, to.time)
    u = (to.z[:, :D] - at.loc) / at.scale
    assert torch.allclose(u.std(0), torch.ones(D), atol=0.05)
    legible = model.memory.marginal(e.z0, to.time)
    faded = ((to.z[:, D:] - legible.loc).abs() > 6 * legible.scale).any(-1)
    assert not faded[walks].any()
    assert float(faded[t == K].double().mean()) == pytest.approx(1 / 3, abs=0.06)


@pytest.mark.parametrize("t", [0, 1, K - 1, K + 2])
def test_a_step_with_candidates_has_the_moments_of_sampled_bridges(t: int) -> None:
    """Of those bridges, each to any of the candidates, that pass near the state."""
    model, n = walking(0.15, latent=1), 400_000
    e, bridge = encoded(model, 200), model.backward_dynamics
    s = model.sentences[[1, 5, 6]]
    to = balanced_transitions(model, e, s.expand(200, -1, -1), 100)
    rows = (to.time[:, 0] == t).nonzero()[:, 0]
    row = rows[to.z[rows, 0].median(0).indices]
    z0, z_hat = e.z0[:1], model.embed(s)[torch.randint(3, (n,))]
    z = Normal(z_hat, model.epsilon).sample()
    then = z_hat + 0.7 * (z - z_hat) + 0.51**0.5 * 0.15 * torch.randn_like(z)
    for u in range(K, t, -1):
        z, then = bridge(z, u, z0).sample(), z
    near = then[(z - to.z[row, 0]).abs() < 0.01]
    assert len(near) > 500
    error = 4.5 * float(near.std()) / len(near) ** 0.5 + 0.005
    assert float(near.mean()) == pytest.approx(float(to.mean[row]), abs=error)
    assert float(near.std()) == pytest.approx(float(to.sd[row]), abs=error)


@pytest.mark.parametrize("wrong", [False, True])
def test_few_candidates_teach_the_step_of_all_sentences(
    wrong: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E[f g(z)] is the same of steps by three candidates and by all sentences, for the mean and the
    second moment f of the next state and any g; not if all candidates count alike.
    """
    if wrong:
        monkeypatch.setattr(balance, "_log_near", lambda _, z, *__: torch.zeros(len(z), 3))
    model, n = walking(0.2), 40_000
    e, log_p = encoded(model, n), torch.randn(22).log_softmax(-1)
    rows = torch.multinomial(log_p.exp(), 3 * n, replacement=True).view(n, 3)
    to = balanced_transitions(model, e, model.sentences[rows], n // 2)
    z, z_hat = to.z[:, :D], model.embeddings()
    at = model.backward_dynamics.marginal(e.z0[:, None], z_hat, to.time[..., None])
    p = (log_p + at.log_prob(z[:, None]).sum(-1)).softmax(-1)
    a, b, v = model.backward_dynamics.step(z, e.z0, to.time)
    end, square = p @ z_hat, p @ z_hat**2
    first = to.mean - a - b * end
    second = to.mean**2 + to.sd**2 - (a**2 + 2 * a * b * end + b**2 * square + v)
    of_z = torch.stack([torch.ones_like(z), z, torch.tanh(5 * z), to.time / T * z])
    score = [(d * of_z).mean(1) * n**0.5 / (d * of_z).std(1) for d in (first, second)]
    worst = torch.stack(score).abs().max()
    assert worst > 30 if wrong else worst < 4


def test_the_loss_is_the_weighted_divergence_from_the_dynamics() -> None:
    z, mean, context = torch.randn(3, 20, 4)
    time, weight = torch.full((20, 1), 3.0), torch.rand(20, 1)
    every = Transitions(z, mean, 0.1 + torch.rand(20, 4), time, context, weight)

    def dynamics(z: Tensor, t: Tensor, context: Tensor) -> Normal:
        return Normal(0.7 * z + 0.1 * torch.tanh(context) - 0.01 * t, 0.1 + torch.sigmoid(z))

    kl = torch.distributions.kl_divergence(Normal(mean, every.sd), dynamics(z, time, context))
    loss = float(every.divergence(dynamics))
    assert loss == pytest.approx(float((kl.sum(-1) * weight[:, 0]).sum()), rel=1e-4)
    assert float(every.join(every).divergence(dynamics)) == pytest.approx(2 * loss, rel=1e-4)


def distance(model: Any, z: Tensor, s: Tensor) -> Tensor:
    """(n,) from latent states to the nearest embedding of the sentences s."""
    return torch.cdist(z, model.embed(s)).amin(1)


@pytest.mark.parametrize("beta", [1.0, 3.0])
def test_sentences_from_the_prior_have_states_that_stay_and_perturbed_ones(beta: float) -> None:
    language = Language((1,) * 6, min_length=0, max_length=2, length_cost=1.0)
    model = walking(0.01, language=language, inverse_temperature=beta)
    model.sentence_encoder.mean.weight.mul_(5)
    e, few = model.encode(torch.rand(7, 8)), 21
    parts = [restoring_transitions(model, e, PERTURBED) for _ in range(30)]
    assert float(parts[0].weight.sum()) == pytest.approx(0.3 * (T - K))
    z = torch.cat([part.z[few:, :D] for part in parts])
    assert distance(model, z, model.sentences).max() < 0.01 * 6
    home = torch.cdist(z, model.embeddings()).argmin(1)
    share = torch.bincount(home, minlength=22) / len(z)
    expected = model.reward.log_prior(model.sentences, beta).exp()
    assert torch.allclose(share, expected, atol=4.5 * (0.25 / len(z)) ** 0.5)
    assert distance(model, parts[0].z[:few, :D], model.sentences).median() > 0.5
    assert {tuple(c) for c in parts[0].context.tolist()} <= {tuple(c) for c in e.z0.tolist()}
    assert {t for part in parts for t in part.time.flatten().tolist()} == {*range(K, T)}
    assert torch.allclose(parts[0].sd, torch.tensor(0.01 * (1 - 0.7**2) ** 0.5))
    mean = torch.cat([part.mean[few:] for part in parts])
    assert torch.allclose(mean, torch.lerp(model.embeddings()[home], z, 0.7), atol=1e-4)
    steps = (parts[0].mean - parts[0].z[:, :D]).norm(dim=-1)
    assert float(steps.max()) == pytest.approx(0.9 * 0.25, rel=1e-3)


@pytest.mark.parametrize("exact", [True, False])
def test_candidates_follow_the_posterior_of_their_input(exact: bool) -> None:
    model = build(axes=False, sd=0.3)
    inputs = torch.tensor([[0.5, -0.2, 0.1], [-0.4, 0.6, 0.0]])
    sentences: Any = ExactSentences(model) if exact else sampled(model, 64, 4)
    pool = Pool(model, lambda n: inputs[torch.arange(n) % 2], sentences)
    pool.fill()
    e, s = pool.candidates(20_000)
    assert torch.equal(e.z0, e.distribution.loc)
    first = e.z0[:, 0] > 0
    for mine, x in zip((first, ~first), inputs, strict=True):
        q = model.encode(x[None]).distribution
        p = model.posterior(q).log_p[0].exp().detach()
        drawn = model.language.row(s[mine]).flatten()
        assert (
            float(0.5 * (torch.bincount(drawn, minlength=22) / len(drawn) - p).abs().sum()) < 0.05
        )
