"""EM with the exact posterior: sentences come to mean something, without dynamics."""

from __future__ import annotations

import torch

from ..attractors import assert_resumes, changed, run_to, schedule, snapshot, with_data


def test_it_raises_the_evidence_of_its_sentences_by_nats_and_trains_phi_alone() -> None:
    torch.manual_seed(0)
    model, data = with_data({})
    settings = {"pretrain": 200, "m_updates": 200, "batch": 64}
    fit = run_to(schedule("exact_em", model, data, settings), "warm_up")
    before, first = snapshot(model), fit.summary()
    while not fit.done:
        fit.step()
    last = fit.summary()
    assert last["log_z"] > first["log_z"] + 1
    assert changed(model, before) == {"encoder", "decoder", "sentence_encoder"}


def test_a_resumed_schedule_equals_an_uninterrupted_one() -> None:
    few = {"pretrain": 3, "m_updates": 4}
    assert_resumes(lambda: schedule("exact_em", *with_data({}), few))
