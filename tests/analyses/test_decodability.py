"""The analysis of decodability on a language that spells out the path of each input, and on a
table.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from plot_attractors.data import Batch, Feature, HierarchicalBinaryVectors
from plot_attractors.language import Language
from plot_attractors.runs import registry

from ..fakes import Bags, Things, speller
from ..small import Untrained, measured

decodability = registry.load("analyses", "decodability")
bayes_optimum = decodability.bayes_optimum

SIZES = {"inputs": 450, "decoder_inputs": 1000, "decoder_updates": 100}


def test_sentences_that_spell_out_paths_are_understood_as_well_as_can_be() -> None:
    data = HierarchicalBinaryVectors(depth=3, bits=64)
    tables = measured("decodability", Untrained(speller(data), data), **SIZES)
    table = tables["summary.csv"]
    assert list(table["feature"].unique()) == ["branch1", "branch2", "branch3", "mean of 3"]
    assert (table["low"] <= table["value"] + 1e-9).all()
    assert (table["value"] <= table["high"] + 1e-9).all()
    train = table[table["split"] == "train"].set_index(["source", "decoder", "feature"])
    train = train.sort_index()
    names = ["branch1", "branch2", "branch3"]
    best = train.loc[("input", 0)].loc[names, "value"]
    for decoder in (0, 1):
        value = train.loc[("sentence", decoder)]["value"]
        np.testing.assert_allclose(value[names], best, atol=0.03)
        assert value["mean of 3"] == pytest.approx(value[names].mean())
    assert "encoding" not in set(table["source"])  # a speller has none


def test_the_optimum_in_numbers() -> None:
    """Two classes of two bits: P(bits) is (4/5, 2/5) in L and the reverse in R."""
    data = HierarchicalBinaryVectors(depth=1, bits=2)
    x = torch.tensor([[1.0, 0.0], [1.0, 1.0]])
    odds = (4 / 5 * 3 / 5) / (1 / 5 * 2 / 5)
    expected = torch.tensor([[0, odds / (1 + odds), 1 / (1 + odds)], [0, 0.5, 0.5]])
    torch.testing.assert_close(bayes_optimum(data, x, torch.arange(2)).parts[0], expected)


def test_categories_numbers_and_missing_values_of_other_data() -> None:
    """A colour, which has a token, and a size, which has none and is unknown for every third."""

    def draw(n: int) -> Tensor:
        return torch.stack([torch.bernoulli(torch.full((n,), 0.3)), 20 * torch.rand(n)], -1)

    class Gaps(Things):
        def feature_values(self, batch: Batch) -> Tensor:
            values = batch.x.clone()
            values[::3, 1] = math.nan
            return values

    data = Gaps((Feature("colour", ("red", "green")), Feature("size")), draw)
    namer = Bags(Language((2,)), lambda x: torch.stack([1 - x[:, 0], x[:, 0]], -1))
    tables = measured("decodability", Untrained(namer, data), **SIZES)
    table = tables["summary.csv"].set_index(["feature", "source", "decoder"])
    assert set(table.index.get_level_values("source")) == {"sentence", "state", "input"}
    assert (table.loc["colour"]["value"] == 1).all()
    assert (table.loc["size"]["kind"] == "continuous").all()
    assert len(decodability.draw(tables)["decodability"].axes) == 2  # accuracy and RMSE
    sd = pytest.approx(20 / math.sqrt(12), rel=0.1)
    assert table.loc[("size", "sentence", 0), "value"] == sd  # it is not told
    assert table.loc[("size", "sentence", 0), "chance"] == sd
    assert table.loc[("size", "input", 0), "value"] < 1.5
    assert table.loc[("size", "sentence", 0), "n"] == 300
    assert table.loc[("colour", "sentence", 0), "chance"] == pytest.approx(0.7, abs=0.05)
