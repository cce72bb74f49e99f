"""Columns of a user's table (CSV, TSV or Parquet), and the sentences that refuse them."""

from __future__ import annotations

import csv
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from plot_attractors.data.batch import Feature
from plot_attractors.data.checks import reading

__all__ = ["MISSING", "Columns", "listed", "read_columns"]

logger = logging.getLogger(__name__)

BINARY = {"0": 0, "1": 1, "false": 0, "true": 1, "no": 0, "yes": 1, "nein": 0, "ja": 1}
BINARY |= dict.fromkeys(("n", "f", "non", "absent"), 0)
BINARY |= dict.fromkeys(("y", "t", "oui", "si", "sí", "present"), 1)
SEPARATORS = ",;\t|"
DASHES = ("-", "–", "−")
MISSING = (".", "?", "na", "n/a", "nan", "null")  # in capitals or not
SENTINELS = (-9, -99, -999, -9999, 99, 999, 9999)  # often written where a value is missing,
FAR = 5  # times the greatest of the others
MOST = 1e30  # of a number: its square and differences are told in single precision
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)
NUMBERED = re.compile(
    r"unnamed: 0|x|.*[a-z]id|(.*[ _.-]|)"
    "(id|idx|index|nr|no|num|number|row|case|trial|subject|participant)", re.IGNORECASE,
)  # fmt: skip
SOME = 20  # rows that tell whether columns are named twice
LONGEST_VALUE = 5  # letters of a cell that may be a value, and no question
MANY = 12  # categories, if more than half of the rows
MOST_NAMES = 10  # column names that one sentence lists


