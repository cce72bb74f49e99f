"""The paper in one command: every model of its comparisons fitted and analysed, and one page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from plot_attractors.paper.page import write_page
from plot_attractors.paper.plan import planned
from plot_attractors.runs import Progress
from plot_attractors.runs.sweep import train

__all__ = ["make_paper"]


def make_paper(
    out: Path,
    preset: str = "full",
    seeds: Sequence[int] | None = None,
    only: Sequence[str] = (),
    on_progress: Callable[[Progress], None] | None = None,
) -> tuple[Path, dict[str, str]]:
    """Fit and analyse what is not there yet, write the page of what there is, and return its path
    and the runs that failed, with the reason.

    ``out`` holds ``runs/<data>-<model>-<seed>/``, ``numbers.csv`` and ``index.html``. What is
    finished is left alone and a half-done fit goes on, so that the same call continues after an
    interruption, and several processes share the runs out (`runs.sweep.train`).

    Args:
        preset: of all programs, and of `plan.PRESETS`, which has the sample sizes of analyses.
        seeds: by default those of the preset.
        only: data sets and models; by default all.

    Raises:
        ValueError: as of `plan.planned`.
        Interrupted: after a signal.
    """
    runs = planned(out, preset, seeds, only)
    out.mkdir(parents=True, exist_ok=True)
    failed = train(runs, on_progress)
    return write_page(out, runs, preset, failed), failed
