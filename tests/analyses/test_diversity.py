"""The analysis of diversity where the entropy is known, and on a small attractor model."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
import torch
from torch import Tensor

from plot_attractors.analysis import probes
from plot_attractors.analysis.probes import Prediction
from plot_attractors.data import Feature
from plot_attractors.language import Language
from plot_attractors.model.protocols import Description
from plot_attractors.runs import registry

from ..fakes import Bags, Things
from ..small import Untrained, untrained

NUMBERS = (Feature("size"), Feature("x"), Feature("y"))
COLOUR = Feature("colour", ("red", "green", "blue"))


class Spread(Bags):
    """A model whose states are drawn by a function of inputs and of the number of draws."""

    def __init__(self, states: Callable[[Tensor, int], Tensor]) -> None:
        super().__init__(Language((1, 1, 1)), lambda x: x)
        self.states = states

    def describe(self, x: Tensor, draws: int = 1) -> Description:
        return super().describe(x, draws)._replace(z=self.states(x, draws))


def run_of(
    states: Callable[[Tensor, int], Tensor], features: tuple[Feature, ...] = NUMBERS
) -> Untrained:
    return Untrained(Spread(states), Things(features, lambda n: torch.full((n, 3), 2.0)))


def gaussian(x: Tensor, draws: int) -> Tensor:
    """States N(0, 2²)."""
    return x[:, None] * torch.randn(len(x), draws, 3, dtype=torch.float64)


program = registry.load("analyses", "diversity")


@pytest.fixture
def _fixed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Continuous features are read as they are, probabilities of three outcomes as the softmax."""

    def known(run: Untrained, _: Any) -> Any:
        features = run.data.features

        def decoder(z: Tensor) -> Prediction:
            out = z.log_softmax(-1) if features[0].categorical else z
            more = sum(f.columns for f in features) - 3  # of a feature of one outcome
            zeros = torch.zeros(len(features))
            out = torch.cat([out, torch.zeros_like(out[..., :more])], -1)
            return Prediction(features, out, zeros, zeros + 1)

        return decoder, None

    monkeypatch.setattr(probes, "feature_decoders", known)


def measured(run: Any, **sizes: int) -> dict[str, pd.DataFrame]:
    assert program.NEEDS.met(run)
    tables: dict[str, pd.DataFrame] = program.measure(run, program.Config(inputs=30, **sizes))
    return tables


@pytest.mark.usefixtures("_fixed")
def test_gaussians_have_their_entropy_and_deviation_and_fill_their_dimensions() -> None:
    table = measured(run_of(gaussian))["summary.csv"].query("k == 1")
    row = table.iloc[0]
    assert row["mean"] == pytest.approx(1.5 * math.log(2 * math.pi * math.e * 4), abs=0.15)
    assert row["sigma"] == pytest.approx(2, rel=0.05)
    assert row["low"] < row["mean"] < row["high"]
    assert row["dimensions"] == 3
    assert table[["n", "k", "inputs"]].drop_duplicates().to_numpy().tolist() == [[256, 1, 30]]
    assert (table["samples"] == "model").all()  # no posterior is known of this model


@pytest.mark.usefixtures("_fixed")
def test_a_feature_of_one_outcome_is_no_dimension() -> None:
    constant_one = Feature("kind", ("bird",))
    tables = []
    for features in ((COLOUR,), (COLOUR, constant_one)):
        torch.manual_seed(0)
        tables.append(measured(run_of(gaussian, features))["summary.csv"])
    assert (tables[0]["dimensions"] == 3).all()
    pd.testing.assert_frame_equal(*tables)
    assert not program.NEEDS.met(run_of(gaussian, (constant_one,)))


def test_an_attractor_model_is_compared_with_exact_samples_and_with_noise() -> None:
    run = untrained()
    tables = measured(run, draws=32, decoder_inputs=256, decoder_updates=30)
    table = tables["summary.csv"].query("k == 1")
    columns = sum(feature.columns for feature in run.data.features)
    assert (table["dimensions"] == columns).all()
    full = table.set_index(["split", "samples"])
    for split in ("train", "held_out"):
        assert list(full.loc[split].index) == ["model", "exact", "one sentence"]
        # a posterior of a model that knows next to nothing is wide, and one sentence is not
        assert full.loc[(split, "exact"), "mean"] > full.loc[(split, "one sentence"), "mean"] + 1
