"""The engine: sentences and dynamics come from the reward of proposed sentences alone."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch

from plot_attractors.training import e_step

from ..attractors import HBV, changed, run_to, schedule, snapshot, sprites, with_data
from ..training.test_sentences import nothing_exact

SHORT = {
    "pretrain": 2, "warm_up": 4, "cycles": 1, "e_updates": 3,
    "final_e_updates": 4, "sentences.candidates": 4,
}  # fmt: skip
ANNEALED = {"sentences.temperatures": 3}
WORDS = {"vocabulary": 4}


def build(settings: Any = (), name: str = "hbv", **inference: Any) -> Any:
    return schedule("gflownet_em", *with_data(HBV | dict(settings), name), SHORT | inference)


def of_sprites(settings: Any = (), **inference: Any) -> Any:
    return schedule("gflownet_em", *sprites(dict(settings)), SHORT | ANNEALED | inference)


CASES = {
    "listed": lambda: build(**ANNEALED),
    "too many to list": lambda: build({"language.groups": (1,) * 32, "language.max_length": 7}),
}


@pytest.mark.parametrize("case", CASES)
def test_it_trains_where_nothing_can_be_listed_or_summed(case: str) -> None:
    fit = CASES[case]()
    with nothing_exact():
        while not fit.done:
            assert all(map(math.isfinite, fit.step().values()))
        result = fit.summary()
    assert {"policy_ess", "policy_k_hat", "sentence_ess", "log_z"} < set(result)
    assert all(map(math.isfinite, result.values()))


def test_phases() -> None:
    def names(fit: Any) -> list[tuple[str, int, int]]:
        return [(p.name, p.cycle, p.updates) for p in fit.schedule]

    cycle = [("e_step", 0, 3), ("m_step", 0, 1), ("policy", 0, 2), ("e_step", 1, 4)]
    assert names(build()) == [("pretrain", 0, 2), ("warm_up", 0, 4), *cycle]
    assert names(of_sprites(**WORDS))[-5:] == [("tokens", 0, 4), *cycle]


def test_noise_that_no_state_stays_with_is_refused() -> None:
    for settings in ({"epsilon": 0.4}, {"epsilon": 0.001}):
        with pytest.raises(ValueError, match=r"the bounds from .* to 0.2 exclude"):
            build(settings)


@pytest.mark.parametrize("settings", [{"dynamics.memory": 0.0}, {"token_axes": True}])
def test_each_step_trains_its_own_parameters(settings: dict[str, Any]) -> None:
    model, data = with_data(HBV | settings)
    fit = schedule("gflownet_em", model, data, SHORT | {"e_updates": 8})
    for phase, parts in (
        ("e_step", {"forward_dynamics", "discretizer", "memory", "backward_dynamics"}),
        ("m_step", {"encoder", "decoder", "sentence_encoder"}),
    ):
        run_to(fit, phase)
        before = snapshot(model)
        while fit.phase.name == phase:
            assert all(map(math.isfinite, fit.step().values()))
        assert changed(model, before) - {"sentence_policy"} == parts
        same = {n for n, p in model.named_parameters() if torch.equal(p, before[n])}
        assert not [n for n in same if n.split(".")[0] in parts]


def test_learning_rates_rise_and_at_last_fall(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(e_step, "WARM_UP", 4)
    fit, rates, steps = build(e_updates=8, final_e_updates=10, lr=2e-3), [], []
    while not fit.done:
        phase = fit.phase
        fit.step()
        if phase.name == "e_step":
            rate, dynamics = (fit.state[n].param_groups[0]["lr"] for n in ("discretizer", "theta"))
            assert dynamics == pytest.approx(e_step.LR * rate / 2e-3)
            rates.append(rate / 2e-3)
            steps.append(int(next(iter(fit.state["theta"].state.values()))["step"]))
    assert steps == [*range(1, 9), *range(1, 11)], "Adam begins anew"
    rise = [0.25, 0.5, 0.75]
    assert rates[:13] == pytest.approx([*rise, *[1.0] * 5, *rise, 1.0, 1.0])
    assert all(a > b for a, b in itertools.pairwise(rates[13:]))
    assert rates[-1] < 0.2
