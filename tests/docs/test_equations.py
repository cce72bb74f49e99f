"""Equations and algorithms of the page and those that docstrings name: links both ways."""

from __future__ import annotations

import inspect
import pkgutil
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "explanation" / "equations.md").read_text(encoding="utf-8")
SECTIONS = dict(
    re.findall(r"\((eq-\w+|algorithm-\d)\)=\n(.*?)(?=\n\(\S+\)=\n|\Z)", PAGE, re.DOTALL)
)
LINK = re.compile(r"\{py:\w+\}`([\w.]+)`")  # with a text of their own they are asides
EQUATION, ALGORITHM = re.compile(r"\bEqs?\.\s+\*(\w+)\*"), re.compile(r"\bAlgorithm (\d)\b")


def labels(text: str) -> set[str]:
    """What a docstring names, as the page labels it."""
    result = {f"eq-{name}" for name in EQUATION.findall(text)}
    return result | {f"algorithm-{number}" for number in ALGORITHM.findall(text)}


@pytest.mark.parametrize("label", SECTIONS)
def test_what_computes_an_equation_names_it(label: str) -> None:
    computed = SECTIONS[label].split("Computed by")
    assert len(computed) == 2, "say once what computes it"
    names = LINK.findall(computed[1])
    files = re.findall(r"`(inference/\w+\.py)`", computed[1])
    assert names or files
    for name in names:
        assert label in labels(inspect.getdoc(pkgutil.resolve_name(name)) or ""), name
    for file in files:
        assert label in labels((ROOT / file).read_text(encoding="utf-8"))


def test_every_equation_that_code_names_is_on_the_page() -> None:
    files = [f for part in ("plot_attractors", "models", "inference", "analyses")
             for f in (ROOT / part).rglob("*.py")]  # fmt: skip
    named = set().union(*(labels(file.read_text(encoding="utf-8")) for file in files))
    assert len(named) > 10
    assert named <= SECTIONS.keys()


def test_all_algorithms_are_there() -> None:
    assert {f"algorithm-{k}" for k in range(1, 7)} <= SECTIONS.keys()
