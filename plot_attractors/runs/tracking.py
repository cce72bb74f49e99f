"""Trackers: where a run's metrics go, always a CSV file, and TensorBoard or Weights & Biases on
request.
"""

from __future__ import annotations

import csv
import hashlib
import importlib.util
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pandas as pd

from plot_attractors.runs.registry import suggestion

__all__ = ["TRACKERS", "CSVTracker", "Metrics", "Tracker", "check_tracker", "open_tracker"]

Metrics = Mapping[str, float | int | str]

TRACKERS = ("csv", "tensorboard", "wandb")


class Tracker(Protocol):
    """Anything that takes a row of metrics now and then."""

    def log(self, step: int, metrics: Metrics, /) -> object:
        """Takes the metrics after so many updates."""

    def close(self) -> object:
        """Writes out what is left."""


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

    def log(self, step: int, metrics: Metrics) -> None:
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


class _Service(NamedTuple):
    """A tracker made of the functions of another package."""

    log: Callable[[int, Metrics], object]
    close: Callable[[], object]


def check_tracker(name: str) -> None:
    """Raise a ValueError for an unknown tracker, and for one whose package is not installed."""
    if name not in TRACKERS:
        near = suggestion(name, TRACKERS)
        raise ValueError(f"there is no tracker {name!r}: {near}There are {', '.join(TRACKERS)}")
    if name != "csv" and importlib.util.find_spec(name) is None:
        raise ValueError(
            f"the tracker {name} needs a package: pip install 'plot-attractors[{name}]'"
        )


def open_tracker(
    name: str, run: Path, config: Mapping[str, Any], step: int, started: str
) -> Tracker:
    """TensorBoard or Weights & Biases for the run directory `run`, after `step` updates.

    What TensorBoard's earlier files hold after `step` is hidden; Weights & Biases goes on with the
    session of this directory and beginning.
    """
    folder = run / name
    if name == "tensorboard":
        from torch.utils.tensorboard import SummaryWriter

        purge = step + 1 if step else None
        writer: Any = SummaryWriter(str(folder), purge_step=purge)  # type: ignore[no-untyped-call]

        def log(step: int, metrics: Metrics) -> None:
            for key, value in metrics.items():
                if not isinstance(value, str):
                    writer.add_scalar(key, value, global_step=step)

        return _Service(log, writer.close)
    import wandb

    folder.mkdir(parents=True, exist_ok=True)
    key = hashlib.sha1(f"{run.resolve()} {started}".encode()).hexdigest()[:16]
    session: Any = wandb.init(
        project="plot-attractors", name=run.name, id=key, resume="allow", dir=str(folder),
        config=dict(config),
    )  # fmt: skip
    return _Service(lambda step, metrics: session.log(dict(metrics), step=step), session.finish)
