"""A user's table: all formats, one result; whatever is wrong is one sentence."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from plot_attractors.data import read_table, read_vectors

X = np.array([[0, 1, 0], [1, 1, 0], [1, 0, 1], [0, 0, 1], [1, 1, 1]])
COLUMNS = ["wings", "fur", "fins"]
FAMILY = ["cat", "bat", None, "cat", "ape"]
REST = {"ignore": ("family", "year")}


def frame() -> pd.DataFrame:
    table = pd.DataFrame(X, columns=COLUMNS)
    table.insert(1, "family", FAMILY)
    table["year"] = [1990, 5, 30, 5, 1990]
    return table


def write(table: pd.DataFrame, path: Path) -> Path:
    if path.suffix == ".parquet":
        pytest.importorskip("pyarrow")
        table.to_parquet(path)
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


ROWS = st.lists(st.tuples(*[st.integers(0, 1)] * 3)).map(np.array)


@given(ROWS.filter(lambda x: len(x) and x.std(0).any()), st.sampled_from(["csv", "tsv", "parquet"]))
@settings(derandomize=True, deadline=None, max_examples=30)
def test_what_is_written_is_read(x: np.ndarray, kind: str) -> None:
    varies = x.std(0) > 0
    with TemporaryDirectory() as folder:
        table = read_table(write(pd.DataFrame(x, columns=COLUMNS), Path(folder, f"a.{kind}")))
    assert table.x.tolist() == x[:, varies].tolist()
    assert table.columns == tuple(np.array(COLUMNS)[varies])


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet"])
def test_formats_read_alike(tmp_path: Path, suffix: str) -> None:
    path = write(frame(), tmp_path / f"animals{suffix}")
    assert read_table(path, labels=("family",), ignore=("year",)).columns == tuple(COLUMNS)
    table = read_table(path, labels=("family", "year"))
    assert (table.columns, table.bits, table.splits) == (tuple(COLUMNS), 3, ("train",))
    assert table.x.tolist() == X.tolist()
    assert table.label_names == ("family", "year")
    assert [f.outcomes for f in table.features] == [("ape", "bat", "cat"), ("5", "30", "1990")]
    assert table.labels.tolist() == [[2, 2], [1, 0], [-1, 1], [2, 0], [0, 2]]
    batch = table.batch(20)
    assert torch.equal(batch.x, torch.tensor(X).float()[batch.y])
    assert torch.equal(batch.labels, table.labels[batch.y])


def test_labels_keep_their_spelling(tmp_path: Path) -> None:
    path = text(tmp_path / "a.csv", "x,code,n,flag\n0,NB,1,true\n1,None,,false\n1,NB,2,true\n")
    table = read_table(path, labels=("code", "n", "flag"))
    assert [f.outcomes for f in table.features] == [("NB", "None"), ("1", "2"), ("false", "true")]
    assert table.labels.tolist() == [[0, 0, 1], [1, -1, 0], [0, 1, 1]]
    large = text(tmp_path / "b.csv", "x,n,id\n0,90071992547409931,007\n1,90071992547409930,7\n")
    table = read_table(large, labels=("n",), names="id")
    assert table.features[0].outcomes == ("90071992547409930", "90071992547409931")
    assert table.row_names == ("007", "7")
    kinds = frame().assign(family=pd.Categorical(FAMILY, categories=["zebra", "cat", "bat", "ape"]))
    for kept in (kinds, kinds.set_index("family")):  # a named index is a column
        read = read_table(write(kept, tmp_path / "a.parquet"), labels=("family",), ignore=("year",))
        assert read.features[0].outcomes == ("ape", "bat", "cat")
        assert read.labels.flatten().tolist() == [2, 1, -1, 2, 0]


def test_held_out_column_and_fraction(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for marks in ([0, 1, 0, 0, 1], ["train", "held_out", "train", "Train", "held_out"]):
        path = write(frame()[COLUMNS].assign(test=marks), tmp_path / "a.csv")
        table = read_table(path, held_out="test")
        assert table.columns == tuple(COLUMNS)
        for split, rows in {"train": {0, 2, 3}, "held_out": {1, 4}}.items():
            assert {*table.members[split].tolist()} == {*table.batch(200, split).y.tolist()} == rows
    path = write(pd.DataFrame(rng.integers(0, 2, (50, 4)), columns=[*"abcd"]), tmp_path / "a.csv")
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    tables = [read_table(path, held_out_fraction=0.3, split_seed=seed) for seed in (1, 1, 2)]
    assert torch.equal(torch.rand(3), expected)
    first, again, other = (t.members["held_out"] for t in tables)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    for t in tables:
        assert len(t.members["held_out"]) == 15
        assert sorted(torch.cat([*t.members.values()]).tolist()) == list(range(50))


NAMED = "animal,home,fins\ncod,sea,1\nwasp,air,0\nhen,land,0\n"
ONLY = "in row 3 (counting from 1, header excluded), where only 0, 1, false, true, no, yes can"
HOME = {"ignore": ("home",)}
NUMBERS = "its first line holds numbers"


@pytest.mark.parametrize(
    ("content", "given", "sentence"),
    [
        ("a,b\n0,1\n1,\n0,0\n", {}, "column 'b' of a.csv has a missing value in row 2"),
        *(
            (f"a,b\n0,1\n1,0\n1,{cell}\n", {}, f"column 'b' of a.csv holds {cell} {ONLY}")
            for cell in ("2", "0.5", "-1", "inf")
        ),
        ("a,b\n0,1\n1,0\n1,maybe\n", {}, f"column 'b' of a.csv holds 'maybe' {ONLY}"),
        ("a,b,a\n0,1,1\n1,0,0\n", {}, "more than one column called 'a'"),
        ("a,,b\n0,1,1\n1,0,0\n", {}, "a.csv has a column without a name: name or remove it"),
        ("", {}, "No columns to parse from file"),
        ("a,b\n", {}, "nothing varies in a.csv"),
        ("a,b\n0,1\n0,1\n", {}, "not the same in every row, as 'a', 'b'"),
        ("a,b\n0,1\n1,0\n", {"labels": ("a", "b")}, "it needs a 0/1 column besides those named"),
        ("a,kind\n0,\n1,\n", {"labels": ("kind",)}, "column 'kind' of a.csv has no value"),
        ("a,b\n0,1\n1,0,1\n", {}, "Expected 2 fields in line 3, saw 3"),
        ("a,b\n0,1\n1\n1,0\n", {"missing": "ignore"}, "header excluded) has fewer cells than"),
        ('a,b\n0,"1,000"\n1,"2,000"\n', {}, "'b' of a.csv holds '1,000' in row 1"),
        ("a,b,c\n1,0,1,\n0,1,0,\n", {}, "Expected 3 fields in line 2, saw 4"),
        ("#a,b\nyes,no\nno,yes\nyes,yes\n", {"labels": ("a",)}, "no column 'a': it has '#a', 'b'"),
        ('a;b\n"0,5";1\n1;0\n', {}, "'a' of a.csv holds '0,5' in row 1"),
        (None, {"labels": ("famly",)}, "no column 'famly': it has 'wings', 'family'"),
        (NAMED, {"names": "animal"}, "column 'home' of a.csv holds 'sea' in row 1"),
        (NAMED.replace("wasp", ""), {**HOME, "names": "animal"}, "has no name in row 2"),
        (None, {"held_out_fraction": 1.0, **REST}, "every row of a.csv is held out"),
        (None, {"held_out": "wings", "held_out_fraction": 0.5, **REST}, "not both"),
        ("a,b\n0,0\n1,0\n", {"held_out": "b"}, "no row of a.csv is held out"),
        ("a,b\n0,train\n1,test\n", {"held_out": "b"}, "column 'b' of a.csv holds 'test' in row 2"),
        ("a,b\nHave you?,Do you?\n1,\n2,1\n1,1\n2,2\n", {}, "its columns in 2 lines, as exports"),
        ("a,b\nHave you?,Do you?\nImport1,Import2\n1,2\n2,1\n", {}, "skiprows=[1, 2]) does"),
        ("a,b\n<1,<1\n1,2\n2,1\n1,2\n", {}, "'a' of a.csv holds '<1'"),
        ("1 0 1 1\n0 1 1 0\n", {}, NUMBERS),
        *((f"{first}\n1,0,1\n0,1,0\n", {}, NUMBERS) for first in ("0,1,1", "cat,0.25,1", "1,0,")),
    ],
)
def test_bad_tables(
    tmp_path: Path, content: str | None, given: dict[str, Any], sentence: str
) -> None:
    path = tmp_path / "a.csv"
    text(path, content) if content is not None else write(frame(), path)
    assert sentence in refusal(path, **given)


def test_unreadable_files(tmp_path: Path) -> None:
    for name, sentence in (
        ("a.xlsx", "a.xlsx' as a table (CSV, TSV or Parquet): it is no text in UTF-8"),
        ("f.parquet", "f.parquet' as a table"),
    ):
        (tmp_path / name).write_bytes(b"PK\xff")
        assert sentence in refusal(tmp_path / name)
    assert "No such file or directory" in refusal(tmp_path / "none.csv")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a,b\nyes,No\nno,yes\n", ""),
        ('\ufeffa, "b"\r\n1.0, 0\r\n0.0, 1\r\n\r\n', ""),
        ("0,1,2\n1,0,0\n0,1,1\n", ""),  # names by which pandas counts
        ("a,b,c\ntrue,FALSE,1\nfalse,True,1\n", "1 of 3 columns of a.csv are the same in"),
        ("# an export\n# of 2026\na,b\n1,0\n0,1\n", ""),
        ("a;b\nja;Nein\nnein;ja\n", ""),
        ("a,b\nsi,no\nno,SI\n", ""),
        ("a,b\n1,2\n2,1\n", "1 is 1 and 2 is 0 in 'a', 'b' of a.csv"),
        ("a,b,c\n1,2,2\n2,1,2\n", "1 of 3 columns of a.csv are the same in"),
        ("0 1 2\n1 0 0\n0 1 1\n", ""),
        ("a|b\n+|-\n−|+\n", ""),
        ("a b\n1  0\n0 1\n", ""),
        ("a\tb\npresent\tabsent\nabsent\tpresent\n", ""),
        (",a,b\n0,1,0\n1,0,1\n", ""),  # an index of pandas that counts
    ],
)
def test_tables_as_people_have_them(
    tmp_path: Path, content: str, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert read_table(text(tmp_path / "a.csv", content)).x[:, :2].tolist() == [[1, 0], [0, 1]]
    assert said in caplog.text
    assert said or not caplog.text


@pytest.mark.parametrize(
    "content", ["a,b\nu,1,0\nv,0,1\n", '"a" "b"\n"u" 1 0\n"v" 0 1\n', ",a,b\nu,1,0\nv,0,1\n"]
)
def test_a_first_column_without_a_name_names_the_rows(tmp_path: Path, content: str) -> None:
    """As R and pandas write tables."""
    table = read_table(path := text(tmp_path / "a.csv", content))
    assert (table.row_names, table.columns) == (("u", "v"), ("a", "b"))
    assert table.x.tolist() == [[1, 0], [0, 1]]
    assert table.read(path)[1] == ("u", "v")
    assert read_table(text(tmp_path / "b.csv", content), ignore=("a",)).row_names == ("u", "v")


def test_twos_are_remembered(tmp_path: Path) -> None:
    """Rows that are read later say no by 2, though they may all; 2 is no value beside 0."""
    table = read_table(text(tmp_path / "a.csv", "a,b\n1,0\n2,1\n"))
    assert table.read(text(tmp_path / "b.csv", "a,b\n2,0\n"))[0].tolist() == [[0, 0]]
    assert table.read(text(tmp_path / "c.csv", "a,b\n1,1\n"))[0].tolist() == [[1, 1]]
    for row, held in (("1,2", "'b' of d.csv holds 2"), ("0,1", "'a' of d.csv holds 0")):
        with pytest.raises(ValueError, match=held):
            table.read(text(tmp_path / "d.csv", f"a,b\n{row}\n"))


# Missing values.


@pytest.mark.parametrize("mark", ["", ".", "?", "N/A", "nan", "NULL"])
def test_marks_of_missing_values(tmp_path: Path, mark: str) -> None:
    path = text(tmp_path / "a.csv", f"a,b,c\n0,1,1\n1,{mark},1\n1,0,0\n0,1,0\n")
    table = read_table(path, missing="ignore")
    assert table.x[1].tolist() == [1, -1, 1]
    assert table.rows(torch.tensor([1])).isnan().tolist() == [[False, True, False]]
    assert torch.equal(table.read(path)[0].isnan(), table.x < 0)
    assert "has a missing value in row 2" in refusal(path)


def test_labels_may_be_missing_and_none_is_none_of_these(tmp_path: Path) -> None:
    path = text(tmp_path / "a.csv", "animal,swims,kind\nNA,1,fish\nowl,0,none\nelk,0,?\nbat,0,\n")
    table = read_table(path, labels=("kind",), names="animal")
    assert table.row_names[0] == "NA"
    assert table.features[0].outcomes == ("fish", "none")
    assert table.labels.flatten().tolist() == [0, 1, -1, -1]


# Files that were read wrongly without a word.


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({}, "column 'fur' of a.csv holds '-' in row 1"),
        ({"labels": ("fur",), **HOME}, "holds '-': empty the cell where it is missing, or write"),
        ({"labels": ("home",), "ignore": ("fur",)}, "column 'home' of a.csv holds '–'"),
    ],
)
def test_a_dash_is_refused(tmp_path: Path, given: dict[str, Any], sentence: str) -> None:
    path = text(tmp_path / "a.csv", "a,fur,home\n0,-,sea\n1,1,–\n0,0,air\n")
    assert sentence in refusal(path, missing="ignore", **given)


@pytest.mark.parametrize(
    "name", ["id", "word_id", "Unnamed: 0", "price index", "X", "CaseId", "trial"]
)
def test_a_column_that_numbers_the_rows_is_refused(tmp_path: Path, name: str) -> None:
    rows = pd.DataFrame({name: [60, 97, 71, 88], "a": [0, 1, 0, 1], "b": [0, 0, 1, 0]})
    path = write(rows, tmp_path / "a.csv")
    np.save(tmp_path / "a.npy", rows.to_numpy())
    for files in ([path], [tmp_path / "a.npy", path]):
        with pytest.raises(ValueError, match=f"column {name!r} of a.csv seems to number the rows"):
            read_vectors(*files)
    assert read_table(path, names=name).row_names[:2] == ("60", "97")
    assert read_vectors(path, ignore=(name,)).columns == ("a", "b")
