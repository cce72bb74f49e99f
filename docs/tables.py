"""Tables of the pages, written from the CSV files in docs/results/tables: python docs/tables.py

In every page, what stands between two comments is written anew:

    <!-- table: sprites_ablation.csv
    where: arm = one restart; uniform P(s)
    columns: arm; seed = seeds; similarity = topographic similarity : 3
    by: arm
    -->
    <!-- end -->

where    rows whose column has one of the values, `!=` for none of them; several lines hold together
columns  name = header : decimals; a number has decimals, a text has none and stands as in the file
by       one row for each value of these columns: of numbers the median, least and greatest, of
         texts all different ones
turned   yes: columns as rows

Below it stand the seeds and commits of its rows, where the file has these columns, and the file.
"""

from __future__ import annotations

import os
import re
import statistics
from pathlib import Path
from typing import NamedTuple

import pandas as pd

DOCS = Path(__file__).parent
TABLES = DOCS / "results" / "tables"
BLOCK = re.compile(
    r"(<!-- table: (\S+)\n(.*?)-->\n)(?:(?!<!-- table:).)*?(<!-- end -->)", re.DOTALL
)
KEY = re.compile(r"^(where|columns|by|turned):", re.MULTILINE)
COLUMN = re.compile(r"(\S+)(?: =\s*(.*?))?(?: : (\d))?")


class Column(NamedTuple):
    name: str
    header: str
    decimals: int | None

    @classmethod
    def of(cls, text: str) -> Column:
        match = COLUMN.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is not NAME = HEADER : DECIMALS")
        name, header, decimals = match.groups()
        header = name.replace("_", " ") if header is None else header
        return cls(name, header, int(decimals) if decimals else None)

    def number(self, value: float, most: int = 9) -> str:
        return f"{value:.{min(self.decimals or 0, most)}f}".replace("-", "−").replace("inf", "∞")

    def cell(self, text: str) -> str:
        if self.decimals is None or not text:
            return text
        known = len(text.partition(".")[2])  # decimals of the file: no more are shown
        return self.number(float(text), known)

    def summary(self, rows: pd.DataFrame) -> str:
        texts = [text for text in rows[self.name] if text]
        if self.decimals is None:
            return ", ".join(dict.fromkeys(texts))
        if len(texts) < 2:
            return self.cell("".join(texts))
        values = [float(text) for text in texts]
        middle, *ends = map(self.number, (statistics.median(values), min(values), max(values)))
        return middle if len({*ends}) == 1 else f"{middle} ({' to '.join(ends)})"


def split(text: str) -> list[str]:
    return [part for part in re.split(r" *; *", text.strip()) if part]


def options(text: str) -> list[tuple[str, str]]:
    """The keys of a comment and their values, in order."""
    _, *parts = KEY.split(text)
    return [(k, " ".join(v.split())) for k, v in zip(parts[::2], parts[1::2], strict=True)]


def chosen(rows: pd.DataFrame, where: str) -> pd.DataFrame:
    name, unlike, values = re.split(r" (!?)= ", where, maxsplit=1)
    if missing := {*split(values)} - {*rows[name]}:
        raise ValueError(f"no row has {name} = {missing.pop()!r}")
    inside = rows[name].isin(split(values))
    return rows[~inside if unlike else inside]


def seeds(values: list[int]) -> str:
    """As a text: of 3, 1, 2 and 5, "1 to 3, 5"."""
    runs: list[list[int]] = []
    for value in sorted({*values}):
        if not runs or value != runs[-1][-1] + 1:
            runs.append([])
        runs[-1].append(value)
    texts = ([f"{run[0]} to {run[-1]}"] if len(run) > 2 else map(str, run) for run in runs)
    return ", ".join(text for run in texts for text in run)


def provenance(file: str, rows: pd.DataFrame, page: Path) -> str:
    """Seeds and commits of the rows of a table, where the file has them, and its link."""
    parts = []
    if known := [int(seed) for seed in rows.get("seed", ()) if seed]:
        parts.append(f"seed{'s' * (len({*known}) > 1)} {seeds(known)}")
    if commits := [f"`{c}`" for c in dict.fromkeys(rows.get("commit", ())) if c]:
        parts.append(f"commit{'s' * (len(commits) > 1)} {', '.join(commits)}")
    link = Path(os.path.relpath(TABLES / file, page.parent)).as_posix()
    return f"*[Rows]({link}){': ' * bool(parts)}{'; '.join(parts)}.*\n"


def table(file: str, text: str, page: Path) -> str:
    """The Markdown table that a comment asks for."""
    rows = pd.read_csv(TABLES / file, dtype=str, keep_default_na=False)
    asked = options(text)
    for key, value in asked:
        rows = chosen(rows, value) if key == "where" else rows
    of = dict(asked)
    columns = [Column.of(part) for part in split(of["columns"])]
    if "by" in of:
        groups = [part for _, part in rows.groupby(split(of["by"]), sort=False)]
        cells = [[c.summary(part) for c in columns] for part in groups]
    else:
        cells = [[c.cell(row[c.name]) for c in columns] for _, row in rows.iterrows()]
    lines = [[c.header for c in columns], *cells]
    numeric = [c.decimals is not None for c in columns[1:]]
    if of.get("turned") == "yes":
        lines = [list(line) for line in zip(*lines, strict=True)]
        numeric = [True] * (len(lines[0]) - 1)
    rule = ":--|" + "".join("--:|" if n else ":--|" for n in numeric)
    escaped = [[cell.replace("|", r"\|") for cell in line] for line in lines]
    head, *body = ["| " + " | ".join(line) + " |\n" for line in escaped]
    below = provenance(file, rows.drop(columns=[c.name for c in columns]), page)
    return f"{head}|{rule}\n{''.join(body)}\n{below}"


def rewritten(page: Path) -> str:
    """The text of a page with its tables as the CSV files have them."""
    text = page.read_text()
    if text.count("<!-- table:") != len(BLOCK.findall(text)):
        raise ValueError(f"{page.name}: a comment of a table without <!-- end --> after it")
    return BLOCK.sub(lambda m: f"{m[1]}\n{table(m[2], m[3], page)}\n{m[4]}", text)


if __name__ == "__main__":
    for page in DOCS.rglob("*.md"):
        page.write_text(rewritten(page))
