"""The analysis of feature-wise composition on languages that are compositional, or not."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from torch import Tensor

from plot_attractors.data import Batch, Feature, HierarchicalBinaryVectors
from plot_attractors.evaluation import probes
from plot_attractors.evaluation.metrics.composition import Embedding, shuffled
from plot_attractors.language import Language
from plot_attractors.model.protocols import Description
from plot_attractors.runs import registry


class Speller:
    """One token for each branch of the likeliest path, none below its end."""

    latent = 6
    language = Language((2, 2, 2))

    def __init__(self, data: HierarchicalBinaryVectors) -> None:
        self.data = data
        self.embed: Embedding = lambda s: s
        self.words = self.language.sentences

    def describe(self, x: Tensor, draws: int = 1) -> Description:
        everything = torch.arange(len(self.data.depths))
        path = (
            registry.load("analyses", "decodability").bayes_optimum(self.data, x, everything).values
        )
        meaning = torch.stack([path == 1, path == 2], -1).flatten(-2).float()
        listed = self.embed(self.words)  # the sentence that stands for this meaning
        s = self.words[(2 * meaning @ listed.T - listed.sum(-1)).argmax(-1)]
        s = s[:, None].expand(-1, draws, -1)
        return Description(self.embed(s), s)


class Things:
    """Inputs that are their own features, a colour and a size, in no order."""

    bits, label_names, splits, ordered = 2, (), ("train",), False
    features = (Feature("colour", ("red", "green")), Feature("size"))

    def batch(self, n: int, split: str = "train") -> Batch:
        x = torch.bernoulli(torch.full((n, 2), 0.5))
        return Batch(x, torch.arange(n), torch.arange(n)[:, None])

    def feature_values(self, batch: Batch) -> Tensor:
        return batch.x * torch.tensor([1.0, 10.0])


class Namer:
    """A token for each colour, and one for each size."""

    latent, language = 4, Language((2, 2), min_length=2)

    def describe(self, x: Tensor, draws: int = 1) -> Description:
        s = torch.stack([1 - x, x], -1).flatten(1)[:, None].expand(-1, draws, -1)
        return Description(s, s)

    def embed(self, s: Tensor) -> Tensor:
        return s


@dataclass(eq=False)
class Run:
    model: Any
    data: Any
    seed: int = 0


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(probes, "UPDATES", 100)
    monkeypatch.setattr(probes, "INPUTS", 1000)
    program = registry.load("analyses", "composition")
    monkeypatch.setattr(program, "INPUTS", 400)
    monkeypatch.setattr(program, "SHUFFLES", 4)
    monkeypatch.setattr(program, "save", lambda figure, stem: figure.draw_without_rendering())
    return program


def test_a_word_for_each_branch_composes_as_well_as_it_is_said(
    program: Any, tmp_path: Path
) -> None:
    data = HierarchicalBinaryVectors(depth=3, bits=256, hold_out=False)
    program.analyze(Run(Speller(data), data), tmp_path)
    table = pd.read_csv(tmp_path / "summary.csv")
    assert ",".join(table.columns) == "split,feature,kind,source,value,low,high,chance,loss,n"
    value = table.set_index(["feature", "source"])["value"]
    for branch in ("branch1", "branch2", "branch3", "mean of 3"):
        assert value[branch, "sampled"] > 0.97
        assert value[branch, "composed"] == value[branch, "best"] == 1
    assert value["mean of 3", "shuffled"] < 0.9

    words = pd.read_csv(tmp_path / "words.csv")
    assert list(words["token"]) == list("ABCDEF")
    assert list(words["contexts"]) == [1, 1, 2, 2, 4, 4]
    assert (words["share"] == 1).all()
    assert (words["shuffled"].iloc[2:] < 1).all()

    listed = pd.read_csv(tmp_path / "sentences.csv", keep_default_na=False).set_index("features")
    assert len(listed) == 14
    row = listed.loc["branch1=left, branch2=right, branch3=left"]
    assert row["composed"] == row["sampled"] == "A·D·E"
    assert row["tokens"] == "A D E"
    assert listed.loc["branch1=right, branch2=none, branch3=none", "tokens"] == "B – –"
    assert listed["n"].sum() == 400

    rules = pd.read_csv(tmp_path / "rules.csv").set_index("rule")
    assert list(rules.index) == ["paper", "ended levels too", "optional token", "all levels"]
    assert rules.loc["ended levels too", "length"] == 3
    assert rules.loc["optional token", "composed"] > 0.95
    assert rules.loc["paper", "composed"] == pytest.approx(value["mean of 3", "composed"])


def test_words_without_meaning_are_said_but_not_composed(program: Any, tmp_path: Path) -> None:
    data = HierarchicalBinaryVectors(depth=3, bits=256, hold_out=False)
    model = Speller(data)
    model.embed = shuffled(model.language, model.embed)
    program.analyze(Run(model, data), tmp_path)
    value = pd.read_csv(tmp_path / "summary.csv").set_index(["feature", "source"])["value"]
    assert value["mean of 3", "sampled"] > 0.97
    assert value["mean of 3", "best"] == 1
    assert value["mean of 3", "composed"] < 0.95
    assert (pd.read_csv(tmp_path / "words.csv")["share"].iloc[2:] < 1).any()


def test_features_without_order_are_said_in_random_orders(program: Any, tmp_path: Path) -> None:
    program.analyze(Run(Namer(), Things()), tmp_path)
    table = pd.read_csv(tmp_path / "summary.csv").set_index(["feature", "source"])
    assert set(table.index.get_level_values("source")) == {
        "sampled",
        "composed",
    }  # two tokens at least: no list
    assert (table.loc["colour"]["value"] == 1).all()
    assert (table.loc["size"]["value"] < 1).all()  # of a standard deviation of 5
    listed = pd.read_csv(tmp_path / "sentences.csv")
    assert 4 <= len(listed) <= 8
    assert not listed.duplicated().any()
    assert set(listed["order"]) == {"colour size", "size colour"}
    assert (listed["composed"] == listed["sampled"]).all()
    assert set(listed["tokens"]) > {"A C", "C A"} or set(listed["tokens"]) > {"A D", "D A"}
    words = pd.read_csv(tmp_path / "words.csv")
    assert list(words["feature"].unique()) == ["colour"]  # numbers have no outcomes
    assert (words["share"] == 1).all()
    assert list(pd.read_csv(tmp_path / "rules.csv")["rule"]) == ["paper", "optional token"]


class Judge:
    """A listener that takes token `word` for the first colour, the other one for the second, and C
    and D for sizes.
    """

    def __init__(self, features: tuple[Feature, ...], word: int) -> None:
        self.features, self.word = features, word

    def __call__(self, z: Tensor) -> probes.Prediction:
        colour = torch.stack([z[..., self.word], z[..., 1 - self.word]], -1)
        output = torch.cat(
            [(5 * colour).log_softmax(-1), 5 - 5 * z[..., 2:3] + 5 * z[..., 3:4]], -1
        )
        return probes.Prediction(self.features, output, torch.zeros(2), torch.ones(2))


@pytest.mark.parametrize("agree", [True, False])
def test_one_decoder_composes_and_the_other_one_scores(
    program: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, agree: bool
) -> None:
    """Namer says A for red: so understands the composer; the scorer hears the reverse where they do
    not agree.
    """
    pair = Judge(Things.features, 0), Judge(Things.features, 0 if agree else 1)
    monkeypatch.setattr(probes, "feature_decoders", lambda run: pair)
    program.analyze(Run(Namer(), Things()), tmp_path)
    value = pd.read_csv(tmp_path / "summary.csv").set_index(["feature", "source"])["value"]
    assert value["colour", "composed"] == value["colour", "sampled"] == float(agree)
    listed = pd.read_csv(tmp_path / "sentences.csv")
    red = listed["features"].str.contains("colour=red")
    assert listed.loc[red, "tokens"].str.contains("A").all()
    assert listed.loc[~red, "tokens"].str.contains("B").all()


def test_labels_may_be_named_as_columns(program: Any, tmp_path: Path) -> None:
    things = Things()
    things.features = (Feature("order", ("red", "green")), Feature("n"))
    program.analyze(Run(Namer(), things), tmp_path)
    listed = pd.read_csv(tmp_path / "sentences.csv")
    assert set(listed["order"]) == {"order n", "n order"}
    assert set(listed["features"]) == {
        f"order={o}, n={n}" for o in ("red", "green") for n in (0, 10)
    }
    assert listed["n"].dtype.kind == "i"
