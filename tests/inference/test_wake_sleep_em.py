"""EM with the exact posterior: phases, and who is trained when."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch

from ..attractors import (
    HBV,
    changed,
    run_to,
    schedule,
    snapshot,
    sprites,
    tiny,
    with_data,
)

SHORT = {
    "pretrain": 2, "warm_up": 3, "cycles": 1, "e_updates": 8,
    "final_e_updates": 3, "batch": 8,
}  # fmt: skip


def build(settings: Any = (), name: str = "hbv", model: Any = None, **inference: Any) -> Any:
    built, data = with_data(HBV | dict(settings), name)
    return schedule("wake_sleep_em", model or built, data, SHORT | inference)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("sequences", {"dynamics.sees": ("time", "context")}),
        ("hbv", {"readout": "any_order", "reward.decodability": "posterior"}),
    ],
    ids=str,
)  # fmt: skip
def test_each_step_trains_its_own_parameters(name: str, settings: dict[str, Any]) -> None:
    model = tiny(settings, name)
    fit = build(settings, name, model, e_updates=8)
    for phase, parts in (
        ("e_step", {"forward_dynamics", "backward_dynamics", "discretizer"}),
        ("m_step", {"encoder", "decoder", "sentence_encoder"}),
    ):
        run_to(fit, phase)
        before = snapshot(model)
        while fit.phase.name == phase:
            assert all(map(math.isfinite, fit.step().values()))
        assert changed(model, before) - {"onset"} == parts
        same = {n for n, p in model.named_parameters() if torch.equal(p, before[n])}
        left = {n for n in same if n.split(".")[0] in parts}
        assert all("backward_policy" in n for n in left), "maximum likelihood needs no orders"
    assert all(map(math.isfinite, fit.summary().values()))


def test_the_last_learning_rate_falls() -> None:
    fit, rates = build(final_e_updates=10, lr=2e-3), []
    while not fit.done:
        last = fit.phase.cycle == 1
        fit.step()
        now, other = (fit.state[n].param_groups[0]["lr"] for n in ("theta", "discretizer"))
        assert now == other
        assert last or now == 2e-3
        rates += [now] if last else []
    assert rates[:5] == pytest.approx([2e-3] * 5)
    assert all(a > b for a, b in itertools.pairwise(rates[5:]))
    assert rates[-1] < 4e-4


def test_sentences_that_neither_factor_nor_can_be_listed_are_refused() -> None:
    many = {"language.groups": (1,) * 32, "language.max_length": 7}
    model, data = with_data({**HBV, **many})
    with pytest.raises(ValueError, match=r"4,514,872 sentences cannot .*--inference gflownet_em"):
        schedule("wake_sleep_em", model, data, {})
    schedule("wake_sleep_em", *sprites(many), {})
