"""Exact draws from languages of any size, against listed sentences."""

from __future__ import annotations

import torch
from pyro.distributions import Normal

from plot_attractors.evaluation.sampling import exact_draws, settle
from plot_attractors.runs import registry

hbv = registry.load("models", "hbv")


def test_exact_draws_follow_the_listed_posterior_whatever_the_chunks() -> None:
    torch.manual_seed(0)
    config = hbv.Config(**hbv.PRESETS["smoke"])
    data = hbv.load_data(config)
    model = hbv.build(config, data)
    with torch.no_grad():
        model.sentence_encoder.mean.weight.mul_(2)
        q = model.encoder(data.batch(3).x)
        log_r = model.log_reward(q)
    for rows in (5, 1000):
        found = exact_draws(model, q, 20_000, rows)
        assert torch.allclose(found.log_z, log_r.logsumexp(-1).double(), atol=1e-4)
        share = (
            torch.nn.functional.one_hot(model.index(found.s), len(model.sentences)).float().mean(1)
        )
        assert torch.allclose(share, log_r.softmax(-1), atol=0.015)
        assert (found.s.sum(-1) >= 1).all()


def test_states_settle_as_at_the_end_of_a_trajectory() -> None:
    """Dynamics that see time choose a sentence anew before T, and rest after it."""
    config = hbv.Config(**hbv.PRESETS["smoke"])
    model = hbv.build(config, hbv.load_data(config))
    seen = []

    class Restless(torch.nn.Module):
        def forward(self, z: torch.Tensor, t: float, context: torch.Tensor) -> Normal:
            seen.append((t, context))
            return Normal(z + float(t < model.steps), 1e-6)

    model.forward_dynamics = Restless()
    embedding = model.embed(model.sentences)
    z = embedding + 0.1
    assert torch.allclose(settle(model, z, embedding, 3), z, atol=1e-4)
    assert [t for t, _ in seen] == [model.steps, model.steps + 1, model.steps + 2]
    assert all(torch.equal(context, embedding) for _, context in seen)
