"""A user's table: three formats, one result; and a sentence that names column and row for whatever
is wrong.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from plot_attractors.data import BinaryTable, DataSet, read_table

X = np.array([[0, 1, 0], [1, 1, 0], [1, 0, 1], [0, 0, 1], [1, 1, 1]])
COLUMNS = ["wings", "fur", "fins"]
FAMILY = ["cat", "bat", None, "cat", "ape"]


def frame() -> pd.DataFrame:
    table = pd.DataFrame(X, columns=COLUMNS)
    table.insert(1, "family", FAMILY)
    table["year"] = [1990, 5, 30, 5, 1990]
    return table


def write(table: pd.DataFrame, path: Path) -> Path:
    if path.suffix == ".parquet":
        pytest.importorskip("pyarrow")
        table.to_parquet(path)
    elif path.suffix == ".npz":
        labels = {
            name: table[name].fillna("").to_numpy() for name in ("family", "year") if name in table
        }
        labels = {name: a.astype(str) if a.dtype == object else a for name, a in labels.items()}
        x = table.drop(columns=list(labels))
        arrays: dict[str, Any] = {
            "x": x.to_numpy(),
            "columns": np.array(x.columns, dtype=str),
            **labels,
        }
        np.savez(path, **arrays)
    else:
        table.to_csv(path, index=False, sep="\t" if path.suffix == ".tsv" else ",")
    return path


def text(path: Path, content: str) -> Path:
    path.write_text(content, encoding="utf-8")
    return path


def refusal(path: Path, *args: Any, **kwargs: Any) -> str:
    """The one sentence with which a table is refused."""
    with pytest.raises(ValueError, match=r"\w") as caught:
        read_table(path, *args, **kwargs)
    sentence = str(caught.value)
    assert "\n" not in sentence
    return sentence


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet", ".npz"])
def test_formats_read_alike(tmp_path: Path, suffix: str) -> None:
    table = read_table(write(frame(), tmp_path / f"animals{suffix}"), labels=("family", "year"))
    assert isinstance(table, DataSet)
    assert table.columns == tuple(COLUMNS)
    assert table.bits == 3
    assert table.x.tolist() == X.tolist()
    assert table.label_names == ("family", "year")
    assert table.label_values == {"family": ("ape", "bat", "cat"), "year": ("5", "30", "1990")}
    assert table.labels.tolist() == [[2, 2], [1, 0], [-1, 1], [2, 0], [0, 2]]
    assert table.labels.dtype == torch.int64
    assert table.splits == ("train",)


def test_labels_as_one_string_and_ignored_columns(tmp_path: Path) -> None:
    path = write(frame(), tmp_path / "animals.csv")
    assert read_table(path, "family, year").label_names == ("family", "year")
    assert read_table(path, "family", ignore="year").columns == tuple(COLUMNS)


def test_labels_keep_their_spelling(tmp_path: Path) -> None:
    path = text(tmp_path / "a.csv", "x,code,n,flag\n0,NA,1,true\n1,None,,false\n1,NA,2,true\n")
    table = read_table(path, ("code", "n", "flag"))
    assert table.label_values == {
        "code": ("NA", "None"),
        "n": ("1", "2"),
        "flag": ("False", "True"),
    }
    assert table.labels.tolist() == [[0, 0, 1], [1, -1, 0], [0, 1, 1]]


def test_categorical_and_mixed_labels(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    table = frame()
    table["family"] = pd.Categorical(FAMILY, categories=["zebra", "cat", "bat", "ape"])
    read = read_table(write(table, tmp_path / "a.parquet"), ("family",), ignore=("year",))
    assert read.label_values["family"] == ("ape", "bat", "cat")
    assert read.labels.flatten().tolist() == [2, 1, -1, 2, 0]
    mixed = text(tmp_path / "m.csv", "x,l\n0,b\n1,2\n")
    assert read_table(mixed, "l").label_values == {"l": ("2", "b")}


def test_booleans_and_floats_are_bits(tmp_path: Path) -> None:
    path = text(
        tmp_path / "a.csv", "a,b,c,d\ntrue,1.0,TRUE,0\nfalse,0.0, False,true\ntrue,0,true,1\n"
    )
    assert read_table(path).x.tolist() == [[1, 1, 1, 0], [0, 0, 0, 1], [1, 0, 1, 1]]
    pytest.importorskip("pyarrow")
    table = pd.DataFrame(
        {"a": [True, False], "b": [0.0, 1.0], "c": pd.array([True, False], dtype="boolean")}
    )
    assert read_table(write(table, tmp_path / "a.parquet")).x.tolist() == [[1, 0, 1], [0, 1, 0]]
    np.savez(tmp_path / "a.npz", whatever=X.astype(bool))
    read = read_table(tmp_path / "a.npz")
    assert read.x.tolist() == X.tolist()
    assert read.columns == ("x1", "x2", "x3")


def test_separators_byte_order_mark_and_named_index(tmp_path: Path) -> None:
    path = text(tmp_path / "a.csv", "\ufeffa; b\n0;1\n1;0\n\n")
    assert read_table(path).columns == ("a", "b")
    pytest.importorskip("pyarrow")
    indexed = frame().drop(columns="year").set_index("family")
    table = read_table(write(indexed, tmp_path / "a.parquet"), "family")
    assert table.columns == tuple(COLUMNS)
    unnamed = frame()[COLUMNS].iloc[[4, 3, 2, 1, 0]]
    assert read_table(write(unnamed, tmp_path / "b.parquet")).x.tolist() == X[::-1].tolist()


def test_batches_are_rows_drawn_uniformly_by_the_seed(tmp_path: Path) -> None:
    table = read_table(write(frame(), tmp_path / "a.csv"), ("family", "year"))
    torch.manual_seed(0)
    batch = table.batch(20_000)
    torch.manual_seed(0)
    again = table.batch(20_000)
    assert all(torch.equal(a, b) for a, b in zip(batch, again, strict=True))
    assert batch.x.dtype == torch.float32
    assert torch.equal(batch.x, torch.tensor(X).float()[batch.y])
    assert torch.equal(batch.labels, table.labels[batch.y])
    share = torch.bincount(batch.y, minlength=5) / len(batch.y)
    assert (share - 0.2).abs().max() < 4 * math.sqrt(0.2 * 0.8 / len(batch.y))


@pytest.mark.parametrize(
    "marks", [[0, 1, 0, 0, 1], ["train", "held_out", "train", "Train", "held_out"]]
)
def test_held_out_column(tmp_path: Path, marks: list[Any]) -> None:
    path = write(frame()[COLUMNS].assign(test=marks), tmp_path / "a.csv")
    table = read_table(path, held_out="test")
    assert table.columns == tuple(COLUMNS)
    assert table.splits == ("train", "held_out")
    assert table.train_rows.tolist() == [0, 2, 3]
    assert table.held_out_rows.tolist() == [1, 4]
    torch.manual_seed(0)
    assert set(table.batch(200).y.tolist()) == {0, 2, 3}
    assert set(table.batch(200, "held_out").y.tolist()) == {1, 4}


def test_held_out_fraction_follows_its_seed(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    path = write(
        pd.DataFrame(rng.integers(0, 2, (50, 4)), columns=list("abcd")), tmp_path / "a.csv"
    )
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    tables = [read_table(path, held_out_fraction=0.3, seed=seed) for seed in (1, 1, 2)]
    assert torch.equal(torch.rand(3), expected)
    assert [len(t.held_out_rows) for t in tables] == [15, 15, 15]
    assert torch.equal(tables[0].held_out, tables[1].held_out)
    assert not torch.equal(tables[0].held_out, tables[2].held_out)
    for t in tables:
        assert sorted([*t.train_rows.tolist(), *t.held_out_rows.tolist()]) == list(range(50))


def test_constant_columns(tmp_path: Path) -> None:
    path = write(frame()[COLUMNS].assign(alive=1, dead=0), tmp_path / "a.csv")
    assert "a.csv has constant columns, which tell nothing: 'alive', 'dead'" in refusal(path)
    assert read_table(path, constant="drop").columns == tuple(COLUMNS)
    only = text(tmp_path / "b.csv", "a,b\n0,1\n0,1\n")
    assert "every 0/1 column of b.csv is constant" in refusal(only, constant="drop")
    assert "must be 'refuse' or 'drop'" in refusal(path, constant="keep")


def test_many_constant_columns_are_listed_briefly(tmp_path: Path) -> None:
    columns = {f"c{k}": [1, 1] for k in range(30)}
    assert refusal(write(pd.DataFrame(columns), tmp_path / "a.csv")).count("'c") == 10


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npz"])
def test_missing_value_names_column_and_row(tmp_path: Path, suffix: str) -> None:
    table = frame()[COLUMNS].astype(float)
    table.loc[2, "fur"] = np.nan
    sentence = refusal(write(table, tmp_path / f"a{suffix}"))
    counting = "counting from 1, header excluded" if suffix == ".csv" else "counting from 1"
    assert f"column 'fur' of a{suffix} has a missing value in row 3 ({counting})" in sentence


@pytest.mark.parametrize("cell", ["", "NA", "nan", "None", " "])
def test_missing_spellings(tmp_path: Path, cell: str) -> None:
    path = text(tmp_path / "a.csv", f"a,b\n0,1\n1,{cell}\n0,0\n")
    assert "column 'b' of a.csv has a missing value in row 2" in refusal(path)


def test_blank_line_is_a_row(tmp_path: Path) -> None:
    path = text(tmp_path / "a.csv", "a,b\n0,1\n\n1,2\n")
    assert "column 'a' of a.csv has a missing value in row 2" in refusal(path)


@pytest.mark.parametrize(
    ("cell", "shown"), [("2", "2"), ("0.5", "0.5"), ("-1", "-1"), ("yes", "'yes'"), ("inf", "inf")]
)
def test_other_value_names_column_and_row(tmp_path: Path, cell: str, shown: str) -> None:
    path = text(tmp_path / "a.csv", f"a,b\n0,1\n1,0\n1,{cell}\n")
    where = "row 3 (counting from 1, header excluded), where only 0 and 1 can stand"
    assert f"column 'b' of a.csv holds {shown} in {where}" in refusal(path)


def test_almost_one_is_not_one(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.array([[0, 1], [1 + 1e-12, 0]]))
    assert "column 'x1' of a.npz holds 1 in row 2" in refusal(tmp_path / "a.npz")


def test_unknown_columns_with_close_matches(tmp_path: Path) -> None:
    path = write(frame(), tmp_path / "a.csv")
    assert refusal(path, "famly") == "a.csv has no column 'famly': did you mean 'family'?"
    assert "did you mean 'wings'" in refusal(path, "family", held_out="WINGS")
    assert "it has 'wings', 'family', 'fur', 'fins', 'year'" in refusal(path, "quux")
    assert "no column 'nothing'" in refusal(path, "family", ignore="nothing")
    assert "'family' is named twice" in refusal(path, "family", ignore="family")


def test_duplicate_and_nameless_columns(tmp_path: Path) -> None:
    assert "more than one column called 'a'" in refusal(
        text(tmp_path / "a.csv", "a,b,a\n0,1,1\n1,0,0\n")
    )
    headless = refusal(text(tmp_path / "b.csv", "0,1,1\n1,0,1\n"))
    assert "first line seems to hold values" in headless
    assert "column 1 of c.csv has no name" in refusal(text(tmp_path / "c.csv", ",a\n0,1\n1,0\n"))
    np.savez(tmp_path / "d.npz", x=X, columns=np.array(["a", "b", "a"]))
    assert "more than one column called 'a'" in refusal(tmp_path / "d.npz")
    np.savez(tmp_path / "e.npz", x=X, columns=np.array(["a", "b"]))
    assert "names 2 columns, but 'x' has 3" in refusal(tmp_path / "e.npz")


def test_duplicate_parquet_columns(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    array = pyarrow.array([0, 1])
    parquet.write_table(
        pyarrow.Table.from_arrays([array, array], names=["a", "a"]), tmp_path / "a.parquet"
    )
    assert "more than one column called 'a'" in refusal(tmp_path / "a.parquet")


def test_empty_tables(tmp_path: Path) -> None:
    for content in ("", "\n\n", "  \n"):
        assert "a.csv is empty" in refusal(text(tmp_path / "a.csv", content))
    assert "b.csv has no rows" in refusal(text(tmp_path / "b.csv", "a,b\n"))
    np.savez(tmp_path / "c.npz", x=np.zeros((0, 3)))
    assert "c.npz has no rows" in refusal(tmp_path / "c.npz")
    np.savez(tmp_path / "d.npz", x=np.zeros((3, 0)))
    assert "no 0/1 column" in refusal(tmp_path / "d.npz")
    assert "no 0/1 column besides those named" in refusal(
        text(tmp_path / "e.csv", "a,b\n0,1\n1,0\n"), "a,b"
    )


def test_missing_and_unreadable_files(tmp_path: Path) -> None:
    assert "there is no file" in refusal(tmp_path / "none.csv")
    (tmp_path / "folder.csv").mkdir()
    assert "is not a file" in refusal(tmp_path / "folder.csv")
    assert "ends in '.xlsx': a table must be one of .csv" in refusal(text(tmp_path / "a.xlsx", "a"))
    (tmp_path / "b.csv").write_bytes(b"a,b\n\xff\xfe,1\n")
    assert "it is not UTF-8 text" in refusal(tmp_path / "b.csv")
    assert "as npz" in refusal(text(tmp_path / "c.npz", "not an archive"))
    assert "as npz" in refusal(text(tmp_path / "d.npz", ""))
    (tmp_path / "e.npz").write_bytes(b"PK\x03\x04 cut short")
    assert "as npz" in refusal(tmp_path / "e.npz")
    with (tmp_path / "f.npz").open("wb") as file:
        np.save(file, X)
    assert "as npz" in refusal(tmp_path / "f.npz")
    np.savez(tmp_path / "g.npz", x=np.array([[None, 1]], dtype=object))
    assert "as npz" in refusal(tmp_path / "g.npz")


def test_unreadable_parquet(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    for content in ("", "no parquet here"):
        assert "as parquet" in refusal(text(tmp_path / "a.parquet", content))


def test_parquet_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    path = text(tmp_path / "a.parquet", "x")
    assert refusal(path) == (
        "reading a.parquet needs pyarrow, which is not installed: install pyarrow, or save the "
        "table as CSV"
    )


def test_ragged_rows(tmp_path: Path) -> None:
    assert "line 3" in refusal(text(tmp_path / "a.csv", "a,b\n0,1\n1,0,1\n"))
    surplus = refusal(text(tmp_path / "b.csv", "a,b\n0,1,1\n1,0,1\n"))
    assert surplus == "row 1 of b.csv has 3 cells, but its first line names only 2 columns"
    assert "column 'b' of c.csv has a missing value in row 2" in refusal(
        text(tmp_path / "c.csv", "a,b\n0,1\n1\n")
    )


def test_npz_arrays(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", p=X, q=X)
    assert "has 2 two-dimensional arrays and none called 'x'" in refusal(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", x=np.zeros(4))
    assert "array 'x' of b.npz has 1 dimension(s)" in refusal(tmp_path / "b.npz")
    np.savez(tmp_path / "c.npz", x=X, kind=np.arange(3))
    assert "array 'kind' of c.npz has shape (3,): it needs one entry a row, (5,)" in refusal(
        tmp_path / "c.npz", "kind"
    )
    np.savez(
        tmp_path / "d.npz", x=X, kind=np.array([b"b", b"a", b"b", b"a", b"b"]), other=np.arange(3)
    )
    assert read_table(tmp_path / "d.npz", "kind").label_values == {"kind": ("a", "b")}


def test_empty_label_column(tmp_path: Path) -> None:
    path = text(tmp_path / "a.csv", "a,kind\n0,\n1,\n")
    assert "label column 'kind' of a.csv has no value in any row" in refusal(path, "kind")


def test_bad_hold_outs(tmp_path: Path) -> None:
    path = write(
        frame()[COLUMNS].assign(none=0, all=1, bad=["train", "held_out", "test", "train", "train"]),
        tmp_path / "a.csv",
    )
    rest = {"none", "all", "bad"}
    assert "marks no row as held out" in refusal(
        path, held_out="none", ignore=tuple(rest - {"none"})
    )
    assert "marks every row as held out" in refusal(
        path, held_out="all", ignore=tuple(rest - {"all"})
    )
    sentence = refusal(path, held_out="bad", ignore=tuple(rest - {"bad"}))
    assert "column 'bad' of a.csv holds 'test' in row 3" in sentence
    good = write(frame()[COLUMNS], tmp_path / "b.csv")
    assert "at least 0 and below 1" in refusal(good, held_out_fraction=1.0)
    assert "leaves a split empty" in refusal(good, held_out_fraction=0.01)
    assert "leaves a split empty" in refusal(good, held_out_fraction=0.99)
    assert "not both" in refusal(good, held_out="wings", held_out_fraction=0.5)


def test_batch_larger_than_the_table(tmp_path: Path) -> None:
    table: BinaryTable = read_table(
        write(frame()[COLUMNS], tmp_path / "a.csv"), held_out_fraction=0.2
    )
    table.check_batch(4)
    with pytest.raises(
        ValueError,
        match=r"a\.csv has 4 training rows, fewer than a batch of 5: set the batch size to 4",
    ):
        table.check_batch(5)
    with pytest.raises(ValueError, match="unknown split 'test'"):
        table.batch(2, "test")
    with pytest.raises(ValueError, match="positive whole number"):
        table.batch(0)


def test_wide_and_long(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for rows, columns in ((3_000, 5), (8, 3_000)):
        x = rng.integers(0, 2, (rows, columns))
        x[0], x[1] = 0, 1
        np.savez_compressed(tmp_path / "a.npz", x=x)
        assert np.array_equal(read_table(tmp_path / "a.npz").x.numpy(), x)
