"""Comparison of runs: the settings in which they differ beside the metrics of their analyses."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from plot_attractors.measures.registry import METRICS, RUN_METRICS
from plot_attractors.runs import Run, pretrained
from plot_attractors.runs.numbers import kept, minutes, numbers
from plot_attractors.runs.settings import as_text
from plot_attractors.runs.variants import all_runs, differing, group, labels, settings_of

__all__ = ["TOPICS", "compare"]

logger = logging.getLogger("plot_attractors")

TOPICS = "dynamics", "language"


def compare(paths: str | Path | Iterable[str | Path], topic: str = "dynamics") -> pd.DataFrame:
    """One row a run, and two more, mean and standard deviation, for every set of runs that differ
    in the seed only.

    Columns:
        run: the directory's name, or of how many runs it is the mean, or the standard deviation
            (n − 1 in the denominator); a mean of which a part is missing is missing.
        data, program, inference, preset, settings of the data, the model and the inference by
            dotted names: those that differ, as text. A setting that another program does not have
            is no difference; its cell is empty.
        seed: of a run.
        the metrics of the topic: `METRICS`.
        minutes: duration of the training, once it has ended.

    Missing numbers are NaN; the logger ``plot_attractors`` warns of a run that lacks an analysis,
    and gives the command that makes it where it applies.

    Raises ValueError for a path that is no run, a table that cannot be read, or an unknown topic.
    """
    if topic not in TOPICS:
        raise ValueError(f"the topic of a comparison is {' or '.join(TOPICS)}, not {topic!r}")
    runs = [Run(path) for path in ([paths] if isinstance(paths, str | Path) else paths)]
    variants = group(runs)
    metrics = {name: m for name, m in METRICS.items() if m.topic == topic}
    needed = dict.fromkeys(m.analysis for m in metrics.values())
    for run in all_runs(variants):
        _warn(run, [name for name in needed if name != RUN_METRICS])
    settings = [settings_of(variant.first) for variant in variants]
    shown, named = differing(settings), labels(all_runs(variants))
    rows: list[dict[str, Any]] = []
    for variant, own in zip(variants, settings, strict=True):
        head = {key: as_text(own[key]) if key in own else "" for key in shown}
        found = [numbers(run, metrics) | {"minutes": minutes(run)} for run in variant.runs]
        for run, values in zip(variant.runs, found, strict=True):
            rows.append({"run": named[run.path], **head, "seed": str(run.seed), **values})
        if len(found) > 1:
            table, of = pd.DataFrame(found, dtype=float), f"of {len(found)} seeds"
            rows.append({"run": f"mean {of}", **head, "seed": "", **table.mean(skipna=False)})
            rows.append({"run": f"sd {of}", **head, "seed": "", **table.std(skipna=False)})
    return pd.DataFrame(rows, columns=["run", *shown, "seed", *metrics, "minutes"])


def _warn(run: Run, needed: Sequence[str]) -> None:
    """Warn of the analyses that a run lacks."""
    # an analysis without a summary may still have been made: of some models it has none
    known = {METRICS[name].analysis for name in kept(run) if name in METRICS}
    missing = [n for n in needed if n not in known and not (run.path / "analyses" / n).is_dir()]
    if missing:
        shown = pretrained.shown(run.path)
        command = shlex.join(["plot-attractors", "analyze", shown, *missing, "--missing"])
        logger.warning("%s lacks %s: %s", shown, ", ".join(missing), command)
