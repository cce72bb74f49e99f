"""Curves of the training: losses, sentences in use, and the exact posterior, over all phases."""

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

from plot_attractors.analysis.shape import Needs
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


@dataclass(frozen=True)
class Config:
    """There is nothing to set."""


NEEDS = Needs("a record of the training", lambda run: not run.metrics().empty)


# -- measures --------------------------------------------------------------------------------------


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


# -- figures ---------------------------------------------------------------------------------------


KEYS = ("step", "phase", "cycle", "seconds")  # of every row
PANELS = {  # title: the metrics that share the panel
    "M-step loss, nats": ("m_loss",),
    "M-step of tokens alone: KL of z0 | x from z0 | ẑ, nats": ("token_loss",),
    "Sleep: −log-likelihood of a step, nats": ("sleep_loss",),
    "After the walk: weighted −log-likelihood of a step, nats": ("stay_loss",),
    "Wake: −log-likelihood of a backward step, nats": ("wake_loss",),
    "Balance of trajectories: loss": ("balance_loss",),
    "Balance of the discretizer: loss": ("discretizer_loss",),
    "Discretizer: −log-likelihood of sleep's sentence, nats": ("discretizer_sleep_loss",),
    "Policy of sentences: balance, nats²": ("policy_loss",),
    "Candidates of an input: effective share": ("policy_ess", "sentence_ess"),
    "k̂ of the policy's weights: not to be trusted above 0.7": ("policy_k_hat",),
    "In use": ("sentences_in_use", "tokens_in_use"),
    "Posterior, nats": ("posterior_entropy", "log_z"),
}
COLOURS = (BLUE, RED, GREEN, PURPLE, ORANGE, LIGHT_BLUE)
SHADES = ("#F1F1F1", "#DCEBF5", "#FBEBD0", "#DDF1EA", "#F7E3EE", "#E4E4E4")
LABELS = {
    "e_step": "E-step",
    "m_step": "M-step",
    "warm_up": "warm-up",
    "tokens": "M-step, tokens",
    "log_z": "log Z",
}
DECADES = 1.0  # positive curves that span more than this, in powers of ten, get a log axis
LINEAR = {"policy_k_hat"}  # but those, which may be 0 or below


def draw(tables: Mapping[str, Any]) -> dict[str, Figure]:
    """Figure ``training`` from ``summary.csv`` and ``curves.csv``."""
    metrics, phases = tables["curves.csv"], tables["summary.csv"]
    known = {name for names in PANELS.values() for name in names} | {*KEYS}
    others = _numbered([name for name in metrics.columns if name not in known])
    panels = {
        title: [name for name in names if name in metrics]
        for title, names in {**PANELS, **others}.items()
    }
    panels = {title: names for title, names in panels.items() if names}
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(6 * columns, 0.5 + 2.5 * rows), layout="constrained")
    grid = figure.subplots(rows, columns, sharex=True, squeeze=False).flatten()
    names = list(dict.fromkeys(phases["phase"]))
    shades = {name: SHADES[k % len(SHADES)] for k, name in enumerate(names)}
    ends = phases["updates"].cumsum().to_numpy()
    for place, (axes, (title, some)) in enumerate(zip(grid, panels.items(), strict=False)):
        for name, start, end in zip(phases["phase"], [0, *ends[:-1]], ends, strict=True):
            axes.axvspan(start, end, color=shades[name], linewidth=0, zorder=0)
        _draw_curves(axes, metrics, some)
        axes.set(title=title, xlim=(0, ends[-1]))
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        if place + columns >= len(panels):
            axes.set_xlabel("updates")
            axes.tick_params(labelbottom=True)
    for axes in grid[len(panels) :]:
        axes.set_visible(False)
    look: dict[str, Any] = {"edgecolor": "#BBBBBB"}
    patches = [Patch(facecolor=shades[name], label=_label(name), **look) for name in names]
    where: dict[str, Any] = {"loc": "outside upper center", "ncols": min(6, len(patches))}
    figure.legend(handles=patches, title="phases", **where)
    return {"training": figure}


def _numbered(names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """A panel for each metric; those that differ in a number at the end share one."""
    members: dict[str, list[str]] = {}
    for name in names:
        members.setdefault(re.sub(r"_\d+$", "", name), []).append(name)
    return {
        plain(stem if len(group) > 1 else group[0], 60): tuple(group)
        for stem, group in members.items()
    }


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
    return LABELS.get(name, plain(name.replace("_", " ")))
