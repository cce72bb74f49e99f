"""Columns of a user's table (CSV, TSV, Parquet or npz), and the sentences that refuse them."""

from __future__ import annotations

import csv
import difflib
import gzip
import io
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from plot_attractors.data.checks import reading

__all__ = [
    "Columns", "check_roles", "column_names", "is_number", "listed", "read_columns",
    "suggestion",
]  # fmt: skip

logger = logging.getLogger(__name__)

BINARY = {"0": 0, "1": 1, "0.0": 0, "1.0": 1, "false": 0, "true": 1}
WORDS = (("no", "yes"), ("n", "y"), ("f", "t"), ("absent", "present"))  # 0 and 1
SPLIT = BINARY | {"train": 0, "held_out": 1}
MISSING = ("", ".", "-", "–", "?", "na", "n/a", "nan", "null", "none")
# how a cell may spell a number: what it has, its pattern, and what is taken away
PERCENT = ("a percent sign", r"[+-]?\d+(?:\.\d+|,\d{1,2})?\s*%", r"[%\s]")
THOUSANDS = ("commas between thousands", r"[+-]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?|[+-]?\d+", ",")
DECIMAL = ("decimal commas", r"[+-]?\d+(?:,\d+)?", r"^\+")
MEASURED = 0.5  # of the numbers of a column are not whole where it is no mistake among bits
MOST_STEPS = 10  # thresholds of a column
MOST_NAMES = 10  # column names that one sentence lists


