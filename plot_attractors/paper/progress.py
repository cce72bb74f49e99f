"""The progress of the whole: a live view in a terminal, a line for each step elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from plot_attractors.durations import duration
from plot_attractors.paper.jobs import Outcome, Queue, Running

__all__ = ["View", "remaining"]

_LEAST_SHARE = 0.05  # of a step, below which it tells nothing of the rest


def remaining(
    seconds: float, weights: float, running: Sequence[Running], waiting: Queue, jobs: int
) -> float | None:
    """Seconds that are left, if steps go on to take as long for their weights as those that ended,
    of `weights` in `seconds`, with `jobs` at once; None before there is anything to tell by.
    """
    ends = {id(one): _whole(one) for one in running}
    known = [(whole, one.step.weight) for one in running if (whole := ends[id(one)])]
    seconds += sum(whole for whole, _ in known)
    weights += sum(weight for _, weight in known)
    if not weights:
        return None
    scale = seconds / weights
    left = [max(0.0, (ends[id(o)] or scale * o.step.weight) - o.seconds) for o in running]
    after = [step for one in running for step in one.rest]
    after += [step for steps in waiting for step in steps]
    total = sum(left) + scale * sum(step.weight for step in after)
    return max(total / jobs, *left, 0.0)


def _whole(one: Running) -> float | None:
    """Seconds that the process of a running step takes in all, by the share that it has done."""
    if one.step.kind != "fit" or (share := one.share) is None:
        return None
    done, to_do = share - one.share_before, 1 - one.share_before
    return one.seconds * to_do / done if done > _LEAST_SHARE else None


class View:
    """Shows steps as they run and end; `steps` is how many there are."""

    def __init__(self, console: Console, errors: Console, steps: int, jobs: int) -> None:
        self._console, self._errors, self._steps, self._jobs = console, errors, steps, jobs
        self._ended, self._seconds, self._weights = 0, 0.0, 0.0
        self._left: float | None = None
        self._tasks: dict[str, TaskID] = {}
        columns = (
            TextColumn("{task.description}"),
            BarColumn(30),
            TextColumn("{task.fields[told]}"),
        )
        self._progress = Progress(*columns, console=console, transient=True)
        self._whole = self._progress.add_task("all steps", total=max(1, steps), told="")

    def __enter__(self) -> View:
        if self._console.is_terminal:
            self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def tick(self, running: Sequence[Running], waiting: Queue) -> None:
        """What runs, and how long the whole will take."""
        self._left = remaining(self._seconds, self._weights, running, waiting, self._jobs)
        if not self._console.is_terminal:
            return
        told = f"{self._ended} of {self._steps}" + self._told_left()
        self._progress.update(self._whole, completed=self._ended, told=told)
        for one in running:
            if one.step.name not in self._tasks:
                self._tasks[one.step.name] = self._progress.add_task(
                    escape(one.step.name), total=1.0, told=""
                )
            task = self._tasks[one.step.name]
            self._progress.update(task, completed=one.share or 0.0, told=duration(one.seconds))
        for name in self._tasks.keys() - {one.step.name for one in running}:
            self._progress.remove_task(self._tasks.pop(name))

    def end(self, outcome: Outcome) -> None:
        """A line of a step that has ended."""
        self._ended += 1
        step, failed = outcome.step, outcome.error
        if failed:
            self._steps -= outcome.left_out
        else:
            self._seconds += outcome.seconds
            self._weights += step.weight
        if failed:
            to = self._console if self._console.is_terminal else self._errors  # not through a view
            to.print(escape(f"{step.name} failed: {failed}; its log is {step.log}"))
            return
        count = f"[{self._ended}/{self._steps}]"
        line = f"{count} {step.name}: {duration(outcome.seconds)}{self._told_left()}"
        self._console.print(escape(line))

    def _told_left(self) -> str:
        return "" if self._left is None else f", about {duration(self._left)} left"
