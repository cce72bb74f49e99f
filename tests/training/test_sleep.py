"""The sleep phase: transitions with known next states, against sampled and listed ones."""

from __future__ import annotations

from functools import partial
from typing import Any

import pyro
import pytest
import torch
from pyro.distributions import Normal
from torch import Tensor

from plot_attractors.gflownet.trajectories import score_forward
from plot_attractors.language import Language
from plot_attractors.training import ExactSentences
from plot_attractors.training.bridge import Bridge
from plot_attractors.training.sleep import (
    Sleep,
    bridge_of,
    bridge_transitions,
    exact_transitions,
    off_sentence,
    off_sentence_states,
    prior_transitions,
    sleep_loss,
    too_long,
)


def exact_off(model: Any, c: Sleep) -> Any:
    return partial(off_sentence, model, c=c, sentences=ExactSentences(model))


KERNEL = Bridge(steps=9, epsilon=0.05, walk=3, first=0.5, noise=0.2, persistence=0.6)


def step(z: Tensor, t: float | Tensor, context: Tensor) -> Tensor:
    """A forward step program that sees state, time and context."""
    mean = 0.7 * z + 0.1 * torch.tanh(context) - 0.01 * t
    sample: Tensor = pyro.sample("z", Normal(mean, 0.1 + 0.05 * torch.sigmoid(z)).to_event(1))
    return sample


def distance(model: Any, z: Tensor, s: Tensor) -> Tensor:
    """(n,) from states to the nearest embedding of the sentences s."""
    return torch.cdist(z, model.embed(s).detach()).amin(1)


def test_cross_entropy_is_the_mean_score_of_sampled_trajectories() -> None:
    n = 40_000
    z0, z_hat = torch.randn(2, 3)[:1].expand(n, -1), torch.randn(1, 3).expand(n, -1)
    trajectories = KERNEL.sample(z0, z_hat)
    every = bridge_transitions(KERNEL, trajectories, z_hat, 99)
    assert len(every.z) == 9 * n
    scores = -score_forward(step, trajectories).sum(0)
    error = 5 * float(scores.std()) / n**0.5
    assert float(every.cross_entropy(step)) == pytest.approx(float(scores.mean()), abs=error)
    few = bridge_transitions(KERNEL, trajectories, z_hat, 2)
    assert len(few.z) == (3 + 2) * n
    assert float(few.weight.sum()) == pytest.approx(9.0, rel=1e-4), "steps of a trajectory"
    assert float(few.cross_entropy(step)) == pytest.approx(float(scores.mean()), rel=0.2)
    twice = float(few.join(few).cross_entropy(step))
    assert twice == pytest.approx(2 * float(few.cross_entropy(step)), rel=1e-5)


@pytest.mark.parametrize("beta", [1.0, 3.0])
def test_sentences_from_the_prior_have_states_that_stay_and_perturbed_ones(
    build: Any, beta: float
) -> None:
    language = Language((1,) * 6, min_length=0, max_length=2, length_cost=1.0)
    model = build(axes=False, epsilon=0.01, language=language, inverse_temperature=beta)
    with torch.no_grad():
        model.sentence_encoder.mean.weight.mul_(5)
    e, c = model.encode(torch.rand(7, 8)), Sleep(perturbed_sd=(1.0, 1.5))
    parts = [
        prior_transitions(model, bridge_of(model, c), e, c, exact_off(model, c)) for _ in range(20)
    ]
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


def axes_model(build: Any, **options: Any) -> Any:
    """Six tokens on four of six axes, and inputs at sentences."""
    model = build(latent=6, sd=0.3, **options)
    for layer in (model.sentence_encoder.mean, model.sentence_encoder.sd):
        layer.place(torch.arange(6), torch.arange(6) % 4)
    with torch.no_grad():
        model.sentence_encoder.mean.weight.copy_(2 * model.sentence_encoder.mean.mask)
        model.sentence_encoder.mean.weight[:, 4:] *= -1
    return model