@dataclass(frozen=True)
class Columns:
    """The columns of a file; every method raises ValueError, in a sentence that names the file.

    - ``frame``: numbers, or texts without spaces around; NaN where a value is missing;
    - ``index``: names of the rows by a first column without a name, if any.
    """

    frame: pd.DataFrame
    path: Path
    index: tuple[str, ...] = ()

    def column(self, name: str) -> str:
        return f"column {name!r} of {self.path.name}"

    @staticmethod
    def row(mask: Any) -> str:
        """The first row of a mask (rows,)."""
        return f"row {int(np.argmax(mask)) + 1} (counting from 1, header excluded)"

    def require(self, names: Iterable[str]) -> None:
        """Refuse names that no column has."""
        for name in names:
            if name not in self.frame.columns:
                known = listed([str(column) for column in self.frame.columns])
                raise ValueError(f"{self.path.name} has no column {name!r}: it has {known}")

    def is_numeric(self, name: str) -> bool:
        """Whether a column holds numbers or booleans, not texts."""
        return pd.api.types.is_numeric_dtype(self.frame[name].dtype)

    def without_numbering(self, names: Sequence[str]) -> Sequence[str]:
        """The same columns; one of different whole numbers that is called as ids are is refused."""
        for name in names:
            if not NUMBERED.fullmatch(name) or not self.is_numeric(name) or len(self.frame) < 3:
                continue
            number = self.numbers(name, optional=True)
            if (number % 1 == 0).all() and self.frame[name].is_unique:
                raise ValueError(
                    f"{self.column(name)} seems to number the rows ({number[0]:.0f}, "
                    f"{number[1]:.0f}, …): set names={name} or ignore={name}, or rename it if it "
                    "tells something of them"
                )
        return names

    def missing(self, name: str, optional: bool) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """(rows,) whether a value of a column is missing, refused unless it is optional."""
        missing = self.frame[name].isna().to_numpy(dtype=bool)
        if missing.any() and not optional:
            raise ValueError(
                f"{self.column(name)} has a missing value in {self.row(missing)}: fill it in, "
                "remove the row, or, where inputs are 0 and 1, set missing=ignore, to leave it out "
                "of the likelihood"
            )
        return missing

    def has_twos(self, name: str) -> bool:
        """Whether a column holds 2 and at most 1 beside, as those of surveys for no and yes."""
        return self.is_numeric(name) and {2} <= {*self.frame[name].dropna()} <= {1, 2}

    def binary(
        self, name: str, words: Mapping[str, int] = BINARY, optional: bool = False,
        twos: bool = False,
    ) -> np.ndarray[Any, np.dtype[np.int8]]:  # fmt: skip
        """A column as 0s and 1s (rows,), which words may stand for, 2 for 0 where it has `twos`;
        as −1 where a value is missing that is optional.
        """
        column, missing = self.frame[name], self.missing(name, optional)
        if not self.is_numeric(name):
            signs = dict.fromkeys(DASHES, 0) | {"+": 1} if column.eq("+").any() else {}
            column = column.str.lower().map({**words, **signs})  # a dash alone may be missing
        number = column.to_numpy(dtype=np.float64, na_value=np.nan)
        held = (1, 2) if twos else (0, 1)
        wrong = ~missing & ~np.isin(number, held)
        if wrong.any():
            value = self.frame[name].iloc[int(wrong.argmax())]
            shown = repr(value) if isinstance(value, str) else f"{value:.12g}"
            known = "1 and 2" if twos else ", ".join(list(words)[:6])
            raise ValueError(
                f"{self.column(name)} holds {shown} in {self.row(wrong)}, where only "
                f"{known} can stand: make 0/1 columns of values by "
                "pandas.get_dummies, of counts by .ge(1), empty the cell, or name it in names, "
                "labels or ignore"
            )
        return np.where(missing, -1, number % 2).astype(np.int8)

    def numbers(self, name: str, optional: bool) -> np.ndarray[Any, np.dtype[np.float64]]:
        """(rows,) the numbers of a column, NaN where one is missing that is optional."""
        self.missing(name, optional)
        if not self.is_numeric(name):
            held = self.frame[name].dropna().iloc[:1].to_list() or [""]
            raise ValueError(
                f"{self.column(name)} holds {held[0]!r}, which is no number: name it in labels, "
                "names or ignore"
            )
        number = self.frame[name].to_numpy(float, na_value=np.nan)
        if (large := np.abs(number) > MOST).any():
            raise ValueError(
                f"{self.column(name)} has {number[large][0]:g} in {self.row(large)}: numbers are "
                f"finite and at most {MOST:g}; divide the column, or remove the row"
            )
        odd, size = np.isin(number, SENTINELS), np.abs(np.nan_to_num(number))
        if odd.any() and size[odd].min() > FAR * size[~odd].max(initial=0):
            logger.warning(
                "%s has %g in %s, far from all others: empty the cell if it stands for a missing "
                "value", self.column(name), number[odd][0], self.row(odd),
            )  # fmt: skip
        return number  # type: ignore[no-any-return]

    def feature(
        self, name: str, continuous: bool
    ) -> tuple[Feature, np.ndarray[Any, np.dtype[np.float64]]]:
        """What a column tells, and its values (rows,), NaN where they are missing: numbers, where
        it is to be `continuous` or any is not whole, or else which of its values it is.
        """
        if continuous or self.is_numeric(name):
            number = self.numbers(name, optional=True)
            if continuous or (number[~np.isnan(number)] % 1 != 0).any():
                return Feature(name), number
        # whole numbers are floats where one is missing: back, so that they read as in the file
        codes, values = pd.factorize(self.frame[name].convert_dtypes(), sort=True)
        outcomes = tuple(str(value) for value in values)
        if not outcomes:
            raise ValueError(f"{self.column(name)} has no value in any row: name it in ignore")
        if dash := {*DASHES} & {*outcomes}:
            raise ValueError(
                f"{self.column(name)} holds {min(dash)!r}: empty the cell where it is missing, or "
                "write the value as a word"
            )
        if len(outcomes) > max(MANY, len(codes) / 2):
            logger.warning(
                "%s has %d values in %d rows, each a category of its own: if they are numbers, "
                "write them with a point and name the column in continuous", self.column(name),
                len(outcomes), len(codes),
            )  # fmt: skip
        return Feature(name, outcomes), np.where(codes < 0, np.nan, codes)

    def texts(self, name: str) -> tuple[str, ...]:
        """(rows,) a column as text, no value missing; without a name the index; else none."""
        if name not in self.frame.columns:
            return () if name else self.index
        texts = self.frame[name].astype("string")
        if (missing := texts.isna().to_numpy(dtype=bool)).any():
            raise ValueError(
                f"{self.column(name)} names the rows, and has no name in {self.row(missing)}"
            )
        return tuple(texts)


