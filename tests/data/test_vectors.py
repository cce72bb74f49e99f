"""Real-valued vectors: read from every kind of file, standardised, refused in one sentence."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from plot_attractors.data import Vectors, read_vectors

KIND = np.array(["a", "b"] * 20)


@pytest.fixture
def x() -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).normal(3.0, 2.0, (40, 5)).astype(np.float32)


def write(path: Path, x: np.ndarray[Any, Any]) -> Path:
    names = [f"c{k}" for k in range(5)]
    frame = pd.DataFrame(x, columns=names).assign(kind=KIND)
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
    elif path.suffix == ".parquet":
        frame.to_parquet(path)
    else:
        np.savez(path, x=x, columns=names, kind=KIND)
    return path


@pytest.mark.parametrize("name", ["v.csv", "v.parquet", "v.npz"])
def test_all_kinds_of_files_hold_the_same(tmp_path: Path, x: Any, name: str) -> None:
    data = read_vectors(write(tmp_path / name, x), labels="kind")
    assert data.columns == ("c0", "c1", "c2", "c3", "c4")
    result = data.rows(torch.arange(40))
    assert torch.allclose(result, torch.from_numpy((x - x.mean(0)) / x.std(0, ddof=1)), atol=1e-4)
    assert data.features[0].outcomes == ("a", "b")
    batch = data.batch(16)
    assert torch.equal(batch.x, data.rows(batch.y))
    assert torch.equal(batch.labels[:, 0], batch.y % 2)
    assert torch.equal(data.feature_values(batch)[:, 0], (batch.y % 2).float())


def test_an_array_and_a_table_beside_it(tmp_path: Path, x: Any) -> None:
    np.save(tmp_path / "x.npy", x)
    beside = pd.DataFrame({"word": [f"w{k}" for k in range(40)], "kind": KIND, "size": x[:, 0]})
    beside.to_csv(tmp_path / "t.csv", index=False)
    data = read_vectors(tmp_path / "x.npy", tmp_path / "t.csv", names="word")
    assert isinstance(data.array, np.memmap)
    assert [(f.name, f.categorical) for f in data.features] == [("kind", True), ("size", False)]
    assert data.row_names[7] == "w7"
    assert data.columns[0] == "x1"


def test_names_that_vectors_share_are_logged(
    tmp_path: Path, x: Any, caplog: pytest.LogCaptureFixture
) -> None:
    np.save(tmp_path / "x.npy", x)  # as of several recordings of one word
    beside = pd.DataFrame({"word": ["a", "b"] * 20, "place": [f"p{k // 2}" for k in range(40)]})
    beside.to_csv(tmp_path / "t.csv", index=False)
    data = read_vectors(tmp_path / "x.npy", tmp_path / "t.csv", names="word")
    assert data.row_names[:3] == ("a", "b", "a")
    assert caplog.messages == [
        "column 'word' of t.csv names the rows, and 'a' stands in 20 of them"
    ]


def test_training_rows_alone_tell_mean_and_deviation(tmp_path: Path, x: Any) -> None:
    held_out = np.arange(40) >= 30
    x[held_out] += 100
    np.savez(tmp_path / "x.npz", x=x, mark=held_out)
    data = read_vectors(tmp_path / "x.npz", held_out="mark")
    train = data.rows(data.members["train"])
    assert train.mean(0).abs().max() < 1e-5
    assert torch.allclose(train.std(0), torch.ones(5), atol=1e-4)
    assert data.rows(data.members["held_out"]).min() > 20


def test_columns_that_do_not_vary_are_left_out(
    tmp_path: Path, x: Any, caplog: pytest.LogCaptureFixture
) -> None:
    x[:, 1] = 7
    data = read_vectors(write(tmp_path / "v.npz", x), labels="kind")
    assert data.columns == ("c0", "c2", "c3", "c4")
    assert "of 5 columns of v.npz, 1 do not vary and are left out: 'c1'" in caplog.text
    assert data.batch(3).x.shape == (3, 4)


def test_large_arrays_stay_on_disk(tmp_path: Path) -> None:
    rows = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", np.float32, (60_000, 256))
    rows[:] = np.random.default_rng(0).normal(size=(1, 256))
    rows[::2] += 1
    rows.flush()
    tracemalloc.start()
    data = read_vectors(tmp_path / "x.npy")
    data.batch(64)
    used = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert used < 45e6 < 4 * 60_000 * 256  # a part of a million numbers, four times, in doubles
    assert len(data.values) == 60_000


def spoiled(tmp_path: Path, x: Any) -> dict[str, tuple[Path, dict[str, Any], str]]:
    x[3, 2] = np.nan
    lost = write(tmp_path / "lost.csv", x)
    infinite = x.copy()
    infinite[3, 2] = np.inf
    np.save(tmp_path / "infinite.npy", infinite)
    np.save(tmp_path / "flat.npy", np.ones((4, 3)))
    np.save(tmp_path / "cube.npy", np.ones((4, 3, 2)))
    np.save(tmp_path / "text.npy", np.array([["a", "b"], ["c", "d"]]))
    np.savez(tmp_path / "two.npz", a=x, b=x)
    np.savez(tmp_path / "short.npz", x=infinite[:2], kind=np.array(["a"]))
    np.savez(tmp_path / "objects.npz", x=infinite, kind=KIND.astype(object))
    (tmp_path / "bad.npz").write_bytes(b"no archive")
    return {
        "missing": (
            lost,
            {"labels": "kind"},
            r"column 'c2' of lost.csv has a missing value in row 4",
        ),
        "infinite": (
            tmp_path / "infinite.npy",
            {},
            r"column 'x3' of infinite.npy has inf in row 4",
        ),
        "a label": (lost, {}, r"column 'kind' of lost.csv holds 'a', which is no number: name"),
        "no variance": (tmp_path / "flat.npy", {}, "flat.npy are all alike: nothing varies"),
        "a cube": (tmp_path / "cube.npy", {}, "vectors are rows of a matrix"),
        "text": (tmp_path / "text.npy", {}, "which are no real numbers"),
        "two": (
            tmp_path / "two.npz",
            {},
            "has 2 two-dimensional arrays: call the one of vectors x",
        ),
        "labels": (
            tmp_path / "short.npz",
            {"labels": "kind"},
            "'kind' has the shape .*, not one a row",
        ),
        "no such label": (tmp_path / "two.npz", {"labels": "kin"}, "two-dimensional"),
        "damaged": (tmp_path / "bad.npz", {}, "cannot read .*bad.npz' as an array of vectors"),
        "objects": (tmp_path / "objects.npz", {"labels": "kind"}, "save it with dtype=str"),
        "no file": (tmp_path / "none.npy", {}, "there is no file .*none.npy"),
        "another kind": (tmp_path / "a.doc", {}, "a.doc ends in '.doc'"),
        "one row": (tmp_path / "one.npy", {}, r"one.npy has 1 row\(s\)"),
    }


def test_whole_numbers_beyond_single_precision(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    x = np.array([[1, 2**24 + 1], [2, 2**24 + 4], [3, 2**24 + 8]])
    np.save(tmp_path / "a.npy", x)
    pd.DataFrame(x, columns=["a", "b"]).to_csv(tmp_path / "a.csv", index=False)
    read_vectors(tmp_path / "a.npy")
    read_vectors(tmp_path / "a.csv")
    assert "beyond 16,777,216 are rounded, as of single precision, in 'x2'" in caplog.text
    assert "in 'b': subtract" in caplog.text
    caplog.clear()
    np.save(tmp_path / "b.npy", np.array([[1, 2**24], [2, 2**25], [3, 2**26]]))  # exact
    read_vectors(tmp_path / "b.npy")
    assert not caplog.text


@pytest.mark.parametrize("case", [
    "missing", "infinite", "a label", "no variance", "a cube", "text", "two", "labels",
    "no such label", "objects", "damaged", "no file", "another kind", "one row",
])  # fmt: skip
def test_refusals(tmp_path: Path, x: Any, case: str) -> None:
    np.save(tmp_path / "one.npy", np.ones((1, 3)))
    path, arguments, sentence = spoiled(tmp_path, x)[case]
    with pytest.raises(ValueError, match=sentence) as error:
        read_vectors(path, **arguments)
    assert "\n" not in str(error.value)


def test_a_split_has_its_own_rows(tmp_path: Path, x: Any) -> None:
    np.save(tmp_path / "x.npy", x)
    data = read_vectors(tmp_path / "x.npy", held_out_fraction=0.25)
    assert isinstance(data, Vectors)
    assert {name: len(rows) for name, rows in data.members.items()} == {"train": 30, "held_out": 10}
    assert set(data.batch(100, "held_out").y.tolist()) <= set(data.members["held_out"].tolist())
