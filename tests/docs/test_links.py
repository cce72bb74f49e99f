"""Every relative link of README.md and of the pages under docs/ leads to a file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
CODE = re.compile(r"^(```|~~~).*?^\1|`[^`\n]*`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^()\s]+)\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """To files; headings are checked by `make docs`."""
    links = (link.partition("#")[0] for link in LINK.findall(CODE.sub("", page.read_text())))
    targets = {link: (page.parent / link).resolve() for link in links if ":" not in link}
    assert not [link for link, target in targets.items() if not target.exists()]
