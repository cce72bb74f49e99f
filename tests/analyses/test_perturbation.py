"""Perturbed embeddings: where states end by dynamics that are known, and the critical norm of known basins."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from pyro.distributions import Normal
from torch import Tensor, nn

from plot_attractors import settings, shelves
from plot_attractors.attractor import InputDecoder

program = shelves.load("analyses", "perturbation")


@dataclass
class Untrained:
    """What the analysis asks of a run."""

    model: Any
    data: Any


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Untrained:
    """A small model with a decoder that reads other bits at other embeddings, and few starts."""
    for constant, value in {"INPUTS": 64, "TRAJECTORIES": 200, "NORM_STARTS": 300}.items():
        monkeypatch.setattr(program, constant, value)
    monkeypatch.setattr(program, "save", lambda *_: None)  # figures are tested with all others
    hbv = shelves.load("models", "hbv")
    config = settings.from_table(hbv.Config, settings.to_table(hbv.Config(**hbv.PRESETS["smoke"])))
    data = hbv.load_data(config)
    model = hbv.build(config, data).eval().requires_grad_(False)
    model.steps = 4
    model.decoder = InputDecoder(model.latent, data.bits, layers=1)
    for parameter in model.decoder.parameters():
        parameter.data = torch.randn(parameter.shape)
    return Untrained(model, data)


class Oracle(nn.Module):
    """Dynamics that move to the nearest of some embeddings at once, or never move where there are none."""

    def __init__(self, embeddings: Tensor | None = None) -> None:
        super().__init__()
        self.embeddings = embeddings

    def forward(self, z: Tensor, t: Tensor | float, context: Tensor | None = None) -> Normal:
        to = z if self.embeddings is None else self.embeddings[torch.cdist(z, self.embeddings).argmin(-1)]
        return Normal(to, 1e-6)


def perturbed(
    run: Untrained, out: Path, monkeypatch: pytest.MonkeyPatch, *, moving: bool
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The tables of starts at sentences in use and of sampled ones, all sentences being in use, by an oracle."""
    monkeypatch.setattr(program, "sentences_in_use", lambda model, x: torch.ones(len(model.sentences)).bool())
    run.model.epsilon = 1e-3  # 3 ε√d is far below the distances between embeddings
    run.model.forward_dynamics = Oracle(run.model.embeddings() if moving else None)
    program.analyze(run, out)
    table = pd.read_csv(out / "summary.csv").set_index("factor")
    return table[table["start"] == "used"], table[table["start"] == "sampled"]