@dataclass(frozen=True)
class Columns:
    """The columns of a file; every method raises ValueError, in a sentence that names the file."""

    frame: pd.DataFrame
    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    def row(self, number: int) -> str:
        """How messages name a row, from its number counted from 0."""
        header = ", header excluded" if self.path.suffix.lower() in (".csv", ".tsv") else ""
        return f"row {number + 1} (counting from 1{header})"

    def require(self, names: Iterable[str]) -> None:
        """Refuse names that no column has."""
        for name in names:
            if name not in self.frame.columns:
                near = suggestion(name, list(self.frame.columns))
                raise ValueError(f"{self.name} has no column {name!r}{near}")

    def binary(
        self,
        name: str,
        values: Mapping[str, int] = BINARY,
        expected: str = "0 and 1",
        optional: bool = False,
    ) -> np.ndarray[Any, np.dtype[np.int8]]:
        """A column as 0s and 1s (rows,), by the given spelling of its values, and as −1 where a
        value is missing that is optional.
        """
        column, inputs = self.frame[name], values is BINARY
        if pd.api.types.is_numeric_dtype(column.dtype):  # includes booleans
            number = column.to_numpy(dtype=np.float64, na_value=np.nan)
            missing = np.isnan(number)
            wrong = ~missing & (number != 0) & (number != 1)
        else:
            text = column.astype("string").str.strip().str.lower()
            missing = self._empty(name)
            if inputs and (words := self._words(name)):
                values = dict(zip(words, (0, 1), strict=True))
            number = text.map(values).to_numpy(dtype=np.float64, na_value=np.nan)
            wrong = ~missing & np.isnan(number)
        refused = wrong if optional else missing | wrong
        if refused.any():
            row = int(refused.argmax())
            value, where = column.iloc[row], f"column {name!r} of {self.name}"
            if missing[row]:
                count = int(missing.sum())
                many = "a missing value in" if count == 1 else f"{count:,} missing values, first in"
                ignored = " or set missing=ignore, to leave out of the likelihood what is missing"
                raise ValueError(
                    f"{where} has {many} {self.row(row)}: fill in, remove the row"
                    f"{'s' * (count > 1)},{ignored if inputs else ' or mark it'}"
                )
            shown = f"{value:g}" if isinstance(value, float) else repr(value)
            shown = shown if isinstance(value, str | float) else str(value)
            raise ValueError(
                f"{where} holds {shown} in {self.row(row)}, where only {expected} can stand: "
                f"recode it, or name the column in labels or ignore{self._advice(name)}"
            )
        return np.where(missing, -1, number).astype(np.int8)

    def bits_like(self, column: str, optional: bool) -> np.ndarray[Any, np.dtype[np.int8]]:
        """(rows,) a 0/1 column of another table, which may be coded there: `legs=4` of the values
        of a column legs here, `legs>=4` of its numbers.
        """
        name, step = column, ""
        if column not in self.frame.columns:
            name, _, step = column.partition(">=" if ">=" in column else "=")
        if name not in self.frame.columns or (name != column and not step):
            raise ValueError(
                f"{self.name} has no column {name!r}, which the model was trained on"
                f"{suggestion(name, list(self.frame.columns))}"
            )
        if name == column:
            return self.binary(column, optional=optional)
        if ">=" in column:
            number = pd.to_numeric(self.frame[name], errors="coerce").to_numpy(dtype=float)
            missing, bits = np.isnan(number), number >= float(step)
        else:
            codes, values = self.codes(name)
            missing, bits = codes < 0, np.array([*values, ""])[codes] == step
        if not optional:
            self._require_known(name, missing)
        return np.where(missing, -1, bits).astype(np.int8)

    def _words(self, name: str) -> tuple[str, str] | None:
        """The words for 0 and 1 that a column of text holds, if it holds only these."""
        text = self.frame[name].astype("string").str.strip().str.lower()
        held = {*text[~self._empty(name)]}
        return next((words for words in WORDS if held and held <= {*words}), None)

    def tell_words(self, names: Iterable[str]) -> None:
        """Log which word is 1 in those of these columns that hold words."""
        held: dict[tuple[str, str], list[str]] = {}
        for name in names:
            text = not pd.api.types.is_numeric_dtype(self.frame[name].dtype)
            if text and (words := self._words(name)):
                held.setdefault(words, []).append(name)
        for (no, yes), columns in held.items():
            logger.info("%r is 1 and %r is 0 in %s of %s", yes, no, listed(columns), self.name)

    def measures(self, names: Sequence[str]) -> list[str]:
        """Those of these columns that are ratings and the like: numbers that are not whole."""
        measures = []
        for name in names:
            column = self.frame[name]
            if pd.api.types.is_float_dtype(column.dtype):
                known = column[np.isfinite(column)]
                measures += [name] if len(known) and (known % 1 != 0).mean() > MEASURED else []
        return measures

    def without_measures(self, names: Sequence[str]) -> list[str]:
        """Those of these columns that are no `measures`, which the log names."""
        if measures := self.measures(names):
            logger.warning(
                "%s of %s are numbers that are not whole, and no inputs: compare the model with "
                "them by analyze RUN people --set human=%s, or code them by at_least",
                listed(measures), self.name, self.path,
            )  # fmt: skip
        return [name for name in names if name not in measures]

    def _advice(self, name: str) -> str:
        """The end of a sentence on a column that is not binary: what it may be."""
        column = self.frame[name]
        number = pd.api.types.is_numeric_dtype(column.dtype)
        if not number and column.is_unique:
            return f" (it tells every row apart: if it names them, set names={name})"
        if long := self._long(name):
            return long
        coded = f"one_hot={name} makes it a 0/1 column for each value"
        if column.nunique() == 2:
            coded = f"one_hot={name} makes it one 0/1 column"
        return f" ({coded}{f', at_least={name} for each threshold' if number else ''})"

    def _long(self, name: str) -> str:
        """The end of a sentence where rows are pairs of a concept, this column, and a feature."""
        texts = [
            other for other in self.frame.columns
            if not pd.api.types.is_numeric_dtype(self.frame[other].dtype)
        ]  # fmt: skip
        if len(texts) != 2 or len(self.frame.columns) > 4 or self.frame[texts].duplicated().any():
            return ""
        if any(2 * self.frame[other].nunique() > len(self.frame) for other in texts):
            return ""
        a, b = texts
        return (
            f" (rows seem to be pairs of {a} and {b}: pivot the table to one row for each {a}, "
            f"with pandas.crosstab(t[{a!r}], t[{b!r}]).clip(upper=1))"
        )

    def coded(
        self, one_hot: Sequence[str], at_least: Sequence[str], optional: bool = False
    ) -> Columns:
        """With 0/1 columns in the place of some: one for each value, or for each value but the
        least (of more than ten, for the deciles). Where a value is missing that is optional, so are
        all these.
        """
        parts: list[tuple[str, Any]] = []
        for name in self.frame.columns:
            if name in one_hot:
                known = self.frame.assign(**{name: self.frame[name].mask(self._empty(name))})
                codes, values = Columns(known, self.path).codes(name)
                missing = codes < 0
                if not optional:
                    self._require_known(name, missing)
                kept = values[1:] if len(values) == 2 else values  # one tells the other
                columns = {f"{name}={value}": codes == values.index(value) for value in kept}
            elif name in at_least:
                number = pd.to_numeric(self.frame[name], errors="coerce").to_numpy(dtype=float)
                missing = np.isnan(number)
                empty = self._empty(name) if optional else np.zeros(len(missing), dtype=bool)
                self._require_known(name, missing & ~empty, "a number")
                steps = np.unique(number[~missing])
                if len(steps) > MOST_STEPS:
                    deciles = np.linspace(0, 1, MOST_STEPS + 1)[:-1]
                    steps = np.unique(np.quantile(number[~missing], deciles))
                columns = {f"{name}>={step:g}": number >= step for step in steps[1:]}
            else:
                parts.append((name, self.frame[name]))
                continue
            parts += [(key, np.where(missing, np.nan, one)) for key, one in columns.items()]
        if twice := _repeated(name for name, _ in parts):
            raise ValueError(f"{self.name} has a column {twice[0]!r} already: rename it")
        return Columns(pd.DataFrame(dict(parts), index=self.frame.index), self.path)

    def counted(self, least: float, others: Iterable[str]) -> Columns:
        """With a 0/1 column ``NAME>=least`` in the place of every column of counts but `others`;
        without those that would not vary, and those of other numbers, which the log says.
        """
        columns, aside, constant = dict[str, Any](), list[str](), list[str]()
        for name in self.frame.columns:
            number = pd.to_numeric(self.frame[name], errors="coerce").to_numpy(dtype=float)
            known = number[~np.isnan(number)]
            texts = pd.api.types.is_numeric_dtype(self.frame[name].dtype)
            if name in others or not texts or np.isin(known, (0, 1)).all():
                columns[name] = self.frame[name]
            elif (known % 1 != 0).any() or (known < 0).any():
                aside.append(name)
            elif (known >= least).all() or (known < least).all():
                constant.append(name)
            else:
                bits = np.where(np.isnan(number), np.nan, number >= least)
                columns[f"{name}>={least:g}"] = bits
        for names, why in ((aside, "are no counts"), (constant, f"are all or never {least:g}")):
            if names:
                logger.info(
                    "%d columns of %s %s, and are left out: %s",
                    len(names), self.name, why, listed(names),
                )  # fmt: skip
        return Columns(pd.DataFrame(columns, index=self.frame.index), self.path)

    def _empty(self, name: str) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """(rows,) where a column has no value."""
        text = self.frame[name].astype("string").str.strip().str.lower()
        return (text.isna() | text.isin(MISSING)).to_numpy(dtype=bool)

    def _require_known(self, name: str, missing: Any, what: str = "a value") -> None:
        if missing.any():
            raise ValueError(
                f"column {name!r} of {self.name} needs {what} in every row to be coded as 0/1 "
                f"columns, and {self.row(int(missing.argmax()))} has none: fill it in, or set "
                "missing=ignore"
            )

    def texts(self, name: str) -> tuple[str, ...]:
        """(rows,) a column as text, without spaces around; no value may be missing."""
        texts = self.frame[name].astype("string").str.strip()
        if (missing := (texts.isna() | (texts == "")).to_numpy(dtype=bool)).any():
            raise ValueError(
                f"column {name!r} of {self.name} names the rows, and has no name in "
                f"{self.row(int(missing.argmax()))}: fill it in"
            )
        return tuple(texts)

    def names_of_rows(self, name: str, concepts: bool) -> tuple[str, ...]:
        """(rows,) as `texts`. A name that several rows share is logged; of `concepts`, ValueError
        where rows are pairs of a name and something else, with a row for each feature of one.
        """
        names = self.texts(name)
        again = pd.Series(names).value_counts()
        if (again := again[again > 1]).empty:
            return names
        what = f"column {name!r} of {self.name} names the rows, and {again.index[0]!r} stands in"
        if concepts and 2 * len(set(names)) <= len(names):
            raise ValueError(
                f"{what} {again.iloc[0]} of them: a row is one concept. If it is a pair of a "
                "concept and a feature, pivot the table to one row for each concept, with "
                f"pandas.crosstab(t[{name!r}], t['FEATURE']).clip(upper=1); if it is one of "
                f"several examples, set labels={name} instead of names"
            )
        logger.warning("%s %d of them", what, again.iloc[0])
        return names

    def codes(self, name: str) -> tuple[np.ndarray[Any, np.dtype[np.int64]], tuple[str, ...]]:
        """A label column as codes (rows,), −1 where missing, and the values they stand for."""
        column = self.frame[name].astype(object)
        present = column.notna() & (column != "")
        # Whole numbers became floats where one is missing: back, so that they read as in the file.
        plain = column.where(present, None).infer_objects().convert_dtypes()
        try:
            codes, values = pd.factorize(plain, sort=True)
        except TypeError:  # values of several types have no order
            codes, values = pd.factorize(plain.astype("string"), sort=True)
        if not len(values):
            raise ValueError(
                f"label column {name!r} of {self.name} has no value in any row: leave it out"
            )
        return codes.astype(np.int64), tuple(str(value) for value in values)

    def held_out(self, column: str, fraction: float, seed: int) -> Tensor:
        """(rows,) bool, held-out rows: those a column marks, or a share drawn by an own seed."""
        rows = len(self.frame)
        if column:
            marks = self.binary(column, SPLIT, "0 and 1, or train and held_out,")
            if marks.all() or not marks.any():
                raise ValueError(
                    f"column {column!r} of {self.name} marks {'every' if marks.all() else 'no'} "
                    "row as held out: mark at least one row and leave at least one for training"
                )
            return torch.from_numpy(marks == 1)
        if not 0 <= fraction < 1:
            raise ValueError(f"held_out_fraction must be at least 0 and below 1, not {fraction!r}")
        count = round(fraction * rows)
        if fraction and not 0 < count < rows:
            raise ValueError(
                f"a held_out_fraction of {fraction} of {rows} rows leaves a split empty: each "
                "needs at least one row"
            )
        mask = torch.zeros(rows, dtype=torch.bool)
        mask[torch.randperm(rows, generator=torch.Generator().manual_seed(seed))[:count]] = True
        return mask


