"""Views of trainings: live in a terminal, lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from plot_attractors.cli.shared import console
from plot_attractors.durations import duration

if TYPE_CHECKING:
    from plot_attractors.runs import Progress
    from plot_attractors.runs.jobs import Status

__all__ = ["SweepView", "TrainingView", "sweep_table"]

_LINE_SECONDS = 5.0
_SWEEP_SECONDS = 2.0
_SHOWN_METRICS = 8


class TrainingView:
    def __init__(self, console: Console) -> None:
        self._console, self._shown = console, -_LINE_SECONDS
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None

    def __enter__(self) -> TrainingView:
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, progress: Progress) -> None:
        if self._live is not None:
            self._live.start()
            self._live.update(_panel(progress), refresh=True)
            return
        now = time.monotonic()
        if now - self._shown >= _LINE_SECONDS or progress.position == progress.total:
            self._shown = now
            self._console.print(escape(_line(progress)))


class SweepView:
    """The runs of a sweep: a table in a terminal, elsewhere a line for each change of a state."""

    def __init__(self) -> None:
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None
        self._shown, self._states = -_SWEEP_SECONDS, dict[str, str]()

    def __enter__(self) -> SweepView:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, look: Callable[[], Sequence[Status]], last: bool = False) -> None:
        """Every few seconds, and at last."""
        now = time.monotonic()
        if now - self._shown < _SWEEP_SECONDS and not last:
            return
        self._shown, runs = now, look()
        if self._live is not None:
            self._live.update(sweep_table(runs), refresh=True)
            return
        for one in runs:
            if one.state != self._states.get(one.run.name, "not begun"):
                after = (
                    f" ({one.minutes:.1f} minutes)" if one.state == "done" and one.minutes else ""
                )
                console.print(escape(f"{one.run.name}: {one.state}{after}"))
            self._states[one.run.name] = one.state


def sweep_table(states: Sequence[Status]) -> Table:
    columns = ("run", "state", "updates", "minutes", "last loss")
    table = Table(*columns, box=None, padding=(0, 2, 0, 0))
    for one in states:
        updates = "" if one.total is None else f"{one.updates}/{one.total}"
        minutes = "" if one.minutes is None else f"{one.minutes:.1f}"
        table.add_row(*map(escape, (one.run.name, one.state, updates, minutes, one.loss)))
    return table


def _line(progress: Progress) -> str:
    share = f"{progress.position / max(1, progress.total):4.0%}"
    phase = f"{progress.phase} {progress.cycle}"
    count = f"{progress.position}/{progress.total}"
    return "  ".join([share, phase, count, *_metrics(progress)[:_SHOWN_METRICS], _left(progress)])


def _panel(progress: Progress) -> Group:
    head = Table.grid(padding=(0, 2))
    head.add_row(
        Text(f"{progress.phase}, cycle {progress.cycle}", style="bold"),
        ProgressBar(total=max(1, progress.total), completed=progress.position, width=30),
        f"{progress.position}/{progress.total}",
        _left(progress),
    )
    return Group(head, Text("  ".join(_metrics(progress))))


def _metrics(progress: Progress) -> list[str]:
    return [f"{name} {_number(value)}" for name, value in progress.metrics.items()]


def _left(progress: Progress) -> str:
    if progress.position == progress.total:
        return f"{duration(progress.seconds)} in all"
    return f"{duration(progress.remaining)} left"


def _number(value: Any) -> str:
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e6 else f"{value:.4g}"
