"""The paper in one command: every model of its comparisons fitted and analysed, and one page."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from plot_attractors.paper import plan as plan_
from plot_attractors.paper.fits import PRESETS
from plot_attractors.paper.page import write_page
from plot_attractors.runs import registry
from plot_attractors.runs.jobs import Status, run_here, status

__all__ = ["Made", "make_paper"]


class Made(NamedTuple):
    """The page, the runs that failed, and seconds in all."""

    page: Path
    failed: list[Status]
    seconds: float


def make_paper(
    out: Path,
    preset: str = "full",
    seeds: Sequence[int] | None = None,
    jobs: int = 1,
    only: Sequence[str] = (),
    show: Callable[..., object] = lambda now, last=False: None,
) -> Made:
    """Fit and analyse what is not there yet, and write the page of what there is.

    ``out`` holds ``runs/<data>-<model>-<seed>/``, ``tables/``, ``figures/`` and ``index.html``.
    What is finished is left alone and a half-done fit goes on, so that the same call continues
    after an interruption. A run that fails is told, and the others go on.

    Args:
        preset: of all programs, and of `PRESETS`, which has the sample sizes of analyses.
        seeds: by default those of the preset.
        jobs: processes at once.
        only: words of `plan.choose`; the page is of the runs that they choose, where these name
            data sets or models.
        show: called all the time with a function that tells how far the runs are, and at last with
            `last`.

    Raises:
        ValueError: an unknown preset or word, or a directory that holds runs of another preset.
        KeyboardInterrupt: after SIGINT or SIGTERM.
    """
    if preset not in PRESETS:
        hint = registry.suggestion(preset, PRESETS)
        raise ValueError(f"there is no preset {preset!r}: {hint}these are {', '.join(PRESETS)}")
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out} is a file: choose another directory (--out)")
    begun, choice = time.monotonic(), plan_.choose(only)
    runs = plan_.plan(out, preset, seeds or PRESETS[preset].seeds, choice)
    work = plan_.work(runs, preset, choice.kinds)
    out.mkdir(parents=True, exist_ok=True)
    failed = []
    if work:
        now = partial(status, work)
        run_here(work, jobs, partial(show, now))
        show(now, last=True)
        failed = [one for one in now() if one.state != "done"]
    sentences = [f"{one.run.name}: {one.reason}" for one in failed]
    return Made(write_page(out, runs, preset, sentences), failed, time.monotonic() - begun)