def test_off_sentence_states_are_too_long_or_off_along_unused_axes(build: Any) -> None:
    model = axes_model(build, epsilon=0.02)
    e, longer, near = model.encode(torch.randn(60, 6)), too_long(model.language), 0.02 * 6
    assert longer == Language((1,) * 6, min_length=3, max_length=4)
    assert model.sentence_encoder.mean.unused.tolist() == [4, 5]
    z = off_sentence_states(model, e.distribution, (1.0, 2.0), ExactSentences(model))
    assert distance(model, z[:30], longer.sentences).max() < near
    assert distance(model, z[30:], model.sentences).median() > 0.5
    flat = z[30:].clone()
    flat[:, 4:] = model.sentence_encoder.mean.bias[4:].detach()
    assert distance(model, flat, model.sentences).max() < near
    assert len({tuple(row) for row in (z[30:, 4:] > 0).tolist()}) == 4  # both ways along both

    c = Sleep(perturbed_sd=(1.0, 2.0))
    to = prior_transitions(model, bridge_of(model, c), e, c, exact_off(model, c))
    assert len(to.z) == 192 + 24
    assert len(set(to.weight.flatten().tolist())) == 1
    z, home = to.z[192:], model.embed(model.readout.nearest(to.z[192:])) - to.z[192:]
    assert torch.allclose(home.norm(dim=-1), distance(model, z, model.sentences), atol=1e-5)
    assert torch.cosine_similarity(to.mean[192:] - z, home, dim=-1).min() > 0.999
    contexts = {tuple(row) for row in e.z0.tolist()}
    assert {tuple(row) for row in to.context[192:].tolist()} <= contexts


@pytest.mark.parametrize("beta", [1.0, 0.3])
def test_exact_transitions_have_the_moments_over_all_sentences(build: Any, beta: float) -> None:
    model = axes_model(build, inverse_temperature=beta)
    kernel = bridge_of(model, Sleep(steps=4, first=0.25, noise=0.3))
    e, s = model.encode(torch.randn(5, 6)), torch.eye(6)[:5]
    with torch.no_grad():
        path, z_hat = kernel.sample(e.z0, model.embed(s)), model.embeddings()
        one = bridge_transitions(kernel, path, model.embed(s), 2)
        to = exact_transitions(model, kernel, path, e, one)
        log_r = model.reward.log_pairs(e.distribution, model.sentences)
    mean, sd = to.mean.unflatten(0, (6, 5)), to.sd.unflatten(0, (6, 5))
    for t in range(4):
        at = torch.lerp(e.z0[:, None], z_hat, kernel.clock[t])  # (5, S, d)
        off = (path.z[t][:, None] - at).square() / kernel.variance[t].clamp(min=1e-9)
        p = (log_r - 0.5 * off.sum(-1)).softmax(-1)[..., None]
        z = path.z[None, t, :, None].expand(1, 5, len(z_hat), 6)
        of = [a.flatten(-3, -2) for a in (z, e.z0[:, None].expand_as(z[0]), z_hat.expand_as(z[0]))]
        next_state = kernel.forward_transition(torch.tensor([t]), *of)
        middle, wide = (a[0].unflatten(0, (5, -1)) for a in (next_state.mean, next_state.stddev))
        expected = (p * middle).sum(1)
        spread = (p * (wide.square() + (middle - expected[:, None]).square())).sum(1)
        assert torch.allclose(mean[t], expected, atol=1e-4)
        assert torch.allclose(sd[t].square(), spread, rtol=1e-3, atol=1e-6)
    assert not torch.allclose(to.mean[:20], one.mean[:20], atol=1e-2)
    assert torch.equal(to.mean[20:], one.mean[20:])  # stationary where it is
    assert torch.allclose(to.sd[20:], one.sd[20:])
    assert torch.equal(to.z, one.z)
    other = build(latent=6, sd=0.3, axes=False)
    with pytest.raises(ValueError, match=r"sleep.exact needs sentences that factor"):
        bridge_of(other, Sleep(exact=True))


@pytest.mark.parametrize("exact", [False, True])
def test_the_loss_of_walks_alone_is_the_mean_score_of_bridges(build: Any, exact: bool) -> None:
    n, model = 4000, axes_model(build, steps=4)
    c = Sleep(steps=4, first=0.25, noise=0.3, exact=exact)
    e = model.encode(torch.randn(1, 6).expand(n, 6))
    s = model.posterior(e.distribution).sample()
    scores = score_forward(model.forward_step, bridge_of(model, c).sample(e.z0, model.embed(s)))
    scores = -scores.sum(0).detach() / 4
    loss = sleep_loss(model, bridge_of(model, c), e, s, c, exact_off(model, c))
    assert loss.item() == pytest.approx(scores.mean().item(), abs=6 * scores.std().item() / n**0.5)
    with pytest.raises(ValueError, match="1 <= walk <= 4 steps"):
        bridge_of(model, Sleep(steps=5))
    loss.backward()
    moved = {name.split(".")[0] for name, p in model.named_parameters() if p.grad is not None}
    assert moved == {"forward_dynamics"}
