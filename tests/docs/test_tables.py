"""The pages are as their CSV files have them, and what the program makes of a comment."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.small import module_at

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [p for p in sorted(DOCS.rglob("*.md")) if "<!-- table:" in p.read_text()]


tables = module_at(DOCS / "tables.py")
ROWS = "arm,seed,kl,note\na,1,0.50,P(s | z)\na,2,-0.25,y\nb; c,3,-inf,\n"


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
    assert text.endswith("<!-- end -->\n\nAfter.\n")
    return [line for line in text.splitlines() if line.startswith("|")]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_pages_are_up_to_date(page: Path) -> None:
    assert tables.rewritten(page) == page.read_text(), "run python docs/tables.py"


def test_a_comment_that_asks_for_nothing_there_is_refused(page: Path) -> None:
    with pytest.raises(KeyError, match="tv"):
        lines(page, "columns: arm; tv : 2")
    with pytest.raises(ValueError, match="no row has arm = 'd'"):
        lines(page, "where: arm = d\ncolumns: arm")


def test_a_table_without_an_end_is_refused(page: Path) -> None:
    page.write_text("<!-- table: of.csv\ncolumns: arm\n-->\n\nText that would be lost.\n")
    with pytest.raises(ValueError, match="without <!-- end -->"):
        tables.rewritten(page)
