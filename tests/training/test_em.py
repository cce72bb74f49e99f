"""Schedules that can be stopped anywhere, and the updates that all EM programs share."""

from __future__ import annotations

import io
import itertools
import math
from typing import Any

import pytest
import torch
from torch import nn

from plot_attractors.language import in_use_threshold
from plot_attractors.runs import registry
from plot_attractors.training import Inference, Phase, clipped_update, cosine


class Diary(Inference):
    """Writes down what happens."""

    def __init__(self, *phases: Phase) -> None:
        super().__init__(nn.Linear(1, 1), None, phases)
        self.entries: list[Any] = []

    def begin(self, phase: Phase) -> None:
        self.entries.append(("begin", phase))

    def a(self) -> dict[str, float]:
        self.entries.append(("a", self.phase.cycle, self.progress))
        return {"loss": 1.0}

    b = a


def test_phases_run_in_order_and_begin_once() -> None:
    diary = Diary(Phase("a", 0, 2), Phase("b", 0, 0), Phase("a", 1, 1), Phase("b", 1, 3))
    assert diary.total == 6
    assert [p.updates for p in diary.schedule] == [2, 1, 3], "empty phases are left out"
    while not diary.done:
        diary.step()
    begins = [entry[1] for entry in diary.entries if entry[0] == "begin"]
    assert begins == diary.schedule
    assert [entry[1] for entry in diary.entries if entry[0] == "a"] == [0, 0, 1, 1, 1, 1]
    assert diary.position == 6
    assert diary.phase == diary.schedule[-1]


def test_progress_runs_from_zero_to_one_in_every_phase() -> None:
    diary = Diary(Phase("a", 0, 4), Phase("b", 0, 3))
    seen = []
    while not diary.done:
        seen.append(diary.progress)
        diary.step()
    assert seen == pytest.approx([0, 1 / 4, 2 / 4, 3 / 4, 0, 1 / 3, 2 / 3])
    assert diary.progress == 1


@pytest.mark.parametrize("updates", [1, 3, 7, 49, 1000, 8191])
def test_progress_is_exactly_zero_at_the_beginning_only(updates: int) -> None:
    """`begin` hangs on it."""
    diary = Diary(Phase("a", 0, 13), Phase("b", 0, updates))
    for position in range(13, 13 + min(updates, 100)):
        diary.position = position
        assert (diary.progress == 0) == (position == 13)


def test_a_resumed_schedule_begins_no_phase_twice() -> None:
    phases = (Phase("a", 0, 2), Phase("b", 0, 2))
    for stop in range(5):
        first, second = Diary(*phases), Diary(*phases)
        for _ in range(stop):
            first.step()
        second.load_state_dict(first.state_dict())
        while not second.done:
            second.step()
        begins = [entry[1].name for entry in first.entries + second.entries if entry[0] == "begin"]
        assert begins == ["a", "b"]


def test_nothing_to_do() -> None:
    assert Diary().done
    assert Diary().total == 0


def test_cosine_falls_from_one_to_its_final_value() -> None:
    assert cosine(0.0) == 1.0
    assert cosine(1.0, final=0.1) == pytest.approx(0.1)
    assert cosine(0.5, final=0.1) == pytest.approx(0.55)
    values = [cosine(k / 50) for k in range(51)]
    assert all(a > b for a, b in itertools.pairwise(values))


def test_clipping_is_global() -> None:
    """One norm over all tensors: both gradients shrink by the same factor."""
    a, b = nn.Parameter(torch.tensor([3.0])), nn.Parameter(torch.tensor([4.0]))
    unused = nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([a, b, unused], lr=1.0)
    norm = clipped_update(optimizer, [a, b, unused], 30 * a.sum() + 40 * b.sum(), clip=1.0)
    assert norm == pytest.approx(50.0)
    assert a.item() == pytest.approx(3 - 0.6, abs=1e-5)
    assert b.item() == pytest.approx(4 - 0.8, abs=1e-5)
    assert unused.item() == 1.0
    clipped_update(optimizer, [a, b], 0.1 * a.sum(), clip=1.0)
    assert a.item() == pytest.approx(2.3, abs=1e-5), (
        "small gradients are left alone, old ones forgotten"
    )
    assert b.item() == pytest.approx(3.2, abs=1e-5)


def test_in_use_threshold() -> None:
    assert in_use_threshold(728) == pytest.approx(0.1 / 728)


# -- the exact program


def exact_em(**options: Any) -> Any:
    hbv, program = registry.load("models", "hbv"), registry.load("inference", "exact_em")
    config = hbv.Config(**hbv.PRESETS["smoke"])
    data = hbv.load_data(config)
    return program.build(
        hbv.build(config, data), data, program.Config(**{**program.PRESETS["smoke"], **options})
    )


