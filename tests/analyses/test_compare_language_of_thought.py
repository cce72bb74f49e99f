"""The comparison with a language of thought, where the answer is known: grammars read by perfect
listeners.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from pyro.distributions import Bernoulli
from torch import Tensor

from plot_attractors.analysis import probes
from plot_attractors.data import HierarchicalBinaryVectors, read_table
from plot_attractors.language import Language
from plot_attractors.language_of_thought.listening import all_classes, listen
from plot_attractors.runs import registry

from ..fakes import Bags
from ..small import Untrained, measured

compare_language_of_thought = registry.load("analyses", "compare_language_of_thought")

NAME = "compare_language_of_thought"


class Listener:
    """Knows what each sentence tells: levels (S, D·3) of sentences (S, width)."""

    def __init__(self, sentences: Tensor, levels: Tensor) -> None:
        self.sentences, self.levels = sentences, levels

    def __call__(self, s: Tensor) -> Any:
        same = (s[..., None, :] == self.sentences).all(-1)
        assert bool(same.any(-1).all())
        return SimpleNamespace(points=self.levels[same.int().argmax(-1)])


def grammar(data: HierarchicalBinaryVectors) -> Any:
    program = registry.load("models", "grammar")
    return program.build(program.Config(expressions="paths"), data)


@pytest.fixture
def analyzed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, pd.DataFrame]]:
    """The tables, with listeners who know the levels that the model's sentences tell."""

    def analyze(model: Any, data: Any, levels: Tensor, **settings: Any) -> dict[str, pd.DataFrame]:
        listener = Listener(model.sentences, levels)
        monkeypatch.setattr(probes, "feature_decoders", lambda *_: (listener, None))
        sizes = {"inputs": 300, "decoder_inputs": 8192} | settings
        tables = measured(NAME, Untrained(model, data), **sizes)
        assert list(tables["summary.csv"].columns) == compare_language_of_thought.SUMMARY.split()
        return tables

    return analyze


def only(table: pd.DataFrame, **keys: str) -> dict[Any, Any]:
    usual = {"split": "train", "source": "learned"}
    chosen = usual | {"feature": ""} | keys
    rows = table[np.logical_and.reduce([table[k] == v for k, v in chosen.items()])]
    assert len(rows) == 1, (keys, len(rows))
    return rows.iloc[0].to_dict()


def heard_levels(model: Any, data: HierarchicalBinaryVectors) -> Tensor:
    levels: Tensor = listen("", model, data.batch(8192), data).concepts.levels
    return levels


def test_a_grammar_is_itself(analyzed: Any) -> None:
    data = HierarchicalBinaryVectors(3, 16)
    model = grammar(data)
    tables = analyzed(model, data, heard_levels(model, data))
    table = tables["summary.csv"]
    js = only(table, measure="js", baseline="paths", feature="node")
    assert js["value"] == pytest.approx(js["floor"], abs=0.005)
    assert js["low"] < js["value"] < js["high"]
    assert js["shuffled"] > 10 * js["value"]
    tv = only(table, measure="translation_tv", baseline="paths")
    assert tv["value"] == pytest.approx(tv["floor"], abs=0.02)
    residual = only(table, measure="residual", baseline="paths")["value"]
    assert residual < 0.01
    assert only(table, measure="residual", baseline="leaf paths")["value"] > 5 * residual
    assert only(table, measure="residual_dealt", baseline="paths")["value"] > 0.5
    for other in ("node", "slots"):
        assert only(table, measure="js", baseline=other, feature="node")["value"] > 3 * js["value"]

    translations = tables["translations.csv"]
    mine = translations[(translations["baseline"] == "paths") & (translations["split"] == "train")]
    assert mine["usage"].sum() == pytest.approx(1)
    assert mine["usage"].is_monotonic_decreasing
    letters = {"∅": "···", "A": "L··", "B": "R··", "A·D": "LR·", "A·C·F": "LLR", "B·D·E": "RRL"}
    own = {
        model.language.name(s): p for s, p in zip(model.sentences, patterns(model, 3), strict=True)
    }
    assert {name: own[name] for name in letters} == letters
    assert (mine["expression"] == mine["sentence"].map(own)).all()


def patterns(model: Any, depth: int) -> list[str]:
    texts = model.sentences.unflatten(-1, (depth, 2))
    return ["".join("L" if a else "R" if b else "·" for a, b in row) for row in texts.tolist()]


def test_all_classes_are_equally_likely_to_who_knows_them() -> None:
    data = HierarchicalBinaryVectors(4, 16)
    mixed = all_classes(data, data.batch(30_000))
    share = torch.bincount(mixed.y, minlength=30) / 30_000
    assert len(mixed.y) == 30_000
    assert float((share - 1 / 30).abs().max()) < 0.006
    assert torch.equal(mixed.labels, data.paths[mixed.y])


# Of a table.


@pytest.fixture
def table(tmp_path: Path) -> Any:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 2, (60, 4))
    frame = pd.DataFrame(x, columns=["milk", "fins", "legs", "eggs"])
    frame["name"] = [f"animal {k}" for k in range(60)]
    frame.to_csv(tmp_path / "t.csv", index=False)
    return read_table(tmp_path / "t.csv", names="name")


def says(data: Any, language: Language, sentence: Any, means: Any) -> Untrained:
    """A model that says a sentence of inputs, and decodes it to probabilities of 1."""
    model: Any = Bags(language, sentence)
    model.embed, model.decoder, model.reconstruct = means, Bernoulli, Bernoulli
    return Untrained(model, data)


def test_sentences_of_two_columns_are_translated_to_them(table: Any) -> None:
    """One token for milk, one for fins; each is decoded to these columns, the others to shares."""
    share = table.rows(torch.arange(60)).mean(0)[2:]

    def means(s: Tensor) -> Tensor:
        return torch.cat([s * 0.999 + 0.0005, share.expand(*s.shape[:-1], 2)], -1)

    language = Language((1, 1), min_length=0)
    tables = measured(NAME, says(table, language, lambda x: x[:, :2], means))
    result = tables["translations.csv"].set_index("sentence")
    assert len(result) == 4
    for sentence, words in (("A·B", ("milk", "fins")), ("A", ("milk", "¬fins"))):
        said = result.loc[sentence, "expression"].split(" ∧ ")
        assert set(words) <= set(said)
    assert (result["residual"] < 0.05).all()
    whole = tables["summary.csv"].set_index("feature").loc["all"]
    assert whole["floor"] < whole["value"] < whole["shuffled"]
    assert {*tables["summary.csv"]["feature"]} == {"all", "milk", "fins", "legs", "eggs"}
