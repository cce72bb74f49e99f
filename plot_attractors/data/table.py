"""A user's own table of 0/1 columns, read from CSV, Parquet or npz and checked column by column."""

from __future__ import annotations

import csv
import difflib
import io
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from plot_attractors.data.batch import Batch, check_size, check_split, draw
from plot_attractors.data.features import Feature

__all__ = ["BinaryTable", "read_table"]

_BINARY = {"0": 0, "1": 1, "0.0": 0, "1.0": 1, "false": 0, "true": 1}
_SPLIT = _BINARY | {"train": 0, "held_out": 1}
_MISSING = ("", "na", "n/a", "nan", "null", "none")
_MOST_NAMES = 10  # column names that one sentence lists


@dataclass(frozen=True, eq=False)
class BinaryTable:
    """A table of 0/1 columns with categorical labels, some rows of which may be held out.

    - ``name``: the file's name, for messages and titles;
    - ``x``: (rows, bits) uint8, 0 or 1; ``columns``: their names;
    - ``labels``: (rows, F) int64 codes, -1 where the label is missing; ``label_names``: the F
      names; ``label_values``: for each name the values that the codes 0, 1, ... stand for, as text;
    - ``held_out``: (rows,) bool, the rows that are kept from training.
    """

    name: str
    x: Tensor
    columns: tuple[str, ...]
    labels: Tensor
    label_names: tuple[str, ...]
    label_values: dict[str, tuple[str, ...]]
    held_out: Tensor

    @property
    def bits(self) -> int:
        """Number of 0/1 columns."""
        return self.x.shape[1]

    @property
    def input_shape(self) -> tuple[int, ...]:
        """``(bits,)``."""
        return (self.bits,)

    @cached_property
    def distinct(self) -> int:
        """Number of different rows, labels apart."""
        return len(self.x.unique(dim=0))

    @cached_property
    def train_rows(self) -> Tensor:
        """(n,) int64, the numbers of the training rows, from 0."""
        return torch.nonzero(~self.held_out).flatten()

    @cached_property
    def held_out_rows(self) -> Tensor:
        """(n,) int64, the numbers of the held-out rows, from 0; disjoint from the training rows."""
        return torch.nonzero(self.held_out).flatten()

    @property
    def splits(self) -> tuple[str, ...]:
        """``("train", "held_out")``, or ``("train",)`` where nothing is held out."""
        return ("train", "held_out") if len(self.held_out_rows) else ("train",)

    def batch(self, n: int, split: str = "train") -> Batch:
        """n rows drawn uniformly with replacement from the split; ``y`` is the row's number in the
        table, from 0.

        Raises ValueError when the split is unknown or n is no positive whole number.
        """
        check_size(n)
        members = {
            name: self.train_rows if name == "train" else self.held_out_rows for name in self.splits
        }
        y = draw(check_split(split, members), n)
        return Batch(x=self.x[y].float(), y=y, labels=self.labels[y])

    @property
    def features(self) -> tuple[Feature, ...]:
        """The label columns."""
        return tuple(Feature(name, self.label_values[name]) for name in self.label_names)

    @property
    def ordered(self) -> bool:
        """Label columns have no order."""
        return False

    def feature_values(self, batch: Batch) -> Tensor:
        """(n, F) float32, the codes of the labels, NaN where a label is missing."""
        return torch.where(batch.labels >= 0, batch.labels.float(), torch.nan)

    def check_batch(self, n: int) -> None:
        """Refuse, with a ValueError, a batch size that exceeds the number of training rows."""
        check_size(n)
        rows = len(self.train_rows)
        if n > rows:
            raise ValueError(
                f"{self.name} has {rows} training row{'s' * (rows != 1)}, fewer than a batch of "
                f"{n}: "
                f"set the batch size to {rows} or less"
            )


