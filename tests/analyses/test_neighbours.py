"""Sentences that share a basin: which states end at another embedding, and how alike the features
read there are.
"""

from __future__ import annotations

import math
from typing import Any

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

from ..small import Untrained, untrained

program = registry.load("analyses", "neighbours")
correlate = program.correlate

CONFIG = program.Config(trajectories=200, decoder_inputs=256, decoder_updates=20)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """All sentences are in use."""
    every = lambda model, x: torch.ones(len(model.sentences)).bool()  # noqa: E731
    monkeypatch.setattr(sampling, "sentences_in_use", every)


@pytest.fixture
def run() -> Untrained:
    result = untrained()
    result.model.steps = 4
    return result


class To(nn.Module):
    """Dynamics that move a state to `share` of the way from its embedding, which is the context, to
    that of the next sentence, and stay.
    """

    def __init__(self, embeddings: Tensor, share: Tensor, noise: float = 1e-7) -> None:
        super().__init__()
        self.embeddings, self.noise = embeddings, noise
        self.ends = embeddings + share[:, None] * (embeddings.roll(-1, 0) - embeddings)

    def forward(self, z: Tensor, t: Tensor | float, context: Tensor) -> Normal:
        return Normal(self.ends[torch.cdist(context, self.embeddings).argmin(-1)], self.noise)


def test_ends_of_known_dynamics(run: Untrained) -> None:
    e, s = run.model.embeddings(), run.model.sentences
    share = torch.zeros(len(e))
    share[::2] = 1.0
    run.model.forward_dynamics = To(e, share)
    ends = sampling.end_states(run.model, s, e)
    expected = [(k + 1 - k % 2) % len(e) for k in range(len(e))]
    assert run.model.language.row(ends.sentence).tolist() == expected
    distance = share * (e.roll(-1, 0) - e).norm(dim=-1)
    torch.testing.assert_close(ends.original, distance, atol=1e-5, rtol=0)


def sampled_are(run: Untrained, rows: Any) -> None:
    """Make rows(n) the sentences that n trajectories sample."""
    describe = run.model.describe

    def described(x: Tensor, draws: int = 1) -> Any:
        s = run.model.sentences[rows(len(x) * draws)].unflatten(0, (-1, draws))
        return describe(x, draws)._replace(s=s)

    run.model.describe = described


def test_pairs_are_those_nearer_than_the_median(run: Untrained) -> None:
    e = run.model.embeddings()
    # all end elsewhere, with noise so that no two are as far as each other
    run.model.forward_dynamics = To(e, torch.ones(len(e)), noise=1e-4)
    sampled_are(run, lambda n: torch.arange(n) % len(e))
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


def test_states_that_stay_make_no_pairs(run: Untrained) -> None:
    e = run.model.embeddings()
    run.model.forward_dynamics = To(e, torch.zeros(len(e)))
    tables = program.measure(run, CONFIG)
    assert tables["ends.csv"]["elsewhere"].item() == 0
    table = tables["summary.csv"]
    assert table["r"].isna().all()
    assert table["reason"].str.fullmatch("0 pairs of 0 different sentences: .*").all()
    assert program.draw(tables).keys() == program.CAPTIONS.keys()


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
