"""Numbers in prose are those of tables, which are as their CSV files have them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.small import module_at

ROOT = Path(__file__).parents[2]
SPREAD = re.compile(r"−?\d[\d.,]* \(−?\d[\d.,]* to −?\d[\d.,]*\)")  # median (least to greatest)
TABLE = re.compile(r"<!-- table:.*?<!-- end -->", re.DOTALL)
WITH_TABLES = [p for p in sorted((ROOT / "docs").rglob("*.md")) if "<!-- table:" in p.read_text()]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "results").glob("*.md"))]
MADE = {spread for page in PAGES[1:] for table in TABLE.findall(page.read_text("utf-8"))
        for spread in SPREAD.findall(table)}  # fmt: skip


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_spreads_in_prose_stand_in_a_table(page: Path) -> None:
    prose = SPREAD.findall(TABLE.sub("", page.read_text("utf-8")))
    assert not [spread for spread in prose if spread not in MADE]


tables = module_at(ROOT / "docs" / "tables.py")


@pytest.mark.parametrize("page", WITH_TABLES, ids=lambda page: page.name)
def test_tables_are_up_to_date(page: Path) -> None:
    assert tables.rewritten(page) == page.read_text(), "run python docs/tables.py"


def test_below_a_table_stand_seeds_and_commits_that_it_does_not_show(tmp_path: Path) -> None:
    seeds, commits = ["4", "2", "3", "7", ""], ["b", "a", "b", "", ""]
    rows = tables.pd.DataFrame({"seed": seeds, "commit": commits})
    at = tables.provenance("x.csv", rows, tables.DOCS / "how-to" / "page.md")
    assert at == "*[Rows](../results/tables/x.csv): seeds 2 to 4, 7; commits `b`, `a`.*\n"
    at = tables.provenance("x.csv", rows[[]], tables.TABLES.parent / "p.md")
    assert at == "*[Rows](tables/x.csv).*\n"
