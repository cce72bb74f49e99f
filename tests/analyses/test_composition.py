"""The analysis of feature-wise composition on languages that are compositional, or not."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from plot_attractors.analysis import probes
from plot_attractors.data import Channels, Feature, HierarchicalBinaryVectors
from plot_attractors.language import Language
from plot_attractors.runs import registry

from ..fakes import Bags, Things, speller
from ..small import Untrained, measured

composition = registry.load("analyses", "composition")
prediction_of_channels = composition.prediction_of_channels


NAMED = (Feature("colour", ("red", "green")), Feature("size"))


def things() -> Things:
    """Inputs of a colour and a size, 0 or 10, in no order."""
    return Things(
        NAMED, lambda n: torch.bernoulli(torch.full((n, 2), 0.5)) * torch.tensor([1.0, 10.0])
    )


def namer() -> Bags:
    """A token for each colour, and one for each size."""

    def sentence(x: Tensor) -> Tensor:
        on = (x > 0).float()
        return torch.stack([1 - on, on], -1).flatten(1)

    return Bags(Language((2, 2), min_length=2), sentence)


def analyzed(model: Any, data: Any) -> Any:
    """The column ``value`` by feature and source."""
    sizes = {"inputs": 400, "shuffles": 4, "decoder_inputs": 1000, "decoder_updates": 100}
    tables = measured("composition", Untrained(model, data), **sizes)
    assert list(composition.draw(tables)) == ["composition"]
    return tables["summary.csv"].set_index(["feature", "source"])["value"]


def test_a_token_for_each_branch_composes_as_well_as_it_is_sampled() -> None:
    data = HierarchicalBinaryVectors(depth=3, bits=256, hold_out=False)
    value = analyzed(speller(data), data)
    for branch in ("branch1", "branch2", "branch3", "mean of 3"):
        assert value[branch, "sampled"] > 0.97
        assert value[branch, "composed"] == 1
    assert value["mean of 3", "shuffled"] < 0.9


def test_features_without_order_are_described_in_random_orders() -> None:
    value = analyzed(namer(), things())
    # two tokens at least: no list
    assert set(value.index.get_level_values("source")) == {"sampled", "composed"}
    assert (value["colour"] == 1).all()
    assert (value["size"] < 1).all()  # of a standard deviation of 5


class Judge:
    """A listener that takes token `token` for the first colour, the other one for the second, and C
    and D for sizes.
    """

    def __init__(self, features: tuple[Feature, ...], token: int) -> None:
        self.features, self.token = features, token

    def __call__(self, z: Tensor) -> probes.Prediction:
        colour = torch.stack([z[..., self.token], z[..., 1 - self.token]], -1)
        output = torch.cat(
            [(5 * colour).log_softmax(-1), 5 - 5 * z[..., 2:3] + 5 * z[..., 3:4]], -1
        )
        return probes.Prediction(self.features, output, torch.zeros(2), torch.ones(2))


@pytest.mark.parametrize("agree", [True, False])
def test_one_decoder_composes_and_the_other_one_scores(
    monkeypatch: pytest.MonkeyPatch, agree: bool
) -> None:
    """The namer says A for red: so understands the composer; the scorer may hear the reverse."""
    pair = Judge(NAMED, 0), Judge(NAMED, 0 if agree else 1)
    monkeypatch.setattr(probes, "feature_decoders", lambda *_: pair)
    value = analyzed(namer(), things())
    assert value["colour", "composed"] == value["colour", "sampled"] == float(agree)


COLOUR = Feature("colour", ("blue", "red", "white"), ((0, 0, 1), (1, 0, 0), (1, 1, 1)))


def test_a_colour_is_described_by_its_channels() -> None:
    """P(R) is that of red and white together, and so on; other features stay as they are."""
    channels = Channels((COLOUR, Feature("size")))
    assert [f.name for f in channels.features] == ["R", "G", "B", "size"]
    told = channels.values(torch.tensor([[0.0, 5.0], [1.0, 6.0], [torch.nan, 7.0]]))
    expected = torch.tensor([[0.0, 0, 1, 5], [1, 0, 0, 6], [*3 * [torch.nan], 7]])
    torch.testing.assert_close(told, expected, equal_nan=True)
    outputs = torch.cat([torch.tensor([[0.5, 0.3, 0.2]]).log(), torch.tensor([[2.0]])], -1)
    of = probes.Prediction(
        (COLOUR, Feature("size")), outputs, torch.tensor([0.0, 10]), torch.tensor([1.0, 3])
    )
    result = prediction_of_channels(channels, of).points
    torch.testing.assert_close(result, torch.tensor([[0.5, 0.5, 0.8, 0.2, 0.3, 0.7, 16.0]]))