def read_table(
    path: str | Path,
    labels: str | Sequence[str] = (),
    *,
    ignore: str | Sequence[str] = (),
    held_out: str = "",
    held_out_fraction: float = 0.0,
    seed: int = 0,
    constant: str = "refuse",
) -> BinaryTable:
    """Read a table of 0/1 columns from a CSV (or TSV), Parquet or npz file.

    Every column is a feature of 0s and 1s (or true and false) unless it is named in one of the
    arguments:

    - ``labels``: categorical columns of any type (names, or one string of names parted by commas);
      a missing label becomes -1, unspecified;
    - ``ignore``: columns to leave out;
    - ``held_out``: a column of 0/1, or of ``train``/``held_out``, that marks the rows to keep from
    training;
    - ``held_out_fraction``: without such a column, the share of rows to hold out, chosen by
    ``seed``;
    - ``constant``: ``"refuse"`` a table with columns that never vary, or ``"drop"`` these columns.

    A CSV names its columns in the first line. An npz file holds the features as a two-dimensional
    array ``x`` (or as its only two-dimensional array), their names in an optional array ``columns``
    (else ``x1``, ``x2``, ...), and labels or the held-out mark as one-dimensional arrays by name.

    Raises ValueError, in one sentence that names the column and the row where there is one, when
    the file is missing or unreadable, the table is empty, a value is missing or not binary, a
    column is constant, two columns share a name, a named column does not exist, or a split would be
    empty.
    """
    path = Path(path)
    name = path.name
    label_names, ignored = column_names(labels), column_names(ignore)
    if constant not in ("refuse", "drop"):
        raise ValueError(f"constant must be 'refuse' or 'drop', not {constant!r}")
    if held_out and held_out_fraction:
        raise ValueError("give either a held_out column or a held_out_fraction, not both")
    roles = [*label_names, *ignored, *([held_out] if held_out else [])]
    check_named_once(roles)

    frame, counting = _read(path, roles), row_counting(path)
    if not len(frame):
        raise ValueError(f"{name} has no rows: at least two are needed")
    for role in roles:
        if role not in frame.columns:
            raise ValueError(
                f"{name} has no column {role!r}{suggestion(role, list(frame.columns))}"
            )
    features = [column for column in frame.columns if column not in roles]
    if not features:
        raise ValueError(
            f"{name} has no 0/1 column besides those named as labels, ignore or held_out: one is "
            f"needed"
        )

    x = np.empty((len(frame), len(features)), dtype=np.uint8)
    for k, column in enumerate(features):
        x[:, k] = _binary(frame[column], name, counting, _BINARY, "0 and 1")
    fixed = (x == x[0]).all(axis=0)
    if fixed.any():
        if constant == "refuse":
            raise ValueError(
                f"{name} has constant columns, which tell nothing: "
                f"{_listed(np.array(features)[fixed].tolist())}; "
                "remove them, or drop them with constant='drop'"
            )
        if fixed.all():
            raise ValueError(
                f"every 0/1 column of {name} is constant, so none is left to learn from"
            )
        x = x[:, ~fixed]
        features = np.array(features)[~fixed].tolist()

    coded = {label: coded_column(frame[label], name) for label in label_names}
    codes = np.zeros((len(frame), len(label_names)), dtype=np.int64)
    for k, label in enumerate(label_names):
        codes[:, k] = coded[label][0]
    mask = (
        split_column(frame[held_out], path)
        if held_out
        else drawn_rows(len(frame), held_out_fraction, seed)
    )
    return BinaryTable(
        name=name,
        x=torch.from_numpy(x),
        columns=tuple(features),
        labels=torch.from_numpy(codes),
        label_names=label_names,
        label_values={label: values for label, (_, values) in coded.items()},
        held_out=mask,
    )


def read_columns(path: Path) -> pd.DataFrame:
    """The columns of a CSV, TSV or Parquet file; refusals as of `read_table`."""
    if path.suffix.lower() == ".npz":
        raise ValueError(
            f"{path.name} is no table of columns with names: save it as CSV, TSV or Parquet"
        )
    return _read(path, ())


def check_named_once(roles: Iterable[str]) -> None:
    """Refuse, with a ValueError, a column that has two roles."""
    if twice := _repeated(roles):
        raise ValueError(
            f"column {twice[0]!r} is named twice among labels, ignore and held_out: name it once"
        )


def row_counting(path: Path) -> str:
    """How the rows of a file are counted in messages."""
    return (
        "counting from 1, header excluded"
        if path.suffix.lower() in (".csv", ".tsv")
        else "counting from 1"
    )


def split_column(column: pd.Series[Any], path: Path) -> Tensor:
    """(rows,) bool, the held-out rows that a column of 0 and 1, or of train and held_out, marks."""
    expected = "0 and 1, or train and held_out,"
    mask = torch.from_numpy(_binary(column, path.name, row_counting(path), _SPLIT, expected) == 1)
    if mask.all() or not mask.any():
        raise ValueError(
            f"column {column.name!r} of {path.name} marks {'every' if mask.all() else 'no'} row as "
            f"held out: "
            "mark at least one row and leave at least one for training"
        )
    return mask


def column_names(names: str | Sequence[str]) -> tuple[str, ...]:
    """Names, from one string of names parted by commas, too."""
    parts = names.split(",") if isinstance(names, str) else names
    return tuple(part.strip() for part in parts if part.strip())


def _repeated(names: Iterable[str]) -> list[str]:
    counts = pd.Series(list(names), dtype=object).value_counts(sort=False)
    return [str(name) for name in counts.index[counts > 1]]


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(map(repr, names[:_MOST_NAMES])) + (f" and {more} more" if more > 0 else "")


