"""How far trainings are: one line, shown in place in a terminal, and else now and then."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from plot_attractors.cli.shared import console

if TYPE_CHECKING:
    from plot_attractors.runs import Progress
    from plot_attractors.runs.sweep import Training

__all__ = ["TrainingView", "sweep_table"]

_SECONDS = 5.0  # between two lines
_SHOWN_METRICS = 8


class TrainingView:
    """Phase, losses and the time that is left."""

    def __init__(self, to: Console = console) -> None:
        self._console, self._due = to, 0.0
        self._live = Live(console=to, auto_refresh=False) if to.is_terminal else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, progress: Progress) -> None:
        last = progress.position == progress.total
        if self._live is None and time.monotonic() < self._due and not last:
            return
        self._due, text = time.monotonic() + _SECONDS, _line(progress)
        if self._live is not None:
            self._live.start()
            self._live.update(Text(text), refresh=True)
        else:
            self._console.print(escape(text))


def sweep_table(runs: Sequence[Training]) -> Table:
    from plot_attractors.runs import store

    table = Table("run", "state", "updates", box=None, padding=(0, 2, 0, 0))
    for run in runs:
        updates = "/".join(map(str, store.progress(run.path) or ()))
        table.add_row(escape(run.name), run.state, updates)
    return table


def _line(progress: Progress) -> str:
    done = progress.position == progress.total
    seconds = progress.seconds if done else progress.remaining
    numbers = [f"{name} {value:.4g}" for name, value in progress.metrics.items()]
    return "  ".join([
        f"{progress.position / max(1, progress.total):4.0%}",
        f"{progress.phase} {progress.cycle}",
        f"{progress.position}/{progress.total}",
        *numbers[:_SHOWN_METRICS],
        f"{seconds / 60:.1f} minutes {'in all' if done else 'left'}",
    ])  # fmt: skip
