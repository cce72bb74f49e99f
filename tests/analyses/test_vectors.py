"""Analyses of real-valued inputs: what is lost of them, counted by hand, and figures."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from pyro.distributions import Normal
from torch import Tensor, nn

from plot_attractors.runs import registry

from ..small import measured, untrained

information_loss = registry.load("analyses", "information_loss")


class Halves(nn.Module):
    """Decodes x itself before sentences, and half of it after; the noise is 0.5."""

    language, latent, codes = None, 2, None

    def reconstruct(self, x: Tensor) -> Normal:
        return Normal(x, 0.5)

    def decoder(self, z: Tensor) -> Normal:
        return Normal(z / 2, 0.5)

    def describe(self, x: Tensor, draws: int) -> Any:
        return type("Found", (), {"z": x[:, None].expand(-1, draws, -1)})


def test_shares_are_those_counted_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    x = torch.randn(50, 3)
    of = information_loss.errors(Halves(), x, 4)
    assert list(of) == ["z0", 0]
    (row,) = information_loss.summarise(x, of)
    assert row["explained_z0"] == pytest.approx(1)
    assert row["explained"] == pytest.approx(0.75)
    assert math.isnan(row["explained_exact"])
    monkeypatch.setattr(information_loss, "CELLS", 30)  # decoded one by one
    assert torch.equal(information_loss.errors(Halves(), x, 4)[0], of[0])


def test_the_analysis_of_vectors(tmp_path: Path) -> None:
    rows = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 6)), columns=[*"abcdef"])
    rows.to_csv(tmp_path / "rows.csv", index=False)
    run = untrained("vectors", path=tmp_path / "rows.csv", held_out_fraction=0.2)
    tables = measured("information_loss", run, inputs=40, draws=4)
    summary = tables["summary.csv"]
    assert summary["split"].tolist() == ["train"] * 3 + ["held_out"] * 3
    assert summary["explained_exact"].notna().all()
    assert list(information_loss.draw(tables)) == ["variance_explained"]
