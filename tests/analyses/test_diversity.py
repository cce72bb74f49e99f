"""The analysis of diversity where the entropy is known, and on a small attractor model."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

from plot_attractors.analysis import probes
from plot_attractors.analysis.probes import Prediction
from plot_attractors.data import Batch, Feature
from plot_attractors.language import Language
from plot_attractors.model.protocols import Description
from plot_attractors.runs import registry

from ..small import Untrained, untrained

COLUMNS = (
    "split,samples,dimensions,n,k,inputs,mean,low,high,sigma,share_negative_infinity,"
    "floored,distinct"
)
NUMBERS = (Feature("size"), Feature("x"), Feature("y"))
COLOURS = (Feature("colour", ("red", "green", "blue")), Feature("size"))


class Inputs:
    ordered = False

    def __init__(self, features: tuple[Feature, ...], splits: tuple[str, ...] = ("train",)) -> None:
        self.features, self.bits, self.label_names, self.splits = features, 1, (), splits

    def batch(self, n: int, split: str = "train") -> Batch:
        y = torch.arange(n)
        return Batch(torch.full((n, 1), 2.0 if split == "train" else 4.0), y, y[:, None])

    def feature_values(self, batch: Batch) -> Tensor:
        return batch.x.expand(-1, len(self.features))


class SentenceModel:
    """A model whose states are drawn by a function of inputs and the number of draws; one sentence
    of two, in turn.
    """

    language, latent = Language((2,)), 3

    def __init__(self, states: Callable[[Tensor, int], Tensor]) -> None:
        self.states = states

    def describe(self, x: Tensor, draws: int = 1) -> Description:
        s = self.language.sentences[torch.arange(draws) % 2].expand(len(x), -1, -1)
        return Description(self.states(x, draws), s)

    def embed(self, s: Tensor) -> Tensor:
        return s


def gaussian(x: Tensor, draws: int) -> Tensor:
    """States N(0, x²)."""
    return x[:, None] * torch.randn(len(x), draws, 3, dtype=torch.float64)


def constant(x: Tensor, draws: int) -> Tensor:
    return x[:, None].double().expand(-1, draws, 3)


class Decoder:
    """Reads continuous features as they are, and probabilities of outcomes as the softmax of as
    many numbers.
    """

    def __init__(self, features: tuple[Feature, ...]) -> None:
        self.features = features

    def __call__(self, z: Tensor) -> Prediction:
        columns = [f.columns for f in self.features]
        parts = torch.cat([z, z[..., :1]], -1)[..., : sum(columns)].split(columns, -1)
        out = [
            p.log_softmax(-1) if f.categorical else p
            for f, p in zip(self.features, parts, strict=True)
        ]
        ones = torch.ones(len(self.features))
        return Prediction(self.features, torch.cat(out, -1), 0 * ones, ones)


program = registry.load("analyses", "diversity")


@pytest.fixture
def _fixed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the decoder makes of a state is known."""
    known = lambda run, _: (Decoder(run.data.features), None)  # noqa: E731
    monkeypatch.setattr(probes, "feature_decoders", known)


def measured(run: Any, **sizes: int) -> dict[str, pd.DataFrame]:
    assert program.NEEDS.met(run)
    tables: dict[str, pd.DataFrame] = program.measure(run, program.Config(inputs=30, **sizes))
    assert ",".join(tables["summary.csv"].columns) == COLUMNS
    return tables


@pytest.mark.usefixtures("_fixed")
def test_gaussians_have_their_entropy_and_deviation_and_fill_their_dimensions() -> None:
    tables = measured(Untrained(SentenceModel(gaussian), Inputs(NUMBERS, ("train", "held_out"))))
    table = tables["summary.csv"]
    assert list(table["split"]) == ["train", "held_out"]
    for (_, row), sd in zip(table.iterrows(), (2, 4), strict=True):
        assert row["mean"] == pytest.approx(1.5 * math.log(2 * math.pi * math.e * sd**2), abs=0.15)
        assert row["sigma"] == pytest.approx(sd, rel=0.05)
        assert row["low"] < row["mean"] < row["high"]
        assert row["dimensions"] == 3
    assert table[["n", "k", "inputs"]].drop_duplicates().to_numpy().tolist() == [[256, 1, 30]]
    assert (table["samples"] == "model").all()  # no posterior is known of this model


@pytest.mark.usefixtures("_fixed")
def test_the_dependence_contains_the_summary_and_stops_at_the_number_of_draws() -> None:
    tables = measured(Untrained(SentenceModel(gaussian), Inputs(COLOURS)), draws=32)
    table = tables["summary.csv"]
    assert list(table["dimensions"]) == [4]
    curves = tables["dependence.csv"]
    assert curves[["k", "n"]].to_numpy().tolist() == [[k, n] for k in (1, 3, 10) for n in (16, 32)]
    usual = curves[(curves["k"] == 1) & (curves["n"] == 32)]
    np.testing.assert_allclose(usual["mean"], table["mean"])
    assert curves["mean"].nunique() == 6


@pytest.mark.usefixtures("_fixed")
@pytest.mark.parametrize("share", [0.0, 0.5])
def test_a_deterministic_model_has_no_entropy_at_all(share: float) -> None:
    def states(x: Tensor, draws: int) -> Tensor:
        some = (torch.arange(len(x)) < share * len(x))[:, None, None]
        return torch.where(some, gaussian(x, draws), constant(x, draws))

    tables = measured(Untrained(SentenceModel(states), Inputs(COLOURS)))
    table = tables["summary.csv"]
    assert (table["mean"] == -math.inf).all()
    assert (table["sigma"] == 0).all()
    assert (table["share_negative_infinity"] == 1 - share).all()


@pytest.mark.usefixtures("_fixed")
def test_a_feature_of_one_outcome_is_no_dimension() -> None:
    constant_one = Feature("kind", ("bird",))
    alone = measured(Untrained(SentenceModel(gaussian), Inputs(COLOURS[:1])))["summary.csv"]
    torch.manual_seed(0)
    both = Inputs((COLOURS[0], constant_one))
    one = measured(Untrained(SentenceModel(gaussian), both))["summary.csv"]
    torch.manual_seed(0)
    other = measured(Untrained(SentenceModel(gaussian), Inputs(COLOURS[:1])))["summary.csv"]
    assert list(one["dimensions"]) == list(alone["dimensions"]) == [3]
    pd.testing.assert_frame_equal(one, other)
    nothing = Untrained(SentenceModel(gaussian), Inputs((constant_one,)))
    assert not program.NEEDS.met(nothing)
    with pytest.raises(ValueError, match="one value only"):
        program.measure(nothing, program.Config())


def test_an_attractor_model_is_compared_with_exact_samples_and_with_noise() -> None:
    run = untrained()
    tables = measured(run, draws=32, decoder_inputs=256, decoder_updates=30)
    table = tables["summary.csv"]
    columns = sum(feature.columns for feature in run.data.features)
    assert (table["dimensions"] == columns).all()
    full = table.set_index(["split", "samples"])
    for split in ("train", "held_out"):
        assert list(full.loc[split].index) == ["model", "exact", "one sentence"]
        # a posterior of a model that knows next to nothing is wide, and one sentence is not
        assert full.loc[(split, "exact"), "mean"] > full.loc[(split, "one sentence"), "mean"] + 1
