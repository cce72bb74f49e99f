"""Bits that are missing count in no likelihood, and are alike."""

from __future__ import annotations

import torch
from pyro import poutine

from plot_attractors.measures.information_loss import correct_bits
from plot_attractors.model.bits import number_inputs
from plot_attractors.runs import untrained


def test_what_is_missing_counts_in_no_likelihood_and_has_no_gradient() -> None:
    torch.manual_seed(0)
    model, _ = untrained("hbv", settings={"depth": 3, "bits": 8, "units": 16})
    x = (torch.rand(4, 8) > 0.5).float()
    x[:, 2] = torch.nan
    with poutine.replay(trace=poutine.trace(model.vae_guide).get_trace(x)):
        trace = poutine.trace(model.vae_model).get_trace(x)
    trace.compute_log_prob()
    z0 = trace.nodes["z_0"]["value"]
    known = torch.arange(8) != 2
    logits = model.decoder.logits(z0)
    by_hand = -torch.nn.functional.binary_cross_entropy_with_logits(
        logits[:, known], x[:, known], reduction="none"
    )
    torch.testing.assert_close(trace.nodes["x"]["log_prob"], by_hand.sum(-1))
    trace.nodes["x"]["log_prob"].sum().backward()
    last = model.decoder.logits[-1].bias.grad
    assert (last != 0).tolist() == known.tolist()


def test_what_is_missing_is_no_correct_bit() -> None:
    x = torch.tensor([1.0, torch.nan, 0, torch.nan])
    logits = torch.tensor([[1.0, 1, 1, 1], [-1, -1, -1, -1]])
    assert correct_bits(logits, x).tolist() == [1, 1]


def test_inputs_are_alike_where_the_same_is_missing() -> None:
    x = torch.tensor([[1.0, torch.nan], [1, 0], [1, torch.nan], [torch.nan, 1]])
    a, b, c, d = number_inputs(x).tolist()
    assert a == c
    assert len({a, b, d}) == 3
