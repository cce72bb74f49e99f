"""How far trainings are: one line, shown in place in a terminal, and else now and then."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from plot_attractors.cli.shared import console

if TYPE_CHECKING:
    from plot_attractors.runs import Progress
    from plot_attractors.runs.sweep import Status

__all__ = ["SweepView", "TrainingView", "sweep_table"]

_SECONDS = 5.0  # between two lines
_SHOWN_METRICS = 8


class _View:
    def __init__(self, to: Console = console) -> None:
        self._console, self._due, self._last = to, 0.0, ""
        self._live = Live(console=to, auto_refresh=False) if to.is_terminal else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def _tell(self, line: Callable[[], str], last: bool) -> None:
        if self._live is None and time.monotonic() < self._due and not last:
            return
        self._due, text = time.monotonic() + _SECONDS, line()
        if self._live is not None:
            self._live.start()
            self._live.update(Text(text), refresh=True)
        elif text != self._last:
            self._console.print(escape(text))
        self._last = text


class TrainingView(_View):
    """Phase, losses and the time that is left."""

    def show(self, progress: Progress) -> None:
        self._tell(lambda: _line(progress), progress.position == progress.total)


class SweepView(_View):
    """How many runs are in each state."""

    def show(self, look: Callable[[], Sequence[Status]], last: bool = False) -> None:
        def line() -> str:
            counts = Counter(one.state for one in look())
            return ", ".join(f"{count} {state}" for state, count in counts.items())

        self._tell(line, last)


def sweep_table(states: Sequence[Status]) -> Table:
    table = Table("run", "state", "updates", box=None, padding=(0, 2, 0, 0))
    for one in states:
        updates = "" if one.total is None else f"{one.updates}/{one.total}"
        table.add_row(escape(one.run.name), one.state, updates)
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
