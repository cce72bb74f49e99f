"""Columns of a user's table (CSV, Excel or Parquet), and the sentences that refuse them."""

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
    "MISSING", "Columns", "check_roles", "column_names", "is_number", "listed", "read_columns",
    "suggestion",
]  # fmt: skip

logger = logging.getLogger(__name__)

BINARY = {"0": 0, "1": 1, "0.0": 0, "1.0": 1, "false": 0, "true": 1}
DASHES = ("-", "–", "−")
PAIRS = [("no", "yes"), ("n", "y"), ("f", "t"), ("absent", "present"), *((d, "+") for d in DASHES)]
WORDS = [{no: 0, yes: 1} for no, yes in PAIRS]
SPLIT = BINARY | {"train": 0, "held_out": 1}
MISSING = (".", "-", "–", "?", "NA", "n/a", "nan", "null")
SIGNED = tuple(word for word in MISSING if word not in DASHES)  # in a table with a plus
PLUS = r"\W*\+\W*"  # a cell that holds it, in whose table a dash is its opposite
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)
NUMBERED = re.compile(
    r".*_id|unnamed: 0|(.*[ _.-]|)(id|idx|index|nr|row)", re.IGNORECASE
)  # names of such columns; the last may be of something else
COUNTED = 10  # rows through which numbers go up by one, and count them
MEASURED = 0.5  # of the numbers of a column are not whole where it is no mistake among bits
MOST_STEPS = 10  # thresholds of a column
MOST_NAMES = 10  # column names that one sentence lists
EMPTY: dict[str, Any] = {"keep_default_na": False, "na_values": [""]}  # alone is missing in files


