"""Calibration where sentences cannot be listed, against what it is where they are listed."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
import torch

from plot_attractors.analysis import sampling
from plot_attractors.runs import registry

from ..small import Untrained, untrained

calibration = registry.load("analyses", "calibration")
SIZES = calibration.Config(inputs=3, draws=1000, wide_inputs=64, wide_draws=16)
CLOSE = {"tv": 0.05, "log_z": 0.1}  # how close what is found without a list is to what is


@pytest.fixture(autouse=True)
def _of_t_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "LENGTHS", (1,))


def calibrated(run: Untrained) -> pd.DataFrame:
    """The columns value and floor by statistic, of training inputs after T steps."""
    torch.manual_seed(0)
    result = calibration.calibrate(run.model, run.data, "train", SIZES)
    table: pd.DataFrame = calibration.tabulate(result).set_index("statistic")
    return table


def test_sums_and_annealed_populations_stand_in_for_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    run = untrained()
    listed = calibrated(run)
    monkeypatch.setattr(sampling, "MOST_SENTENCES", 10)
    run.model.exact_readout = False
    expected = {"tv": listed.value["tv_discretizer"], "log_z": listed.value["log_z"]}
    for most in (1000, 10):
        monkeypatch.setattr(sampling, "MOST_SUMMED", most)
        large = calibrated(run)
        for name, off in CLOSE.items():
            assert large.value[name] == pytest.approx(expected[name], abs=off)
        assert large.floor["tv"] < 0.1
        assert large.floor["distance"] == pytest.approx(listed.floor["distance"], rel=0.1)


def test_sentences_that_factor_need_no_list(monkeypatch: pytest.MonkeyPatch) -> None:
    at_cost = {"language.length_cost": 2.0}  # at which the posterior is not too narrow
    run = untrained("dsprites", token_axes=True, hold_out=False, **at_cost)

    def anywhere(model: Any, encoding: Any, draws: int, times: list[int]) -> list[torch.Tensor]:
        s = model.language.sentences[torch.randint(model.language.count, (len(encoding.z0), draws))]
        return [model.terminal_kernel(s).sample() for _ in times]

    # whose distributions are neither the posterior nor far from it
    monkeypatch.setattr(sampling, "states_at", anywhere)
    listed = calibrated(run)
    monkeypatch.setattr(sampling, "MOST_SENTENCES", 10)
    factored = calibrated(run)
    assert "slope" in listed.index
    assert "slope" not in factored.index
    for name, off in {**CLOSE, "tv_discretizer": 0.05}.items():
        assert factored.value[name] == pytest.approx(listed.value[name], abs=off)
    assert 0.2 < factored.value["tv"] < 0.8
    assert (factored.floor[["tv", "tv_discretizer"]] < 0.1).all()
