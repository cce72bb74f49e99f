"""EM with the exact posterior: phases, and who is trained when."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch

from plot_attractors.training import e_step

from ..attractors import HBV, changed, run_to, schedule, snapshot, sprites, tiny, with_data

SHORT = {
    "pretrain": 2, "warm_up": 3, "cycles": 1, "e_updates": 8, "final_e_updates": 3, "batch": 8,
}  # fmt: skip


def build(settings: Any = (), name: str = "hbv", model: Any = None, **inference: Any) -> Any:
    built, data = with_data(HBV | dict(settings), name)
    return schedule("exact_em", model or built, data, SHORT | inference)


@pytest.mark.parametrize("settings", [{"dynamics.memory": 0.0}, {"token_axes": True}])
def test_each_step_trains_its_own_parameters(settings: dict[str, Any]) -> None:
    model = tiny(settings)
    fit = build(settings, model=model, e_updates=8)
    for phase, parts in (
        ("e_step", {"forward_dynamics", "discretizer", "memory", "backward_dynamics"}),
        ("m_step", {"encoder", "decoder", "sentence_encoder"}),
    ):
        run_to(fit, phase)
        before = snapshot(model)
        while fit.phase.name == phase:
            assert all(map(math.isfinite, fit.step().values()))
        assert changed(model, before) == parts
        same = {n for n, p in model.named_parameters() if torch.equal(p, before[n])}
        assert not [n for n in same if n.split(".")[0] in parts]
    assert all(map(math.isfinite, fit.summary().values()))


def test_learning_rates_rise_and_at_last_fall(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(e_step, "WARM_UP", 4)
    fit, rates, steps = build(final_e_updates=10, lr=2e-3), [], []
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


def test_sentences_that_neither_factor_nor_can_be_listed_are_refused() -> None:
    many = {"language.groups": (1,) * 32, "language.max_length": 7}
    model, data = with_data({**HBV, **many})
    with pytest.raises(ValueError, match=r"4,514,872 sentences cannot .*--inference gflownet_em"):
        schedule("exact_em", model, data, {})
    schedule("exact_em", *sprites(many), {})