def suggestion(name: str, names: Sequence[str]) -> str:
    """The end of a sentence that misses a column: the names that it may have meant, or all there
    are.
    """
    by_case = {other.lower(): other for other in names}
    close = [by_case[match] for match in difflib.get_close_matches(name.lower(), list(by_case))]
    return (
        f": did you mean {' or '.join(map(repr, close))}?"
        if close
        else f": it has {_listed(names)}"
    )


def _read(path: Path, roles: Sequence[str]) -> pd.DataFrame:
    """The file's columns."""
    readers = {
        ".csv": _read_csv,
        ".tsv": _read_csv,
        ".parquet": _read_parquet,
        ".pq": _read_parquet,
        ".npz": _read_npz,
    }
    suffix = path.suffix.lower()
    if suffix not in readers:
        raise ValueError(
            f"{path.name} ends in {suffix or 'nothing'!r}: a table must be one of "
            f"{', '.join(readers)}"
        )
    if not path.exists():
        raise ValueError(f"there is no file {str(path)!r}: check the path to the table")
    if not path.is_file():
        raise ValueError(f"{str(path)!r} is not a file: give the path to the table itself")
    try:
        frame = readers[suffix](path, roles)
    except (OSError, zipfile.BadZipFile, EOFError) as error:
        raise ValueError(
            f"cannot read {str(path)!r} as {suffix[1:]}: {_first_line(error)}"
        ) from error
    for number, column in enumerate(frame.columns, start=1):
        if not column:
            raise ValueError(
                f"column {number} of {path.name} has no name: name it, or remove it "
                "(a data frame that was saved with its index has such a column)"
            )
    return frame


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _check_distinct(names: Sequence[str], name: str, hint: str = "") -> None:
    if twice := _repeated(names):
        raise ValueError(
            f"{name} has more than one column called {_listed(twice)}: give each its own name{hint}"
        )


def _read_csv(path: Path, roles: Sequence[str]) -> pd.DataFrame:
    name = path.name
    try:
        text = path.read_bytes().decode("utf-8-sig").strip("\r\n")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"cannot read {str(path)!r} as csv: it is not UTF-8 text ({error.reason})"
        ) from error
    if not text.strip():
        raise ValueError(f"{name} is empty: its first line must name the columns")
    first = text.splitlines()[0]
    separator = (
        "\t" if path.suffix.lower() == ".tsv" else next((s for s in ",;\t" if s in first), ",")
    )
    buffer = io.StringIO(text)
    try:
        records = csv.reader(buffer, delimiter=separator, skipinitialspace=True)
        header = [column.strip() for column in next(records)]
        cells = len(next(records, []))
        bare = (
            " (its first line seems to hold values, where the names belong)"
            if {*header} <= {"0", "1"}
            else ""
        )
        # Before pandas, which would quietly rename the second of two columns of one name.
        _check_distinct([column for column in header if column], name, bare)
        # Before pandas, too: it would take the first cells of such rows for an index.
        if cells > len(header):
            raise ValueError(
                f"row 1 of {name} has {cells} cells, but its first line names only {len(header)} "
                f"columns"
            )
        buffer.seek(0)
        # Only an empty cell is missing here: a label may well read "NA" or "None".
        frame = pd.read_csv(
            buffer,
            sep=separator,
            skipinitialspace=True,
            keep_default_na=False,
            na_values=[""],
            # so that a blank line counts as a row, as it does for the reader of the file
            skip_blank_lines=False,
            low_memory=False,
        )
    except (pd.errors.ParserError, csv.Error) as error:
        message = _first_line(error).removeprefix("Error tokenizing data. C error: ")
        raise ValueError(
            f"cannot read {str(path)!r} as csv: {message} (line 1 names the columns)"
        ) from error
    frame.columns = pd.Index(header, dtype=object)
    return frame


def _read_parquet(path: Path, roles: Sequence[str]) -> pd.DataFrame:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise ValueError(
            f"reading {path.name} needs pyarrow, which is not installed: install pyarrow, or save "
            f"the table as CSV"
        ) from error
    try:
        names = parquet.read_schema(path).names
        _check_distinct(names, path.name)
        # A data frame's unnamed index is no column of the user's; a named one is, so the metadata
        # are not followed.
        kept = [column for column in names if not column.startswith("__index_level_")]
        return parquet.read_table(path, columns=kept).to_pandas(ignore_metadata=True)
    except pyarrow.ArrowException as error:
        raise ValueError(f"cannot read {str(path)!r} as parquet: {_first_line(error)}") from error


