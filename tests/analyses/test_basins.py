"""Basins of dynamics whose fixed points are known."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from pyro.distributions import Normal
from torch import Tensor, nn

from plot_attractors.language import Language
from plot_attractors.runs import registry

SMALL = {
    "INPUTS": 60, "RANDOM": 30, "USE_INPUTS": 64, "DRAWS": 32, "FINE_DRAWS": 64, "ITERATIONS": 60, "CONTROLS": 500,
    "PIXELS": 40, "ARROWS": 12, "SLICE": 8,
}  # fmt: skip


class Field(nn.Module):
    """Dynamics z ← z + rate · (to(z) − z) with a little noise."""

    def __init__(self, to: Any, rate: float = 0.3) -> None:
        super().__init__()
        self.to_, self.rate = to, rate

    def forward(self, z: Tensor, t: Tensor | float, context: Tensor | None = None) -> Normal:
        assert t == 0 or context is not None
        return Normal(z + self.rate * (self.to_(z) - z), 1e-3)


@pytest.fixture(scope="module")
def program() -> Any:
    return registry.load("analyses", "basins")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, program: Any) -> SimpleNamespace:
    """An untrained model of 26 sentences."""
    for name, value in SMALL.items():
        monkeypatch.setattr(program, name, value)
    torch.manual_seed(0)
    hbv = registry.load("models", "hbv")
    config = hbv.Config(**hbv.PRESETS["smoke"])
    data = hbv.load_data(config)
    return SimpleNamespace(model=hbv.build(config, data).eval().requires_grad_(False), data=data)


@pytest.fixture
def unsaved(monkeypatch: pytest.MonkeyPatch, program: Any) -> None:
    """Figures are drawn, and not saved, which is slow."""
    monkeypatch.setattr(program, "save", lambda *_: None)


def found(program: Any, run: SimpleNamespace, out: Path) -> tuple[pd.Series, pd.DataFrame]:
    program.analyze(run, out)
    return pd.read_csv(out / "summary.csv").iloc[0], pd.read_csv(out / "fixed_points.csv")


def test_wells_at_embeddings_are_found_at_embeddings(
    program: Any, run: SimpleNamespace, tmp_path: Path
) -> None:
    embeddings = run.model.embeddings()
    nearest = torch.cdist(embeddings, embeddings).fill_diagonal_(math.inf).amin()
    width = float(nearest) / 6  # wells that do not touch
    run.model.forward_dynamics = Field(
        lambda z: (-0.5 * torch.cdist(z, embeddings).square() / width**2).softmax(-1) @ embeddings
    )
    summary, table = found(program, run, tmp_path)
    assert (
        {path.stem for path in tmp_path.glob("*.png")}
        == {"landscape", "fixed_points"}
        == program.CAPTIONS.keys()
    )
    stable = table[table["kind"] == "stable"]
    assert summary["stable"] == len(stable) >= summary["sentences"] > 2
    assert summary["fixed_points"] == len(table) == summary["stable"] + summary["unstable"]
    assert summary["unstable"] > 0  # there are passes between wells
    for name in ("near_any", "attracting", "data_settled", "kept"):
        assert summary[name] == 1
    assert summary["near_control"] < 0.1
    assert summary["attracting_control"] < 0.1
    assert summary["distance"] < 0.02 < 1 < summary["distance_control"]
    assert summary["spectral_radius"] == pytest.approx(0.7, abs=0.01)
    assert summary["sentences_per_basin"] == 1
    assert summary["pairs_together"] == 0
    assert np.isnan(summary["same_meaning"])
    # states go to the nearest embedding, but for those about half way
    assert stable["data"].sum() == pytest.approx(1)
    assert list(stable["data"]) == sorted(stable["data"], reverse=True)
    assert (stable["data_low"] <= stable["data"]).all()
    assert (stable["data"] <= stable["data_high"]).all()
    assert summary["basin_tv_floor"] > 0
    assert (stable["modulus1"] < 1).all()
    unstable = table[table["kind"] != "stable"]
    assert (unstable["modulus1"] > 1).all()
    assert unstable[["sentences", "posterior", "data", "random_low"]].isna().all(axis=None)
    z = torch.tensor(stable[[f"z{k}" for k in range(1, 9)]].to_numpy(), dtype=torch.float32)
    names = [run.model.language.name(s) for s in run.model.sentences]
    at = torch.cdist(z, embeddings).argmin(-1).tolist()
    held = stable["sentences"] == 1
    assert [names[k] for k in np.array(at)[held]] == list(stable.loc[held, "sentence"])


@pytest.mark.usefixtures("unsaved")
def test_one_well_holds_all_sentences(program: Any, run: SimpleNamespace, tmp_path: Path) -> None:
    center = torch.full((8,), 0.4)
    run.model.forward_dynamics = Field(lambda z: center, rate=0.5)
    summary, table = found(program, run, tmp_path)
    assert (summary["fixed_points"], summary["stable"]) == (1, 1)
    row = table.iloc[0]
    np.testing.assert_allclose(row[[f"z{k}" for k in range(1, 9)]].astype(float), 0.4, atol=1e-3)
    np.testing.assert_allclose(
        row[[f"modulus{k}" for k in range(1, 9)]].astype(float), 0.5, atol=1e-3
    )
    assert row["sentences"] == summary["sentences"] == summary["sentences_per_basin"]
    assert (row["data"], row["random"], row["data_high"]) == (1, 1, pytest.approx(1))
    assert summary["pairs_together"] == summary["kept"] == 1
    distance = float((run.model.embeddings() - center).norm(dim=-1).min()) / (
        run.model.epsilon * math.sqrt(8)
    )
    assert row["distance_any"] == pytest.approx(distance, rel=1e-3)
    assert summary["basin_tv"] == 0


@pytest.mark.usefixtures("unsaved")
def test_a_saddle_is_told_from_wells(program: Any, run: SimpleNamespace, tmp_path: Path) -> None:
    # two wells at ±1 in the first direction, and a pass at 0 where the slope is 1 + 0.3 · 3
    def to(z: Tensor) -> Tensor:
        return torch.cat([(4 * z[:, :1]).tanh() / math.tanh(4), 0 * z[:, 1:]], -1)

    run.model.forward_dynamics = Field(to)
    _, table = found(program, run, tmp_path)
    assert list(table["kind"]) == ["stable", "stable", "saddle"]
    np.testing.assert_allclose(sorted(table["z1"]), [-1, 0, 1], atol=5e-3)
    assert table["modulus1"].iloc[2] == pytest.approx(0.7 + 0.3 * 4, abs=0.1)
    np.testing.assert_allclose(table["modulus8"], 0.7, atol=5e-3)


@pytest.mark.usefixtures("unsaved")
def test_dynamics_that_never_rest_have_no_fixed_points(
    program: Any, run: SimpleNamespace, tmp_path: Path
) -> None:
    run.model.forward_dynamics = Field(lambda z: z + 0.3)
    summary, table = found(program, run, tmp_path)
    assert table.empty
    assert summary["fixed_points"] == summary["data_settled"] == summary["attracting"] == 0
    missing = [
        "near",
        "distance",
        "spectral_radius",
        "sentences_per_basin",
        "kept",
        "basin_tv",
        "basin_tv_floor",
    ]
    assert summary[missing].isna().all()


def test_what_has_no_basins_is_refused_and_left_out(
    program: Any, run: SimpleNamespace, tmp_path: Path
) -> None:
    assert program.applies(run)
    run.model.forward_dynamics.context = 8
    assert not program.applies(run)
    with pytest.raises(ValueError, match="see the input"):
        program.analyze(run, tmp_path)
    run.model.forward_dynamics.context = 0
    run.model.latent = 1
    assert not program.applies(run)
    with pytest.raises(ValueError, match="needs two"):
        program.analyze(run, tmp_path)
    run.model.latent = 8
    run.model.language = Language((2,) * 12)
    assert not program.applies(run)
    with pytest.raises(ValueError, match="531,440 sentences"):
        program.analyze(run, tmp_path)


def test_a_window_of_one_point_is_as_wide_as_asked(program: Any) -> None:
    low, high = program._window(torch.tensor([[1.0, 2.0]]), 0.5, 0.2)
    torch.testing.assert_close(torch.stack([low, high]), torch.tensor([[0.7, 1.7], [1.3, 2.3]]))
    low, high = program._window(torch.tensor([[0.0, 0.0], [2.0, 1.0]]), 0.0, 0.2)
    torch.testing.assert_close(torch.stack([low, high]), torch.tensor([[0.0, -0.5], [2.0, 1.5]]))


def test_the_floor_is_of_as_many_draws_as_settled(
    program: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pd.DataFrame(
        {"kind": "stable", "data": [0.3, 0.1], "posterior": [0.5, 0.5], "distance": 1.0, "distance_any": 1.0,
         "modulus1": 0.5, "sentences": [1, 1]}
    )  # fmt: skip
    asked = []
    monkeypatch.setattr(program, "_basin_tv", lambda stable, draws: asked.append(draws) or {})
    basins = {
        "sentences": torch.tensor([0, 1]),
        "data": torch.tensor([0, 0, 0, 1, *[-1] * 6]),
        "later": torch.tensor([0] * 10),
        "random": torch.tensor([0]),
    }
    points = program.FixedPoints(torch.eye(2), torch.full((2, 2), 0.5), torch.zeros(2))
    sentences = program.Sentences(
        torch.arange(2), torch.eye(2), torch.full((2,), 0.5), torch.eye(2)
    )
    found = program._summarize(table, points, sentences, basins, torch.eye(2), 1.0)
    assert asked == [4]
    assert found["kept"] == 0.75  # of those that were in a basin at T
