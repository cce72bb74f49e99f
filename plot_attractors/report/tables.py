"""Tables of a report: of facts by variant, and of the CSV files of analyses, over seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from plot_attractors.runs.tables import read_table

__all__ = ["LONGEST_TABLE", "by_variant", "csv_table", "fixed", "html_table", "rows_of", "spread"]

LONGEST_TABLE = 200  # rows that are shown
# columns of whole numbers that name a row, and are not measured
INDICES = "input y row class cycle rank depth decoder step steps t d k"


def html_table(head: Sequence[str], rows: Sequence[str], tall: bool = False) -> str:
    """A table of rows that are HTML already; without a head line where `head` is empty."""
    top = f"<thead><tr>{''.join(head)}</tr></thead>" if head else ""
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    kind = "wide tall" if tall else "wide"
    return f'<div class="{kind}"><table>{top}<tbody>{body}</tbody></table></div>'


def by_variant(heads: Sequence[str], rows: Sequence[tuple[str, Sequence[Any]]]) -> str:
    """A table of named rows, with a column for each of the heads.

    Values that are the same in all columns are shown once.
    """
    head = ["<th></th>", *(f'<th class="text">{escape(name)}</th>' for name in heads)]
    body = []
    for name, values in rows:
        texts = [escape(text(value)) for value in values]
        same = len(texts) > 1 and len(set(texts)) == 1
        attributes = f'class="text" colspan="{len(texts)}"' if same else 'class="text"'
        cells = "".join(f"<td {attributes}>{cell}</td>" for cell in texts[: 1 if same else None])
        body.append(f"<td>{escape(name)}</td>{cells}")
    return html_table(head if heads else [], body)


def text(value: Any) -> str:
    """A value as text: lists with commas, numbers with four digits, nothing as a dash."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, bool | np.bool_):
        return str(bool(value)).lower()
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def fixed(value: float, form: str) -> str:
    """A number in a format such as ``.3f``, an infinity, or a dash."""
    if math.isnan(value):
        return "–"
    shown = f"{abs(value):,{form}}" if math.isfinite(value) else "∞"
    return f"−{shown}" if value < 0 else shown


def spread(values: Sequence[float], form: str) -> str:
    """Mean ± standard deviation (n − 1) of the values that are known, and how many these are where
    some are missing.

    >>> spread([1.0, 3.0], ".1f"), spread([2.0], ".1f"), spread([math.nan], ".1f")
    ('2.0 ± 1.4', '2.0', '–')
    """
    known = [value for value in values if not math.isnan(value)]
    if len(values) == 1 or not known:
        return fixed(known[0] if known else math.nan, form)
    form = ".1f" if form == ".0f" else form  # a mean of counts is not whole
    shown = fixed(float(np.mean(known)), form)
    if len(known) > 1 and all(map(math.isfinite, known)):
        shown += f" ± {fixed(float(np.std(known, ddof=1)), form)}"
    return shown if len(known) == len(values) else f"{shown} ({len(known)} of {len(values)})"


def rows_of(file: Path) -> int:
    """Number of rows of a CSV file, 0 where it cannot be read as a table."""
    table = _read(file)
    return 0 if table is None else len(table)


def csv_table(files: Sequence[Path], names: Sequence[str]) -> str:
    """The CSV file of an analysis, of one run or of several seeds with the given names.

    Of several seeds, numbers are mean ± standard deviation where the tables have the same columns
    and rows; else there is a folded table for each. Rows are the same where all their keys agree:
    columns of text, and those named in `INDICES`. Every other column is measured, counts as well.
    """
    tables = {name: _read(file) for file, name in zip(files, names, strict=True)}
    known = {name: table for name, table in tables.items() if table is not None}
    parts = [
        f'<p class="soft">{escape(f"{file.name} of {name} cannot be read, or is damaged.")}</p>'
        for file, name in zip(files, names, strict=True)
        if name not in known
    ]
    frames = list(known.values())
    if frames and all(_same_rows(frames[0], other) for other in frames[1:]):
        return "".join([*parts, _table(frames)])
    for name, table in known.items():
        summary = f"<summary>{escape(name)}</summary>"
        parts.append(f'<details class="long">{summary}{_table([table])}</details>')
    return "".join(parts)


def _read(file: Path) -> pd.DataFrame | None:
    try:
        return read_table(file, keep_default_na=False, na_values=["", "nan", "NaN"])
    except (ValueError, OSError):
        return None


def _measured(table: pd.DataFrame) -> list[str]:
    """Columns that are measured; the others say which row it is."""
    numeric = map(str, table.select_dtypes("number"))
    return [name for name in numeric if name not in INDICES.split()]


def _same_rows(a: pd.DataFrame, b: pd.DataFrame) -> bool:
    if list(a.columns) != list(b.columns):
        return False
    keys = [name for name in a.columns if name not in _measured(a) or name not in _measured(b)]
    return len(a) == len(b) and a[keys].equals(b[keys])


def _table(tables: Sequence[pd.DataFrame]) -> str:
    first = tables[0]
    left = {
        name: "" if pd.api.types.is_numeric_dtype(first[name]) else ' class="text"'
        for name in first
    }
    head = [f"<th{left[name]}>{escape(str(name))}</th>" for name in first]
    rows = []
    for k in range(min(len(first), LONGEST_TABLE)):
        cells = ((name, _cell([table[name].iloc[k] for table in tables])) for name in first)
        rows.append("".join(f"<td{left[name]}>{escape(cell)}</td>" for name, cell in cells))
    more = len(first) - len(rows)
    note = f'<p class="soft">{more} more rows are in the file.</p>' if more > 0 else ""
    return html_table(head, rows) + note


def _cell(values: Sequence[Any]) -> str:
    if len({text(value) for value in values}) == 1:
        return text(values[0])
    known = [float(value) for value in values if math.isfinite(value)]
    shown = f"{np.mean(known):.4g}" if known else "–"
    shown += f" ± {np.std(known, ddof=1):.2g}" if len(known) > 1 else ""
    return shown + (f" ({len(known)} of {len(values)})" if 0 < len(known) < len(values) else "")
