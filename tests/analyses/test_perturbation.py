"""Perturbed embeddings: where states end by dynamics that are known, and the critical norm of known
basins.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from pyro.distributions import Normal
from torch import Tensor, nn

from plot_attractors.data import Feature
from plot_attractors.evaluation import probes, sampling
from plot_attractors.evaluation.metrics.bootstrap import resample
from plot_attractors.evaluation.metrics.critical import critical_perturbation
from plot_attractors.evaluation.probes import Prediction
from plot_attractors.model.attractor import InputDecoder
from plot_attractors.runs import registry, settings

program = registry.load("analyses", "perturbation")


@dataclass(eq=False)
class Untrained:
    """What the analysis asks of a run."""

    model: Any
    data: Any
    seed: int = 0


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Untrained:
    """A small model with a decoder that reads other bits at other embeddings, and few starts."""
    for constant, value in {"INPUTS": 64, "TRAJECTORIES": 200, "NORM_STARTS": 300}.items():
        monkeypatch.setattr(program, constant, value)
    monkeypatch.setattr(program, "save", lambda *_: None)  # figures are tested with all others
    hbv = registry.load("models", "hbv")
    config = settings.from_table(hbv.Config, settings.to_table(hbv.Config(**hbv.PRESETS["smoke"])))
    data = hbv.load_data(config)
    model = hbv.build(config, data).eval().requires_grad_(False)
    model.steps = 4
    model.decoder = InputDecoder(model.latent, data.bits, layers=1)
    for parameter in model.decoder.parameters():
        parameter.data = torch.randn(parameter.shape)
    return Untrained(model, data)


class Oracle(nn.Module):
    """Dynamics that move to the nearest of some embeddings at once, or never move where there are
    none.
    """

    def __init__(self, embeddings: Tensor | None = None) -> None:
        super().__init__()
        self.embeddings = embeddings

    def forward(self, z: Tensor, t: Tensor | float, context: Tensor | None = None) -> Normal:
        to = (
            z
            if self.embeddings is None
            else self.embeddings[torch.cdist(z, self.embeddings).argmin(-1)]
        )
        return Normal(to, 1e-6)


def perturbed(
    run: Untrained, out: Path, monkeypatch: pytest.MonkeyPatch, *, moving: bool
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The tables of starts at sentences in use and of sampled ones, all sentences being in use, by
    an oracle.
    """
    monkeypatch.setattr(
        program, "sentences_in_use", lambda model, x: torch.ones(len(model.sentences)).bool()
    )
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
        assert (
            table.loc[:0.75, "recovered"] == 1
        ).all()  # another meaning is farther than the same one
        assert table.loc[3, "recovered"] < 0.9
        assert (table["distance_to_nearest"] < 1e-4).all()
        assert table.loc[0, ["recovered_low", "recovered_high"]].tolist() == pytest.approx(
            [0.9812, 1], abs=1e-4
        )
    norms = pd.read_csv(tmp_path / "norms.csv")
    columns = [f"p{p}" for p in program.PERCENTILES]
    assert list(norms.columns) == ["norm", "target", "within", *columns]
    assert (norms[columns].diff(axis=1).iloc[:, 1:] >= 0).all(axis=None)
    original, nearest = (
        norms[norms["target"] == target].reset_index() for target in ("original", "nearest")
    )
    assert original["norm"].iloc[0] == 0
    embeddings = run.model.embeddings()
    assert original["norm"].iloc[-1] == pytest.approx(
        float(torch.cdist(embeddings, embeddings).max()), rel=1e-3
    )
    assert (nearest[columns] < 1e-4).all(axis=None)  # every state ends at some embedding
    assert (nearest[columns] <= original[columns]).all(axis=None)
    assert original["p50"].iloc[-1] > original["norm"].iloc[1]
    (row,) = pd.read_csv(tmp_path / "critical.csv").to_dict("records")
    assert row["low"] <= row["critical"] <= row["high"] < row["largest"]
    assert (row["n"], row["kept"]) == (300, 1)
    assert math.isnan(row["reason"])  # an empty cell


