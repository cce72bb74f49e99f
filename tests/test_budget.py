"""The size of the house: a ceiling for every room, which falls with what is deleted.

A room has the code of a folder that is in no room of a longer name.
"""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CODE = (".py", ".js", ".css", ".html")
SLACK = 100  # further below its ceiling, a room needs a lower one

LINES = {
    "plot_attractors/model/": 1904,
    "plot_attractors/language/": 878,
    "plot_attractors/training/": 1598,
    "plot_attractors/gflownet/": 2734,
    "plot_attractors/language_of_thought/": 1638,
    "plot_attractors/data/": 1605,
    "plot_attractors/measures/": 1667,
    "plot_attractors/analysis/": 1705,
    "plot_attractors/baselines/": 691,
    "plot_attractors/runs/": 2003,
    "plot_attractors/report/": 1891,
    "plot_attractors/paper/": 583,
    "plot_attractors/cli/": 714,
    "plot_attractors/": 104,
    "models/": 577,
    "inference/": 593,
    "datasets/": 150,
    "analyses/": 4935,
    "benchmarks/": 351,
    "examples/": 179,
    "docs/": 465,
    "tests/": 14735,
}
WORDS = 40625  # of pages
SLACK_OF_WORDS = 1000


def git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"git {words[0]} says: {done.stderr.strip()}")
    return done.stdout


def texts(*ends: str) -> dict[str, str]:
    files = (name for name in git("ls-files").splitlines() if name.endswith(ends))
    return {f: (ROOT / f).read_text("utf-8") for f in files if (ROOT / f).is_file()}


def off(size: int, ceiling: int, slack: int) -> bool:
    return not ceiling - slack <= size <= ceiling


def test_rooms_are_within_their_ceilings_and_the_ceilings_near() -> None:
    sizes = dict.fromkeys(LINES, 0)
    for file, text in texts(*CODE).items():
        room = max((room for room in LINES if file.startswith(room)), key=len)
        sizes[room] += len(text.splitlines())
    wrong = {room: n for room, n in sizes.items() if off(n, LINES[room], SLACK)}
    assert wrong == {}, "delete something, or lower the ceiling of a room that has shrunk"
    words = sum(len(text.split()) for text in texts(".md").values())
    assert not off(words, WORDS, SLACK_OF_WORDS), f"{words} words of pages"
    assert [off(n, 500, 100) for n in (501, 500, 400, 399)] == [True, False, False, True]


def test_no_commit_raises_the_sum() -> None:
    file = "tests/test_budget.py"
    commits = git("log", "--format=%h", "-n", "30", "--", file).split()
    tables = [Path(__file__).read_text("utf-8"), *(git("show", f"{c}:{file}") for c in commits)]
    sums = [sum(ast.literal_eval(re.findall(r"^LINES = (\{.*?^\})", text, re.M | re.S)[0]).values())
            for text in tables]  # fmt: skip
    assert sums == sorted(sums), "the newest first"
