"""Draws from languages of any size, against listed sentences, and states beside embeddings."""

from __future__ import annotations

import pytest
import torch
from pyro.distributions import Normal
from torch.nn.functional import one_hot

from plot_attractors.analysis import sampling
from plot_attractors.analysis.sampling import (
    exact_draws,
    nearest_sentence,
    noise_radius,
    perturbed_trajectories,
    random_directions,
    used_axes,
)
from plot_attractors.language import Language

from ..small import untrained


@pytest.mark.parametrize(("rows", "most"), [(5, 1000), (1000, 1000), (1, 0)])
def test_draws_follow_the_listed_posterior_summed_in_chunks_or_annealed(
    rows: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampling, "CHUNK", rows)
    monkeypatch.setattr(sampling, "MOST_SUMMED", most)
    run = untrained()
    model = run.model
    model.sentence_encoder.mean.weight.mul_(2)
    q = model.encoder(run.data.batch(3).x)
    log_r = model.reward.log_pairs(q, model.sentences)
    result = exact_draws(model, q, 10_000 if most else 1500)
    assert torch.allclose(result.log_z, log_r.logsumexp(-1).double(), atol=1e-4 if most else 0.1)
    share = one_hot(model.language.row(result.s), len(model.sentences)).float().mean(1)
    assert torch.allclose(share, log_r.softmax(-1), atol=0.02 if most else 0.04)
    assert (result.s.sum(-1) >= 1).all()


def test_perturbed_states_go_on_as_at_the_end_of_a_trajectory() -> None:
    """Dynamics that see time choose a sentence anew before T, and rest after it."""
    model, seen = untrained().model, []

    class Restless(torch.nn.Module):
        def forward(self, z: torch.Tensor, t: float, context: torch.Tensor) -> Normal:
            seen.append((t, context))
            return Normal(z[:, : model.latent] + float(t < model.steps), 1e-6)

    model.forward_dynamics = Restless()
    embedding = model.embed(model.sentences)
    z = embedding + 0.1
    assert torch.allclose(perturbed_trajectories(model, z, embedding), z, atol=1e-4)
    assert [t for t, _ in seen] == [*range(model.steps, 6 * model.steps)]
    (seen_by_all,) = {id(part): part for _, part in seen}.values()
    assert seen_by_all.equal(embedding)


@pytest.mark.parametrize("listed", [True, False])
def test_axes_that_no_embedding_uses_do_not_count(
    listed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three axes of eight are used: exact samples are ε√3 from their embedding, a state
    that is off in another axis is at it, and a push goes along no other axis.
    """
    model = untrained().model
    model.epsilon = 0.05
    model.sentence_encoder.mean.weight.data[3:] *= 1e-3
    model.sentence_encoder.mean.weight.data[:3] *= 4
    monkeypatch.setattr(sampling, "MOST_SENTENCES", 100_000 if listed else 0)
    state = torch.get_rng_state()
    assert used_axes(model).tolist() == [True] * 3 + [False] * 5
    assert torch.get_rng_state().equal(state)
    assert noise_radius(model) == pytest.approx(0.05 * 3**0.5)
    s = model.sentences[:4]
    z = model.embed(s)
    noisy = z + model.epsilon * torch.randn(500, *z.shape)
    distance = nearest_sentence(model, noisy).distance
    assert distance.square().mean().sqrt() == pytest.approx(noise_radius(model), rel=0.04)
    assert distance.max() < model.epsilon * 8**0.5 * 2
    z[:, 5] += 1.25
    near = nearest_sentence(model, z)
    assert near.s.equal(s)
    assert near.distance.max() < 1e-6
    assert not random_directions(model, z)[:, 3:].any()
    model.sentence_encoder.mean.weight.data.zero_()
    assert used_axes(model).all()  # none is used more than another


LANGUAGES = [
    Language((1,) * 6, max_length=3),
    Language((2, 1, 3), min_length=0),
    Language((1,) * 4, min_length=2, max_length=3),
]


@pytest.mark.parametrize("language", LANGUAGES)
def test_with_enough_beams_the_search_misses_nothing(
    language: Language, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampling, "BEAMS", 200)
    z, tokens = 2 * torch.randn(60, 4), torch.randn(language.width, 4)
    embeddings = language.sentences @ tokens
    expected = language.sentences[torch.cdist(z, embeddings).argmin(-1)]
    assert sampling._search(language, lambda s: s @ tokens, z).equal(expected)


def test_directions_have_length_one() -> None:
    u = random_directions(untrained().model, torch.zeros(2000, 8))
    assert torch.allclose(u.norm(dim=-1), torch.ones(2000))
    assert torch.allclose(u.mean(0), torch.zeros(8), atol=0.05)