def listed(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    more = len(names) - MOST_NAMES
    return ", ".join(map(repr, names[:MOST_NAMES])) + (f" and {more} more" if more > 0 else "")


def read_columns(path: Path, texts: Sequence[str] = ()) -> Columns:
    """The columns of a text file in UTF-8, between commas or what else its first line has
    (semicolons, tabs, bars, spaces), or of a Parquet file. Lines of comment (#) at its beginning
    are left out. A first column without a name, or beside one name less than cells, as R writes
    tables, names the rows, unless it counts them. In word vectors as text, of word2vec or GloVe,
    the word does, and numbers are columns x1, x2, …

    Cells are missing where they are empty or hold a word of `MISSING`; but only empty ones are in
    the columns `texts`, which name something, and stay texts.

    Raises ValueError where the file is missing or unreadable, its first line holds numbers, the
    next ones name columns again, a row has other cells than the first line names, or a column has
    no name or another's.
    """
    with reading(path, "a table (CSV, TSV or Parquet)"):
        frame = _read_parquet(path) if path.suffix.lower() == ".parquet" else _read_text(path)
    index: list[str] = []
    if list(frame.columns[frame.columns == ""]) == [frame.columns[0]]:
        index = [str(value).strip() for value in frame.pop("")]
        if index in ([str(k + first) for k in range(len(index))] for first in (0, 1)):
            index = []
    names = list(frame.columns)
    if "" in names:
        raise ValueError(f"{path.name} has a column without a name: name or remove it")
    if len(twice := frame.columns[frame.columns.duplicated()]):
        raise ValueError(f"{path.name} has more than one column called {twice[0]!r}")
    for name in names:
        frame[name] = _text(frame[name]) if name in texts else _cells(frame[name])
    return Columns(frame, path, tuple(index))


def _text(column: pd.Series[Any]) -> pd.Series[Any]:
    """Cells without spaces around, none of them empty; numbers as they are."""
    if pd.api.types.is_numeric_dtype(column.dtype):
        return column
    text = column.astype("string").str.strip()
    return text.mask(text == "")


def _cells(column: pd.Series[Any]) -> Any:
    """Numbers, where all cells that are not missing are, or texts."""
    text = _text(column)
    if text is column:
        return column
    text = text.mask(text.str.lower().isin(MISSING))
    number = pd.to_numeric(text.to_numpy(object, na_value=np.nan), errors="coerce")
    known = text.notna().to_numpy()
    return number if known.any() and (known == ~np.isnan(number)).all() else text


def _read_text(path: Path) -> pd.DataFrame:
    """Texts, as they stand between separators."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(
            "it is no text in UTF-8: pandas reads it, by read_excel(file) or read_csv(file, "
            "encoding='utf-16'), or 'latin-1', and writes it so, .to_csv('utf8.csv', index=False)"
        ) from error
    if vectors := _word_vectors([line.split() for line in text.split("\n", 2)[:2]]):
        return pd.read_csv(StringIO(text), **vectors)
    while re.match(r"#[\s#]", text):  # no name of a column
        text = text.partition("\n")[2]
    first = text.partition("\n")[0]
    mark = "\t" if path.suffix.lower() == ".tsv" else max(SEPARATORS, key=first.count)
    if mark not in first and " " in first.strip():
        mark, text = " ", re.sub(r" ?\n ?", "\n", re.sub(" +", " ", text))
    cells = [next(csv.reader([line], delimiter=mark), []) for line in text.splitlines()[:2]]
    # names of rows, and none of theirs; but not a separator at the end of every row
    if len(cells) == 2 and len(cells[1]) == len(cells[0]) + 1 and cells[1][-1].strip():
        text = f'""{mark}{text}'
    frame = pd.read_csv(
        StringIO(text), sep=mark, header=None, dtype=str, keep_default_na=False,
        skipinitialspace=True, engine="python",  # whose missing cells are those that a line lacks
    )  # fmt: skip
    names = [name.strip() for name in frame.iloc[0]]
    numbers = [name for name in names if NUMBER.fullmatch(name)]
    counted = len(names) > 2 and names == [str(k) for k in range(len(names))]  # by pandas
    if numbers and not counted:
        raise ValueError(
            f"its first line holds numbers ({numbers[0]}), where names of columns belong: put a "
            "line of names before it, or, if these are names, a letter before each"
        )
    frame = frame.iloc[1:].reset_index(drop=True).set_axis(names, axis=1)
    if (short := frame.isna().any(axis=1)).any():
        raise ValueError(f"{Columns.row(short)} has fewer cells than the first line has names")
    _refuse_second_names(frame.iloc[:SOME])
    return frame


def _word_vectors(cells: Sequence[Sequence[str]]) -> dict[str, Any]:
    """How pandas reads a word and its numbers in each line, behind a line with the size of all, or
    not; nothing of other text.
    """
    first, second = ([], [], *cells)[-2:]
    sized = len(first) == 2 and first[0].isdigit() and first[1] == str(len(second) - 1)
    same = sized or len(first) == len(second)
    for words in [second] if sized else [first, second]:
        if not same or len(words) < 3 or not all(map(NUMBER.fullmatch, words[1:])):
            return {}
    matrix = NUMBER.fullmatch(first[0]) and NUMBER.fullmatch(second[0])
    if not sized and (matrix or _counts(first[1:])):  # without names, or with those of columns
        return {}
    names = ["", *(f"x{k}" for k in range(1, len(second)))]
    return {
        "sep": r"\s+", "header": None, "names": names, "quoting": csv.QUOTE_NONE,
        "na_filter": False, "skiprows": int(sized), "dtype": {"": str},
    }  # fmt: skip


def _counts(words: Sequence[str]) -> bool:
    """Whether words are whole numbers, one after the other."""
    least = int(words[0]) if words[0].isdigit() else 0
    return [*words] == [str(least + k) for k in range(len(words))]


def _refuse_second_names(first: pd.DataFrame) -> None:
    """ValueError where most columns hold numbers, but sentences in one or two rows at their
    beginning.
    """
    if len(first) < 4:
        return
    number = first.map(lambda cell: bool(NUMBER.fullmatch(cell.strip())))
    missing = first.map(lambda cell: cell.strip().lower() in ("", *MISSING))
    text = first.map(lambda cell: len(cell.strip()) > LONGEST_VALUE) & ~missing & ~number
    for k in (1, 2):
        rest = number.iloc[k:].any() & (number | missing).iloc[k:].all()
        if (rest & text.iloc[:k].all()).mean() > 0.5:
            raise ValueError(
                f"it seems to name its columns in {k + 1} lines, as exports of surveys do: keep "
                f"one, as pandas.read_csv(file, skiprows={list(range(1, k + 1))}) does"
            )


def _read_parquet(path: Path) -> pd.DataFrame:
    """Columns, and an index that does not count the rows."""
    frame = pd.read_parquet(path)
    return frame if isinstance(frame.index, pd.RangeIndex) else frame.reset_index()
