"""The numbers of a run, read from the tables of its analyses by the registry of metrics, and when
to doubt them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from plot_attractors.measures.registry import (
    HELD_OUT,
    METRICS,
    RUN_METRICS,
    Metric,
)
from plot_attractors.pareto import MOST_DISTANCE, MOST_K
from plot_attractors.runs import Run
from plot_attractors.runs.tables import read_table

__all__ = ["NUMBERS", "doubts", "kept", "minutes", "numbers", "table_file", "value_of"]

NUMBERS = "numbers.json"  # of an exported run
SLOPES = 0.85, 1.15  # of log q̂ on log R
LEAST_ESS = 0.05  # effective share of the trajectories


def table_file(run: Run, analysis: str) -> Path:
    """The summary of an analysis."""
    return run.path / "analyses" / analysis / "summary.csv"


def numbers(run: Run, metrics: Mapping[str, Metric] = METRICS) -> dict[str, float]:
    """The metrics of a run by name, NaN where missing; ValueError where a table cannot be read.

    Those of an exported run are what it keeps of them, unless its analyses were made anew.
    """
    tables = {name: _read(run, name) for name in {m.analysis for m in metrics.values()}}
    values = {name: value_of(tables[m.analysis], m) for name, m in metrics.items()}
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
    file = table_file(run, analysis)
    return read_table(file) if file.is_file() else None


def value_of(table: pd.DataFrame | None, metric: Metric) -> float:
    """A metric in its table; NaN where there is none, or it lacks a column."""
    column, _, less = metric.column.partition("-")
    if table is None:
        return math.nan
    where: dict[str, Any] = dict(metric.where)
    if where.get("split") and "split" not in table:
        del where["split"]
    if not {column, less or column, "steps" if metric.times else column, *where} <= {*table}:
        return math.nan
    if metric.times:
        where["steps"] = table["steps"].min() * metric.times
        if metric.times > 1 and not where["steps"]:  # a model without dynamics has no more steps
            return math.nan
    for name, value in where.items():
        held_out = (name, value) == ("split", HELD_OUT)
        table = table[table[name] != "train" if held_out else table[name] == value]
    if "feature" in table:
        levels = table[table["feature"].str.startswith("mean of ")]
        table = levels if len(levels) else table
    else:
        table = table.groupby("split", sort=False).head(1) if "split" in table else table.head(1)
    return float((table[column] - (table[less] if less else 0.0)).mean())


def doubts(numbers: Mapping[str, float]) -> list[str]:
    """A sentence for each number that is beyond the yardstick, NaN being none:

    - total variation from the posterior, extrapolated, or where that is not known above its noise
      floor, a lower bound: at most `MOST_DISTANCE`, as in `gflownet.diagnose`;
    - slope of log-frequency on log-reward: within `SLOPES`;
    - path weights: an effective share of `LEAST_ESS` or more, and a k̂ of `MOST_K` at most.
    """
    distance, above = numbers["tv_extrapolated"], numbers["tv_excess"]
    known = f"about {distance:.2f}; {above:.2f} above its noise floor"
    if math.isnan(distance):
        distance, known = above, f"{above:.2f} above its noise floor, a lower bound"
    slope, share, k = (numbers[name] for name in ("slope", "ess_512", "k_hat_512"))
    told = {
        "Trajectories do not sample the posterior well: their total variation from it is "
        f"{known} (good: at most {MOST_DISTANCE}).": distance > MOST_DISTANCE,
        f"Sentences are sampled {'too uniformly' if slope < 1 else 'too selectively'}: the slope "
        f"of log-frequency on log-reward is {slope:.2f} (good: {SLOPES[0]} to {SLOPES[1]}).": (
            slope < SLOPES[0] or slope > SLOPES[1]
        ),
        f"Importance weights are uneven: the effective sample size is {share:.1%} of the samples "
        f"(good: {LEAST_ESS:.0%} or more).": share < LEAST_ESS,
        f"Importance weights cannot be trusted: their Pareto k̂ is {k:.2f} (good: at most "
        f"{MOST_K}).": k > MOST_K,
    }
    return [sentence for sentence, beyond in told.items() if beyond]