def check_roles(roles: Iterable[str], held_out: str, held_out_fraction: float) -> None:
    """Raise ValueError where a column has two roles, or rows are held out in two ways."""
    if held_out and held_out_fraction:
        raise ValueError("give either a held_out column or a held_out_fraction, not both")
    if twice := _repeated(roles):
        raise ValueError(
            f"column {twice[0]!r} is named twice among labels, names, one_hot, at_least, ignore "
            "and held_out: name it once"
        )


def column_names(names: str | Sequence[str]) -> tuple[str, ...]:
    """Names, from one string of names separated by commas, too."""
    parts = names.split(",") if isinstance(names, str) else names
    return tuple(part.strip() for part in parts if part.strip())


def is_number(text: str) -> bool:
    """Whether a text is a number, and no name of a column."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def listed(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    more = len(names) - MOST_NAMES
    return ", ".join(map(repr, names[:MOST_NAMES])) + (f" and {more} more" if more > 0 else "")


def suggestion(name: str, names: Sequence[str]) -> str:
    """The end of a sentence on an unknown name: the names it may have meant, or all there are."""
    by_case = {other.lower(): other for other in names}
    close = [by_case[match] for match in difflib.get_close_matches(name.lower(), list(by_case))]
    if close:
        return f": did you mean {' or '.join(map(repr, close))}?"
    return f": it has {listed(names)}"


def _repeated(names: Iterable[str]) -> list[str]:
    counts = pd.Series(list(names), dtype=object).value_counts(sort=False)
    return [str(name) for name in counts.index[counts > 1]]


def read_columns(
    path: Path, roles: Sequence[str] = (), missing_values: Sequence[str] = ()
) -> Columns:
    """The columns of a file; an npz file has those one-dimensional arrays that `roles` name.

    Cells are missing where they are empty, or hold one of `missing_values`; of columns that are
    numbers but for these, where they hold ".", "-", "?", "NA" and the like, too. Numbers may have
    decimal commas (where cells are not separated by commas), commas between thousands, or a percent
    sign, which the log says. CSV files are UTF-8, UTF-16 or, which the log says, Windows-1252.

    Raises ValueError where the file is missing or unreadable, a row has other cells than the first
    line names, or a column has no name or another's.
    """
    readers = {
        **dict.fromkeys((".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz"), _read_csv),
        **dict.fromkeys((".parquet", ".pq"), _read_parquet),
        ".xlsx": _read_excel,
        ".npz": _read_npz,
    }
    name = path.name
    suffix = "".join(path.suffixes[-2:] if path.suffix.lower() == ".gz" else [path.suffix]).lower()
    if suffix not in readers:
        raise ValueError(
            f"{name} ends in {suffix or 'nothing'!r}: a table must be one of {', '.join(readers)}"
        )
    if not path.is_file():
        raise ValueError(f"there is no file {str(path)!r}: give the path of the table itself")
    frame = readers[suffix](path, roles)
    if len(frame.columns) and not frame.columns[-1] and frame.iloc[:, -1].isna().all():
        frame = frame.iloc[:, :-1]  # every line ends in a separator
    names = list(frame.columns)
    for number, column in enumerate(names, start=1):
        if not column:
            raise ValueError(
                f"column {number} of {name} has no name: name it, or remove it "
                "(a data frame that was saved with its index has such a column)"
            )
    if twice := _repeated(names):
        bare = " (its first line seems to hold values, where the names belong)"
        raise ValueError(
            f"{name} has more than one column called {listed(twice)}: give each its own name"
            + (bare if {*names} <= {"0", "1"} else "")
        )
    return Columns(_cleaned(frame, name, roles, missing_values), path)


def _cleaned(
    frame: pd.DataFrame, name: str, roles: Sequence[str], missing_values: Sequence[str]
) -> pd.DataFrame:
    """With numbers in the place of texts that stand for them, and NaN for what is missing."""
    markers = {marker.strip() for marker in missing_values}
    as_numbers = [float(marker) for marker in markers if is_number(marker)]
    spellings = (PERCENT, DECIMAL if frame.attrs.get("separator", ",") != "," else THOUSANDS)
    said: dict[str, list[str]] = {}
    columns: dict[str, Any] = {}
    for key in frame.columns:
        column = frame[key]
        if pd.api.types.is_numeric_dtype(column.dtype):
            known = as_numbers and not pd.api.types.is_bool_dtype(column.dtype)
            columns[key] = column.mask(column.isin(as_numbers)) if known else column
            continue
        text = column.astype("string").str.strip()
        columns[key] = column = column.mask(text.isin(markers).fillna(False).astype(bool))
        present = text[~(column.isna() | text.isna() | text.str.lower().isin(MISSING))]
        if key in roles or not len(present):
            continue
        number = pd.to_numeric(present, errors="coerce")
        for what, pattern, taken in spellings if number.isna().any() else ():
            if present.str.fullmatch(pattern).all():
                commas = present[present.str.contains(",")]
                if what == DECIMAL[0] and commas.str.fullmatch(THOUSANDS[1]).all():
                    raise ValueError(
                        f"column {key!r} of {name} holds {commas.iloc[0]!r}, which may be "
                        f"{commas.iloc[0].replace(',', '')} or {commas.iloc[0].replace(',', '.')}: "
                        "write it without a comma"
                    )
                said.setdefault(what, []).append(key)
                plain = present.str.replace(taken, "", regex=True).str.replace(",", ".")
                number = pd.to_numeric(plain, errors="coerce")
        if number.notna().all():
            columns[key] = number.astype(float).reindex(column.index)
    for what, keys in said.items():
        logger.info("numbers of %s have %s: %s", name, what, listed(keys))
    return pd.DataFrame(columns, index=frame.index, columns=frame.columns)


def _read_csv(path: Path, roles: Sequence[str]) -> pd.DataFrame:
    with reading(path, "csv"):
        data = path.read_bytes()
        data = gzip.decompress(data) if path.suffix.lower() == ".gz" else data
    text = _decoded(data, path).strip("\r\n")
    separator = ""
    if match := re.match(r"sep=(.)\r?\n", text):  # a line of Excel's own
        separator, text = match[1], text[match.end() :]
    if not text.strip():
        raise ValueError(f"{path.name} is empty: its first line must name the columns")
    first = text.splitlines()[0]
    separator = separator or max("\t;,", key=re.sub('"[^"]*"', "", first).count)
    separator = "\t" if ".tsv" in map(str.lower, path.suffixes) else separator
    with reading(path, "csv"):
        records = csv.reader(io.StringIO(text), delimiter=separator, skipinitialspace=True)
        header = [column.strip() for column in next(records)]
        width = len(header)  # a blank line is a row without values; a last empty cell is none
        uneven = (
            (number, len(cells)) for number, cells in enumerate(records, start=1)
            if len(cells) not in (0, width) and (len(cells) != width + 1 or cells[-1])
        )  # fmt: skip
        row, cells = next(uneven, (0, 0))
    if row:
        raise ValueError(
            f"row {row} of {path.name} (counting from 1, header excluded) has {cells} cells, but "
            f"its first line names {width} columns; cells are separated by {separator!r}"
        )
    with reading(path, "csv"):
        # Only an empty cell is missing: a label may read "NA". A blank line counts as a row.
        frame = pd.read_csv(
            io.StringIO(text), sep=separator, skipinitialspace=True, keep_default_na=False,
            na_values=[""], skip_blank_lines=False, low_memory=False, index_col=False,
            usecols=range(len(header)),
        )  # fmt: skip
    frame.columns = pd.Index(header, dtype=object)  # pandas renames the second of two equal names
    frame.attrs["separator"] = separator
    return frame


def _decoded(data: bytes, path: Path) -> str:
    """The text of a file: UTF-8, UTF-16 by its mark, or else Windows-1252, as Excel writes it."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        with reading(path, "a text in UTF-16"):
            return data.decode("utf-16")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        if b"\0" in data:
            raise ValueError(f"cannot read {str(path)!r} as text: it holds zero bytes") from None
    logger.warning("%s is not in UTF-8, and is read as Windows-1252", path.name)
    return data.decode("cp1252", errors="replace")