@dataclass(frozen=True)
class Columns:
    """The columns of a file; every method raises ValueError, in a sentence that names the file.

    - ``frame``: numbers, or texts without spaces around; NaN where a value is missing;
    - ``rows``: names that an unnamed first column gives the rows, or none;
    - ``missing_values``: the words that stood for a missing value.
    """

    frame: pd.DataFrame
    path: Path
    rows: tuple[str, ...] = ()
    missing_values: tuple[str, ...] = MISSING

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

    def is_numeric(self, name: str) -> bool:
        """Whether a column holds numbers or booleans, not texts."""
        return pd.api.types.is_numeric_dtype(self.frame[name].dtype)

    def without_numbering(self, names: Sequence[str]) -> Sequence[str]:
        """The same columns. One of different whole numbers is refused where its name is as id, or
        ends so and they are consecutive; else the log says that it has such a name, or counts.
        """
        for name in names:
            if not self.is_numeric(name) or len(self.frame) < 3:
                continue
            number = self.numbers(name)
            if (number != np.floor(number)).any() or not self.frame[name].is_unique:
                continue
            where, named = f"column {name!r} of {self.name}", NUMBERED.fullmatch(name)
            if named and (not named[1] or np.ptp(number) < len(number)):
                raise ValueError(
                    f"{where} seems to number the rows ({number[0]:.0f}, {number[1]:.0f}, …): set "
                    f"names={name} or ignore={name}, or rename it if it tells something of them"
                )
            if named or (len(number) >= COUNTED and (np.diff(number) == 1).all()):
                logger.warning("%s has another whole number in each row: if it numbers them, set "
                               "names=%s, or ignore=%s", where, name, name)  # fmt: skip
        return names

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
        missing = column.isna().to_numpy(dtype=bool)
        if self.is_numeric(name):
            number = column.to_numpy(dtype=np.float64, na_value=np.nan)
        else:
            text = column.str.lower()
            if inputs:
                values = max((BINARY, *WORDS), key=lambda pair: int(text.isin([*pair]).sum()))
                expected = expected if values is BINARY else " and ".join(values)
            number = text.map(values).to_numpy(dtype=np.float64, na_value=np.nan)
        wrong = ~missing & (number != 0) & (number != 1)
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
                f"recode it, name it in missing_values, or name the column in labels or ignore"
                f"{self._advice(name)}"
            )
        return np.where(missing, -1, number).astype(np.int8)

    def bits(self, column: str, optional: bool) -> np.ndarray[Any, np.dtype[np.int8]]:
        """(rows,) a 0/1 column as of `coded`, which another table may have named: of a column legs
        with `legs=4` the rows of this value, with `legs>=4` those of this number or more.
        """
        if column in self.frame.columns:
            return self.binary(column, optional=optional)
        names = [n for n in self.frame.columns if column.startswith((f"{n}=", f"{n}>="))]
        if not names:
            raise ValueError(
                f"{self.name} has no column {column!r}, which the model was trained on"
                f"{suggestion(column, list(self.frame.columns))}"
            )
        name = max(names, key=len)
        missing = self.frame[name].isna().to_numpy(dtype=bool)
        if missing.any() and not optional:
            raise ValueError(
                f"column {name!r} of {self.name} needs a value in every row to be coded as 0/1 "
                f"columns, and {self.row(int(missing.argmax()))} has none: fill it in, or set "
                "missing=ignore"
            )
        if column.startswith(f"{name}>="):
            bits = self.numbers(name) >= float(column.removeprefix(f"{name}>="))
        else:
            codes, values = self.codes(name)
            bits = np.array([*values, ""])[codes] == column.removeprefix(f"{name}=")
        return np.where(missing, -1, bits).astype(np.int8)

    def coded(
        self, one_hot: Sequence[str], at_least: Sequence[str], others: Iterable[str]
    ) -> list[str]:
        """Names of the 0/1 columns that all columns but `others` make: of those in `one_hot` one
        for each value, of those in `at_least` one for each number but the least; where this names a
        number, one for it of each other column of counts. Columns of counts that would not vary,
        and of other numbers, are left out, which the log says.
        """
        least = next(filter(is_number, at_least), "")
        names, aside, constant = list[str](), list[str](), list[str]()
        for name in (name for name in self.frame.columns if name not in others):
            known = self.frame[name].dropna()
            if name in one_hot:
                values = self.codes(name)[1]
                names += [f"{name}={v}" for v in values[1:] * (len(values) == 2) or values]
            elif name in at_least:
                steps = np.unique(self.numbers(name)[self.frame[name].notna()])
                if len(steps) > MOST_STEPS:
                    raise ValueError(
                        f"column {name!r} of {self.name} has {len(steps)} values, and at_least "
                        f"makes a column of each of {MOST_STEPS} at most: make it coarser, as by "
                        f"pandas.qcut(t[{name!r}], 5, labels=False)"
                    )
                names += [f"{name}>={step:.12g}" for step in steps[1:]]
            elif not least or not self.is_numeric(name) or known.isin((0, 1)).all():
                names.append(name)
            elif (known % 1 != 0).any() or (known < 0).any():
                aside.append(name)
            else:
                varies = (known >= float(least)).nunique() > 1
                (names if varies else constant).append(f"{name}>={least}" if varies else name)
        for some, why in ((aside, "are no counts"), (constant, f"are all or never {least}")):
            if some:
                logger.info(
                    "%d columns of %s %s, and are left out: %s",
                    len(some), self.name, why, listed(some),
                )  # fmt: skip
        if twice := _repeated(names):
            raise ValueError(f"{self.name} has a column {twice[0]!r} already: rename it")
        return names

    def numbers(self, name: str) -> np.ndarray[Any, np.dtype[np.float64]]:
        """(rows,) the numbers of a column, NaN where one is missing."""
        if not self.is_numeric(name):
            held = self.frame[name].dropna().iloc[:1].to_list() or [""]
            raise ValueError(
                f"column {name!r} of {self.name} holds {held[0]!r}, which is no number: name it in "
                "labels, names or ignore"
            )
        return self.frame[name].to_numpy(float, na_value=np.nan)  # type: ignore[no-any-return]

    def tell_words(self, names: Iterable[str]) -> None:
        """Log which word is 1 in those of these columns that hold words."""
        texts = [n for n in names if n in self.frame.columns and not self.is_numeric(n)]
        held = {name: {*self.frame[name].dropna().str.lower()} for name in texts}
        for no, yes in PAIRS:
            if columns := [name for name, words in held.items() if words and words <= {no, yes}]:
                logger.info("%r is 1 and %r is 0 in %s of %s", yes, no, listed(columns), self.name)

    def measures(self, names: Sequence[str]) -> list[str]:
        """Those of these columns that are ratings and the like: numbers that are not whole."""
        measures = []
        for name in (name for name in names if name in self.frame.columns):
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
        number = self.is_numeric(name)
        if not number and self.frame[name].is_unique:
            return f" (it tells every row apart: if it names them, set names={name})"
        coded = f"one_hot={name} makes it a 0/1 column for each value"
        if self.frame[name].nunique() == 2:
            coded = f"one_hot={name} makes it one 0/1 column"
        return f" ({coded}{f', at_least={name} for each threshold' if number else ''})"

    def texts(self, name: str) -> tuple[str, ...]:
        """(rows,) a column as text; no value may be missing. Where none has this name, `rows`."""
        if name not in self.frame.columns:
            return self.rows
        texts = self.frame[name].astype("string")
        if (missing := texts.isna().to_numpy(dtype=bool)).any():
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
        again = pd.Series(names, dtype=object).value_counts()
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
        """A column as codes (rows,), −1 where missing, and the values they stand for."""
        # Whole numbers became floats where one is missing: back, so that they read as in the file.
        codes, values = pd.factorize(self.frame[name].convert_dtypes(), sort=True)
        if not len(values):
            raise ValueError(
                f"column {name!r} of {self.name} has no value in any row: leave it out with ignore"
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
    return bool(NUMBER.fullmatch(text))


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
    path: Path, missing_values: Sequence[str] = MISSING, texts: Sequence[str] = ()
) -> Columns:
    """The columns of a file.

    Cells are missing where they are empty, or hold one of `missing_values` in capitals or not; but
    nothing else is in the columns `texts`, which name something. Of the usual ones a dash is none
    in a table that holds a plus, but beside numbers other than 0. An unnamed first column names the
    rows, if it does not count them.

    CSV files are UTF-8, UTF-16 or, which the log says, Windows-1252. Between semicolons numbers may
    have decimal commas, which the log says. Vectors of words, as of word2vec and GloVe, have words
    in their first column.

    Raises ValueError where the file is missing or unreadable, its first line holds numbers, a row
    has other cells than the first line names, or a column has no name or another's.
    """
    name = path.name
    suffix = "".join(path.suffixes[-2:] if path.suffix.lower() == ".gz" else [path.suffix]).lower()
    if suffix not in READERS:
        array = f"numpy.load({name!r}){'[...]' * (suffix == '.npz')}"
        how = f": pandas.DataFrame({array}).to_csv('table.csv', index=False) makes one"
        raise ValueError(
            f"{name} ends in {suffix or 'nothing'!r}: a table must be one of {', '.join(READERS)}"
            + how * (suffix in (".npy", ".npz"))
        )
    if not path.is_file():
        raise ValueError(f"there is no file {str(path)!r}: give the path of the table itself")
    frame = READERS[suffix](path)
    if len(frame.columns) and not frame.columns[-1] and frame.iloc[:, -1].isna().all():
        frame = frame.iloc[:, :-1]  # every line ends in a separator
    rows = list[str]()
    if len(frame.columns) and frame.columns[0] == "":
        first = frame.iloc[:, 0].convert_dtypes()
        if not pd.api.types.is_float_dtype(first.dtype):
            frame = frame.iloc[:, 1:]
            numbers = pd.to_numeric(first, errors="coerce") - np.arange(len(first))
            rows = [] if numbers.isin((0, 1)).all() else first.astype(str).str.strip().tolist()
    names = list(frame.columns)
    if "" in names:
        raise ValueError(f"column {names.index('') + 1} of {name} has no name: name or remove it")
    if twice := _repeated(names):
        raise ValueError(
            f"{name} has more than one column called {listed(twice)}: give each its own name"
        )
    words, columns = column_names(missing_values), dict[str, Any]()
    of_text = (n for n in names if not pd.api.types.is_numeric_dtype(frame[n].dtype))
    cells = {n: frame[n].astype("string").str.strip() for n in of_text}
    signs = {n for n in cells if n not in texts and cells[n].str.fullmatch(PLUS).any()}
    words = SIGNED if words == MISSING and signs else words
    numbers_too = [float(word) for word in words if is_number(word)]
    for key in names:
        if key in texts:
            columns[key] = frame[key] if key not in cells else cells[key].mask(cells[key] == "")
        elif key in cells:
            number = pd.to_numeric(cells[key], errors="coerce")
            usual = words == SIGNED and key not in signs and (number.abs() > 0).any()
            marks = ["", *map(str.lower, MISSING if usual else words)]
            text = cells[key].mask(cells[key].str.lower().isin(marks))
            number = number.mask(text.isna())
            plain = text.notna().any() and number.notna().equals(text.notna())
            columns[key] = number.to_numpy(float, na_value=np.nan) if plain else text
        else:
            known = ~frame[key].isin(numbers_too)
            columns[key] = frame[key] if known.all() else frame[key].where(known)
    return Columns(pd.DataFrame(columns, index=frame.index), path, tuple(rows), words)


