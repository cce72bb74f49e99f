"""What the page about the directory of a run names, and what of a run it does not."""

from __future__ import annotations

import re
from collections import defaultdict
from fnmatch import fnmatchcase
from pathlib import Path

import pandas as pd

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "run-directory.md"
METRICS = "metrics.csv"


def documented() -> dict[str, dict[str, set[str]]]:
    """Columns by file and by analysis, as patterns; "" has the files of a run and of any folder."""
    result: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    section, file, of_files = "", "", False
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if heading := re.match(r"## `([\w.]+)`", line):
            section, file = heading[1], heading[1]
        of_files = line.startswith("| file") or (of_files and line.startswith("|"))
        if not line.startswith("| ") or (not of_files and section != METRICS):
            continue
        cells = [re.findall(r"`([^`]+)`", cell) for cell in line.split(" | ")]
        names = cells[0] if of_files and cells[0] else [file]
        for file in names:
            result[section][file] |= set(cells[1] if section and of_files else cells[0])
    return result


def lacking(run: Path) -> list[str]:
    """Files of a run, and columns of its tables, that the page does not name."""
    pages = documented()
    result = []
    for path in sorted(p for p in run.rglob("*") if p.is_file()):
        section = path.parent.name if path.parent.parent.name == "analyses" else ""
        name, known = str(path.relative_to(run)), pages[section]
        if not any(fnmatchcase(path.name, pattern) for pattern in {**pages[""], **known}):
            result.append(name)
        elif path.suffix == ".csv":
            patterns = set(known[path.name])
            if section == "training" or path.name == METRICS:
                patterns |= pages[METRICS][METRICS]
            columns = pd.read_csv(path, nrows=0).columns
            result += [
                f"{name}: {c}" for c in columns if not any(fnmatchcase(c, p) for p in patterns)
            ]
    return result
