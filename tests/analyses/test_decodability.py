"""The analysis of decodability on a language that spells out the path of each input, and on a
table.
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
from torch import Tensor

from plot_attractors.data import Batch, Feature, HierarchicalBinaryVectors
from plot_attractors.evaluation import probes
from plot_attractors.language import Language
from plot_attractors.model.protocols import Description
from plot_attractors.runs import registry

COLUMNS = "split,feature,kind,source,decoder,value,low,high,chance,loss,agreement,n"


class Speller:
    """One token for each branch of the likeliest path, none below its end; the states are the
    sentences.
    """

    latent = 6
    language = Language((2, 2, 2))

    def __init__(self, data: HierarchicalBinaryVectors) -> None:
        self.data = data

    def describe(self, x: Tensor, draws: int = 1) -> Description:
        everything = torch.arange(len(self.data.depths))
        path = (
            registry.load("analyses", "decodability").bayes_optimum(self.data, x, everything).values
        )
        s = (
            torch.stack([path == 1, path == 2], -1)
            .flatten(-2)
            .float()[:, None]
            .expand(-1, draws, -1)
        )
        return Description(s, s)

    def embed(self, s: Tensor) -> Tensor:
        return s


class Things:
    """Inputs that are their own features: a colour, and a size that is unknown for every third."""

    bits, label_names, splits, ordered = 2, (), ("train",), False
    features = (Feature("colour", ("red", "green")), Feature("size"))

    def batch(self, n: int, split: str = "train") -> Batch:
        x = torch.stack([torch.bernoulli(torch.full((n,), 0.3)), 20 * torch.rand(n)], -1)
        return Batch(x, torch.arange(n), torch.arange(n)[:, None])

    def feature_values(self, batch: Batch) -> Tensor:
        values = batch.x.clone()
        values[::3, 1] = math.nan
        return values


class Namer:
    """Says the colour, and nothing of the size."""

    latent, language = 2, Language((2,))

    def describe(self, x: Tensor, draws: int = 1) -> Description:
        s = torch.stack([1 - x[:, 0], x[:, 0]], -1)[:, None].expand(-1, draws, -1)
        return Description(s, s)

    def embed(self, s: Tensor) -> Tensor:
        return s


@dataclass(eq=False)
class Run:
    model: Any
    data: Any
    seed: int = 0


@pytest.fixture
def analyzed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(probes, "UPDATES", 100)
    monkeypatch.setattr(probes, "INPUTS", 1000)
    program = registry.load("analyses", "decodability")
    monkeypatch.setattr(program, "INPUTS", 450)
    monkeypatch.setattr(program, "save", lambda figure, stem: None)

    def analyze(run: Run) -> pd.DataFrame:
        assert program.applies(run)
        program.analyze(run, tmp_path)
        return pd.read_csv(tmp_path / "summary.csv")

    return analyze


def test_sentences_that_spell_out_paths_are_understood_as_well_as_can_be(
    analyzed: Any, tmp_path: Path
) -> None:
    data = HierarchicalBinaryVectors(depth=3, bits=64)
    table = analyzed(Run(Speller(data), data))
    assert ",".join(table.columns) == COLUMNS
    assert list(table["feature"].unique()) == ["branch1", "branch2", "branch3", "mean of 3"]
    assert (table["low"] <= table["value"] + 1e-9).all()
    assert (table["value"] <= table["high"] + 1e-9).all()
    train = table[table["split"] == "train"].set_index(["source", "decoder", "feature"])
    for decoder in (0, 1):
        for branch in ("branch1", "branch2", "branch3"):
            best = train.loc[("tree", 0, branch), "value"]
            assert train.loc[("sentence", decoder, branch), "value"] == pytest.approx(
                best, abs=0.03
            )
        mean = train.sort_index().loc[("sentence", decoder), "value"]
        assert mean["mean of 3"] == pytest.approx(mean[["branch1", "branch2", "branch3"]].mean())
    assert (train.loc["sentence"]["agreement"] > 0.97).all()
    assert train.loc[["input", "tree"]]["agreement"].isna().all()
    assert "encoding" not in set(table["source"])  # a speller has none

    branches = pd.read_csv(tmp_path / "branches.csv")
    first = branches[(branches["split"] == "train") & (branches["source"] == "sentence")]
    numbers = first.drop_duplicates("feature")["n"].tolist()
    assert 450 == numbers[0] > numbers[1] > numbers[2]
    assert (first["value"] > 0.95).all()


def test_who_knows_training_classes_only_is_wrong_of_held_out_ones() -> None:
    program = registry.load("analyses", "decodability")
    data = HierarchicalBinaryVectors(depth=3, bits=256)
    batch = data.batch(300, "held_out")
    values = data.feature_values(batch)
    everything = torch.arange(len(data.depths))
    knows = program.bayes_optimum(data, batch.x, everything)
    guesses = program.bayes_optimum(data, batch.x, data.train_classes)
    assert knows.score(values)[:, 2].mean() > 0.95
    assert guesses.score(values)[:, 2].mean() < 0.3
    for part in knows.parts:
        torch.testing.assert_close(part.sum(-1), torch.ones(300))


def test_the_optimum_in_numbers() -> None:
    """Two classes of two bits: P(bits) is (4/5, 2/5) in L and the reverse in R."""
    program = registry.load("analyses", "decodability")
    data = HierarchicalBinaryVectors(depth=1, bits=2)
    left = program.bayes_optimum(
        data, torch.tensor([[1.0, 0.0], [1.0, 1.0]]), torch.arange(2)
    ).parts[0]
    odds = (4 / 5 * 3 / 5) / (1 / 5 * 2 / 5)
    torch.testing.assert_close(
        left, torch.tensor([[0, odds / (1 + odds), 1 / (1 + odds)], [0, 0.5, 0.5]])
    )


def test_categories_numbers_and_missing_values_of_other_data(analyzed: Any, tmp_path: Path) -> None:
    table = analyzed(Run(Namer(), Things())).set_index(["feature", "source", "decoder"])
    assert set(table.index.get_level_values("source")) == {"sentence", "state", "input"}
    assert (table.loc["colour"]["value"] == 1).all()
    assert (table.loc["size"]["kind"] == "continuous").all()
    sd = 20 / math.sqrt(12)
    assert table.loc[("size", "sentence", 0), "value"] == pytest.approx(
        sd, rel=0.1
    )  # it is not told
    assert table.loc[("size", "sentence", 0), "chance"] == pytest.approx(sd, rel=0.1)
    assert table.loc[("size", "input", 0), "value"] < 1.5
    assert table.loc[("size", "sentence", 0), "n"] == 300
    assert table.loc[("colour", "sentence", 0), "chance"] == pytest.approx(0.7, abs=0.05)
    assert not (tmp_path / "branches.csv").exists()


def test_a_figure_of_any_features_and_splits(tmp_path: Path) -> None:
    program = registry.load("analyses", "decodability")
    rows = [
        {"split": split, "feature": name, "kind": kind, "source": source, "decoder": decoder}
        | {
            "value": 0.5,
            "low": 0.4,
            "high": 0.6,
            "chance": np.nan,
            "loss": 1.0,
            "agreement": np.nan,
            "n": 3,
        }
        for split in ("train", "other")
        for name, kind in (("a$b", "categorical"), *((f"c{k}", "continuous") for k in range(9)))
        for source, decoder in (("sentence", 0), ("sentence", 1), ("input", 0))
    ]
    features = [Feature("a$b", ("x",)), *(Feature(f"c{k}") for k in range(9))]
    figure = program._draw(pd.DataFrame(rows), pd.DataFrame(), features)
    figure.savefig(tmp_path / "figure.png")
    assert len(figure.axes) == 4