def test_attractors_take_back_what_is_perturbed(
    run: Untrained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for table in perturbed(run, tmp_path, monkeypatch, moving=True):
        assert (table["settled"] == 1).all()
        assert (table.loc[:0.75, "recovered"] == 1).all()  # another meaning is farther than the same one
        assert table.loc[3, "recovered"] < 0.9
        assert (table["distance_to_nearest"] < 1e-4).all()
        assert table.loc[0, ["recovered_low", "recovered_high"]].tolist() == pytest.approx([0.9812, 1], abs=1e-4)
    norms = pd.read_csv(tmp_path / "norms.csv")
    columns = [f"p{p}" for p in program.PERCENTILES]
    assert list(norms.columns) == ["norm", "target", "within", *columns]
    assert (norms[columns].diff(axis=1).iloc[:, 1:] >= 0).all(axis=None)
    original, nearest = (norms[norms["target"] == target].reset_index() for target in ("original", "nearest"))
    assert original["norm"].iloc[0] == 0
    embeddings = run.model.embeddings()
    assert original["norm"].iloc[-1] == pytest.approx(float(torch.cdist(embeddings, embeddings).max()), rel=1e-3)
    assert (nearest[columns] < 1e-4).all(axis=None)  # every state ends at some embedding
    assert (nearest[columns] <= original[columns]).all(axis=None)
    assert original["p50"].iloc[-1] > original["norm"].iloc[1]
    (row,) = pd.read_csv(tmp_path / "critical.csv").to_dict("records")
    assert row["low"] <= row["critical"] <= row["high"] < row["largest"]
    assert (row["n"], row["kept"]) == (300, 1)
    assert math.isnan(row["reason"])  # an empty cell


def test_critical_norm_of_nearest_embedding_dynamics(run: Untrained) -> None:
    """Basins are Voronoi cells, whose boundary along a direction u is at min_j |e_j − e|² / 2u·(e_j − e)."""
    embeddings = run.model.embeddings()
    run.model.forward_dynamics = Oracle(embeddings)
    start = torch.arange(len(embeddings)).repeat(math.ceil(400 / len(embeddings)))
    norms = torch.tensor(program.NORMS) * torch.cdist(embeddings, embeddings).max()
    found = program.distances(run.model, embeddings[start], embeddings, norms)
    critical = program.critical_perturbation(norms, found.original, start)

    many = start.repeat(50)
    u = nn.functional.normalize(torch.randn(len(many), embeddings.shape[1]), dim=-1)
    to = embeddings[None] - embeddings[many, None]
    along = torch.einsum("nsd,nd->ns", to, u)
    boundary = torch.where(along > 1e-6, to.square().sum(-1) / (2 * along), math.inf).amin(-1).median()
    assert critical.low - 0.03 <= boundary <= critical.high + 0.03
    assert critical.norm == pytest.approx(float(boundary), rel=0.1)


def test_a_state_that_never_moves_is_not_taken_back(
    run: Untrained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used, _ = perturbed(run, tmp_path, monkeypatch, moving=False)
    np.testing.assert_allclose(used["distance_to_start"], used["norm"], atol=1e-4)
    assert used.loc[0, "recovered"] == 1
    assert (used.loc[0.25:, ["recovered", "settled"]] == 0).all(axis=None)
    (row,) = pd.read_csv(tmp_path / "critical.csv").to_dict("records")
    assert math.isnan(row["critical"])
    assert "smallest perturbations" in row["reason"]


@pytest.mark.parametrize(("context", "size"), [("z0", 8), ("x", 16)])
def test_perturbed_states_skip_the_first_step_and_see_no_input(
    run: Untrained, tmp_path: Path, context: str, size: int
) -> None:
    seen = []

    class Watching(Oracle):
        def forward(self, z: Tensor, t: Tensor | float, context: Tensor | None = None) -> Normal:
            assert context is not None
            seen.append((float(t), context))
            return super().forward(z, t, context)

    run.model.context, run.model.forward_dynamics = context, Watching()
    program.analyze(run, tmp_path)
    steps = 5 * run.model.steps
    assert [t for t, _ in seen].count(0) == 2  # of the trajectories that say the sampled sentences, for each table
    t, c = zip(*seen[-steps:], strict=True)
    assert list(t) == [*range(1, steps + 1)]
    assert {part.shape[-1] for part in c} == {size}
    assert all(part is c[0] for part in c)
    near = torch.cdist(c[0], run.model.embeddings()).amin(-1) if context == "z0" else c[0] * (1 - c[0])
    assert (near < 1e-3).all()  # embeddings, or bits


def test_one_meaning_gives_no_scale_of_perturbations(run: Untrained, tmp_path: Path) -> None:
    for parameter in run.model.decoder.parameters():
        parameter.data.fill_(0.0)
    assert not program.applies(run)
    with pytest.raises(ValueError, match="no other meaning"):
        program.analyze(run, tmp_path)


def test_one_sentence_in_use_is_perturbed_by_the_distances_of_all(
    run: Untrained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    embeddings = run.model.embeddings()
    run.model.forward_dynamics = Oracle(embeddings)
    monkeypatch.setattr(program, "sentences_in_use", lambda model, x: torch.arange(len(embeddings)) == 2)
    monkeypatch.setattr(program, "_sampled", lambda run, model, n: torch.full((n,), 2))
    program.analyze(run, tmp_path)
    norms = pd.read_csv(tmp_path / "norms.csv")
    assert norms["norm"].max() == pytest.approx(float(torch.cdist(embeddings, embeddings).max()), rel=1e-3)
    (row,) = pd.read_csv(tmp_path / "critical.csv").to_dict("records")
    assert 0 < row["critical"] < row["largest"]
    assert math.isnan(row["low"])
    assert row["reason"] == "all states start at one sentence: no interval"


def test_any_two_sentences_may_differ_in_meaning(run: Untrained, monkeypatch: pytest.MonkeyPatch) -> None:
    bits = torch.zeros(len(run.model.sentences), 16)
    bits[1, :2] = bits[2, 2:4] = 1  # both mean what the first one means, and not the same
    listed = program.Sentences(run.model.embeddings(), bits)
    monkeypatch.setattr(program, "_listed", lambda model: listed)
    assert program.applies(run)
    bits[2] = 0
    assert not program.applies(run)


# The critical norm of simulated distances.

NORMS = 6 * torch.tensor(program.NORMS)
N = 500


def simulated(jump: Callable[[Tensor, Tensor], Tensor], dimensions: int, noise: float = 0.05) -> Tensor:
    """(K, N) distances of last states jump(ν u, norm) (N, d), with Gaussian noise, to wells at the origin."""
    u = nn.functional.normalize(torch.randn(N, dimensions), dim=-1)
    ends = [jump(norm * u, norm) + noise * torch.randn(N, dimensions) for norm in NORMS]
    return torch.stack([z.norm(dim=-1) for z in ends])


def critical(distance: Tensor) -> Any:
    return program.critical_perturbation(NORMS, distance, torch.arange(N))


@pytest.mark.parametrize("dimensions", [2, 4, 8])
@pytest.mark.parametrize("radius", [0.3, 0.8, 2.0])
def test_a_ball_has_its_radius(dimensions: int, radius: float) -> None:
    found = critical(simulated(lambda z, norm: torch.where(norm < radius, 0 * z, z + z / norm), dimensions))
    k = int(torch.searchsorted(NORMS, radius))
    assert NORMS[k - 1] <= found.norm <= NORMS[k]  # no more can be known
    assert found.low <= found.norm <= found.high
    assert found.kept > 0.92  # in two dimensions 6 % of the noise is beyond two medians
    assert found.reason == ""


@pytest.mark.parametrize("dimensions", [2, 4, 8])
@pytest.mark.parametrize("leaving", [0.0, 0.2])
def test_cubic_cells_have_their_median_radius(dimensions: int, leaving: float) -> None:
    """Wells at whole numbers: the boundary is at 1 / 2max|u_i|; a share of states leaves by noise, at any norm."""

    def jump(z: Tensor, norm: Tensor) -> Tensor:
        away = nn.functional.one_hot(torch.randint(dimensions, (N,)), dimensions)
        return z.round() + (torch.rand(N, 1) < leaving) * away

    u = nn.functional.normalize(torch.randn(100_000, dimensions), dim=-1)
    boundary = float((0.5 / u.abs().amax(-1)).median())
    found = critical(simulated(jump, dimensions))
    assert found.norm == pytest.approx(boundary, abs=0.05)
    assert found.high - found.low < 0.15
    assert found.kept == pytest.approx(1 - leaving, abs=0.06)


def test_the_interval_is_of_sentences_and_not_of_starts() -> None:
    """Ten sentences whose basins differ: copies of their starts make the interval no narrower."""
    radii = torch.linspace(0.3, 2, 10).repeat_interleave(N // 10)
    distance = torch.where(NORMS[:, None] < radii, 0.05, NORMS[:, None] + 1) + 0.001 * torch.rand(len(NORMS), N)
    sentence = torch.arange(10).repeat_interleave(N // 10)
    of_sentences = program.critical_perturbation(NORMS, distance, sentence)
    of_starts = critical(distance)
    assert of_sentences.norm == of_starts.norm == pytest.approx(1.15, abs=0.15)
    assert of_sentences.high - of_sentences.low > 3 * (of_starts.high - of_starts.low)


@pytest.mark.parametrize("noise", [1e-5, 0.05, 0.5])
@pytest.mark.parametrize("left", [1.0, 0.5])
def test_states_that_stay_where_they_are_put_have_no_inflection(noise: float, left: float) -> None:
    found = critical(simulated(lambda z, norm: left * z, 4, noise))
    assert [*map(math.isnan, found[:3])] == [True] * 3
    assert "no inflection" in found.reason or "smallest perturbations" in found.reason


def test_a_basin_wider_than_the_grid_and_one_narrower() -> None:
    found = critical(simulated(lambda z, norm: 0 * z, 4))
    assert math.isnan(found.norm)
    assert "as near after the largest" in found.reason
    found = critical(simulated(lambda z, norm: 9.0 * (norm > 0) + 0 * z, 4))
    assert math.isnan(found.norm)
    assert "two smallest" in found.reason


def test_basins_closer_than_the_radius_have_an_inflection_all_the_same() -> None:
    """Half of the states that count as back may be at a neighbour, without being on their way."""
    noise = torch.randn(500, 8, generator=torch.Generator().manual_seed(0)) * 0.035
    hop = torch.linspace(0, 1, 500)  # the norm at which a state leaves for a neighbour 0.18 away, or one beyond
    norms = torch.linspace(0, 1, 21)
    away = torch.where(norms[:, None] < hop, 0.0, torch.where(torch.arange(500) % 3 == 0, 0.8, 0.18))
    away = torch.where(norms[:, None] > 0.75, 0.8, away)
    moved = (noise + torch.nn.functional.one_hot(torch.zeros(500, dtype=torch.long), 8) * away[..., None]).norm(dim=-1)
    found = program.critical_perturbation(norms, moved, torch.arange(500))
    assert not found.reason
    assert 0.3 < found.norm < 0.9