def moved(inference: Any) -> dict[str, bool]:
    """Which parts of the model one update moves."""
    before = {n: p.detach().clone() for n, p in inference.model.named_parameters()}
    inference.step()
    after = dict(inference.model.named_parameters())
    parts = sorted({n.split(".")[0] for n in before})
    changed = {n for n in before if not torch.equal(after[n], before[n])}
    return {part: any(n.startswith(part + ".") for n in changed) for part in parts}


def test_pretraining_moves_the_vae_and_the_m_step_all_of_phi() -> None:
    inference = exact_em(pretrain=1)
    assert [part for part, has in moved(inference).items() if has] == ["decoder", "encoder"]
    assert inference.phase.name == "exact_m_step"
    assert [part for part, has in moved(inference).items() if has] == [
        "decoder",
        "encoder",
        "sentence_encoder",
    ]
    assert all(p.grad is None for p in inference.model.theta)


def test_exact_labels_follow_the_sharpened_posterior(monkeypatch: pytest.MonkeyPatch) -> None:
    inference = exact_em(sharpness=3.0)
    x = inference.inputs(1)
    monkeypatch.setattr(inference, "inputs", lambda n: x.expand(20_000, -1))
    seen: list[torch.Tensor] = []

    def spy(x: torch.Tensor, s: torch.Tensor) -> dict[str, float]:
        seen.append(s)
        return {}

    monkeypatch.setattr(inference, "m_update", spy)
    inference.exact_m_step()
    share = torch.bincount(inference.model.index(seen[0]), minlength=26) / 20_000
    p = (3.0 * inference.model.log_posterior(inference.model.encoder(x))[0]).softmax(-1)
    assert torch.allclose(share, p, atol=4.5 * math.sqrt(0.25 / 20_000))


def test_exact_em_makes_sentences_mean_something() -> None:
    """On a small tree the posterior becomes sharper than ignorance and log Z higher."""
    torch.manual_seed(0)
    inference = exact_em(pretrain=150, m_updates=250, batch=32, lr_phi=3e-3)
    before = inference.summary()
    while not inference.done:
        inference.step()
    after = inference.summary()
    assert after["log_z"] > before["log_z"] + 1
    assert after["posterior_entropy"] < math.log(26) - 0.1
    assert 2 <= after["sentences_in_use"] <= 26
    assert 1 <= after["tokens_in_use"] <= 6


def test_a_reward_exponent_is_refused_where_there_are_no_e_steps() -> None:
    inference = exact_em()
    inference.model.reward_exponent = 0.5
    with pytest.raises(ValueError, match="no E-steps for reward_exponent to act on: leave it at 1"):
        registry.load("inference", "exact_em").build(
            inference.model, inference.data, inference.config
        )


@pytest.mark.parametrize("name", ["pretrain", "m_updates", "batch"])
def test_numbers_of_things_are_not_negative(name: str) -> None:
    with pytest.raises(
        ValueError, match=f"{name} is a number of things and must be 0 or more, not -2"
    ):
        exact_em(**{name: -2})


def test_a_summary_changes_nothing_but_the_generator() -> None:
    inference = exact_em()
    inference.step()
    before = {k: v.clone() for k, v in inference.model.state_dict().items()}
    assert all(math.isfinite(v) for v in inference.summary().values())
    assert all(torch.equal(v, before[k]) for k, v in inference.model.state_dict().items())
    assert inference.position == 1


def test_tokens_of_ordered_sentences_are_counted_as_tokens() -> None:
    hbv, program = registry.load("models", "hbv"), registry.load("inference", "exact_em")
    config = hbv.Config(**{**hbv.PRESETS["smoke"], "ordered": True})
    data = hbv.load_data(config)
    inference = program.build(
        hbv.build(config, data), data, program.Config(**program.PRESETS["smoke"])
    )
    with torch.no_grad():  # all sentences mean the same: all are in use
        inference.model.sentence_encoder.mean.weight.zero_()
        inference.model.sentence_encoder.sd[-1].weight.zero_()
    assert inference.summary()["tokens_in_use"] == 6


def test_states_are_saved_with_plain_tensors() -> None:
    a, b = exact_em(), exact_em()
    for _ in range(3):
        a.step()
    file = io.BytesIO()
    torch.save(a.state_dict(), file)
    file.seek(0)
    b.load_state_dict(torch.load(file, weights_only=True))
    assert b.position == 3
    torch.manual_seed(7)
    a.step()
    torch.manual_seed(7)
    b.step()
    assert all(
        torch.equal(p, q) for p, q in zip(a.model.parameters(), b.model.parameters(), strict=True)
    )