def test_critical_norm_of_nearest_embedding_dynamics(run: Untrained) -> None:
    """Basins are Voronoi cells, whose boundary along a direction u is at min_j |e_j − e|² / 2u·(e_j
    − e).
    """
    embeddings = run.model.embeddings()
    run.model.forward_dynamics = Oracle(embeddings)
    start = torch.arange(len(embeddings)).repeat(math.ceil(400 / len(embeddings)))
    norms = torch.tensor(program.NORMS) * torch.cdist(embeddings, embeddings).max()
    found = program.find_ends(run.model, run.model.sentences[start], norms)
    critical = critical_perturbation(norms, found.original, start)

    many = start.repeat(50)
    u = nn.functional.normalize(torch.randn(len(many), embeddings.shape[1]), dim=-1)
    to = embeddings[None] - embeddings[many, None]
    along = torch.einsum("nsd,nd->ns", to, u)
    boundary = (
        torch.where(along > 1e-6, to.square().sum(-1) / (2 * along), math.inf).amin(-1).median()
    )
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
def test_perturbed_states_go_on_from_T_and_see_no_input(
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
    assert [t for t, _ in seen].count(
        0
    ) == 2  # of the trajectories that say the sampled sentences, for each table
    t, c = zip(*seen[-steps:], strict=True)
    assert list(t) == [*range(run.model.steps, run.model.steps + steps)]
    assert {part.shape[-1] for part in c} == {size}
    assert all(part is c[0] for part in c)
    near = (
        torch.cdist(c[0], run.model.embeddings()).amin(-1) if context == "z0" else c[0] * (1 - c[0])
    )
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
    monkeypatch.setattr(
        program, "sentences_in_use", lambda model, x: torch.arange(len(embeddings)) == 2
    )
    monkeypatch.setattr(program, "_said", lambda run, model, n: model.sentences[2].expand(n, -1))
    program.analyze(run, tmp_path)
    norms = pd.read_csv(tmp_path / "norms.csv")
    assert norms["norm"].max() == pytest.approx(
        float(torch.cdist(embeddings, embeddings).max()), rel=1e-3
    )
    (row,) = pd.read_csv(tmp_path / "critical.csv").to_dict("records")
    assert 0 < row["critical"] < row["largest"]
    assert math.isnan(row["low"])
    assert row["reason"] == "all states start at one sentence: no interval"


def test_any_two_sentences_may_differ_in_meaning(
    run: Untrained, monkeypatch: pytest.MonkeyPatch
) -> None:
    bits = torch.zeros(len(run.model.sentences), 16)
    bits[1, :2] = bits[2, 2:4] = 1  # both mean what the first one means, and not the same
    listed = program.Sentences(run.model.embeddings(), bits)
    monkeypatch.setattr(program, "_listed", lambda model: listed)
    assert program.applies(run)
    bits[2] = 0
    assert not program.applies(run)


# Sentences that are too many to list, and features.


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> Untrained:
    """A model of 5,488 sentences, which a test may take for too many to list."""
    for constant, value in {"INPUTS": 64, "NORM_STARTS": 60}.items():
        monkeypatch.setattr(program, constant, value)
    monkeypatch.setattr(program, "save", lambda *_: None)
    monkeypatch.setattr(probes, "INPUTS", 256)
    monkeypatch.setattr(probes, "UPDATES", 20)
    hbv = registry.load("models", "hbv")
    config = hbv.Config(
        **{**hbv.PRESETS["smoke"], "groups": (1,) * 32, "max_length": 3},
        sentence_readout="discretizer",
    )
    data = hbv.load_data(config)
    model = hbv.build(config, data).eval().requires_grad_(False)
    model.steps = 1
    return Untrained(model, data)


def not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "MOST_SENTENCES", 1000)


@pytest.mark.parametrize("moving", [True, False])
def test_a_large_language_has_the_ends_of_a_listed_one(
    large: Untrained, monkeypatch: pytest.MonkeyPatch, moving: bool
) -> None:
    """Of states at embeddings, and of states that stay where they are put beside one."""
    model = large.model
    model.forward_dynamics = Oracle(model.embeddings() if moving else None)
    s = model.sentences[torch.randint(len(model.sentences), (100,))]
    norms = torch.tensor([0.0, 0.1, 0.5, 2.0])
    found = []
    for most, axes in ((100_000, 12), (1000, 12), (1000, 1)):
        monkeypatch.setattr(sampling, "MOST_SENTENCES", most)
        monkeypatch.setattr(sampling, "MOST_AXES", axes)
        torch.manual_seed(1)
        found.append(program.find_ends(model, s, norms))
    listed, indexed, searched = found
    for other in (indexed, searched):
        torch.testing.assert_close(other.original, listed.original)
        torch.testing.assert_close(other.nearest[:3], listed.nearest[:3])
        assert other.sentence[:3].equal(listed.sentence[:3])
    assert (listed.sentence[3] != s).any(
        -1
    ).double().mean() > 0.9  # far from s, where a search may miss a few
    torch.testing.assert_close(indexed.nearest[3], listed.nearest[3])
    assert indexed.sentence[3].equal(listed.sentence[3])
    assert (searched.sentence[3] == listed.sentence[3]).all(-1).double().mean() > 0.9
    assert (searched.nearest[3] > listed.nearest[3] - 1e-4).all()


