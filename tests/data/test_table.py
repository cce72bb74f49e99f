"""A user's table: all formats, one result; whatever is wrong is one sentence."""

from __future__ import annotations

import gzip
import io
import math
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from plot_attractors.data import DataSet, read_table, read_vectors
from plot_attractors.data.columns import read_columns
from plot_attractors.runs import registry, settings

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
    elif path.suffix == ".xlsx":
        pytest.importorskip("openpyxl")
        table.to_excel(path, index=False)
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


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet", ".xlsx"])
def test_formats_read_alike(tmp_path: Path, suffix: str) -> None:
    path = write(frame(), tmp_path / f"animals{suffix}")
    assert read_table(path, "family", ignore="year").columns == tuple(COLUMNS)
    table = read_table(path, "family, year")
    assert isinstance(table, DataSet)
    assert table.columns == tuple(COLUMNS)
    assert table.bits == 3
    assert table.x.tolist() == X.tolist()
    assert table.label_names == ("family", "year")
    assert [f.outcomes for f in table.features] == [("ape", "bat", "cat"), ("5", "30", "1990")]
    assert table.labels.tolist() == [[2, 2], [1, 0], [-1, 1], [2, 0], [0, 2]]
    assert table.labels.dtype == torch.int64
    assert table.splits == ("train",)


def test_labels_keep_their_spelling(tmp_path: Path) -> None:
    path = text(tmp_path / "a.csv", "x,code,n,flag\n0,NB,1,true\n1,None,,false\n1,NB,2,true\n")
    table = read_table(path, ("code", "n", "flag"))
    values = [("NB", "None"), ("1", "2"), ("False", "True")]
    assert [f.outcomes for f in table.features] == values
    assert table.labels.tolist() == [[0, 0, 1], [1, -1, 0], [0, 1, 1]]


def test_categorical_and_mixed_labels(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    table = frame()
    table["family"] = pd.Categorical(FAMILY, categories=["zebra", "cat", "bat", "ape"])
    for kept in (table, table.set_index("family")):  # a named index is a column
        read = read_table(write(kept, tmp_path / "a.parquet"), ("family",), ignore=("year",))
        assert read.features[0].outcomes == ("ape", "bat", "cat")
        assert read.labels.flatten().tolist() == [2, 1, -1, 2, 0]
    mixed = text(tmp_path / "m.csv", "x,l\n0,b\n1,2\n")
    assert read_table(mixed, "l").features[0].outcomes == ("2", "b")


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
    assert {name: m.tolist() for name, m in table.members.items()} == {
        "train": [0, 2, 3], "held_out": [1, 4],
    }  # fmt: skip
    torch.manual_seed(0)
    assert set(table.batch(200).y.tolist()) == {0, 2, 3}
    assert set(table.batch(200, "held_out").y.tolist()) == {1, 4}


def test_held_out_fraction_follows_its_seed(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    bits = pd.DataFrame(rng.integers(0, 2, (50, 4)), columns=list("abcd"))
    path = write(bits, tmp_path / "a.csv")
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    tables = [read_table(path, held_out_fraction=0.3, seed=seed) for seed in (1, 1, 2)]
    assert torch.equal(torch.rand(3), expected)
    first, again, other = (t.members["held_out"] for t in tables)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    for t in tables:
        assert len(t.members["held_out"]) == 15
        assert sorted(torch.cat([*t.members.values()]).tolist()) == list(range(50))


def test_constant_columns_are_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = write(frame()[COLUMNS].assign(alive=1, dead=0), tmp_path / "a.csv")
    assert read_table(path).columns == tuple(COLUMNS)
    assert "2 of 5 columns of a.csv are the same in every row" in caplog.text
    many = pd.DataFrame({f"c{k}": [1, 1] for k in range(30)})
    sentence = refusal(write(many, tmp_path / "a.csv"))
    assert "all rows of a.csv are alike" in sentence
    assert sentence.count("'c") == 10


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".xlsx"])
def test_missing_value_names_column_and_row(tmp_path: Path, suffix: str) -> None:
    table = frame()[COLUMNS].astype(float)
    table.loc[2, "fur"] = np.nan
    sentence = refusal(write(table, tmp_path / f"a{suffix}"))
    counting = "counting from 1, header excluded" if suffix == ".csv" else "counting from 1"
    assert f"column 'fur' of a{suffix} has a missing value in row 3 ({counting})" in sentence


