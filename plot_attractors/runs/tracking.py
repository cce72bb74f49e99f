"""Trackers: where a run's metrics go, always a CSV file, and TensorBoard or Weights & Biases on
request.
"""

from __future__ import annotations

import csv
import hashlib
import importlib.util
import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from plot_attractors.runs.registry import suggestion

__all__ = ["TRACKERS", "CSVTracker", "Metrics", "Tracker", "check_tracker", "open_tracker"]

Metrics = Mapping[str, float | int | str]

TRACKERS = ("csv", "tensorboard", "wandb")


@runtime_checkable
class Tracker(Protocol):
    """Anything that takes a row of metrics now and then."""

    def log(self, step: int, metrics: Metrics) -> None:
        """Take the metrics after so many updates."""

    def close(self) -> None:
        """Write out what is left."""


class CSVTracker:
    """One row for each call of `log`, one column for each metric, the step first.

    A metric that turns up later adds a column, empty in the rows before.

    Args:
        path: the file.
        rows: rows of an existing file to keep; those after them are dropped.
        columns: columns of the existing file to keep.

    Raises:
        ValueError: the file has fewer rows than it should keep, or lacks a column.
    """

    def __init__(self, path: Path, rows: int = 0, columns: Sequence[str] = ()) -> None:
        self.path, self.rows, self.columns = path, rows, list(columns)
        kept = self._read()[:rows] if rows and path.is_file() else []
        if len(kept) < rows or (rows and not set(self.columns) <= set(kept[0])):
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

    def _read(self) -> list[dict[str, str]]:
        with self.path.open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def _rewrite(self, rows: Sequence[Mapping[str, str]]) -> None:
        text = io.StringIO()
        if self.columns:
            writer = csv.DictWriter(
                text, self.columns, restval="", extrasaction="ignore", lineterminator="\n"
            )
            writer.writeheader()
            writer.writerows(rows)
        temporary = self.path.with_name(f".{self.path.name}.tmp")
        temporary.write_text(text.getvalue(), encoding="utf-8")
        os.replace(temporary, self.path)
        self._file = self.path.open("a", newline="", encoding="utf-8")


class _TensorBoard:
    """TensorBoard event files; what earlier files hold after `step` is hidden."""

    def __init__(self, folder: Path, step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        purge = step + 1 if step else None
        self._writer: Any = SummaryWriter(log_dir=str(folder), purge_step=purge)  # type: ignore[no-untyped-call]

    def log(self, step: int, metrics: Metrics) -> None:
        for name, value in metrics.items():
            if not isinstance(value, str):
                self._writer.add_scalar(name, value, global_step=step)

    def close(self) -> None:
        self._writer.close()


class _Wandb:
    """A Weights & Biases run that goes on where it stopped, known again by `key`."""

    def __init__(self, folder: Path, config: Mapping[str, Any], name: str, key: str) -> None:
        import wandb

        folder.mkdir(parents=True, exist_ok=True)
        self._run: Any = wandb.init(
            project="plot-attractors",
            name=name,
            id=hashlib.sha1(key.encode()).hexdigest()[:16],
            resume="allow",
            dir=str(folder),
            config=dict(config),
        )

    def log(self, step: int, metrics: Metrics) -> None:
        self._run.log(dict(metrics), step=step)

    def close(self) -> None:
        self._run.finish()


def check_tracker(name: str) -> None:
    """Raise a ValueError for an unknown tracker, and for one whose package is not installed."""
    if name not in TRACKERS:
        raise ValueError(
            f"there is no tracker {name!r}: {suggestion(name, TRACKERS)}"
            f"There are {', '.join(TRACKERS)}"
        )
    if name != "csv" and importlib.util.find_spec(name) is None:
        raise ValueError(
            f"the tracker {name} needs a package: pip install 'plot-attractors[{name}]'"
        )


def open_tracker(
    name: str, run: Path, config: Mapping[str, Any], step: int, started: str
) -> Tracker:
    """A tracker beside the CSV file, for a run directory.

    Args:
        name: ``tensorboard`` or ``wandb``.
        run: the run directory.
        config: the run's settings.
        step: updates done before.
        started: when the run began, which tells it from an earlier one in the same place.

    Raises:
        ValueError: an unknown name, or a package that is not installed.
    """
    check_tracker(name)
    if name == "tensorboard":
        return _TensorBoard(run / "tensorboard", step)
    return _Wandb(run / "wandb", config, run.name, f"{run.resolve()} {started}")
