"""The walk, what dynamics do after it, and the pool of both, against algebra and by draws."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from pyro.distributions import Normal
from torch import Tensor

from plot_attractors.gflownet.trajectories import score_backward, score_forward
from plot_attractors.language import Language
from plot_attractors.training import ExactSentences, SentencePool
from plot_attractors.training.stay import (
    Basins,
    Transitions,
    off_sentence,
    off_sentence_states,
    posterior_transitions,
    prior_transitions,
    too_long,
)
from plot_attractors.training.walk import backward_walks, sleep_loss, wake_loss

from ..problems import Bridge, T, on_policy
from .models import build_model as build
from .test_sentences import sampled

N = 6000


def test_backward_walks_end_at_their_sentence_and_begin_where_inputs_do() -> None:
    model = build(axes=False, epsilon=0.05, onset=2.0)
    model.onset.vector[1] = 2.0
    few = torch.randn(4, 3)
    assert torch.equal(model.trajectories(few)[0], few + model.onset.vector)
    assert torch.equal(model.trajectories(few, start=3)[0], few), "later states are states"
    z0, s = torch.randn(1, 3).expand(N, 3), torch.eye(6)[:1].expand(N, 6)
    z = backward_walks(model, z0, s, 4)
    assert z.shape == (5, N, 3)
    assert torch.equal(z[0], z0 + torch.tensor([0.0, 2.0, 0.0]))
    off = z[-1] - model.embed(s).detach()
    assert torch.allclose(off.mean(0), torch.zeros(3), atol=5 * 0.05 / N**0.5)
    assert torch.allclose(off.std(0), torch.full((3,), 0.05), rtol=5 * (0.5 / N) ** 0.5)
    with torch.no_grad():
        for t in (4, 3, 2):
            to = model.onset.backward_step(model.backward_dynamics(z[t], t, z0), z[t], t, z0)
            u = (z[t - 1] - to.mean) / to.stddev
            assert torch.allclose(u.mean(0), torch.zeros(3), atol=5 / N**0.5)
            assert torch.allclose(u.var(0), torch.ones(3), rtol=5 * (2 / N) ** 0.5)


def test_losses_are_scores_of_a_step() -> None:
    torch.manual_seed(0)
    bridge = Bridge(backward_shift=0.05)
    steps = {"forward_step": bridge.forward_step, "backward_step": bridge.backward_step}
    model: Any = SimpleNamespace(**steps, steps=T)
    trajectories = on_policy(bridge)
    forward = -score_forward(bridge.forward_step, trajectories).sum(0).mean() / T
    assert sleep_loss(model, trajectories) == pytest.approx(float(forward))
    scores = -score_backward(bridge.backward_step, trajectories).sum(0).mean() / (T - 1)
    assert wake_loss(model, trajectories, T) == pytest.approx(float(scores))
    lengths = [trajectories._replace(z=trajectories.z[: h + 1]) for h in range(3, T + 1)]
    each = [float(wake_loss(model, of, 2)) for of in lengths]
    assert sum(each) / len(each) == pytest.approx(float(scores)), "one of them stands for all"


# -- where inputs begin, and the noise of a step


def test_noise_is_that_of_sentences_where_embeddings_vary() -> None:
    model = build(axes=False, epsilon=0.02)
    s = model.sentences
    with torch.no_grad():
        model.sentence_encoder.mean.weight.zero_()
        model.sentence_encoder.mean.weight[0] = torch.arange(6.0)
        model.sentence_encoder.mean.weight[1] = 0.01 * torch.arange(6.0)
        sd = model.sentence_encoder(s).scale.median(0).values
    model.set_noise(s, 30)
    spread = float(model.embed(s)[:, 1].detach().std())
    expected = [min(0.05**0.5 * float(sd[0]), 0.3), max(0.05**0.5 * spread, 0.02), 0.02]
    for dynamics in (model.forward_dynamics, model.backward_dynamics):
        assert torch.allclose(dynamics.max_sd, torch.tensor(expected), atol=1e-6)
        greatest = dynamics(100 * torch.randn(200, 3), 1.0, torch.zeros(200, 3)).stddev.amax(0)
        assert (greatest <= dynamics.max_sd + 1e-6).all()


PERTURBED = (1.0, 1.5)


def basins_of(model: Any) -> Basins:
    return Basins(model.steps, model.steps - 2, model.epsilon, 0.25)


def exact_off(model: Any, e: Any, perturbed_sd: Any = PERTURBED) -> Any:
    return off_sentence(model, e, perturbed_sd, ExactSentences(model))


def transition(z: Tensor, t: float | Tensor, context: Tensor) -> Normal:
    """Dynamics that see state, time and context."""
    mean = 0.7 * z + 0.1 * torch.tanh(context) - 0.01 * t
    return Normal(mean, 0.1 + 0.05 * torch.sigmoid(z))


def distance(model: Any, z: Tensor, s: Tensor) -> Tensor:
    """(n,) from states to the nearest embedding of the sentences s."""
    return torch.cdist(z, model.embed(s).detach()).amin(1)


def test_cross_entropy_is_the_mean_score_of_sampled_next_states() -> None:
    n = 40_000
    row = torch.randn(3, 1, 4)
    z, mean, context = row.expand(3, n, 4)
    time, weight = torch.full((n, 1), 3.0), torch.full((n, 1), 2.0 / n)
    every = Transitions(z, mean, torch.full((n, 4), 0.2), time, context, weight)
    scores = -transition(z, time, context).log_prob(mean + 0.2 * torch.randn(n, 4)).sum(-1)
    error = 10 * float(scores.std()) / n**0.5
    assert float(every.cross_entropy(transition)) == pytest.approx(
        2 * float(scores.mean()), abs=error
    )
    twice = float(every.join(every).cross_entropy(transition))
    assert twice == pytest.approx(2 * float(every.cross_entropy(transition)), rel=1e-4)


@pytest.mark.parametrize(("persistence", "holds"), [(0.7, True), (0.5, False)])
def test_a_step_that_stays_is_in_detailed_balance_with_its_basin(
    persistence: float, holds: bool
) -> None:
    """log F(z) + log P(z′ | z) = log F(z′) + log P(z | z′) for F = N(ẑ, ε²), and for no other ρ at
    the same standard deviation.
    """
    z_hat, z, to = torch.randn(3, 50, 4, dtype=torch.float64)
    basins = Basins(20, 12, 0.3, 0.25)
    sd = basins.stationary(z, z_hat).stddev

    def log_p(a: Tensor, b: Tensor) -> Tensor:
        return Normal(torch.lerp(z_hat, a, persistence), sd).log_prob(b).sum(-1)

    f = Normal(z_hat, 0.3)
    left = f.log_prob(z).sum(-1) + log_p(z, to)
    right = f.log_prob(to).sum(-1) + log_p(to, z)
    assert torch.allclose(left, right, atol=1e-8) is holds
    assert torch.allclose(basins.stationary(z, z_hat).mean, torch.lerp(z_hat, z, 0.7))


def test_states_of_the_posterior_are_stationary() -> None:
    model = build(axes=False, epsilon=0.1)
    e = model.encode(torch.rand(1, 8)).__getitem__(torch.zeros(8000, dtype=torch.long))
    s = torch.eye(6)[:1].expand(8000, -1)
    to = posterior_transitions(model, basins_of(model), e, s)
    assert float(to.weight.sum()) == pytest.approx(2.0)
    assert set(to.time.flatten().tolist()) == {model.steps - 2, model.steps - 1}
    for z in (to.z, to.mean + to.sd * torch.randn_like(to.mean)):  # of a state, and of the next
        off = z - model.embed(s)
        assert torch.allclose(off.mean(0), torch.zeros(3), atol=5 * 0.1 / 8000**0.5)
        assert torch.allclose(off.std(0), torch.full((3,), 0.1), rtol=5 * (0.5 / 8000) ** 0.5)


@pytest.mark.parametrize("beta", [1.0, 3.0])
def test_sentences_from_the_prior_have_states_that_stay_and_perturbed_ones(beta: float) -> None:
    language = Language((1,) * 6, min_length=0, max_length=2, length_cost=1.0)
    model = build(axes=False, epsilon=0.01, language=language, inverse_temperature=beta)
    with torch.no_grad():
        model.sentence_encoder.mean.weight.mul_(5)
    e = model.encode(torch.rand(7, 8))
    basins = basins_of(model)
    parts = [prior_transitions(model, basins, e, PERTURBED, exact_off(model, e)) for _ in range(20)]
    assert len(parts[0].z) == 192, "no off-sentence states, as sentences do not factor"
    assert float(parts[0].weight.sum()) == pytest.approx(0.3 * 2)  # of T − walk steps
    z = torch.cat([part.z[round(0.1 * 192) :] for part in parts])
    assert distance(model, z, model.sentences).max() < 0.01 * 6
    share = torch.bincount(torch.cdist(z, model.embeddings()).argmin(1), minlength=22) / len(z)
    expected = model.reward.log_prior(model.sentences, beta).exp()
    assert torch.allclose(share, expected, atol=4.5 * (0.25 / len(z)) ** 0.5)
    assert distance(model, parts[0].z[:19], model.sentences).median() > 0.5
    assert {tuple(c) for c in parts[0].context.tolist()} == {tuple(c) for c in e.z0.tolist()}
    assert set(parts[0].time.flatten().tolist()) == {4.0, 5.0}  # after the walk
    assert torch.allclose(parts[0].sd, torch.tensor(0.01 * (1 - 0.7**2) ** 0.5))
    home = model.embeddings()[torch.cdist(z, model.embeddings()).argmin(1)]
    mean = torch.cat([part.mean[round(0.1 * 192) :] for part in parts])
    assert torch.allclose(mean - home, 0.7 * (z - home), atol=1e-4)
    assert (parts[0].mean - parts[0].z).norm(dim=-1).max().item() == pytest.approx(
        0.9 * 0.25, rel=1e-3
    )


def axes_model(**options: Any) -> Any:
    """Six tokens on four of six axes, and inputs at sentences."""
    model = build(latent=6, sd=0.3, **options)
    for layer in (model.sentence_encoder.mean, model.sentence_encoder.sd):
        layer.place(torch.arange(6), torch.arange(6) % 4)
    with torch.no_grad():
        model.sentence_encoder.mean.weight.copy_(2 * model.sentence_encoder.mean.mask)
        model.sentence_encoder.mean.weight[:, 4:] *= -1
    return model


def test_off_sentence_states_are_too_long_or_off_along_unused_axes() -> None:
    model = axes_model(epsilon=0.02)
    e, longer, near = model.encode(torch.randn(60, 6)), too_long(model.language), 0.02 * 6
    assert longer == Language((1,) * 6, min_length=3, max_length=4)
    assert model.sentence_encoder.mean.unused.tolist() == [4, 5]
    z = off_sentence_states(
        model, e.distribution, (1.0, 2.0), ExactSentences(model), longer, torch.tensor([4, 5])
    )
    assert distance(model, z[:30], longer.sentences).max() < near
    assert distance(model, z[30:], model.sentences).median() > 0.5
    flat = z[30:].clone()
    flat[:, 4:] = model.sentence_encoder.mean.bias[4:].detach()
    assert distance(model, flat, model.sentences).max() < near
    assert len({tuple(row) for row in (z[30:, 4:] > 0).tolist()}) == 4  # both ways along both

    off = exact_off(model, e, (1.0, 2.0))
    to = prior_transitions(model, basins_of(model), e, (1.0, 2.0), off)
    assert len(to.z) == 192 + 24
    assert len(set(to.weight.flatten().tolist())) == 1
    z, home = to.z[192:], model.embed(model.readout.nearest(to.z[192:])) - to.z[192:]
    assert torch.allclose(home.norm(dim=-1), distance(model, z, model.sentences), atol=1e-5)
    assert torch.cosine_similarity(to.mean[192:] - z, home, dim=-1).min() > 0.999
    contexts = {tuple(row) for row in e.z0.tolist()}
    assert {tuple(row) for row in to.context[192:].tolist()} <= contexts


def test_pairs_follow_the_posterior_of_their_input() -> None:
    model = build(axes=False, sd=0.3)
    inputs = torch.tensor([[0.5, -0.2, 0.1], [-0.4, 0.6, 0.0]])
    sentences = sampled(model, 64, 4)
    pool = SentencePool(model, lambda n: inputs[torch.arange(n) % 2], sentences, (0.3, 0.6))
    pool.fill()
    e, s = pool.pairs(20_000)
    assert torch.equal(e.z0, e.distribution.loc)
    first = e.z0[:, 0] > 0
    for mine, x in zip((first, ~first), inputs, strict=True):
        share = torch.bincount(model.language.row(s[mine]), minlength=22) / int(mine.sum())
        q = model.encode(x[None]).distribution
        exact = model.posterior(q).log_p[0].exp().detach()
        assert float(0.5 * (share - exact).abs().sum()) < 0.05
    assert pool.off(e) is not None, "sentences may be two tokens too long"
