"""The paper in one command: every model of its comparisons fitted and analysed, and one page."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from plot_attractors.paper import jobs as jobs_
from plot_attractors.paper.fits import PRESETS
from plot_attractors.paper.page import write_page
from plot_attractors.paper.progress import View
from plot_attractors.runs import registry

__all__ = ["Made", "make_paper"]


class Made(NamedTuple):
    """The page, the steps that failed, and seconds in all."""

    page: Path
    failed: list[jobs_.Outcome]
    seconds: float


def make_paper(
    out: Path,
    preset: str = "full",
    seeds: Sequence[int] | None = None,
    jobs: int = 1,
    only: Sequence[str] = (),
    console: Console | None = None,
    errors: Console | None = None,
) -> Made:
    """Fit and analyse what is not there yet, and write the page of what there is.

    ``out`` holds ``runs/<data>-<model>-<seed>/``, ``log/``, ``tables/``, ``figures/`` and
    ``index.html``. What is finished is left alone and a half-done fit goes on, so that the same
    call continues after an interruption. A step that fails is told, and the others go on.

    Args:
        preset: of all programs, and of `PRESETS`, which has the sample sizes of analyses.
        seeds: by default those of the preset.
        jobs: processes at once.
        only: words of `jobs.choose`; the page is of the runs that they choose, where these name
            data sets or models.
        console, errors: where progress and failures are told.

    Raises:
        ValueError: an unknown preset or word, or a directory that holds runs of another preset.
        KeyboardInterrupt: after SIGINT, SIGTERM or SIGHUP.
    """
    if preset not in PRESETS:
        hint = registry.suggestion(preset, PRESETS)
        raise ValueError(f"there is no preset {preset!r}: {hint}these are {', '.join(PRESETS)}")
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out} is a file: choose another directory (--out)")
    begun, choice = time.monotonic(), jobs_.choose(only)
    runs = jobs_.plan(out, preset, seeds or PRESETS[preset].seeds, choice)
    work = [jobs_.steps_of(run, preset, choice.kinds) for run in runs]
    out.mkdir(parents=True, exist_ok=True)
    console = console or Console(quiet=True)
    steps = sum(map(len, work))
    with View(console, errors or console, steps, jobs) as view:
        outcomes = jobs_.make(work, jobs, view.end, view.tick) if steps else []
    failed = [outcome for outcome in outcomes if outcome.error]
    sentences = [f"{one.step.name}: {one.error}" for one in failed]
    page = write_page(out, runs, preset, sentences)
    return Made(page, failed, time.monotonic() - begun)