def test_attractors_of_a_large_language(
    large: Untrained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    embeddings = large.model.embeddings()
    large.model.forward_dynamics = Oracle(embeddings)
    not_listed(monkeypatch)
    assert program.applies(large)
    program.analyze(large, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        "norms.csv",
        "critical.csv",
        "features.csv",
    }
    norms = pd.read_csv(tmp_path / "norms.csv")
    assert (norms.loc[norms["target"] == "nearest", "p90"] < 1e-3).all()
    assert (
        0 < norms["norm"].max() < float(torch.cdist(embeddings, embeddings).max())
    )  # of what is said
    (row,) = pd.read_csv(tmp_path / "critical.csv").to_dict("records")
    assert 0 < row["critical"] < row["largest"]
    assert (row["n"], row["kept"]) == (60, 1)
    table = pd.read_csv(tmp_path / "features.csv")
    assert ",".join(table.columns) == "norm,feature,kind,value,low,high,random"
    names = ["sentence", *(feature.name for feature in large.data.features)]
    assert list(table["feature"].unique()) == names
    assert len(table) == len(names) * len(program.NORMS)
    assert (table["low"] <= table["value"] + 1e-9).all()
    assert (table["value"] <= table["high"] + 1e-9).all()
    assert (table.loc[table["norm"] == 0, "value"] == 1).all()
    sentence = table[table["kind"] == "sentence"]
    assert (sentence.loc[sentence["norm"] < row["critical"] / 3, "value"] > 0.9).all()
    assert sentence["value"].iloc[-1] < 0.2


def test_one_sentence_that_is_said_of_many(
    large: Untrained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "_said", lambda run, model, n: model.sentences[700].expand(n, -1))
    not_listed(monkeypatch)
    program.analyze(large, tmp_path)
    assert pd.read_csv(tmp_path / "norms.csv")["norm"].max() > 0
    assert (pd.read_csv(tmp_path / "features.csv")["random"] == 1).all()


def test_inputs_without_features_have_distances_only(
    large: Untrained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    not_listed(monkeypatch)
    large.data = type(
        "Plain", (), {"features": (), "input_shape": (16,), "batch": large.data.batch}
    )()
    assert program.applies(large)
    program.analyze(large, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"norms.csv", "critical.csv"}


def test_a_model_without_attractors_is_refused(large: Untrained, tmp_path: Path) -> None:
    large.model = nn.Linear(1, 1)
    assert not program.applies(large)
    with pytest.raises(ValueError, match="needs an attractor model, not Linear"):
        program.analyze(large, tmp_path)


def test_features_of_known_predictions(large: Untrained) -> None:
    """A decoder that reads whether a sentence has the first token, and how many it has as a
    continuous feature.
    """
    model, features = large.model, (Feature("first", ("no", "yes")), Feature("tokens"))
    model.embed = lambda s: torch.stack([s[..., 0], s.sum(-1)], -1)

    def decoder(z: Tensor) -> Prediction:
        outputs = torch.stack([-z[..., 0], z[..., 0] - 1, (z[..., 1] - 2) / 0.5], -1)
        return Prediction(features, outputs, torch.tensor([0.0, 2.0]), torch.tensor([1.0, 0.5]))

    decoder.features = features  # type: ignore[attr-defined]
    s = model.sentences[torch.tensor([0, 1, 40, 3000])]
    end = torch.stack([s, model.sentences[torch.tensor([0, 600, 40, 3])]])
    ends = program.Ends(torch.zeros(2, 4), torch.zeros(2, 4), end)
    norms = torch.tensor([0.0, 1.0])
    table = program.compare_features(
        decoder, model, s, norms, ends, resample(torch.arange(4)[:, None])
    )
    found = dict(list(table.groupby("feature")))
    first, length = s[:, 0], s.sum(-1)
    pairs = [(i, j) for i in range(4) for j in range(4) if i != j]
    assert found["sentence"]["value"].tolist() == [1, 0.5]
    assert (found["sentence"]["random"] == 0).all()
    alike = float((end[1][:, 0] == first).double().mean())
    assert found["first"]["value"].tolist() == pytest.approx([1, alike])
    assert found["first"]["random"].iloc[0] == pytest.approx(
        np.mean([first[i] == first[j] for i, j in pairs])
    )
    off = float((end[1].sum(-1) - length).square().mean().sqrt())
    assert off > 0
    assert found["tokens"]["value"].tolist() == pytest.approx([0, off])
    assert found["tokens"]["random"].iloc[0] == pytest.approx(
        np.sqrt(np.mean([(length[i] - length[j]) ** 2 for i, j in pairs]))
    )
    assert list(table["kind"].unique()) == ["sentence", "categorical", "continuous"]
