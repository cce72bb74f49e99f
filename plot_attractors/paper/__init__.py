"""The paper in one command: every model of its comparisons fitted and analysed, and one page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from plot_attractors.paper.page import write_page
from plot_attractors.paper.plan import planned
from plot_attractors.runs.sweep import Status, run_here

__all__ = ["make_paper"]


def make_paper(
    out: Path,
    preset: str = "full",
    seeds: Sequence[int] | None = None,
    jobs: int = 1,
    only: Sequence[str] = (),
    show: Callable[..., object] = lambda now, last=False: None,
) -> tuple[Path, list[Status]]:
    """Fit and analyse what is not there yet, write the page of what there is, and return its path
    and the runs that failed.

    ``out`` holds ``runs/<data>-<model>-<seed>/``, ``numbers.csv`` and ``index.html``. What is
    finished is left alone and a half-done fit goes on, so that the same call continues after an
    interruption. A run that fails is told, and the others go on.

    Args:
        preset: of all programs, and of `plan.PRESETS`, which has the sample sizes of analyses.
        seeds: by default those of the preset.
        jobs: processes at once.
        only: data sets and models; by default all.
        show: called all the time with a function that tells how far the runs are, and at last with
            `last`.

    Raises:
        ValueError: as of `plan.planned`.
        KeyboardInterrupt: after SIGINT or SIGTERM.
    """
    runs = planned(out, preset, seeds, only)
    out.mkdir(parents=True, exist_ok=True)
    left = [run for run in runs if run.status().state != "done"]

    def now() -> list[Status]:
        return [run.status() for run in left]

    if left:
        run_here(left, jobs, partial(show, now))
        show(now, last=True)
    failed = [one for one in now() if one.state != "done"]
    return write_page(out, runs, preset), failed