def _read_npz(path: Path, roles: Sequence[str]) -> pd.DataFrame:
    name = path.name
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays: dict[str, np.ndarray[Any, Any]] = {key: _text(file[key]) for key in file.files}
    except (ValueError, AttributeError, TypeError) as error:
        # NumPy's answers to pickled objects, to bytes of no known format, and to a single array
        # instead of an archive
        raise ValueError(f"cannot read {str(path)!r} as npz: {_first_line(error)}") from error
    matrices = [key for key, array in arrays.items() if array.ndim == 2]
    if "x" in arrays:
        key = "x"
    elif len(matrices) == 1:
        key = matrices[0]
    else:
        raise ValueError(
            f"{name} has {len(matrices)} two-dimensional arrays and none called 'x': call the "
            f"table 'x'"
        )
    x = arrays[key]
    if x.ndim != 2:
        raise ValueError(
            f"array {key!r} of {name} has {x.ndim} dimension(s): a table has two, rows and columns"
        )
    columns = [f"x{k}" for k in range(1, x.shape[1] + 1)]
    if "columns" in arrays:
        columns = [str(column) for column in arrays["columns"].reshape(-1)]
        if len(columns) != x.shape[1]:
            raise ValueError(
                f"{name} names {len(columns)} columns, but {key!r} has {x.shape[1]}: name each of "
                f"them"
            )
    beside = [role for role in roles if role in arrays and role not in (key, "columns")]
    _check_distinct([*columns, *beside], name)
    parts = [pd.DataFrame(x, columns=columns)]
    for role in beside:
        if arrays[role].shape != (len(x),):
            shape, needed = arrays[role].shape, (len(x),)
            raise ValueError(
                f"array {role!r} of {name} has shape {shape}: it needs one entry a row, {needed}"
            )
        parts.append(pd.DataFrame({role: arrays[role]}))
    return pd.concat(parts, axis=1)


def _text(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.char.decode(array, "utf-8") if array.dtype.kind == "S" else array


def _binary(
    column: pd.Series[Any], name: str, counting: str, values: Mapping[str, int], expected: str
) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """A column as 0s and 1s (rows,), by the given spelling of its values."""
    if pd.api.types.is_numeric_dtype(column.dtype):  # includes booleans
        number = column.to_numpy(dtype=np.float64, na_value=np.nan)
        missing = np.isnan(number)
        wrong = ~missing & (number != 0) & (number != 1)
    else:
        text = column.astype("string").str.strip().str.lower()
        missing = (text.isna() | text.isin(_MISSING)).to_numpy(dtype=bool)
        number = text.map(values).to_numpy(dtype=np.float64, na_value=np.nan)
        wrong = ~missing & np.isnan(number)
    refused = missing | wrong
    if refused.any():
        row = int(refused.argmax())
        place = f"row {row + 1} ({counting})"
        if missing[row]:
            raise ValueError(
                f"column {column.name!r} of {name} has a missing value in {place}: fill it in, or "
                f"remove the row"
            )
        value = column.iloc[row]
        shown = (
            repr(value)
            if isinstance(value, str)
            else f"{value:g}"
            if isinstance(value, float)
            else str(value)
        )
        raise ValueError(
            f"column {column.name!r} of {name} holds {shown} in {place}, where only {expected} can "
            f"stand: "
            "recode it, or name the column in labels or ignore"
        )
    return number.astype(np.uint8)


def coded_column(
    column: pd.Series[Any], name: str
) -> tuple[np.ndarray[Any, np.dtype[np.int64]], tuple[str, ...]]:
    """A label column as codes (rows,), -1 where missing, and the values that they stand for."""
    plain = (
        column.astype(object)
        .where(column.notna() & (column.astype(object) != ""), None)
        .infer_objects()
    )
    # Whole numbers become floats when one is missing: undo that, so that the values read as in the
    # file.
    plain = plain.convert_dtypes()
    try:
        codes, values = pd.factorize(plain, sort=True)
    except TypeError:  # values of several types have no order
        codes, values = pd.factorize(plain.astype("string"), sort=True)
    if not len(values):
        raise ValueError(
            f"label column {column.name!r} of {name} has no value in any row: leave it out of "
            f"labels"
        )
    return codes.astype(np.int64), tuple(str(value) for value in values)


def drawn_rows(rows: int, fraction: float, seed: int) -> Tensor:
    """(rows,) bool, a share of the rows, held out, chosen by a seed of its own."""
    if not 0 <= fraction < 1:
        raise ValueError(f"held_out_fraction must be at least 0 and below 1, not {fraction!r}")
    mask = torch.zeros(rows, dtype=torch.bool)
    count = round(fraction * rows)
    if fraction and not 0 < count < rows:
        raise ValueError(
            f"a held_out_fraction of {fraction} of {rows} row{'s' * (rows != 1)} leaves a split "
            f"empty: "
            "each needs at least one row"
        )
    mask[torch.randperm(rows, generator=torch.Generator().manual_seed(seed))[:count]] = True
    return mask
