"""Sentences that share a basin: which states end at another embedding, and how alike the features
read there are.
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
from pyro.distributions import Normal
from torch import Tensor, nn

from plot_attractors.evaluation import probes, sampling
from plot_attractors.evaluation.metrics.bootstrap import resample
from plot_attractors.runs import registry, settings

program = registry.load("analyses", "neighbours")


@dataclass(eq=False)
class Untrained:
    """What the analysis asks of a run."""

    model: Any
    data: Any
    seed: int = 0


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Untrained:
    """A small model, all of whose sentences are in use, with decoders that learn little."""
    for constant, value in {"INPUTS": 64, "TRAJECTORIES": 200}.items():
        monkeypatch.setattr(program, constant, value)
    monkeypatch.setattr(program, "save", lambda *_: None)  # figures are tested with all others
    monkeypatch.setattr(
        program, "sentences_in_use", lambda model, x: torch.ones(len(model.sentences)).bool()
    )
    monkeypatch.setattr(probes, "INPUTS", 256)
    monkeypatch.setattr(probes, "UPDATES", 20)
    hbv = registry.load("models", "hbv")
    config = settings.from_table(hbv.Config, settings.to_table(hbv.Config(**hbv.PRESETS["smoke"])))
    data = hbv.load_data(config)
    model = hbv.build(config, data).eval().requires_grad_(False)
    model.steps = 4
    return Untrained(model, data)


class To(nn.Module):
    """Dynamics that move a state to `share` of the way from its embedding to that of the next
    sentence, and stay.
    """

    def __init__(self, embeddings: Tensor, share: Tensor, noise: float = 1e-7) -> None:
        super().__init__()
        self.embeddings, self.noise = embeddings, noise
        self.ends = embeddings + share[:, None] * (embeddings.roll(-1, 0) - embeddings)

    def forward(
        self, z: Tensor, t: Tensor | float, context: Tensor
    ) -> Normal:  # the context is ẑ_s
        return Normal(self.ends[torch.cdist(context, self.embeddings).argmin(-1)], self.noise)


def test_ends_of_known_dynamics(run: Untrained) -> None:
    e = run.model.embeddings()
    s = run.model.sentences
    used = torch.ones(len(e)).bool()
    share = torch.zeros(len(e))
    share[::2] = 1.0
    run.model.forward_dynamics = To(e, share)
    ends = program.find_ends(run.model, s, s[used])
    assert ends.elsewhere.tolist() == [k % 2 == 0 for k in range(len(e))]
    assert run.model.index(ends.nearest).tolist() == [
        (k + 1 - k % 2) % len(e) for k in range(len(e))
    ]
    torch.testing.assert_close(
        ends.distance, share * (e.roll(-1, 0) - e).norm(dim=-1), atol=1e-5, rtol=0
    )
    # what is not in use is no neighbour, and no state at its own embedding is elsewhere
    used[1] = False
    ends = program.find_ends(run.model, s, s[used])
    assert not (ends.nearest[:2] == s[1]).all(-1).any()
    assert not ends.elsewhere[1]


@pytest.mark.parametrize("most_axes", [32, 1])  # a tree of all embeddings, a search
def test_a_large_language_has_the_pairs_of_a_listed_one(
    run: Untrained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most_axes: int
) -> None:
    """Of 5,488 sentences, all in use, a third of which lead to the next one; tokens are orthogonal
    to each other.
    """
    monkeypatch.setattr(sampling, "MOST_AXES", most_axes)
    hbv = registry.load("models", "hbv")
    smoke = {**hbv.PRESETS["smoke"], "groups": (1,) * 32, "max_length": 3, "latent": 32}
    model = run.model = hbv.build(
        hbv.Config(**smoke, sentence_readout="discretizer"), run.data
    ).eval()
    model.requires_grad_(False)
    model.sentence_encoder.mean.weight.copy_(torch.eye(32))
    model.steps = 1
    e = model.embeddings()
    model.forward_dynamics = To(e, (torch.arange(len(e)) % 3 - 1.0).clamp(min=0))
    s = model.sentences[::20]
    tables, ends = [], []
    for name in ("listed", "searched"):
        (tmp_path / name).mkdir()
        assert program.applies(run)
        torch.manual_seed(1)
        ends.append(program.find_ends(model, s, model.sentences if name == "listed" else None))
        program.analyze(run, tmp_path / name)
        tables.append(
            [pd.read_csv(tmp_path / name / f"{table}.csv") for table in ("ends", "summary")]
        )
        monkeypatch.setattr(sampling, "MOST_SENTENCES", 1000)
    listed, searched = ends
    assert searched.nearest.equal(listed.nearest)
    assert searched.elsewhere.equal(listed.elsewhere)
    assert 0.2 < listed.elsewhere.double().mean() < 0.5
    bounds = ["elsewhere_low", "elsewhere_high"]  # of a bootstrap over sentences in another order
    pd.testing.assert_frame_equal(
        tables[0][0].drop(columns=bounds), tables[1][0].drop(columns=bounds)
    )
    assert tables[1][0]["sentences"].iloc[0] > 20
    same = ["pairs", "feature", "n", "r", "slope", "intercept"]
    pd.testing.assert_frame_equal(tables[0][1][same], tables[1][1][same], rtol=1e-4)
    assert tables[1][1]["r"].notna().any()


def test_pairs_are_those_nearer_than_the_median(run: Untrained, tmp_path: Path) -> None:
    e = run.model.embeddings()
    # all end elsewhere: just under half of them below the median, with noise so that no two are as
    # far as each other
    run.model.forward_dynamics = To(e, torch.ones(len(e)), noise=1e-4)
    described = run.model.describe

    def evenly(x: Tensor, draws: int = 1) -> Any:
        found = described(x, draws)
        rows = torch.arange(len(x) * draws) % len(e)
        return found._replace(s=run.model.sentences[rows].unflatten(0, (-1, draws)))

    run.model.describe = evenly
    program.analyze(run, tmp_path)
    (row,) = pd.read_csv(tmp_path / "ends.csv").to_dict("records")
    assert (row["elsewhere"], row["elsewhere_low"], row["elsewhere_high"]) == (1, 1, 1)
    assert row["median_distance"] > 0
    assert 0.4 < row["near"] < 0.5
    assert row["sentences"] == len(e)
    table = pd.read_csv(tmp_path / "summary.csv")
    assert (
        ",".join(table.columns)
        == "pairs,feature,n,r,r_low,r_high,r_random,r_within,slope,intercept,reason"
    )
    names = [feature.name for feature in run.data.features]
    assert list(zip(table["pairs"], table["feature"], strict=True)) == [
        (pairs, name) for pairs in ("near", "all") for name in names
    ]
    assert (table[table["pairs"] == "all"]["n"] == 200).all()
    assert (table[table["pairs"] == "near"]["n"] == round(200 * row["near"])).all()
    told = table[table["reason"].isna()]
    assert len(told) > 0
    assert (told["r_low"] <= told["r_high"]).all()


def test_states_that_stay_make_no_pairs(run: Untrained, tmp_path: Path) -> None:
    e = run.model.embeddings()
    run.model.forward_dynamics = To(e, torch.zeros(len(e)))
    program.analyze(run, tmp_path)
    (row,) = pd.read_csv(tmp_path / "ends.csv").to_dict("records")
    assert row["elsewhere"] == row["near"] == 0
    table = pd.read_csv(tmp_path / "summary.csv")
    assert table["r"].isna().all()
    assert table["reason"].str.fullmatch("0 pairs of 0 different sentences: .*").all()


def test_correlation_is_that_of_the_pooled_columns() -> None:
    a = torch.rand(300, 3)
    b = 0.5 * a + 0.2 + 0.1 * torch.randn(300, 3)
    found = program.correlate(a, b, torch.arange(300), resample(torch.arange(300)[:, None]))
    assert found.r == pytest.approx(np.corrcoef(a.flatten(), b.flatten())[0, 1], abs=1e-5)
    slope, intercept = np.polyfit(a.flatten(), b.flatten(), 1)
    assert (found.slope, found.intercept) == pytest.approx((slope, intercept), abs=1e-5)
    assert found.r_low < found.r < found.r_high
    assert found.r_high - found.r_low < 0.1
    assert found.reason == ""
    one = program.correlate(a[:, :1], b[:, :1], torch.arange(300), torch.ones(1, 300))
    assert one.r_within == pytest.approx(one.r)
    perfect = program.correlate(a, 2 - 3 * a, torch.arange(300), torch.ones(1, 300))
    assert (perfect.r, perfect.slope, perfect.intercept) == pytest.approx((-1, -3, 2), abs=1e-5)


def test_random_pairs_have_the_mean_of_shuffled_ones() -> None:
    a, b = (torch.rand(40, 2) + torch.tensor([0.0, 1.0]) for _ in range(2))
    found = program.correlate(a, b, torch.arange(40), torch.ones(1, 40))
    shuffled = [
        np.corrcoef(a.flatten(), b[torch.randperm(40)].flatten())[0, 1] for _ in range(2000)
    ]
    assert found.r_random == pytest.approx(np.mean(shuffled), abs=0.005)
    assert found.r_random > 0.5  # the two columns differ
    centred = [(part - part.mean(0)).flatten() for part in (a, b)]
    assert found.r_within == pytest.approx(np.corrcoef(*centred)[0, 1], abs=1e-5)
    one = program.correlate(a[:, :1], b[:, :1], torch.arange(40), torch.ones(1, 40))
    assert one.r_random == pytest.approx(0, abs=1e-9)


def test_the_interval_is_of_sentences_and_not_of_pairs() -> None:
    a = torch.rand(20, 1).repeat_interleave(15, 0)
    b = a + 0.3 * torch.randn(20, 1).repeat_interleave(15, 0)
    sentence = torch.arange(20).repeat_interleave(15)
    of_sentences = program.correlate(a, b, sentence, resample(sentence[:, None]))
    of_pairs = program.correlate(a, b, torch.arange(300), resample(torch.arange(300)[:, None]))
    assert of_sentences.r == of_pairs.r
    assert of_sentences.r_high - of_sentences.r_low > 2 * (of_pairs.r_high - of_pairs.r_low)


def test_what_has_no_correlation_says_why() -> None:
    a = torch.rand(30, 2)
    few = program.correlate(a, a, torch.arange(30) % 19, torch.ones(1, 30))
    assert math.isnan(few.r)
    assert few.reason == "30 pairs of 19 different sentences: a correlation needs 20 sentences"
    alike = program.correlate(torch.full((30, 2), 0.5), a, torch.arange(30), torch.ones(1, 30))
    assert math.isnan(alike.slope)
    assert "says the same" in alike.reason
    by_column = torch.tensor([0.2, 0.8]).expand(30, 2)
    within = program.correlate(by_column, by_column, torch.arange(30), torch.ones(1, 30))
    assert within.r == pytest.approx(1)
    assert math.isnan(within.r_within)
    assert "every outcome is as probable" in within.reason


def test_pairs_of_one_sentence_make_no_correlation(run: Untrained, tmp_path: Path) -> None:
    e = run.model.embeddings()
    run.model.forward_dynamics = To(e, torch.ones(len(e)))
    described = run.model.describe

    def the_first(x: Tensor, draws: int = 1) -> Any:
        return described(x, draws)._replace(s=run.model.sentences[:1].expand(len(x), draws, -1))

    run.model.describe = the_first
    program.analyze(run, tmp_path)
    table = pd.read_csv(tmp_path / "summary.csv")
    assert table["r_low"].isna().all()
    assert (
        table.loc[table["pairs"] == "all", "reason"].str.startswith("200 pairs of 1 different")
    ).all()


def test_data_without_features_is_left_out(run: Untrained, tmp_path: Path) -> None:
    assert program.applies(run)
    run.data = type("Plain", (), {"features": (), "batch": run.data.batch})()
    assert not program.applies(run)
    with pytest.raises(ValueError, match="needs labels"):
        program.analyze(run, tmp_path)
