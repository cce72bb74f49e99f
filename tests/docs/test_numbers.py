"""Numbers in prose are those of tables, which are made of CSV files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SPREAD = re.compile(r"−?\d[\d.,]* \(−?\d[\d.,]* to −?\d[\d.,]*\)")  # median (least to greatest)
TABLE = re.compile(r"<!-- table:.*?<!-- end -->", re.DOTALL)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "results").glob("*.md"))]
MADE = {spread for page in PAGES[1:] for table in TABLE.findall(page.read_text("utf-8"))
        for spread in SPREAD.findall(table)}  # fmt: skip


def stray(text: str) -> list[str]:
    """Spreads outside of tables that stand in none."""
    return [spread for spread in SPREAD.findall(TABLE.sub("", text)) if spread not in MADE]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_spreads_in_prose_stand_in_a_table(page: Path) -> None:
    assert stray(page.read_text("utf-8")) == []