NAMED = "animal,legs,home,fins\ncod,0,sea,1\nwasp,6,air,0\nhen,2,land,0\n"
ONLY = "in row 3 (counting from 1, header excluded), where only 0 and 1 can stand"


@pytest.mark.parametrize(
    ("content", "settings", "sentence"),
    [
        *(
            (f"a,b\n0,1\n1,{cell}\n0,0\n", {}, "column 'b' of a.csv has a missing value in row 2")
            for cell in ("", "NA", "nan", "NULL", " ")
        ),
        ("a,b\n0,1\n\n1,2\n", {}, "column 'a' of a.csv has a missing value in row 2"),
        ("a,b\n0,1\n,1\n1,0\n,\n", {}, "column 'a' of a.csv has 2 missing values, first in row 2"),
        *(
            (f"a,b\n0,1\n1,0\n1,{cell}\n", {}, f"column 'b' of a.csv holds {cell} {ONLY}")
            for cell in ("2", "0.5", "-1", "inf")
        ),
        ("a,b\n0,1\n1,0\n1,yes\n", {}, f"column 'b' of a.csv holds 'yes' {ONLY}"),
        ('a,b\n+,0\n-,1\n"+,-",0\n', {}, f"holds '+,-' {ONLY.replace('0 and 1', '- and +')}"),
        ("a,b,a\n0,1,1\n1,0,0\n", {}, "more than one column called 'a'"),
        ("a,,b\n0,1,1\n1,0,0\n", {}, "column 2 of a.csv has no name: name or remove it"),
        (",a\n0.5,1\n1.5,0\n", {}, "column 1 of a.csv has no name: name or remove it"),
        *((content, {}, "a.csv is empty") for content in ("", "\n\n", "  \n")),
        ("a,b\n", {}, "a.csv has no rows"),
        ("a,b\n0,1\n1,0\n", {"labels": "a,b"}, "no 0/1 column besides those named"),
        ("a,kind\n0,\n1,\n", {"labels": "kind"}, "column 'kind' of a.csv has no value"),
        ("a,b\n0,1\n1,0,1\n", {}, "row 2 of a.csv (counting from 1, header excluded) has 3 cells"),
        ("a,b\n0,1,1\n1,0,1\n", {}, "has 3 cells, but its first line names 2 columns"),
        *(
            ("a,b\n0,1\n1\n1,0\n", missing, "row 2 of a.csv (counting from 1, header excluded)")
            for missing in ({}, {"missing": "ignore"})
        ),
        ("a,b\n0,25%\n1,100%\n", {}, "'b' of a.csv holds '25%' in row 1"),
        ('a,b\n0,"1,000"\n1,"2,000"\n', {}, "'b' of a.csv holds '1,000' in row 1"),
        (None, {"labels": "famly"}, "a.csv has no column 'famly': did you mean 'family'?"),
        (None, {"labels": "family", "ignore": "family"}, "'family' is named twice"),
        (NAMED, {}, "(it tells every row apart: if it names them, set names=animal)"),
        (NAMED, {"names": "animal"}, "(one_hot=legs makes it a 0/1 column for each value, at_le"),
        (NAMED, {"names": "animal", "ignore": "legs"}, "'home' of a.csv holds 'sea' in row 1"),
        (NAMED, {"names": "animal", "one_hot": "legs,home", "at_least": "legs"}, "named twice"),
        (NAMED, {"names": "animal", "at_least": "home,legs"}, "holds 'sea', which is no number"),
        (NAMED.replace("2", ""), {"names": "animal", "one_hot": "legs"}, "row 3 (counting from 1"),
        (NAMED.replace("wasp", ""), {"names": "animal"}, "has no name in row 2"),
        (None, {"held_out_fraction": 1.0, **REST}, "leaves a split empty"),
        (None, {"held_out": "wings", "held_out_fraction": 0.5}, "not both"),
        ("a,b\n0,0\n1,0\n", {"held_out": "b"}, "marks no row as held out"),
        ("a,b\n0,1\n1,1\n", {"held_out": "b"}, "marks every row as held out"),
        ("a,b\n0,train\n1,test\n", {"held_out": "b"}, "column 'b' of a.csv holds 'test' in row 2"),
    ],
)
def test_bad_tables(
    tmp_path: Path, content: str | None, settings: dict[str, Any], sentence: str
) -> None:
    path = tmp_path / "a.csv"
    text(path, content) if content is not None else write(frame(), path)
    assert sentence in refusal(path, **settings)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.ods", b"a", "ends in '.ods': a table must be one of .csv"),
        ("b.csv", b"a,b\n\xff\xfe,1\n", "column 'a' of b.csv holds 'ÿþ' in row 1"),
        ("c.csv", b"a,b\n0,\x00\n\xff,1\n", "it holds zero bytes"),
        ("d.csv.gz", b"a,b\n", "as csv: Not a gzipped file"),
        ("c.npz", b"PK", "pandas.DataFrame(numpy.load('c.npz')[...]).to_csv('table.csv'"),
        ("e.xlsx", b"PK\x03\x04 cut short", "as xlsx"),
        ("f.parquet", b"no parquet here", "parquet"),
    ],
)
def test_unreadable_files(tmp_path: Path, name: str, content: bytes, sentence: str) -> None:
    (tmp_path / name).write_bytes(content)
    assert sentence in refusal(tmp_path / name)
    (tmp_path / "folder.csv").mkdir()
    for path in (tmp_path / "none.csv", tmp_path / "folder.csv"):
        assert "there is no file" in refusal(path)


