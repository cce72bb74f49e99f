"""Where a run's metrics go: always a CSV file, and TensorBoard on request."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

__all__ = ["CSVTracker", "tensorboard"]


class CSVTracker:
    """One row for each call of `log`, one column for each metric, the step first.

    A metric that turns up later adds a column, empty in the rows before. Of an existing file the
    first `rows` and the `columns` are kept; ValueError where they are not there.
    """

    def __init__(self, path: Path, rows: int = 0, columns: Sequence[str] = ()) -> None:
        self.path, self.rows, self.columns = path, rows, list(columns)
        kept = self._read()[:rows]
        if len(kept) < rows or (rows and not set(self.columns) <= set(kept.columns)):
            raise ValueError(
                f"{path} has lost rows that the checkpoint of the run counts: {len(kept)} of {rows}"
            )
        self._rewrite(kept)

    def log(self, step: int, metrics: Mapping[str, float | int | str]) -> None:
        row: dict[str, Any] = {"step": step, **metrics}
        if new := [name for name in row if name not in self.columns]:
            self._file.close()
            kept = self._read()
            self.columns += new
            self._rewrite(kept)
        csv.DictWriter(self._file, self.columns, restval="", lineterminator="\n").writerow(row)
        self._file.flush()
        self.rows += 1

    def sync(self) -> None:
        """Have the rows on the disk before a checkpoint counts them."""
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()

    def _read(self) -> pd.DataFrame:
        if not self.path.is_file() or not self.path.stat().st_size:
            return pd.DataFrame()
        return pd.read_csv(self.path, dtype=str, keep_default_na=False)

    def _rewrite(self, rows: pd.DataFrame) -> None:
        table = rows.reindex(columns=self.columns, fill_value="")
        temporary = self.path.with_name(f".{self.path.name}.tmp")
        text = table.to_csv(index=False, lineterminator="\n") if self.columns else ""
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, self.path)
        self._file = self.path.open("a", newline="", encoding="utf-8")


def tensorboard(run: Path, step: int) -> Any:
    """A writer into the run directory, after `step` updates; what earlier files hold is hidden."""
    from torch.utils.tensorboard import SummaryWriter

    purge = step + 1 if step else None
    return SummaryWriter(str(run / "tensorboard"), purge_step=purge)  # type: ignore[no-untyped-call]