def _read_excel(path: Path, roles: Sequence[str]) -> pd.DataFrame:
    try:
        with reading(path, "xlsx"):
            options: dict[str, Any] = {"keep_default_na": False, "na_values": [""]}
            sheets = pd.read_excel(path, sheet_name=None, header=None, **options)
    except ValueError as error:
        if isinstance(error.__cause__, ImportError):
            raise ValueError(
                f"reading {path.name} needs openpyxl, which is not installed: install openpyxl, or "
                "save the sheet as CSV"
            ) from error
        raise
    whole = next(iter(sheets.values()))
    if len(sheets) > 1:
        logger.warning("of %s the first sheet is read, %r", path.name, next(iter(sheets)))
    if not len(whole):
        raise ValueError(f"{path.name} is empty: its first line must name the columns")
    head = ["" if pd.isna(cell) else str(cell).strip() for cell in whole.iloc[0]]
    frame = whole.iloc[1:].reset_index(drop=True)
    frame.columns = pd.Index(head, dtype=object)
    return frame


def _read_parquet(path: Path, roles: Sequence[str]) -> pd.DataFrame:
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise ValueError(
            f"reading {path.name} needs pyarrow, which is not installed: install pyarrow, or save "
            "the table as CSV"
        ) from error
    with reading(path, "parquet"):
        # without metadata, so that a named index is a column; an unnamed one is none of the user's
        frame: pd.DataFrame = parquet.read_table(path).to_pandas(ignore_metadata=True)
    return frame.loc[:, ~frame.columns.str.startswith("__index_level_")]


