"""Basins of dynamics whose fixed points are known."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from pyro.distributions import Normal
from torch import Tensor, nn

from plot_attractors.runs import registry

from ..small import Untrained, untrained

program = registry.load("analyses", "basins")
CONFIG = program.Config(inputs=60, random_states=30, controls=500)


class Field(nn.Module):
    """Dynamics z ← z + rate · (to(z) − z) with a little noise."""

    def __init__(self, to: Any, rate: float = 0.3) -> None:
        super().__init__()
        self.to_, self.rate = to, rate

    def forward(self, z: Tensor, t: Tensor | float, context: Tensor | None = None) -> Normal:
        assert context is not None
        z = z[..., : context.shape[-1]]
        return Normal(z + self.rate * (self.to_(z) - z), 1e-3)


@pytest.fixture
def run() -> Untrained:
    """An untrained model of 26 sentences."""
    return untrained()


def result(run: Untrained, field: Field) -> tuple[pd.Series, pd.DataFrame]:
    run.model.forward_dynamics = field
    tables = program.measure(run, CONFIG)
    return tables["summary.csv"].iloc[0], tables["fixed_points.csv"]


def test_wells_at_embeddings_are_found_at_embeddings(run: Untrained) -> None:
    embeddings = run.model.embeddings()
    nearest = torch.cdist(embeddings, embeddings).fill_diagonal_(math.inf).amin()
    width = float(nearest) / 6  # wells that do not touch

    def to(z: Tensor) -> Tensor:
        return (-0.5 * torch.cdist(z, embeddings).square() / width**2).softmax(-1) @ embeddings

    summary, table = result(run, Field(to))
    stable = table[table["kind"] == "stable"]
    assert summary["stable"] == len(stable) >= stable["sentences"].sum() > 2
    assert len(table) > len(stable)  # there are passes between wells
    assert stable["distance"].median() < 0.02
    assert summary["near_control"] < 0.1
    assert (summary["attracting"], summary["sentences_per_basin"]) == (1, 1)
    assert summary["attracting_control"] < 0.1
    at_used = stable["distance"] < program.NEAR
    assert summary["near"] == pytest.approx(at_used.mean())
    assert summary["data_at_embeddings"] == pytest.approx(stable.loc[at_used, "data"].sum())
    assert summary["spectral_radius"] == pytest.approx(0.7, abs=0.01)
    # states go to the nearest embedding, but for those about half way
    assert stable["data"].sum() == pytest.approx(1)
    assert list(stable["data"]) == sorted(stable["data"], reverse=True)
    assert (stable["modulus1"] < 1).all()
    unstable = table[table["kind"] != "stable"]
    assert (unstable["modulus1"] > 1).all()
    assert unstable[["sentences", "data"]].isna().all(axis=None)
    z = torch.tensor(stable[[f"z{k}" for k in range(1, 9)]].to_numpy(), dtype=torch.float32)
    at = torch.cdist(z, embeddings).argmin(-1).tolist()
    names = np.array([run.model.language.name(run.model.sentences[k]) for k in at])
    held = stable["sentences"] == 1
    assert list(names[held]) == list(stable.loc[held, "sentence"])


def test_dynamics_that_never_rest_have_no_fixed_points(run: Untrained) -> None:
    summary, table = result(run, Field(lambda z: z + 0.3))
    assert table.empty
    assert (summary[["stable", "data_at_embeddings", "attracting"]] == 0).all()
    assert summary[["near", "spectral_radius", "sentences_per_basin"]].isna().all()
