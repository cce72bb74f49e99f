"""Curves of the training: every metric that was recorded, over all phases."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from plot_attractors.analysis import shape
from plot_attractors.analysis.style import BLUE, GREEN, LIGHT_BLUE, ORANGE, PURPLE, RED, plain
from plot_attractors.runs import Run

TITLE = "Training"
CAPTIONS = {
    "training": (
        "What the inference recorded, against the number of updates; shading marks its phases. "
        "Losses are means over the updates since the point before, other curves are measured on a "
        "fresh batch of inputs."
    )
}
NEEDS = shape.Needs("a record of the training", lambda run: not run.metrics().empty)


@dataclass(frozen=True)
class Config:
    """There is nothing to set."""


def measure(run: Run, config: Config) -> dict[str, Any]:
    """``summary.csv`` (phase, cycle, updates, seconds, then every metric at the end of the phase),
    a row for each phase in order; ``curves.csv``, all that was recorded.
    """
    metrics = run.metrics()
    place = metrics[["phase", "cycle"]]
    last = metrics.groupby((place != place.shift()).any(axis=1).cumsum(), sort=True).last()
    table = last[["phase", "cycle"]].copy()
    table["updates"] = last["step"].diff().fillna(last["step"]).astype(int)
    table["seconds"] = last["seconds"].diff().fillna(last["seconds"]).round(1)
    summary = table.join(last.drop(columns=["step", "phase", "cycle", "seconds"]))
    return {"summary.csv": summary, "curves.csv": metrics}


KEYS = ("step", "phase", "cycle", "seconds")  # of every row
COLOURS = (BLUE, RED, GREEN, PURPLE, ORANGE, LIGHT_BLUE)
SHADES = ("#F1F1F1", "#DCEBF5", "#FBEBD0", "#DDF1EA", "#F7E3EE", "#E4E4E4")
DECADES = 1.0  # positive curves that span more than this, in powers of ten, get a log axis
LINEAR = {"policy_k_hat"}  # but those, which may be 0 or below


def draw(tables: Mapping[str, Any]) -> dict[str, Figure]:
    """Figure ``training``: a panel for each metric; those that differ in a number at the end share
    one.
    """
    metrics, phases = tables["curves.csv"], tables["summary.csv"]
    members: dict[str, list[str]] = {}
    for name in metrics.columns:
        if name not in KEYS:
            members.setdefault(re.sub(r"_\d+$", "", name), []).append(name)
    names = list(dict.fromkeys(phases["phase"]))
    shades = dict(zip(names, cycle(SHADES), strict=False))
    ends = phases["updates"].cumsum().to_numpy()
    figure, panels = shape.panels(len(members), size=(6, 2.5))
    for axes, (stem, some) in zip(panels, members.items(), strict=True):
        for name, start, end in zip(phases["phase"], [0, *ends[:-1]], ends, strict=True):
            axes.axvspan(start, end, color=shades[name], linewidth=0, zorder=0)
        _draw_curves(axes, metrics, some)
        axes.set(title=_label(stem), xlim=(0, ends[-1]), xlabel="updates")
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    look: dict[str, Any] = {"edgecolor": "#BBBBBB"}
    patches = [Patch(facecolor=shades[name], label=_label(name), **look) for name in names]
    where: dict[str, Any] = {"loc": "outside upper center", "ncols": min(6, len(patches))}
    figure.legend(handles=patches, title="phases", **where)
    return {"training": figure}


def _draw_curves(axes: Axes, metrics: pd.DataFrame, names: Sequence[str]) -> None:
    for name, colour in zip(names, cycle(COLOURS), strict=False):
        # not across phases that do not record it; the marker shows what a phase recorded once
        look: dict[str, Any] = {"linewidth": 1.4, "marker": ".", "markersize": 3}
        axes.plot(metrics["step"], metrics[name], color=colour, label=_label(name), **look)
    values = metrics[list(names)].to_numpy(dtype=float)
    values = values[np.isfinite(values)]
    positive = len(values) and values.min() > 0 and LINEAR.isdisjoint(names)
    if positive and np.log10(values.max() / values.min()) > DECADES:
        axes.set_yscale("log")
    if len(names) > 1:
        axes.legend()


def _label(name: str) -> str:
    return plain(name.replace("_", " "), 40)
