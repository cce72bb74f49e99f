"""Curves of the training: losses, sentences in use, and the exact posterior, over all phases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from plot_attractors.plots.training import plot as plot
from plot_attractors.runs import Run

TITLE = "Training"
CAPTIONS = {
    "training": (
        "What the inference recorded, against the number of updates; shading marks its phases. "
        "Losses are means over the updates since the point before, other curves are measured on a "
        "fresh batch of inputs."
    )
}


@dataclass(frozen=True)
class Config:
    """There is nothing to set."""


def applies(run: Run) -> bool:
    """Whether anything was recorded of the training."""
    return not run.metrics().empty


def measure(run: Run, config: Config) -> dict[str, Any]:
    """``summary.csv`` (phase, cycle, updates, seconds, then every metric at the end of the phase),
    a row for each phase in order; ``curves.csv``, all that was recorded.

    Raises ValueError: nothing was recorded yet.
    """
    metrics = run.metrics()
    if metrics.empty:
        raise ValueError(
            "metrics.csv has no rows yet: train for longer, or with a smaller log_every"
        )
    place = metrics[["phase", "cycle"]]
    last = metrics.groupby((place != place.shift()).any(axis=1).cumsum(), sort=True).last()
    table = last[["phase", "cycle"]].copy()
    table["updates"] = last["step"].diff().fillna(last["step"]).astype(int)
    table["seconds"] = last["seconds"].diff().fillna(last["seconds"]).round(1)
    summary = table.join(last.drop(columns=["step", "phase", "cycle", "seconds"]))
    return {"summary.csv": summary, "curves.csv": metrics}
