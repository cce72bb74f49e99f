"""Tables of the pages, written from the CSV files in docs/results/tables: python docs/tables.py

In every page, what stands between two comments is written anew:

    <!-- table: sprites_ablation.csv
    where: arm = one restart; uniform P(s)
    columns: arm; seed = seeds; similarity = topographic similarity : 3
    by: arm
    -->
    <!-- end -->

where    rows whose column has one of the values, `!=` for none of them; several lines hold together
columns  name = header : decimals; a number has decimals, a text has none and stands as in the file;
         a column NAME_sd beside NAME, if there is one, becomes "± sd"
by       one row for each value of these columns: of numbers the median, least and greatest, of
         texts all different ones
turned   yes: columns as rows
"""

from __future__ import annotations

import re
import statistics
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

DOCS = Path(__file__).parent
TABLES = DOCS / "results" / "tables"
BLOCK = re.compile(
    r"(<!-- table: (\S+)\n(.*?)-->\n)(?:(?!<!-- table:).)*?(<!-- end -->)", re.DOTALL
)
KEY = re.compile(r"^(where|columns|by|turned):", re.MULTILINE)
COLUMN = re.compile(r"(\S+)(?: =\s*(.*?))?(?: : (\d))?")


class TableError(SystemExit):
    """A comment that asks for what there is not; ends the program with one sentence."""


@dataclass(frozen=True)
class Column:
    name: str
    header: str
    decimals: int | None

    @property
    def numeric(self) -> bool:
        return self.decimals is not None

    def number(self, value: float, most: int = 9) -> str:
        return f"{value:.{min(self.decimals or 0, most)}f}".replace("-", "−").replace("inf", "∞")

    def cell(self, row: pd.Series[str]) -> str:
        text = row[self.name]
        if not self.numeric or not text:
            return text
        sd = row.get(f"{self.name}_sd", "")
        known = len(text.partition(".")[2])  # decimals of the file: no more are shown
        return self.number(float(text), known) + (f" ± {self.number(float(sd))}" if sd else "")

    def summary(self, rows: pd.DataFrame) -> str:
        texts = [t for t in rows[self.name] if t]
        if not self.numeric:
            return ", ".join(dict.fromkeys(texts))
        values = [float(t) for t in texts]
        if len(values) < 2:
            return self.cell(rows[rows[self.name] != ""].iloc[0]) if values else ""
        middle, *ends = map(self.number, (statistics.median(values), min(values), max(values)))
        return middle if len({*ends}) == 1 else f"{middle} ({' to '.join(ends)})"


def split(text: str) -> list[str]:
    return [part for part in re.split(r" *; *", text.strip()) if part]


def options(text: str) -> list[tuple[str, str]]:
    """The keys of a comment and their values, in order."""
    _, *parts = KEY.split(text)
    return [(k, " ".join(v.split())) for k, v in zip(parts[::2], parts[1::2], strict=True)]


def columns_of(text: str, rows: pd.DataFrame) -> list[Column]:
    found = []
    for part in split(text):
        match = COLUMN.fullmatch(part)
        if match is None or match[1] not in rows:
            raise TableError(f"no column {part!r}; there are {', '.join(rows.columns)}")
        name, header, decimals = match.groups()
        header = name.replace("_", " ") if header is None else header
        found.append(Column(name, header, int(decimals) if decimals else None))
    return found


def chosen(rows: pd.DataFrame, where: str) -> pd.DataFrame:
    match = re.fullmatch(r"(\S+) (!?=) (.*)", where)
    if match is None or match[1] not in rows:
        raise TableError(f"where: {where!r} is not COLUMN = VALUE; VALUE")
    values = split(match[3])
    if missing := [v for v in values if v not in set(rows[match[1]])]:
        raise TableError(f"no row has {match[1]} = {missing[0]!r}")
    inside = rows[match[1]].isin(values)
    return rows[inside if match[2] == "=" else ~inside]


def table(file: str, text: str) -> str:
    """The Markdown table that a comment asks for."""
    rows = pd.read_csv(TABLES / file, dtype=str, keep_default_na=False)
    asked = options(text)
    for key, value in asked:
        rows = chosen(rows, value) if key == "where" else rows
    of = dict(asked)
    columns = columns_of(of["columns"], rows)
    if "by" in of:
        groups = [part for _, part in rows.groupby(split(of["by"]), sort=False)]
        cells = [[c.summary(part) for c in columns] for part in groups]
    else:
        cells = [[c.cell(row) for c in columns] for _, row in rows.iterrows()]
    lines = [[c.header for c in columns], *cells]
    numeric = [c.numeric for c in columns[1:]]
    if of.get("turned") == "yes":
        lines = [list(line) for line in zip(*lines, strict=True)]
        numeric = [True] * (len(lines[0]) - 1)
    rule = ":--|" + "".join("--:|" if n else ":--|" for n in numeric)
    escaped = [[cell.replace("|", r"\|") for cell in line] for line in lines]
    head, *body = ["| " + " | ".join(line) + " |\n" for line in escaped]
    return f"{head}|{rule}\n{''.join(body)}"


def rewritten(page: Path) -> str:
    """The text of a page with its tables as the CSV files have them."""

    def block(match: re.Match[str]) -> str:
        begin, file, text, end = match.groups()
        try:
            return f"{begin}\n{table(file, text)}\n{end}"
        except (TableError, FileNotFoundError, KeyError) as error:
            raise TableError(f"{page.name}, table {file}: {error}") from None

    text = page.read_text()
    if text.count("<!-- table:") != len(BLOCK.findall(text)):
        raise TableError(f"{page.name}: a comment of a table without <!-- end --> after it")
    return BLOCK.sub(block, text)


if __name__ == "__main__":
    for page in DOCS.rglob("*.md"):
        page.write_text(rewritten(page))