def _read_npz(path: Path, roles: Sequence[str]) -> pd.DataFrame:
    name = path.name
    with reading(path, "npz"), np.load(path, allow_pickle=False) as file:
        arrays = {key: _text(file[key]) for key in file.files}
    matrices = [key for key, array in arrays.items() if array.ndim == 2]
    if "x" not in arrays and len(matrices) != 1:
        raise ValueError(
            f"{name} has {len(matrices)} two-dimensional arrays and none 'x': call the table 'x'"
        )
    key = "x" if "x" in arrays else matrices[0]
    if others := [other for other in matrices if other != key]:
        logger.warning("of %s the array %r is the table, and not %s", name, key, listed(others))
    x = arrays[key]
    if x.ndim != 2:
        raise ValueError(f"array {key!r} of {name} has {x.ndim} dimension(s): a table has two")
    numbered = [f"x{k}" for k in range(1, x.shape[1] + 1)]
    columns = [str(column) for column in arrays.get("columns", np.array(numbered)).reshape(-1)]
    if len(columns) != x.shape[1]:
        raise ValueError(
            f"{name} names {len(columns)} columns, but {key!r} has {x.shape[1]}: name each of them"
        )
    parts = [pd.DataFrame(x, columns=columns)]
    for role in roles:
        if role in arrays and role not in (key, "columns"):
            if (shape := arrays[role].shape) != (len(x),):
                raise ValueError(
                    f"array {role!r} of {name} has shape {shape}: it needs one a row, {(len(x),)}"
                )
            parts.append(pd.DataFrame({role: arrays[role]}))
    return pd.concat(parts, axis=1)


def _text(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.char.decode(array, "utf-8") if array.dtype.kind == "S" else array