def _read_csv(path: Path) -> pd.DataFrame:
    with reading(path, "csv"):
        data = path.read_bytes()
        data = gzip.decompress(data) if path.suffix.lower() == ".gz" else data
    text = _decoded(data, path).strip("\r\n")
    separator = ""
    if match := re.match(r"sep=(.)\r?\n", text):  # a line of Excel's own
        separator, text = match[1], text[match.end() :]
    if not text.strip():
        raise ValueError(f"{path.name} is empty: its first line must name the columns")
    lines = io.StringIO(text)
    first, second = lines.readline().rstrip("\r\n"), lines.readline()
    size, cells = first.split(), len(second.split())
    sized = len(size) == 2 and all(map(str.isdigit, size)) and cells == int(size[1]) + 1
    numbers = [is_number(cell) for cell in size]
    if sized or (" " in first and len(size) > 2 and not numbers[0] and all(numbers[1:])):
        with reading(path, "vectors of words", ": remove words that have spaces"):
            frame = pd.read_csv(
                io.StringIO(text), sep=" ", header=None, skiprows=int(sized),
                quoting=csv.QUOTE_NONE, dtype={0: str}, **EMPTY,
            ).dropna(axis=1, how="all")  # fmt: skip
        frame.columns = pd.Index(["", *(f"x{k}" for k in range(1, frame.shape[1]))], dtype=object)
        return frame
    bare = re.sub('"[^"]*"', "", first)
    separator = separator or max("\t;,", key=bare.count)
    separator = "\t" if ".tsv" in map(str.lower, path.suffixes) else separator
    if separator not in bare and len(size) > 1 and cells - len(size) in (0, 1):
        separator = " "  # as R writes tables
    with reading(path, "csv"):
        records = csv.reader(io.StringIO(text), delimiter=separator, skipinitialspace=True)
        header = [column.strip() for column in next(records)]
        # a blank line is a row without values; a last empty cell is none
        rows = [(len(cells), cells[:1], cells[-1:] == [""]) for cells in records]
    width = len(header)
    if all(n in (0, width + 1) for n, _, _ in rows) and not all(last for *_, last in rows):
        labels = [cell for n, first_cell, _ in rows if n for cell in first_cell]
        if len({*labels}) == len(labels) and not {*labels} <= {"0", "1"}:
            header, width = ["", *header], width + 1  # as R writes names of rows
    for row, (n, _, last) in enumerate(rows, start=1):
        if n not in (0, width) and (n != width + 1 or not last):
            raise ValueError(
                f"row {row} of {path.name} (counting from 1, header excluded) has {n} cells, but "
                f"its first line names {width} columns; cells are separated by {separator!r}"
            )
    _require_names(header, path, f"read_csv({path.name!r}, sep={separator!r}")
    decimal = "," if separator == ";" else "."
    with reading(path, "csv"):  # a blank line counts as a row
        frame = pd.read_csv(
            io.StringIO(text), sep=separator, skipinitialspace=True, skip_blank_lines=False,
            low_memory=False, index_col=False, header=0, names=range(width), usecols=range(width),
            decimal=decimal, **EMPTY,
        )  # fmt: skip
    if decimal == "," and re.search(r"\d,\d", text):
        logger.info("numbers of %s have decimal commas", path.name)
    frame.columns = pd.Index(header, dtype=object)
    return frame


