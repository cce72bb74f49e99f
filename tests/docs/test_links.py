"""Every relative link of README.md and of the pages under docs/ leads to a file and a heading."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
REFERENCE = ROOT / "docs" / "reference"  # in part written by `make docs`, which checks its links
GENERATED = [REFERENCE / of for of in ("programs", "library", "commands.md", "metrics.md")]
CODE = re.compile(r"^(```|~~~).*?^\1|`[^`\n]*`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^()\s]+)\)")
HEADING = re.compile(r"^#{1,6} +(.+?) *#* *$", re.MULTILINE)
LABEL = re.compile(r"^\(([\w-]+)\)=$", re.MULTILINE)  # of MyST


def anchors(page: Path) -> set[str]:
    """The anchors that a git host gives the headings of a page, and MyST's labels."""
    text = re.sub(r"^(```|~~~).*?^\1", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    result = set(LABEL.findall(text))
    for title in HEADING.findall(text):
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower()
        slug = re.sub(r"[^\w\- ]", "", shown).replace(" ", "-")
        again = (f"{slug}-{n}" for n in range(1, 100))
        result.add(next(a for a in again if a not in result) if slug in result else slug)
    return result


def broken(page: Path) -> list[str]:
    result = []
    for link in LINK.findall(CODE.sub("", page.read_text())):
        path, _, anchor = link.partition("#")
        if re.match(r"[a-z]+:", link):
            continue
        target = (page.parent / path).resolve() if path else page
        if not target.exists() and any(target.is_relative_to(place) for place in GENERATED):
            continue  # not built yet
        if not target.exists():
            result.append(f"{link}: no such file")
        elif anchor and anchor not in anchors(target):
            result.append(f"{link}: no such heading")
    return result


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert broken(page) == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A title, `code` & more\n# Twice\n# Twice\n"
        "[a](#a-title-code--more) [b](#twice-1) [c](page.md#twice) [d](https://example.org/x#y)\n"
        "`[e](nowhere.md)`\n```\n[f](nowhere.md)\n# No heading\n```\n"
        "[g](nowhere.md) [h](page.md#thrice) [i](#no-heading)\n"
        f"[j]({REFERENCE / 'nowhere.md'}) [k]({REFERENCE / 'programs' / 'nowhere.md'})\n"
    )
    expected = ["nowhere.md: no such file", "page.md#thrice: no such heading"]
    expected += ["#no-heading: no such heading", f"{REFERENCE / 'nowhere.md'}: no such file"]
    assert broken(page) == expected
