"""The engine: sentences and dynamics come from the reward of proposed sentences alone."""

from __future__ import annotations

import math
from typing import Any

import pytest

from ..attractors import HBV, schedule, sprites, with_data
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
    "tokens leave their axes": lambda: of_sprites({"token_axes": False}, **WORDS),
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
