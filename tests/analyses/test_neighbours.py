"""Sentences that share a basin: which states end at another embedding, and how alike the features
read there are.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from pyro.distributions import Normal
from torch import Tensor, nn

from plot_attractors.analysis import sampling
from plot_attractors.analysis.probes import Prediction
from plot_attractors.data import Feature
from plot_attractors.measures.bootstrap import resample
from plot_attractors.runs import registry

from ..small import untrained

program = registry.load("analyses", "neighbours")
correlate = program.correlate

CONFIG = program.Config(trajectories=200, decoder_inputs=256, decoder_updates=20)


class ToNext(nn.Module):
    """Dynamics that move a state to the embedding of the sentence after its own, the context, with
    noise so that no two are as far as each other.
    """

    def __init__(self, embeddings: Tensor) -> None:
        super().__init__()
        self.embeddings = embeddings

    def forward(self, z: Tensor, t: Tensor | float, context: Tensor) -> Normal:
        own = torch.cdist(context, self.embeddings).argmin(-1)
        return Normal(self.embeddings.roll(-1, 0)[own], 1e-4)


def test_pairs_are_those_nearer_than_the_median(monkeypatch: pytest.MonkeyPatch) -> None:
    run = untrained()
    run.model.steps = 4
    run.model.forward_dynamics = ToNext(run.model.embeddings())
    every = lambda run, n: run.model.sentences[torch.arange(n) % run.model.language.count]  # noqa: E731
    monkeypatch.setattr(sampling, "sampled_sentences", every)
    tables = program.measure(run, CONFIG)
    assert program.draw(tables).keys() == program.CAPTIONS.keys()
    (row,) = tables["ends.csv"].to_dict("records")
    assert row == {"trajectories": 200, "elsewhere": 1}
    table = tables["summary.csv"]
    assert list(zip(table["pairs"], table["feature"], strict=True)) == [
        (pairs, feature.name) for pairs in ("near", "all") for feature in run.data.features
    ]
    assert (table[table["pairs"] == "all"]["n"] == 200).all()
    assert table[table["pairs"] == "near"]["n"].between(80, 99).all()
    assert (table["r_low"] <= table["r_high"]).any()
    assert set(tables["pairs.csv"]["pairs"]) == {"all"}


def test_colours_have_a_number_for_each_channel() -> None:
    colour = Feature("colour", ("red", "yellow"), ((1, 0, 0), (1, 0.5, 0)))
    outputs = torch.tensor([[0.25, 0.75, 2.0], [1.0, 0.0, 3.0]])
    outputs[:, :2] = outputs[:, :2].log()
    one = torch.ones(2)
    features, parts = program.channels(
        Prediction((colour, Feature("size")), outputs, torch.tensor([0.0, 1.0]), one)
    )
    assert [f.name for f in features] == ["colour", "colour R", "colour G", "colour B", "size"]
    assert [part.flatten().tolist() for part in parts] == [
        [0.25, 0.75, 1, 0], [1, 1], [0.375, 0], [0, 0], [3, 4]
    ]  # fmt: skip


def test_correlation_is_that_of_the_pooled_columns() -> None:
    a = torch.rand(300, 3)
    b = 0.5 * a + 0.2 + 0.1 * torch.randn(300, 3)
    result = correlate(a, b, torch.arange(300), resample(torch.arange(300)[:, None]))
    assert result.r == pytest.approx(np.corrcoef(a.flatten(), b.flatten())[0, 1], abs=1e-5)
    line = np.polyfit(a.flatten(), b.flatten(), 1)
    assert (result.slope, result.intercept) == pytest.approx(tuple(line), abs=1e-5)
    assert result.r - 0.1 < result.r_low < result.r < result.r_high < result.r + 0.1
    assert result.reason == ""
    perfect = correlate(a, 2 - 3 * a, torch.arange(300), torch.ones(1, 300))
    assert (perfect.r, perfect.slope, perfect.intercept) == pytest.approx((-1, -3, 2), abs=1e-5)


def test_random_pairs_have_the_mean_of_shuffled_ones() -> None:
    a, b = (torch.rand(40, 2) + torch.tensor([0.0, 1.0]) for _ in range(2))
    result = correlate(a, b, torch.arange(40), torch.ones(1, 40))
    shuffled = (b[torch.randperm(40)].flatten() for _ in range(2000))
    mean = np.mean([np.corrcoef(a.flatten(), other)[0, 1] for other in shuffled])
    assert result.r_random == pytest.approx(mean, abs=0.005)
    assert result.r_random > 0.5  # the two columns differ
    one = correlate(a[:, :1], b[:, :1], torch.arange(40), torch.ones(1, 40))
    assert one.r_random == pytest.approx(0, abs=1e-9)


def test_the_interval_is_of_sentences_and_not_of_pairs() -> None:
    a = torch.rand(20, 1).repeat_interleave(15, 0)
    b = a + 0.3 * torch.randn(20, 1).repeat_interleave(15, 0)
    of_sentence, of_pair = torch.arange(20).repeat_interleave(15), torch.arange(300)
    wide, narrow = (correlate(a, b, of, resample(of[:, None])) for of in (of_sentence, of_pair))
    assert wide.r == narrow.r
    assert wide.r_high - wide.r_low > 2 * (narrow.r_high - narrow.r_low)


def test_what_has_no_correlation_says_why() -> None:
    a, ones = torch.rand(30, 2), torch.ones(1, 30)
    few = correlate(a, a, torch.arange(30) % 19, ones)
    assert math.isnan(few.r)
    assert few.reason == "30 pairs of 19 different sentences: a correlation needs 20 sentences"
    alike = correlate(torch.full((30, 2), 0.5), a, torch.arange(30), ones)
    assert math.isnan(alike.slope)
    assert "predicts the same" in alike.reason
