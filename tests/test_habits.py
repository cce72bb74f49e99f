"""The version stands in one place, and the citation is well-formed."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


def test_the_changelog_begins_with_the_version() -> None:
    versions = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert VERSION in versions[: 1 + (versions[0] == "Unreleased")]
    assert versions == sorted(versions, reverse=True)


def test_the_citation_has_what_its_schema_requires() -> None:
    text = (ROOT / "CITATION.cff").read_text()
    software, paper = (
        set(re.findall(rf"^{indent}([a-z-]+):", text, re.M)) for indent in ("", "  ")
    )
    assert {"cff-version", "message", "title", "authors"} <= software
    assert f"version: {VERSION}\n" in text
    assert {"type", "title", "authors"} <= paper
    names = re.findall(r"^      family-names: (\w+)$", text, re.M)
    assert names == ["Nam", "Elmoznino", "Malkin", "McClelland", "Bengio", "Lajoie"]
    assert len(re.findall(r"^    - given-names: ", text, re.M)) == len(names)
