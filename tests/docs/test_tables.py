"""The pages are as their CSV files have them, and what the program makes of a comment."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [p for p in sorted(DOCS.rglob("*.md")) if "<!-- table:" in p.read_text()]


def program() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_tables", DOCS / "tables.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


tables = program()
ROWS = "arm,seed,kl,kl_sd,note\na,1,0.50,0.25,P(s | z)\na,2,-0.25,,y\nb; c,3,-inf,,\n"


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "of.csv").write_text(ROWS)
    monkeypatch.setattr(tables, "TABLES", tmp_path)
    return tmp_path / "page.md"


def lines(page: Path, comment: str) -> list[str]:
    page.write_text(f"Before.\n\n<!-- table: of.csv\n{comment}\n-->\nold\n<!-- end -->\n\nAfter.\n")
    text = tables.rewritten(page)
    page.write_text(text)
    assert tables.rewritten(page) == text
    assert text.startswith("Before.")
    assert text.endswith("<!-- end -->\n\nAfter.\n")
    return [line for line in text.splitlines() if line.startswith("|")]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_pages_are_up_to_date(page: Path) -> None:
    assert tables.rewritten(page) == page.read_text(), "run python docs/tables.py"


def test_columns_are_named_rounded_and_have_deviations(page: Path) -> None:
    assert lines(page, "columns: arm = ; kl = KL, nats : 1;\n note") == [
        "|  | KL, nats | note |",
        "|:--|--:|:--|",
        "| a | 0.5 ± 0.2 | P(s \\| z) |",
        "| a | −0.2 | y |",
        "| b; c | −∞ |  |",
    ]


def test_rows_of_a_group_are_summed_up(page: Path) -> None:
    result = lines(page, "by: arm\ncolumns: arm; seed = seeds; kl : 2; note")
    assert result[2:] == [
        "| a | 1, 2 | 0.12 (−0.25 to 0.50) | P(s \\| z), y |",
        "| b; c | 3 | −∞ |  |",
    ]


def test_rows_are_chosen(page: Path) -> None:
    comment = "where: arm = a\nwhere: seed != 1\ncolumns: seed; note; kl : 2"
    assert lines(page, comment)[2:] == ["| 2 | y | −0.25 |"]


def test_a_table_is_turned(page: Path) -> None:
    assert lines(page, "where: arm = a\ncolumns: seed; kl : 2\nturned: yes") == [
        "| seed | 1 | 2 |",
        "|:--|--:|--:|",
        "| kl | 0.50 ± 0.25 | −0.25 |",
    ]


@pytest.mark.parametrize(
    ("comment", "said"),
    [
        ("columns: arm; tv : 2", "no column 'tv : 2'; there are arm, seed"),
        ("where: arm = d\ncolumns: arm", "no row has arm = 'd'"),
        ("where: arm\ncolumns: arm", "is not COLUMN = VALUE"),
    ],
)
def test_a_comment_that_asks_for_nothing_there_is_refused(
    page: Path, comment: str, said: str
) -> None:
    with pytest.raises(tables.TableError, match=f"page.md, table of.csv: .*{said}"):
        lines(page, comment)


def test_a_table_without_an_end_is_refused(page: Path) -> None:
    page.write_text("<!-- table: of.csv\ncolumns: arm\n-->\n\nText that would be lost.\n")
    with pytest.raises(tables.TableError, match="without <!-- end -->"):
        tables.rewritten(page)