def _require_names(header: Sequence[str], path: Path, read: str) -> None:
    """Refuse a first line that holds numbers, but for names that count: 0, 1, 2, …; beside words
    whole numbers that rise, or count down, as years, and beside a first name that is empty any.
    """
    numbers = [cell for cell in header if is_number(cell)]
    whole, words = all(map(str.isdigit, numbers)), any(c and not is_number(c) for c in header)
    steps = {*np.diff([int(n) for n in numbers])} if whole else {0}
    counting = len(numbers) > 2 and steps in ({1}, {-1 if words else 1})
    rising = min(steps, default=1) > 0 if words else not header[0]
    if numbers and not (whole and (counting or rising)):
        raise ValueError(
            f"the first line of {path.name} holds numbers ({numbers[0]}), where names of columns "
            f"belong: put a line of names before it, as by pandas.{read}, header=None)"
            ".add_prefix('x').to_csv('named.csv', index=False), or, if these are names, put a "
            "letter before each"
        )


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


def _read_excel(path: Path) -> pd.DataFrame:
    with reading(path, "xlsx", needs="openpyxl"):
        sheets = pd.read_excel(path, sheet_name=None, header=None, dtype=object, **EMPTY)
    whole = next(iter(sheets.values()))
    if len(sheets) > 1:
        logger.warning("of %s the first sheet is read, %r", path.name, next(iter(sheets)))
    if not len(whole):
        raise ValueError(f"{path.name} is empty: its first line must name the columns")
    head = ["" if pd.isna(cell) else str(cell).strip() for cell in whole.iloc[0]]
    _require_names(head, path, f"read_excel({path.name!r}")
    frame = whole.iloc[1:].reset_index(drop=True).infer_objects()
    frame.columns = pd.Index(head, dtype=object)
    return frame


def _read_parquet(path: Path) -> pd.DataFrame:
    with reading(path, "parquet", needs="pyarrow"):
        frame = pd.read_parquet(path)
    if isinstance(frame.index, pd.RangeIndex):
        return frame
    return frame.reset_index(names=[name or "" for name in frame.index.names])


READERS = {
    **dict.fromkeys((".csv", ".tsv", ".txt", ".vec", ".csv.gz", ".tsv.gz"), _read_csv),
    **dict.fromkeys((".parquet", ".pq"), _read_parquet),
    ".xlsx": _read_excel,
}
