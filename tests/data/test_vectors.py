"""Real-valued vectors: read from every kind of file, standardised, refused in one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.sparse import csr_matrix, save_npz

from plot_attractors.data import read_vectors

KIND = np.array(["a", "b"] * 20)


@pytest.fixture
def x() -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).normal(3.0, 2.0, (40, 5)).astype(np.float32)


@pytest.mark.parametrize("name", ["v.csv", "v.parquet", "v.npy"])
def test_all_kinds_of_files_hold_the_same(tmp_path: Path, x: Any, name: str) -> None:
    path, beside = tmp_path / name, None
    frame = pd.DataFrame(x).add_prefix("x").assign(kind=KIND)
    if path.suffix == ".npy":
        np.save(path, x)
        frame[["kind"]].to_csv(beside := tmp_path / "kinds.csv", index=False)
    else:
        frame.to_csv(path, index=False) if path.suffix == ".csv" else frame.to_parquet(path)
    data = read_vectors(path, beside, labels=("kind",))
    assert [name[1] for name in data.columns] == list("12345" if beside else "01234")
    result = data.rows(torch.arange(40))
    assert torch.allclose(result, torch.from_numpy((x - x.mean(0)) / x.std(0, ddof=1)), atol=1e-4)
    assert data.features[0].outcomes == ("a", "b")
    batch = data.batch(16)
    assert torch.equal(batch.x, data.rows(batch.y))
    assert torch.equal(batch.labels[:, 0], batch.y % 2)
    assert torch.equal(data.feature_values(batch)[:, 0], (batch.y % 2).float())


def test_sparse_arrays_and_tensors(tmp_path: Path, x: Any) -> None:
    expected = read_vectors(pd.DataFrame(x).add_prefix("x").pipe(saved, tmp_path / "a.csv")).rows
    save_npz(tmp_path / "a.npz", csr_matrix(x))
    torch.save(torch.from_numpy(x), tmp_path / "a.pt")
    for name in ("a.npz", "a.pt"):
        rows = read_vectors(tmp_path / name).rows(torch.arange(40))
        torch.testing.assert_close(rows, expected(torch.arange(40)), atol=1e-5, rtol=1e-5)
    torch.save({"weights": torch.ones(2)}, tmp_path / "b.pt")
    with pytest.raises(ValueError, match=r"cannot read .*b.pt' as an array"):
        read_vectors(tmp_path / "b.pt")


@pytest.mark.parametrize("first", ["", "4 2\n"])
def test_word_vectors_as_text(tmp_path: Path, first: str) -> None:
    """As GloVe and word2vec write them: a quotation mark and NA are words."""
    path = tmp_path / "a.vec"
    path.write_text(f'{first}# 0.5 1e-1\nNA -1 2 \n07 3 4\n", 0 0\n', "utf-8")
    vectors = read_vectors(path)
    assert (vectors.row_names, vectors.columns) == (("#", "NA", "07", '",'), ("x1", "x2"))
    assert vectors.array.tolist() == pytest.approx(np.array([[0.5, 0.1], [-1, 2], [3, 4], [0, 0]]))


def test_names_of_columns_that_count_are_no_vector(tmp_path: Path) -> None:
    for mark, least in (("\t", 0), (" ", 2018)):
        path = tmp_path / "a.txt"
        path.write_text(mark.join(["word", *map(str, range(least, least + 3))]) + "\nw 0.5 1 2\n")
        with pytest.raises(ValueError, match=f"its first line holds numbers .{least}."):
            read_vectors(path)


def test_words_beside_a_table_in_another_order_are_refused(tmp_path: Path) -> None:
    own, table = tmp_path / "a.txt", tmp_path / "t.csv"
    own.write_text("v 0.5 1\nw 2 3\n")
    table.write_text("word\nv\nw\n")
    assert read_vectors(own, table, names="word").row_names == ("v", "w")
    table.write_text("word\nw\nv\n")
    with pytest.raises(ValueError, match=r"called 'v', 'w', .* of t.csv 'w', 'v'"):
        read_vectors(own, table, names="word")


def test_what_seems_to_stand_for_a_missing_value_is_said(
    tmp_path: Path, x: Any, caplog: pytest.LogCaptureFixture
) -> None:
    x[2, 0] = -9
    saved(pd.DataFrame(x, columns=list("abcde")), tmp_path / "a.csv")
    read_vectors(tmp_path / "a.csv")
    assert "has -9" not in caplog.text  # one number among others
    x[2, 0] = -999
    gap = [np.nan, -999, *range(38)]
    frame = pd.DataFrame(x, columns=list("abcde")).assign(kind=range(40), gap=gap)
    read_vectors(saved(frame, tmp_path / "a.csv"), labels=("kind",), continuous=("gap",))
    assert "column 'gap' of a.csv has -999 in row 2" in caplog.text
    assert "column 'a' of a.csv has -999 in row 3" in caplog.text
    assert "column 'kind' of a.csv has 40 values in 40 rows" in caplog.text


def saved(frame: pd.DataFrame, path: Path) -> Path:
    frame.to_csv(path, index=False)
    return path


def test_an_array_and_a_table_beside_it(tmp_path: Path, x: Any) -> None:
    """Training rows alone tell mean and deviation."""
    held_out = np.arange(40) >= 30
    x[held_out] += 100
    np.save(tmp_path / "x.npy", x)
    beside = pd.DataFrame({"word": [f"w{k}" for k in range(40)], "kind": KIND, "size": x[:, 0]})
    beside.assign(mark=held_out).to_csv(tmp_path / "t.csv", index=False)
    data = read_vectors(tmp_path / "x.npy", tmp_path / "t.csv", names="word", held_out="mark")
    assert [(f.name, f.categorical) for f in data.features] == [("kind", True), ("size", False)]
    assert (data.row_names[7], data.columns[0]) == ("w7", "x1")
    train = data.rows(data.members["train"])
    assert train.mean(0).abs().max() < 1e-5
    assert torch.allclose(train.std(0), torch.ones(5), atol=1e-4)
    assert data.rows(data.members["held_out"]).min() > 20


def test_columns_that_do_not_vary_are_left_out(
    tmp_path: Path, x: Any, caplog: pytest.LogCaptureFixture
) -> None:
    x[:, 1] = 7
    np.save(tmp_path / "v.npy", x)
    data = read_vectors(tmp_path / "v.npy")
    assert data.columns == ("x1", "x3", "x4", "x5")
    assert "'x2' of v.npy do not vary by more than a part of 1e-06" in caplog.text


LOST, ENDLESS = np.arange(20.0).reshape(4, 5), np.eye(3)
LOST[3, 2], ENDLESS[1, 2] = np.nan, np.inf


@pytest.mark.parametrize(
    ("name", "content", "arguments", "sentence"),
    [
        ("a.csv", LOST, {}, "column 'c2' of a.csv has a missing value in row 4"),
        ("a.npy", ENDLESS, {}, "column 'x3' of a.npy has inf in row 2"),
        ("a.csv", [["a"], ["b"]], {}, "column 'c0' of a.csv holds 'a', which is no number: name"),
        ("a.csv", [[1], [2]], {"ignore": ("c0",)}, "a.csv has no column of numbers besides"),
        ("a.npy", np.eye(9) + 1e9, {}, "'x1'.* of a.npy do not vary .*: subtract the mean"),
        ("a.npy", np.ones((4, 3, 2)), {}, "vectors are rows"),
        ("a.npy", LOST, {"labels": ("kind",)}, "a.npy has no column 'kind'"),
        ("a.npy", b"no array", {}, "cannot read .*a.npy' as an array, as of numpy.save"),
    ],
)
def test_refusals(
    tmp_path: Path, name: str, content: Any, arguments: dict[str, Any], sentence: str
) -> None:
    path = tmp_path / name
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif path.suffix == ".csv":
        pd.DataFrame(content).add_prefix("c").to_csv(path, index=False)
    else:
        np.save(path, np.array(content))
    with pytest.raises(ValueError, match=sentence) as error:
        read_vectors(path, **arguments)
    assert "\n" not in str(error.value)
