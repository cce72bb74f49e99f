"""Perturbed embeddings: where states end by dynamics that are known, and the critical norm of known
basins.
"""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import pytest
import torch
from torch import nn

from plot_attractors.analysis import sampling
from plot_attractors.measures.critical import critical_perturbation
from plot_attractors.runs import registry

from ..small import ToNearest, Untrained, random_decoder, untrained

perturbation = registry.load("analyses", "perturbation")
ends_by_norm = perturbation.ends_by_norm
CONFIG = perturbation.Config(inputs=64, trajectories=200, norm_starts=300)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Untrained:
    """A small model with a decoder that reads other bits at other embeddings, all in use."""
    every = lambda model, x: torch.ones(len(model.sentences)).bool()  # noqa: E731
    monkeypatch.setattr(sampling, "sentences_in_use", every)
    result = untrained()
    result.model.steps = 4
    result.model.encoder.mean[-1].weight.mul_(20)  # inputs are at several sentences
    random_decoder(result)
    return result


def measured(run: Untrained, *, moving: bool) -> tuple[list[pd.DataFrame], dict[str, Any]]:
    """The rows of both kinds of starts, and all tables; states move to embeddings or stay."""
    run.model.epsilon = 1e-3  # 3 ε√d is far below the distances between embeddings
    run.model.forward_dynamics = ToNearest(run.model.embeddings() if moving else None)
    tables = perturbation.measure(run, CONFIG)
    table = tables["summary.csv"].set_index("factor")
    return [table[table["start"] == start] for start in ("used", "sampled")], tables


def test_attractors_take_back_what_is_perturbed(run: Untrained) -> None:
    starts, tables = measured(run, moving=True)
    for table in starts:
        assert (table["settled"] == 1).all()
        assert (table.loc[:0.75, "recovered"] == 1).all()  # another meaning is farther than that
        assert table.loc[3, "recovered"] < 0.9
    norms, columns = tables["norms.csv"], [f"p{p}" for p in perturbation.PERCENTILES]
    assert list(norms.columns) == ["norm", "target", *columns]
    assert (norms[columns].diff(axis=1).iloc[:, 1:] >= 0).all(axis=None)
    original, nearest = (norms[norms["target"] == t].reset_index() for t in ("original", "nearest"))
    embeddings = run.model.embeddings()
    largest = float(torch.cdist(embeddings, embeddings).max())
    assert original["norm"].iloc[[0, -1]].tolist() == pytest.approx([0, largest], rel=1e-3)
    assert (nearest[columns] < 1e-4).all(axis=None)  # every state ends at some embedding
    assert (nearest[columns] <= original[columns]).all(axis=None)
    assert original["p50"].iloc[-1] > original["norm"].iloc[1]
    (row,) = tables["critical.csv"].to_dict("records")
    assert row["low"] <= row["critical"] <= row["high"] < row["largest"]
    assert (row["n"], row["kept"], row["reason"]) == (300, 1, "")


def test_a_state_that_never_moves_is_not_taken_back(run: Untrained) -> None:
    (used, _), tables = measured(run, moving=False)
    shares = used[["recovered", "settled", "recovered_control", "settled_control"]]
    assert (shares.loc[0] == 1).all()
    assert (shares.loc[0.25:] == 0).all(axis=None)
    (row,) = tables["critical.csv"].to_dict("records")
    assert math.isnan(row["critical"])
    assert "smallest perturbations" in row["reason"]


def test_critical_norm_of_nearest_embedding_dynamics(run: Untrained) -> None:
    """Basins are Voronoi cells, whose boundary along a direction u is at min_j |e_j − e|² / 2u·(e_j
    − e).
    """
    embeddings = run.model.embeddings()
    run.model.forward_dynamics = ToNearest(embeddings)
    start = torch.arange(len(embeddings)).repeat(math.ceil(1600 / len(embeddings)))
    s = run.model.sentences[start]
    norms = perturbation.norm_grid(run.model, s, None, 30)
    critical = critical_perturbation(norms, ends_by_norm(run.model, s, norms).original, start)

    many = start.repeat(50)
    u = nn.functional.normalize(torch.randn(len(many), embeddings.shape[1]), dim=-1)
    to = embeddings[None] - embeddings[many, None]
    along = torch.einsum("nsd,nd->ns", to, u)
    boundary = torch.where(along > 1e-6, to.square().sum(-1) / (2 * along), math.inf).amin(-1)
    median = float(boundary.median())
    assert critical.low - 0.03 <= median <= critical.high + 0.03
    assert critical.norm == pytest.approx(median, rel=0.1)


def test_a_large_language_has_the_ends_of_a_listed_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of states that stay where they are put beside an embedding, and of 5,488 sentences."""
    of = {"language.groups": (1,) * 32, "language.max_length": 3, "readout": "discretizer"}
    model = untrained(**of).model
    model.steps = 1
    model.forward_dynamics = ToNearest()
    s = model.sentences[torch.randint(len(model.sentences), (100,))]
    norms = torch.tensor([0.0, 0.1, 0.5, 2.0])
    result = []
    for most, axes in ((100_000, 12), (1000, 12), (1000, 1)):
        monkeypatch.setattr(sampling, "MOST_SENTENCES", most)
        monkeypatch.setattr(sampling, "MOST_AXES", axes)
        torch.manual_seed(1)
        result.append(ends_by_norm(model, s, norms))
    listed, indexed, searched = result
    for other in (indexed, searched):
        torch.testing.assert_close(other.original, listed.original)
        torch.testing.assert_close(other.nearest[:3], listed.nearest[:3])
        assert other.sentence[:3].equal(listed.sentence[:3])
    # far from s, where a search may miss a few
    assert (listed.sentence[3] != s).any(-1).double().mean() > 0.9
    torch.testing.assert_close(indexed.nearest[3], listed.nearest[3])
    assert indexed.sentence[3].equal(listed.sentence[3])
    assert (searched.sentence[3] == listed.sentence[3]).all(-1).double().mean() > 0.9
    assert (searched.nearest[3] > listed.nearest[3] - 1e-4).all()
