"""Exact draws from languages of any size, against listed sentences."""

from __future__ import annotations

import torch

from plot_attractors import shelves
from plot_attractors.sampling import exact_draws

hbv = shelves.load("models", "hbv")


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
        share = torch.nn.functional.one_hot(model.index(found.s), len(model.sentences)).float().mean(1)
        assert torch.allclose(share, log_r.softmax(-1), atol=0.015)
        assert (found.s.sum(-1) >= 1).all()
