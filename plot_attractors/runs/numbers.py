"""The numbers of a run, read from the tables of its analyses by the registry of metrics."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

import pandas as pd

from plot_attractors.measures.registry import METRICS, RUN_METRICS, Metric
from plot_attractors.runs import Run

__all__ = ["NUMBERS", "kept", "minutes", "numbers"]

NUMBERS = "numbers.json"  # of an exported run


def numbers(run: Run, metrics: Mapping[str, Metric] = METRICS) -> dict[str, float]:
    """The metrics of a run by name, NaN where missing; ValueError where a table cannot be read.

    Those of an exported run are what it keeps of them, unless its analyses were made anew.
    """
    tables = {name: _read(run, name) for name in {m.analysis for m in metrics.values()}}
    values = {name: m.read(tables[m.analysis]) for name, m in metrics.items()}
    of_before = kept(run)
    return {name: of_before.get(name, v) if math.isnan(v) else v for name, v in values.items()}


def kept(run: Run) -> dict[str, float]:
    """Metrics by name that an exported run keeps of its analyses; none of any other run."""
    file = run.path / NUMBERS
    if not file.is_file():
        return {}
    return dict(json.loads(file.read_text(encoding="utf-8"))["analyses"])


def minutes(run: Run) -> float:
    """Duration of the training, NaN before it has ended."""
    seconds = run.environment.get("seconds") if run.environment.get("ended") else None
    return seconds / 60 if isinstance(seconds, int | float) else math.nan


def _read(run: Run, analysis: str) -> pd.DataFrame | None:
    if analysis == RUN_METRICS:  # the last known value of every column, in one row
        return run.metrics().ffill().tail(1)
    file = run.path / "analyses" / analysis / "summary.csv"
    return pd.read_csv(file) if file.is_file() else None