PEOPLE = "a,b,c\n0,1,1\n1,0,1\n1,0,0\n0,1,0\n"


@pytest.mark.parametrize(
    ("content", "x", "said"),
    [
        ("a,b\nyes,No\nno,yes\n", [[1, 0], [0, 1]], "'yes' is 1 and 'no' is 0 in 'a', 'b'"),
        ("a,b\nT,f\nF,t\n", [[1, 0], [0, 1]], "'t' is 1 and 'f' is 0 in 'a', 'b'"),
        ("a,b\ny,present\nn,absent\n", [[1, 1], [0, 0]], "'present' is 1 and 'absent' is 0 in 'b'"),
        ("a,b,\n0,1,\n1,0,\n", [[0, 1], [1, 0]], ""),
        ("a,b\n0,1,\n1,0,\n", [[0, 1], [1, 0]], ""),
        ("sep=;\na;b\n0;1\n1;0\n", [[0, 1], [1, 0]], ""),
        ("a;b;n\n0;1;0,5\n1;0;2,25\n", [[0, 1], [1, 0]], "numbers of a.csv have decimal commas"),
        ("a,b,n\n0,1,0.5\n1,0,2.25\n", [[0, 1], [1, 0]], "'n' of a.csv are numbers that are not"),
        ("a\tb\n0\t1\n1\t0\n", [[0, 1], [1, 0]], ""),
        ("\ufeffa; b\n0;1\n1;0\n\n", [[0, 1], [1, 0]], ""),
        ('"a, b";"c"\n0;1\n1;0\n', [[0, 1], [1, 0]], ""),
        ("a,b,c,d\ntrue,1.0,TRUE,0\nfalse,0.0, False,true\n", [[1, 1, 1, 0], [0, 0, 0, 1]], ""),
    ],
)
def test_tables_as_people_have_them(
    tmp_path: Path, content: str, x: Any, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    assert read_table(text(tmp_path / "a.csv", content)).x.tolist() == x
    assert said in caplog.text
    assert said or not caplog.text


@pytest.mark.parametrize("mark", [".", "-", "?", "n/a", "-9", "unknown"])
def test_marks_of_missing_values(tmp_path: Path, mark: str) -> None:
    path = text(tmp_path / "a.csv", PEOPLE.replace("1,0,1", f"1,{mark},1"))
    own = {"missing_values": mark} if mark in ("-9", "unknown") else {}
    assert read_table(path, missing="ignore", **own).x[1].tolist() == [1, -1, 1]
    assert "has a missing value in row 2" in refusal(path, **own)
    assert "set missing=ignore" in refusal(path, **own)
    if own:
        assert f"holds {mark if mark == '-9' else repr(mark)} in row 2" in refusal(path)


def test_marks_of_missing_values_hold_for_other_tables(tmp_path: Path) -> None:
    rows = "legs,home,fins\n4,sea,0\n-9,air,1\n2,unknown,0\n4,air,1\n"
    path = text(tmp_path / "a.csv", rows)
    own = {"missing": "ignore", "missing_values": "-9,unknown"}
    table = read_table(path, at_least="legs", one_hot="home", **own)
    known, _ = table.read(path)
    assert torch.equal(known.isnan(), table.x < 0)
    assert known.isnan().sum() == 2


def test_encodings(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    content = "name,Flügel,größe\nKäfer,1,0\nBär,0,1\n"
    path = tmp_path / "a.csv"
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "cp1252", "latin-1"):
        path.write_bytes(content.encode(encoding))
        table = read_table(path, names="name")
        assert table.columns == ("Flügel", "größe")
        assert table.row_names == ("Käfer", "Bär")
    assert caplog.text.count("is not in UTF-8, and is read as Windows-1252") == 2


def test_compressed_and_excel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    packed = tmp_path / "a.csv.gz"
    packed.write_bytes(gzip.compress(PEOPLE.encode()))
    assert read_table(packed).columns == ("a", "b", "c")
    sheet, path = pd.read_csv(io.StringIO(PEOPLE)), tmp_path / "a.xlsx"
    pytest.importorskip("openpyxl")
    with pd.ExcelWriter(path) as file:
        sheet.replace({0: "no", 1: "yes"}).to_excel(file, sheet_name="first", index=False)
        sheet.to_excel(file, sheet_name="second")
    assert read_table(path).x.tolist() == sheet.to_numpy().tolist()
    assert "of a.xlsx the first sheet is read, 'first'" in caplog.text
    sheet.rename(columns={"b": "a"}).to_excel(path, index=False)
    assert "more than one column called 'a'" in refusal(path)

    for package, file in (("openpyxl", path), ("pyarrow", tmp_path / "a.parquet")):
        file.touch()
        monkeypatch.setitem(sys.modules, package, None)
        sentence = f"needs {package}, which is not installed: install {package}, or save the table"
        assert sentence in refusal(file)


def test_missing_values_are_left_out_when_asked(tmp_path: Path) -> None:
    path = text(tmp_path / "a.csv", "legs,home,fins,fur\n4,sea,,0\n2,,1,n/a\n,air,0,1\n4,air,1,0\n")
    coded = {"at_least": "legs", "one_hot": "home", "missing": "ignore"}
    table = read_table(path, **coded)
    assert table.columns == ("legs>=4", "home=sea", "fins", "fur")
    assert table.x.tolist() == [
        [1, 1, -1, 0], [0, -1, 1, -1], [-1, 0, 0, 1], [1, 0, 1, 0],
    ]  # fmt: skip
    rows = table.rows(torch.tensor([1]))
    assert rows.isnan().tolist() == [[False, True, False, True]]
    assert "set missing=ignore" in refusal(path, ignore=("legs", "home"))
    assert "row 1 (counting" in refusal(path, **coded | {"ignore": "fur", "at_least": ()})
    text(tmp_path / "b.csv", "legs,a\nmany,0\n2,1\n,1\n")
    assert "column 'legs' of b.csv holds 'many', which is no number" in refusal(
        tmp_path / "b.csv", at_least="legs", missing="ignore"
    )
    text(tmp_path / "c.csv", "a,b,c\n1,0,1\n,1,1\n1,,0\n")
    assert read_table(tmp_path / "c.csv", missing="ignore").columns == ("b", "c")
    text(tmp_path / "d.csv", "a,b\n1,0\n,\n0,1\n")
    assert "row 2 (counting from 1, header excluded) of d.csv has no value at all" in refusal(
        tmp_path / "d.csv", missing="ignore"
    )


def test_names_and_columns_that_are_coded(tmp_path: Path) -> None:
    text(tmp_path / "a.csv", NAMED)
    coded = {"names": "animal", "at_least": "legs", "one_hot": "home"}
    table = read_table(tmp_path / "a.csv", **coded)
    assert table.row_names == ("cod", "wasp", "hen")
    assert table.columns == (
        "legs>=2", "legs>=6", "home=air", "home=land", "home=sea", "fins",
    )  # fmt: skip
    assert table.x.tolist() == [[0, 0, 0, 0, 1, 1], [1, 1, 1, 0, 0, 0], [1, 0, 0, 1, 0, 0]]
    text(tmp_path / "b.csv", "n,b\n" + "".join(f"{k},{k % 2}\n" for k in range(11)))
    assert "has 11 values, and at_least makes a column of each of 10" in refusal(
        tmp_path / "b.csv", at_least="n"
    )
    text(tmp_path / "c.csv", "a,a=1,b\n0,1,0\n1,0,1\n")
    assert "has a column 'a=1' already" in refusal(tmp_path / "c.csv", one_hot="a")


PAIRS = [
    f"{name},{part},{len(part)}\n" for name in ("cat", "bat") for part in ("fur", "legs", "ear")
]


@pytest.mark.parametrize(
    "arguments", [{}, {"one_hot": "feature"}, {"labels": "feature", "at_least": "count"}]
)
def test_pairs_of_a_concept_and_a_feature_are_refused_with_the_way_to_pivot_them(
    tmp_path: Path, arguments: dict[str, Any]
) -> None:
    path = text(tmp_path / "long.csv", "concept,feature,count\n" + "".join(PAIRS))
    sentence = refusal(path, names="concept", **arguments)
    assert "names the rows, and 'cat' stands in 3 of them" in sentence
    assert "pandas.crosstab(t['concept'], t['FEATURE']).clip(upper=1)" in sentence
    assert "set labels=concept instead of names" in sentence


def test_a_name_that_two_rows_share_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As the frog of the best known table of animals, which stands there twice."""
    kinds = ["fish", "frog", "frog", "mammal", "bird"]
    zoo = frame().assign(family=["eel", "frog", "frog", "elk", "emu"], kind=kinds)
    path = write(zoo, tmp_path / "zoo.csv")
    data = read_table(path, names="family", labels="kind", ignore="year")
    assert data.row_names[1:3] == ("frog", "frog")
    assert caplog.messages == [
        "column 'family' of zoo.csv names the rows, and 'frog' stands in 2 of them"
    ]


def test_counts_of_raters(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """One number for all columns of counts; ratings, and what nobody or everybody names, are no
    inputs.
    """
    frame = pd.DataFrame({
        "animal": ["wasp", "robin", "trout"], "flies": [9, 7, 0], "swims": [0, 1, 8],
        "breathes": [5, 4, 3], "rare": [0, 1, 0], "typical": [3.5, 6.0, 2.25], "wet": [0, 0, 2],
    })  # fmt: skip
    frame.to_csv(tmp_path / "norms.csv", index=False)
    with caplog.at_level("INFO"):
        table = read_table(tmp_path / "norms.csv", names="animal", at_least=("2",), ignore="rare")
    assert table.columns == ("flies>=2", "swims>=2", "wet>=2")
    assert table.x.tolist() == [[1, 0, 0], [1, 0, 0], [0, 1, 1]]
    assert "1 columns of norms.csv are no counts, and are left out: 'typical'" in caplog.text
    assert "are all or never 2, and are left out: 'breathes'" in caplog.text
    x, names = table.read(tmp_path / "norms.csv", "animal")
    assert (x == table.x).all()
    assert names == ("wasp", "robin", "trout")
    with pytest.raises(ValueError, match="at_least has 2 numbers, 2, 3: give one"):
        read_table(tmp_path / "norms.csv", names="animal", at_least="2,3")


# Files that were read wrongly without a word.


PHONEMES = "phoneme,voice,nasal,click\np,-,-,-\nb,+,-,-\nm,+,+,-\n-,-,+,-\n"


def test_a_dash_is_no_missing_value_where_a_column_has_a_plus(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    path = text(tmp_path / "a.csv", PHONEMES)
    for arguments in ({}, {"missing": "ignore"}):
        table = read_table(path, names="phoneme", **arguments)
        assert table.columns == ("voice", "nasal")  # no consonant of these is a click
        assert table.x.tolist() == [[0, 0], [1, 0], [1, 1], [0, 1]]
        assert table.row_names[-1] == "-"
    assert "'+' is 1 and '-' is 0 in 'voice', 'nasal', 'click' of a.csv" in caplog.text
    one = text(tmp_path / "one.csv", "voice,nasal,click\n-,-,-\n")
    assert table.read(one)[0].tolist() == [[0, 0]]  # though nothing there is a plus
    zeros = text(tmp_path / "zero.csv", PHONEMES.replace("m,+,+", "m,+,0"))
    assert read_table(zeros, names="phoneme", one_hot="nasal").columns == (
        "voice", "nasal=+", "nasal=-", "nasal=0",
    )  # fmt: skip
    assert read_columns(path, ("-",)).frame["voice"].isna().sum() == 2  # where that is asked for


def test_a_dash_is_a_missing_value_beside_numbers_though_another_column_has_a_plus(
    tmp_path: Path,
) -> None:
    rows = ["sign,fins,fur,legs,click,tone", "+,0,0,4,0,1", "-,-,1,-,-,-", "-,1,0,2.5,?,+"]
    path = text(tmp_path / "a.csv", "\n".join(rows))
    table = read_table(path, "sign", ignore=("legs", "click", "tone"), missing="ignore")
    assert table.x.tolist() == [[0, 0], [-1, 1], [1, 0]]
    assert table.features[0].outcomes == ("+", "-")
    other = text(tmp_path / "b.csv", "fins,fur\n-,1\n1,0\n")
    np.testing.assert_array_equal(table.read(other)[0], [[np.nan, 1], [1, 0]])
    columns = read_columns(path)
    np.testing.assert_array_equal(columns.numbers("legs"), [4, np.nan, 2.5])
    assert columns.frame["click"].fillna("").tolist() == ["0", "-", ""]  # 0 may be a third sign
    assert columns.frame["tone"].tolist() == ["1", "-", "+"]


SIGHTS = "animal,swims,home,kind\ncod,1,sea,fish\nowl,0,none,none\nelk,0,-,?\nbat,0,cave,NA\n"


def test_none_is_a_category_and_missing_words_hold_for_labels_and_codes_alike(
    tmp_path: Path,
) -> None:
    path = text(tmp_path / "a.csv", SIGHTS)
    coded: dict[str, Any] = {"names": "animal", "one_hot": "home", "missing": "ignore"}
    table = read_table(path, "kind", **coded)
    assert table.columns == ("swims", "home=cave", "home=none", "home=sea")
    assert table.x[2].tolist() == [0, -1, -1, -1]
    assert table.features[0].outcomes == ("fish", "none")
    assert table.labels.flatten().tolist() == [0, 1, -1, -1]
    assert table.missing == 3 / 16
    assert "missing 18.8% of inputs, 50.0% of labels" in table.summary
    others = read_table(path, "kind", **coded, missing_values=("none", "fish"))
    assert others.columns == ("swims", "home=-", "home=cave", "home=sea")
    assert others.features[0].outcomes == ("?", "NA")


def test_words_for_missing_values_can_be_emptied(tmp_path: Path) -> None:
    path = text(tmp_path / "a.csv", SIGHTS)
    given = settings.parse(["names=animal", "labels=kind", "one_hot=home", "missing_values="])
    of_table = registry.load("datasets", "table")
    table = of_table.load(settings.from_table(of_table.Config, {**given, "path": str(path)}))
    assert table.columns == ("swims", "home=-", "home=cave", "home=none", "home=sea")
    assert table.features[0].outcomes == ("?", "NA", "fish", "none")
    assert table.missing == 0


FIRST = [
    "0,1,1", "0.5,2,1", "cat,0.25,1", "1990,1995,2000", "450.5,451.0,451.5", "2,1,0", "1,0,",
    "wolf,1,0", "wolf,1,1", "1,0,wolf", "wolf,3,2",
]  # fmt: skip


@pytest.mark.parametrize("first", FIRST)
@pytest.mark.parametrize("read", [read_table, read_vectors])
def test_a_first_line_of_numbers_is_refused(tmp_path: Path, first: str, read: Any) -> None:
    path = text(tmp_path / "a.csv", first + "\n1,0,1\n0,1,0\n")
    with pytest.raises(ValueError, match=r"first line of a.csv holds numbers") as error:
        read(path)
    assert "read_csv('a.csv', sep=',', header=None).add_prefix('x')" in str(error.value)
    assert str(error.value).endswith("or, if these are names, put a letter before each")
    assert len(str(error.value)) <= 300
    named = text(tmp_path / "b.csv", "0,1,2\n1,0,1\n0,1,0\n")  # as pandas names them
    assert read(named).columns == ("0", "1", "2")


NUMBERS = ["name,2010,2011,2012", "name,2012,2011,2010", "name,1990,2000,2005", "2010,name,2011",
           "name,1", ",1,0", ",0,1,2"]  # fmt: skip


@pytest.mark.parametrize("first", NUMBERS)
def test_numbers_that_are_names_of_columns(tmp_path: Path, first: str) -> None:
    names = first.split(",")
    key = "name" if "name" in names else ""
    rows = pd.DataFrame(np.random.default_rng(0).normal(size=(3, len(names))), columns=names)
    path = write(rows.assign(**{key: list("uvw")}), tmp_path / "a.csv")
    data = read_vectors(path, names=key)
    assert data.columns == tuple(name for name in names if name != key)
    assert data.row_names == ("u", "v", "w")


def test_a_first_line_of_numbers_in_excel(tmp_path: Path) -> None:
    pytest.importorskip("openpyxl")
    pd.DataFrame(X).to_excel(path := tmp_path / "a.xlsx", index=False, header=False)
    assert "pandas.read_excel('a.xlsx', header=None)" in refusal(path)
    years = pd.DataFrame({"name": [*"uvw"], 2010: [0.5, 2, 1.5], 2011: [3, None, 1], 2013: 1.0})
    years.to_excel(path, index=False)
    columns = read_columns(path).frame
    assert columns.columns.tolist() == ["name", "2010", "2011", "2013"]
    assert columns.drop(columns="name").dtypes.map(pd.api.types.is_numeric_dtype).all()


def beside(path: Path) -> Any:
    np.save(path.with_suffix(".npy"), np.random.default_rng(0).normal(size=(12, 3)))
    return read_vectors(path.with_suffix(".npy"), path)


@pytest.mark.parametrize("name", ["id", "word_id", "Unnamed: 0"])
@pytest.mark.parametrize(
    "read", [read_table, partial(read_table, at_least="2"), read_vectors, beside]
)
def test_a_column_that_numbers_the_rows_is_refused(
    tmp_path: Path, name: str, read: Any, caplog: pytest.LogCaptureFixture
) -> None:
    rows = pd.DataFrame({name: range(1000, 1012), "a": [0, 1] * 6, "b": [0, 0, 1] * 4})
    path = write(rows, tmp_path / "a.csv")
    with pytest.raises(ValueError, match="seems to number the rows") as error:
        read(path)
    assert str(error.value) == (
        f"column {name!r} of a.csv seems to number the rows (1000, 1001, …): set names={name} or "
        f"ignore={name}, or rename it if it tells something of them"
    )
    assert read_table(path, names=name).row_names[:2] == ("1000", "1001")
    assert read_vectors(path, ignore=name).columns == ("a", "b")
    read_vectors(write(rows.rename(columns={name: "year"}), path))
    assert "column 'year' of a.csv has another whole number in each row" in caplog.text


HEAT = [60, 97, 71, 88, 64, 102, 79, 91, 83, 75, 68, 110]


def test_numbers_are_refused_by_the_whole_of_a_name_or_where_they_count(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = pd.DataFrame({"a": [0.5, 1] * 6, "b": [0, 0, 1] * 4})
    for name in ("heat_index", "price index", "skin.row"):
        path = write(rows.assign(**{name: HEAT}), tmp_path / "a.csv")
        assert read_vectors(path).columns == ("a", "b", name)
        assert f"column {name!r} of a.csv has another whole number in each row" in caplog.text
        write(rows.assign(**{name: np.argsort(HEAT)}), path)  # counts, in another order
        with pytest.raises(ValueError, match="seems to number the rows"):
            read_vectors(path)
    for name in ("id", "Index", "nr", "word_id"):
        with pytest.raises(ValueError, match="or rename it"):
            read_vectors(write(rows.assign(**{name: HEAT}), path))


NAMED_ROWS = {
    "a saved data frame": ',a,b\nowl,0,1\nNA,1,0\n"elk, old",1,1\n',
    "write.csv of R": '"","a","b"\n"owl",0,1\n"NA",1,0\n"elk, old",1,1\n',
    "write.table of R, sep=','": '"a","b"\n"owl",0,1\n"NA",1,0\n"elk, old",1,1\n',
    "write.table of R": '"a" "b"\n"owl" 0 1\n"NA" 1 0\n"elk, old" 1 1\n',
}


@pytest.mark.parametrize("kind", NAMED_ROWS)
def test_a_column_without_a_name_names_the_rows(tmp_path: Path, kind: str) -> None:
    path = text(tmp_path / "a.csv", NAMED_ROWS[kind])
    for data in (read_table(path), read_vectors(path)):
        assert data.columns == ("a", "b")
        assert data.row_names == ("owl", "NA", "elk, old")
    assert read_table(path).read(path)[1] == ("owl", "NA", "elk, old")


@pytest.mark.parametrize("suffix", [".csv", ".xlsx", ".parquet"])
def test_an_index_of_pandas_names_the_rows_unless_it_counts_them(
    tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"a{suffix}"
    for index, names in ((list("vwxyz"), tuple("vwxyz")), (range(5), ()), (range(1, 6), ())):
        table = pd.DataFrame(X, columns=COLUMNS, index=index).astype({"fur": bool})
        {".csv": table.to_csv, ".xlsx": table.to_excel, ".parquet": table.to_parquet}[suffix](path)
        data = read_table(path)
        assert (data.columns, data.row_names) == (tuple(COLUMNS), names)


def test_codes_of_columns_whose_names_hold_signs_and_of_large_numbers(tmp_path: Path) -> None:
    """The same rows have the same bits in another table."""
    rows = "a=b,a,people\nx=1,y,1234567\ny,x,1234568\nz=2,z,2\n"
    path = text(tmp_path / "a.csv", rows)
    table = read_table(path, one_hot=("a=b", "a"), at_least="people")
    assert table.columns[-2:] == ("people>=1234567", "people>=1234568")
    assert table.read(path)[0].tolist() == table.x.tolist()
