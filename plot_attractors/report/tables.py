"""Tables of a page: numbers as text, metrics over seeds, and the CSV files of analyses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from plot_attractors.report.builder import Table, Text

__all__ = ["csv_table", "fixed", "spread", "text"]

LONGEST_TABLE = 200  # rows that are shown


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


def csv_table(file: Path, title: str) -> Table | Text:
    """The CSV file of an analysis, folded; of a longer one, its first rows."""
    try:
        table = pd.read_csv(file, keep_default_na=False, na_values=["", "nan", "NaN"])
    except (ValueError, OSError):
        return Text(f"{title} cannot be read, or is damaged.")
    rows = [[text(value) for value in row] for row in table.head(LONGEST_TABLE).to_numpy(object)]
    count = f"{len(table)} row{'s' * (len(table) != 1)}"
    shown = f", of which {LONGEST_TABLE} are shown" if len(table) > LONGEST_TABLE else ""
    return Table(rows, [*map(str, table)], f"{title} ({count}{shown})")
