"""Tables of a report: of facts by variant, and of the csv files of analyses, with the spread over
seeds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

__all__ = ["by_variant", "csv_table", "fixed", "rows_of", "spread"]

LONGEST_TABLE = 60  # rows that are shown
# Columns of whole numbers that say which row it is, not what was measured.
INDICES = frozenset(
    {
        "input",
        "y",
        "row",
        "class",
        "cycle",
        "rank",
        "depth",
        "decoder",
        "step",
        "steps",
        "t",
        "d",
        "k",
    }
)


def by_variant(heads: Sequence[str], rows: Sequence[tuple[str, Sequence[Any]]]) -> str:
    """A table of named rows, with a column for each of the heads; without a head line where there
    are no heads.

    Values that are the same in all columns stand there once.
    """
    top = "".join(f'<th class="text">{escape(head)}</th>' for head in heads)
    head = f"<thead><tr><th></th>{top}</tr></thead>" if heads else ""
    body = []
    for name, values in rows:
        texts = [escape(text(value)) for value in values]
        if len(texts) > 1 and len(set(texts)) == 1:
            cells = f'<td class="text" colspan="{len(texts)}">{texts[0]}</td>'
        else:
            cells = "".join(f'<td class="text">{said}</td>' for said in texts)
        body.append(f"<tr><td>{escape(name)}</td>{cells}</tr>")
    return f'<div class="wide"><table>{head}<tbody>{"".join(body)}</tbody></table></div>'


def text(value: Any) -> str:
    """A value as text: lists with commas, numbers with four digits, nothing as a dash."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def fixed(value: float, decimals: int) -> str:
    """A number with so many decimals, an infinity, or a dash."""
    if math.isnan(value):
        return "–"
    said = f"{abs(value):,.{decimals}f}" if math.isfinite(value) else "∞"
    return f"−{said}" if value < 0 else said


def spread(values: Sequence[float], decimals: int) -> str:
    """Mean ± standard deviation (n − 1) of the values that are known; how many these are, where
    some are missing.

    >>> spread([1.0, 3.0], 1), spread([2.0], 1), spread([math.nan], 1)
    ('2.0 ± 1.4', '2.0', '–')
    """
    known = [value for value in values if not math.isnan(value)]
    if not known:
        return "–"
    if len(values) == 1:
        return fixed(known[0], decimals)
    decimals = max(decimals, 1)  # a mean of counts is not whole
    said = fixed(float(np.mean(known)), decimals)
    if len(known) > 1 and all(map(math.isfinite, known)):
        said += f" ± {fixed(float(np.std(known, ddof=1)), decimals)}"
    return said if len(known) == len(values) else f"{said} ({len(known)} of {len(values)})"


def rows_of(file: Path) -> int | None:
    """Number of rows of a csv file, or None where it cannot be read as a table."""
    table = _read(file)
    return None if table is None else len(table)


def csv_table(files: Sequence[Path], names: Sequence[str]) -> str:
    """The csv file of an analysis, of one run or of several seeds with the given names.

    Of several, numbers that differ are mean ± standard deviation, with every seed's own in a
    tooltip, where the tables have the same columns and rows; else there is a folded table for each.
    Rows are the same where all their keys agree: columns of text, and those whose name says that
    they number something (`INDICES`: input, y, class, steps, …). Every other column is a
    measurement, counts as well.
    """
    tables = [_read(file) for file in files]
    known = [(table, name) for table, name in zip(tables, names, strict=True) if table is not None]
    broken = [
        (file, name)
        for file, table, name in zip(files, tables, names, strict=True)
        if table is None
    ]
    parts = [
        f'<p class="soft">{escape(f"{file.name} of {name} cannot be read.")}</p>'
        for file, name in broken
    ]
    frames = [table for table, _ in known]
    if len(known) == 1 or (known and _alike(frames)):
        parts.append(_table(frames, [name for _, name in known]))
    else:
        for table, name in known:
            parts.append(
                f'<details class="long"><summary>{escape(name)}</summary>{_table([table], [name])}</details>'
            )
    return "".join(parts)


def _read(file: Path) -> pd.DataFrame | None:
    try:
        return pd.read_csv(file, keep_default_na=False, na_values=["", "nan", "NaN"])
    except (ValueError, OSError):
        return None


def _alike(tables: Sequence[pd.DataFrame]) -> bool:
    """Whether tables have the same columns, as many rows, and the same keys in them."""
    first = tables[0]
    return all(
        list(table.columns) == list(first.columns)
        and len(table) == len(first)
        and all(
            (name not in INDICES and _numeric(table[name]) and _numeric(first[name]))
            or table[name].equals(first[name])
            for name in first.columns
        )
        for table in tables[1:]
    )


def _numeric(column: pd.Series) -> bool:
    return bool(pd.api.types.is_numeric_dtype(column))


def _table(tables: Sequence[pd.DataFrame], names: Sequence[str]) -> str:
    first = tables[0]
    head = "".join(
        f"<th{_left(first[column])}>{escape(str(column))}</th>" for column in first.columns
    )
    body = []
    for k in range(min(len(first), LONGEST_TABLE)):
        cells = [
            _cell([table.iloc[k, j] for table in tables], names) for j in range(len(first.columns))
        ]
        body.append(f"<tr>{''.join(cells)}</tr>")
    more = len(first) - len(body)
    note = f'<p class="soft">{more} more rows are in the file.</p>' if more > 0 else ""
    rows = "".join(body)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>{note}'


def _left(column: pd.Series) -> str:
    return "" if _numeric(column) else ' class="text"'


def _cell(values: Sequence[Any], names: Sequence[str]) -> str:
    first = values[0]
    if isinstance(first, str):
        return f'<td class="text">{escape(first)}</td>'
    numbers = [float(value) for value in values]
    if len({text(number) for number in numbers}) == 1:
        return f"<td>{escape(_plain(first))}</td>"
    each = ", ".join(f"{name}: {_plain(value)}" for name, value in zip(names, values, strict=True))
    known = [number for number in numbers if math.isfinite(number)]
    said = f"{np.mean(known):.4g}" if known else "–"
    said += f" ± {np.std(known, ddof=1):.2g}" if len(known) > 1 else ""
    said += f" ({len(known)} of {len(numbers)})" if known and len(known) < len(numbers) else ""
    return f'<td title="{escape(each, quote=True)}">{escape(said)}</td>'


def _plain(value: Any) -> str:
    if isinstance(value, bool | np.bool_):
        return str(bool(value)).lower()
    return str(int(value)) if isinstance(value, int | np.integer) else text(float(value))
