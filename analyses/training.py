"""Curves of the training: losses, sentences in use, and the exact posterior, over all phases."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from plot_attractors.plots.style import (
    BLUE,
    GREEN,
    LIGHT_BLUE,
    ORANGE,
    PURPLE,
    RED,
    plain,
    save,
    style,
)

if TYPE_CHECKING:
    from plot_attractors.runs import Run

__all__ = ["CAPTIONS", "TITLE", "analyze"]

TITLE = "Training"
CAPTIONS = {
    "training": (
        "What the inference recorded, against the number of updates; shading marks its phases. "
        "Losses are means over "
        "the updates since the point before, other curves are measured on a fresh batch of inputs. "
        "Where tokens learn "
        "alone, in several trials, a trial is worth the topographic similarity of its sentences "
        "with the encoder's "
        "states (ρ) less the shares that sentences miss, summed over axes: of the variance of "
        "states, and of the side "
        "of the best split in two on which they lie. After the last trial, the words of every axis "
        "are taken from the "
        "trial in which they are worth most beside the others (combined)."
    )
}

KEYS = ("step", "phase", "cycle", "seconds")  # of every row of metrics.csv


class Group(NamedTuple):
    """Metrics that share a panel."""

    title: str
    metrics: tuple[str, ...]


GROUPS = (
    Group("M-step loss, nats", ("m_loss",)),
    Group("M-step of tokens alone: KL of z0 | x from z0 | ẑ, nats", ("token_loss",)),
    Group(
        "What a trial's tokens are worth: ρ with states less what is missed",
        ("worth", "worth_combined"),
    ),
    Group("Sleep: −log-likelihood of a step, nats", ("sleep_loss",)),
    Group("Wake: −log-likelihood of a backward step, nats", ("wake_loss",)),
    Group("Balance: loss of a transition", ("balance_loss",)),
    Group("Balance of the discretizer: loss", ("discretizer_loss",)),
    Group("Discretizer: −log-likelihood of sleep's sentence, nats", ("discretizer_sleep_loss",)),
    Group("In use", ("sentences_in_use", "tokens_in_use")),
    Group("Exact posterior, nats", ("posterior_entropy", "log_z")),
)
COLOURS = (BLUE, RED, GREEN, PURPLE, ORANGE, LIGHT_BLUE)
SHADES = ("#F1F1F1", "#DCEBF5", "#FBEBD0", "#DDF1EA", "#F7E3EE", "#E4E4E4")
LABELS = {
    "e_step": "E-step", "m_step": "M-step", "exact_m_step": "M-step, exact posterior", "token_m_step": "M-step, tokens",
    "log_z": "log Z",
}  # fmt: skip
DECADES = 1.0  # positive curves that span more than this, in powers of ten, get a log axis


def analyze(run: Run, out: Path) -> None:
    """Write ``summary.csv`` and the figure ``training`` into ``out``.

    ``summary.csv`` (phase, cycle, updates, seconds, then every metric at the end of the phase), a
    row for each phase in order. Raises ValueError when nothing was recorded yet.
    """
    metrics = run.metrics()
    if metrics.empty:
        raise ValueError(
            "metrics.csv has no rows yet: train for longer, or with a smaller log_every"
        )
    phases = _phases(metrics)
    phases.to_csv(out / "summary.csv", index=False)
    with style():
        save(_draw(metrics, phases), out / "training")


def _phases(metrics: pd.DataFrame) -> pd.DataFrame:
    """The last row of every phase, with the updates and seconds that it took, and its last value of
    each metric.
    """
    change = (metrics["phase"] != metrics["phase"].shift()) | (
        metrics["cycle"] != metrics["cycle"].shift()
    )
    last = metrics.groupby(change.cumsum(), sort=True).last()
    table = last[["phase", "cycle"]].copy()
    table["updates"] = last["step"].diff().fillna(last["step"]).astype(int)
    table["seconds"] = last["seconds"].diff().fillna(last["seconds"]).round(1)
    return table.join(last.drop(columns=list(KEYS)))


def _draw(metrics: pd.DataFrame, phases: pd.DataFrame) -> Figure:
    known = [name for group in GROUPS for name in group.metrics]
    others = _numbered([name for name in metrics.columns if name not in (*known, *KEYS)])
    groups = [group for group in (*GROUPS, *others) if metrics.columns.isin(group.metrics).any()]
    columns = min(2, len(groups))
    rows = -(-len(groups) // columns)
    figure = Figure(figsize=(6 * columns, 0.5 + 2.5 * rows), layout="constrained")
    grid = figure.subplots(rows, columns, sharex=True, squeeze=False)
    names = list(dict.fromkeys(phases["phase"]))
    shades = {name: SHADES[k % len(SHADES)] for k, name in enumerate(names)}
    ends = phases["updates"].cumsum().to_numpy()
    for place, axes in enumerate(grid.flat):
        if place >= len(groups):
            axes.set_visible(False)
            continue
        for name, start, end in zip(phases["phase"], [0, *ends[:-1]], ends, strict=True):
            axes.axvspan(start, end, color=shades[name], linewidth=0, zorder=0)
        _draw_curves(axes, metrics, groups[place])
        axes.set_xlim(0, ends[-1])
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        if place + columns >= len(groups):
            axes.set_xlabel("updates")
            axes.tick_params(labelbottom=True)
    patches = [
        Patch(facecolor=shades[name], edgecolor="#BBBBBB", label=_label(name)) for name in names
    ]
    figure.legend(
        handles=patches, loc="outside upper center", ncols=min(6, len(patches)), title="phases"
    )
    return figure


def _numbered(names: Sequence[str]) -> list[Group]:
    """A panel for each metric; those that differ in a number at the end share one."""
    members: dict[str, list[str]] = {}
    for name in names:
        members.setdefault(re.sub(r"_\d+$", "", name), []).append(name)
    return [
        Group(plain(stem if len(of) > 1 else of[0], 60), tuple(of)) for stem, of in members.items()
    ]


def _draw_curves(axes: Axes, metrics: pd.DataFrame, group: Group) -> None:
    shown = [name for name in group.metrics if name in metrics]
    for name, colour in zip(shown, cycle(COLOURS), strict=False):
        # not across phases that do not record it; the marker shows what a phase recorded once
        label = _label(name)
        axes.plot(
            metrics["step"],
            metrics[name],
            color=colour,
            linewidth=1.4,
            marker=".",
            markersize=3,
            label=label,
        )
    values = metrics[shown].to_numpy(dtype=float)
    values = values[np.isfinite(values)]
    if len(values) and values.min() > 0 and np.log10(values.max() / values.min()) > DECADES:
        axes.set_yscale("log")
    axes.set_title(group.title)
    if len(shown) > 1:
        axes.legend()


def _label(name: str) -> str:
    return LABELS.get(name, plain(name.replace("_", " ")))
