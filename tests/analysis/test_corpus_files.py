"""Corpora in files of JSON lines: out and in again, and what is refused."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from plot_attractors.analysis.corpora import Corpus, Writing, make
from plot_attractors.analysis.corpus_files import read, to_lines
from plot_attractors.data import Feature
from plot_attractors.runs import registry

language_measures = registry.load("analyses", "language_measures")
Sizes, measure_all, measures, pairs = (
    language_measures.Config,
    language_measures.measure_all,
    language_measures.measures,
    language_measures.pairs,
)

COLOUR, SIZE = Feature("colour", ("red", "green", "blue")), Feature("size")
SIZES = Sizes(permutations=2, meaning_permutations=2)


def bags(n: int = 60) -> Corpus:
    rng = np.random.default_rng(0)
    colour, size = rng.integers(0, 3, n).astype(float), rng.random(n).astype(np.float32)
    symbols = np.stack([colour + 1, size > 0.5, size > 0.8], 1).astype(int)
    colour[:5], size[5:8] = np.nan, np.nan
    vectors = rng.normal(size=(n, 4)).astype(np.float32)
    meaning = np.stack([colour, size], 1).astype(float)
    writing = Writing(("A", "B", "C", "D", "E"), (3, 1, 1), False, 3)
    return make(writing, symbols, meaning, (COLOUR, SIZE), vectors=vectors)


def sequences(n: int = 60) -> Corpus:
    symbols = np.random.default_rng(1).integers(1, 4, (n, 4))
    symbols[: n // 2, 2:] = 0
    paths = np.where(symbols[:, :2] > 1, symbols[:, :2], np.nan) - 1
    branch = [Feature(f"branch{k}", ("none", "left", "right")) for k in range(2)]
    return make(Writing(("x", "y", "z"), (1, 1, 1), True, 4), symbols, paths, branch, True)


def assert_same(a: Corpus, b: Corpus) -> None:
    for name, first, second in zip(a._fields, a, b, strict=True):
        if isinstance(first, np.ndarray):
            np.testing.assert_array_equal(first, second, err_msg=name)
            assert first.dtype.kind == second.dtype.kind
        else:
            assert first == second, name


@pytest.mark.parametrize("corpus", [bags(), sequences()])
def test_what_is_written_is_read(corpus: Corpus, tmp_path: Path) -> None:
    held_out = corpus._replace(**{
        name: None if (part := getattr(corpus, name)) is None else part[:7]
        for name in ("sentences", "tokens", "symbols", "meaning", "tree", "vectors")
    })  # fmt: skip
    if held_out.tree is not None:  # of the nodes that occur in the split
        held_out = make(corpus.writing, held_out.symbols, held_out.meaning, corpus.features, True)
    file = tmp_path / "corpus.jsonl"
    text = to_lines({"train": corpus, "held_out": held_out}, {"seed": 3, "floor": -np.inf})
    file.write_text(text, encoding="utf-8")
    found = read(file)
    assert list(found.splits) == ["train", "held_out"]
    assert_same(found.splits["train"], corpus)
    assert_same(found.splits["held_out"], held_out)
    assert (found.metadata["seed"], found.metadata["floor"]) == (3, "-inf")
    again = to_lines(found.splits, {"seed": 3, "floor": "-inf"})
    assert again == text
    a, b = measure_all(corpus, SIZES), measure_all(found.splits["train"], SIZES)
    np.testing.assert_array_equal(a["value"], b["value"])
    assert a["value"].notna().sum() >= 10


def test_a_line_says_what_stands_in_a_sentence() -> None:
    head, line, *_ = map(json.loads, to_lines({"train": bags()}, {"model": "toy"}).splitlines())
    assert head["language"] == {
        "ordered": False, "groups": [3, 1, 1], "tokens": [*"ABCDE"], "max_length": 3
    }  # fmt: skip
    assert head["features"] == {"colour": ["red", "green", "blue"], "size": None}
    assert head["model"] == "toy"
    assert list(line) == ["input", "split", "tokens", "sentence", "labels", "meaning"]
    assert line["sentence"] == "·".join(line["tokens"])
    assert line["labels"]["colour"] is None  # of the first inputs it is missing


def write(tmp_path: Path, *lines: Any) -> Path:
    file = tmp_path / "corpus.jsonl"
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    file.write_text("\n".join(texts), encoding="utf-8")
    return file


ORDERED: dict[str, Any] = {"language": {"ordered": True}}
BAGS: dict[str, Any] = {"language": {"ordered": False}}


def test_somebody_elses_corpus_needs_little(tmp_path: Path) -> None:
    """Sequences of numbers, tokens twice, no labels but of one kind, no split."""
    rng = np.random.default_rng(2)
    said = rng.integers(0, 12, (80, 3)).tolist()
    lines = [{"tokens": s, "labels": {"first": s[0] > 5, "size": s[1] / 4}} for s in said]
    of = read(write(tmp_path, ORDERED, *lines, "")).splits["train"]
    assert of.names[:12] == list(map(str, range(12)))  # by their size
    np.testing.assert_array_equal(of.symbols, np.array(said) + 1)
    assert [f.outcomes for f in of.features] == [("false", "true"), ()]
    found = measure_all(of, SIZES).set_index("measure")
    assert found.loc["npmi", "value"] > 0
    assert found.loc["posdis", "value"] > found.loc["posdis", "null_mean"] + 0.1
    assert found.loc["harris_boundaries", "value"] >= 0


def test_without_labels_there_are_reasons(tmp_path: Path) -> None:
    lines = [{"tokens": ["a", "b"][: 1 + k % 2], "meaning": [k % 2, k / 40]} for k in range(40)]
    of = read(write(tmp_path, BAGS, *lines)).splits["train"]
    table = measure_all(of, SIZES).set_index("measure")
    features = ["language_compositionality", "npmi", "topographic_similarity", "posdis"]
    assert table.loc[features, "value"].isna().all()
    assert (table.loc[features, "reason"] != "").all()
    assert table.loc["language_compositionality_z0", "value"] > 1
    assert "no order" in table.loc["harris_boundaries", "reason"]


@pytest.mark.parametrize(
    ("lines", "number", "what"),
    [
        (["{"], 1, "no JSON"),
        ([ORDERED, [1]], 2, "no object"),
        ([{"language": {}}, {"tokens": ["a"]}], 1, "whether tokens are ordered"),
        ([{"tokens": ["a"]}], 1, "whether tokens are ordered"),
        ([ORDERED, "", {"sentence": "a"}], 3, 'no "tokens"'),
        ([ORDERED, {"tokens": "ab"}], 2, 'no "tokens"'),
        ([ORDERED, {"tokens": [0.5]}], 2, 'no "tokens"'),
        ([ORDERED, {"tokens": ["a"], "split": 1}], 2, '"split" is 1'),
        ([ORDERED, {"tokens": ["a"], "labels": {"x": []}}], 2, '"labels" are no plain values'),
        ([ORDERED, {"tokens": ["a"], "labels": {"x": float("nan")}}], 2, '"labels"'),
        ([ORDERED, {"tokens": ["a"], "meaning": [None]}], 2, '"meaning" is no list'),
        ([ORDERED, {"tokens": [], "meaning": [1]}, {"tokens": []}], 3, '"meaning" has no numbers'),
        ([ORDERED, {"tokens": [], "meaning": [1]}, {"tokens": [], "meaning": [1, 2]}], 3, "has 2"),
        ([BAGS, {"tokens": ["a", "a"]}], 2, "'a' stands twice"),
        ([{"language": {"ordered": False, "groups": [2], "tokens": ["a", "b"]}},
          {"tokens": ["a", "b"]}], 2, "'a' and 'b' are of one group"),
        ([{"language": {"ordered": True, "tokens": ["a"]}}, {"tokens": ["b"]}], 2, "token 'b'"),
        ([{"language": {"ordered": True, "tokens": ["a", "a"]}}, {"tokens": []}], 1, "'a' twice"),
        ([{"language": {"ordered": True, "tokens": "a"}}, {"tokens": []}], 1, "no names"),
        ([{"language": {"ordered": False, "groups": [2]}}, {"tokens": ["a"]}], 1, "add up to"),
        ([{"language": {"ordered": True, "max_length": 1}}, {"tokens": [1, 2]}], 2, "2 tokens,"),
        ([{"language": {"ordered": True, "max_length": "x"}}, {"tokens": [1]}], 1, "max_length"),
        ([ORDERED | {"features": {"x": ["u"]}}, {"tokens": [], "labels": {"x": "v"}}], 2,
         "x is 'v', which is no outcome"),
        ([ORDERED | {"features": {"x": None}}, {"tokens": [], "labels": {"x": "v"}}], 2,
         "x is 'v', and it is a number"),
        ([ORDERED | {"features": {}}, {"tokens": [], "labels": {"x": "v"}}], 2, "label 'x'"),
        ([ORDERED | {"features": {"x": []}}, {"tokens": []}], 1, "no lists of outcomes"),
    ],
)  # fmt: skip
def test_malformed_lines_are_refused_in_a_sentence(
    lines: list[Any], number: int, what: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=f"^line {number} of corpus.jsonl: ") as refused:
        read(write(tmp_path, *lines))
    text = str(refused.value)
    assert what in text
    assert ": " in text.partition(what)[2] or ":" in text  # and what would be right
    assert "\n" not in text


def test_what_is_no_corpus_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is empty: its first line"):
        read(write(tmp_path))
    with pytest.raises(ValueError, match="has no sentences: write one"):
        read(write(tmp_path, ORDERED))
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\xff")
    with pytest.raises(ValueError, match=r"picture.png is no text"):
        read(tmp_path / "picture.png")
    with pytest.raises(ValueError, match="one split at least"):
        to_lines({}, {})


def test_values_of_numbers_have_names() -> None:
    of = bags()
    few = of.meaning.copy()
    few[:, 1] = np.round(few[:, 1], 0) / 2
    names = [set(pairs(c)["value"]) for c in (of, of._replace(meaning=few))]
    assert names[0] == {*COLOUR.outcomes, *(f"bin {k}" for k in range(10))}
    assert names[1] == {*COLOUR.outcomes, "0", "0.5"}
    assert len(pairs(of)) == 5 * 13


def test_names_of_tokens_do_not_matter() -> None:
    """Renamed, regrouped, and in another order, the same sentences have the same measures."""
    of = bags(200)
    rename = np.array([0, 3, 1, 2])
    symbols = np.stack([of.symbols[:, 2], rename[of.symbols[:, 0]], of.symbols[:, 1]], 1)
    writing = dataclasses.replace(of.writing, names=("v", "w", "x", "y", "z"), groups=(1, 3, 1))
    other = make(writing, symbols, of.meaning, of.features, vectors=of.vectors)
    a, b = (measures(c, SIZES).set_index("measure")["value"] for c in (of, other))
    np.testing.assert_allclose(a, b, rtol=1e-3)
