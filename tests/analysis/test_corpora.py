"""Corpora as tables: out and in again, how sentences are read, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from plot_attractors.analysis.corpora import (
    Corpus,
    Writing,
    make,
    read_corpus,
    to_table,
)
from plot_attractors.data import Feature
from plot_attractors.runs import registry

language_measures = registry.load("analyses", "language_measures")
SIZES = language_measures.Config(permutations=2, code_permutations=2)


def groups(n: int = 60) -> Corpus:
    rng = np.random.default_rng(0)
    colour, size = rng.integers(0, 3, n).astype(float), rng.random(n).astype(np.float32)
    symbols = np.stack([colour + 1, size > 0.5, size > 0.8], 1).astype(int)
    colour[:5] = np.nan
    features = (Feature("colour", ("blue", "green", "red")), Feature("size"))
    writing = Writing(("A", "B", "C", "D", "E"), (3, 1, 1), False, 3)
    return make(writing, symbols, np.stack([colour, size], 1), features)


def sequences(n: int = 60) -> Corpus:
    symbols = np.random.default_rng(1).integers(1, 4, (n, 4))
    symbols[: n // 2, 2:] = 0
    first = Feature("first", ("x", "y", "z"))
    return make(
        Writing(("x", "y", "z"), (1, 1, 1), True, 4), symbols, symbols[:, :1] - 1.0, [first]
    )


@pytest.mark.parametrize("corpus", [groups(), sequences()])
def test_what_is_written_is_read(corpus: Corpus, tmp_path: Path) -> None:
    file = tmp_path / "corpus.csv"
    to_table({"train": corpus, "held_out": corpus}).to_csv(file, index=False)
    result = read_corpus(file)
    assert list(result) == ["train", "held_out"]
    for name, first, second in zip(corpus._fields, corpus, result["train"], strict=True):
        if isinstance(first, np.ndarray):
            np.testing.assert_array_equal(first, second, err_msg=name)
        else:
            assert first == second, name
    first, second = (language_measures.measures(c, SIZES) for c in (corpus, result["train"]))
    assert first["holistic_mean"].dtype == float
    a, b = first["value"], second["value"]
    np.testing.assert_array_equal(a, b)
    assert a.notna().sum() == 4


def write(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "corpus.csv"
    file.write_text(text, encoding="utf-8")
    return file


def test_latent_states_are_no_features(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="latent states of a run in z0_0 to z0_1"):
        read_corpus(write(tmp_path, "sentence,z0_0,z0_1\na,0.5,1\n"))


def test_places_are_groups_where_no_token_stands_at_two(tmp_path: Path) -> None:
    (apart,) = read_corpus(write(tmp_path, "sentence\na x\nb -\n- y\n")).values()
    assert (apart.writing.names, apart.writing.groups) == (("a", "b", "x", "y"), (2, 2))
    assert apart.symbols.tolist() == [[1, 1], [2, 0], [0, 2]]
    (ordered,) = read_corpus(write(tmp_path, "sentence\na b\nb a\n10 2\n")).values()
    assert ordered.writing == Writing(("2", "10", "a", "b"), (1, 1, 1, 1), True, 2)
    (bags,) = read_corpus(write(tmp_path, "sentence\na b\nb a\na\n"), bags=True).values()
    assert bags.symbols.tolist() == [[1, 1], [1, 1], [1, 0]]


def test_features_are_numbers_where_one_has_a_fraction(tmp_path: Path) -> None:
    text = "sentence,size,legs,kind\na,0.5,4,cat\nb,1,10,\na,2,2,dog\n"
    (result,) = read_corpus(write(tmp_path, text)).values()
    assert [f.outcomes for f in result.features] == [(), ("2", "4", "10"), ("cat", "dog")]
    np.testing.assert_array_equal(result.meaning, [[0.5, 1, 0], [1, 2, np.nan], [2, 0, 1]])


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "cannot be read as a table"),
        ("words\na\n", "no column 'sentence' with rows: write tokens"),
        ("sentence\n", "no column 'sentence' with rows"),
    ],
)
def test_what_is_no_corpus_is_refused(text: str, what: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=what) as refused:
        read_corpus(write(tmp_path, text))
    assert "\n" not in str(refused.value)
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\xff")
    with pytest.raises(ValueError, match=r"picture.png cannot be read"):
        read_corpus(tmp_path / "picture.png")


def test_names_of_tokens_do_not_matter() -> None:
    """Renamed, regrouped, and in another order, the same sentences have the same measures."""
    of = groups(200)
    rename = np.array([0, 3, 1, 2])
    symbols = np.stack([of.symbols[:, 2], rename[of.symbols[:, 0]], of.symbols[:, 1]], 1)
    writing = Writing(("v", "w", "x", "y", "z"), (1, 3, 1), False, 3)
    other = make(writing, symbols, of.meaning, of.features)
    a, b = (language_measures.measures(c, SIZES).set_index("measure")["value"] for c in (of, other))
    np.testing.assert_allclose(a, b, rtol=1e-3)
