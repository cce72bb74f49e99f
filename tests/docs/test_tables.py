"""The pages are as their CSV files have them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.small import module_at

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [p for p in sorted(DOCS.rglob("*.md")) if "<!-- table:" in p.read_text()]
tables = module_at(DOCS / "tables.py")


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_pages_are_up_to_date(page: Path) -> None:
    assert tables.rewritten(page) == page.read_text(), "run python docs/tables.py"
