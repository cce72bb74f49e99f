"""Distributions of the bits lost by discretisation, on a linear and on a logarithmic scale."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from plot_attractors.plots.parts import note, steps_name
from plot_attractors.plots.style import BLUE, GREEN, LIGHT_BLUE, ORANGE
from plot_attractors.split_names import split_name

SHOWN = 12  # greatest loss in the figure, bits
LOOKS: dict[str, dict[str, Any]] = {
    "single inputs": {"color": LIGHT_BLUE, "linewidth": 0.6, "alpha": 0.35},
    "all inputs": {"color": BLUE, "linewidth": 2.2},
    "exact posterior": {
        "color": GREEN, "linewidth": 1.6, "linestyle": ":", "marker": "o", "markersize": 3.5,
    },
    "Geometric(½)": {"color": ORANGE, "linewidth": 1.8, "linestyle": "--"},
}  # fmt: skip


def plot(tables: Mapping[str, Any]) -> dict[str, Figure]:
    """Figure ``information_loss`` from ``summary.csv``, ``distribution.csv`` and ``inputs.csv``."""
    summary = tables["summary.csv"]
    splits, times = list(summary["split"].unique()), list(summary["steps"].unique())
    size = (max(3.7 * len(times), 6), 0.6 + 5 * len(splits))
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(2 * len(splits), len(times), sharex=True, sharey="row", squeeze=False)
    for k, (_, row) in enumerate(summary.iterrows()):
        pair, column = divmod(k, len(times))
        top, bottom = grid[2 * pair, column], grid[2 * pair + 1, column]
        distribution, inputs = (
            part[(part["split"] == row["split"]) & (part["steps"] == row["steps"])]
            for part in (tables["distribution.csv"], tables["inputs.csv"])
        )
        _draw_distributions(top, distribution, inputs, least=0.0)
        # a logarithmic axis has no 0
        _draw_distributions(bottom, distribution, inputs, least=np.nan)
        after = f", {steps_name(row['steps'], summary)}" if row["steps"] else ""
        top.set_title(f"{split_name(row['split'])}{after}")
        _annotate(top, row)
        top.set_ylim(0, 1)
        bottom.set_yscale("log", base=2)
        bottom.set(ylim=(2.0**-13, 1.4), xlim=(-0.3, SHOWN + 0.3), xticks=range(0, SHOWN + 1, 2))
    for top, bottom in zip(grid[::2, 0], grid[1::2, 0], strict=True):
        top.set_ylabel("P(d | d ≥ 0)")
        bottom.set_ylabel("P(d | d ≥ 0), log₂ scale")
    for axes in grid[-1]:
        axes.set_xlabel("d, bits lost")
    stronger = {"single inputs": {"alpha": 0.6, "linewidth": 1}}
    handles = [
        Line2D([], [], label=name, **look | stronger.get(name, {}))
        for name, look in LOOKS.items()
        if name != "exact posterior" or any(times)
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=4)
    return {"information_loss": figure}


def _annotate(axes: Axes, row: pd.Series) -> None:
    exact = f"KL of exact samples = {row['kl_exact']:.3f}\n" if row["steps"] else ""
    text = (
        f"p = {row['p']:.3f} [{row['p_low']:.3f}, {row['p_high']:.3f}]\n"
        f"KL = {row['kl']:.3f} [{row['kl_low']:.3f}, {row['kl_high']:.3f}] nats\n"
        f"{exact}P(d < 0) = {row['p_negative']:.3f}"
    )
    note(axes, text, top=0.95)


def _draw_distributions(
    axes: Axes, distribution: pd.DataFrame, inputs: pd.DataFrame, least: float
) -> None:
    k = np.arange(SHOWN + 1)
    kept = inputs[inputs["d"] >= 0].pivot_table("draws", "input", "d", fill_value=0)
    share = kept.div(kept.sum(axis=1), axis=0).reindex(columns=k, fill_value=0)
    look = LOOKS["single inputs"]
    lines = LineCollection(
        [np.column_stack([k, np.where(f > 0, f, least)]) for f in share.to_numpy()],
        colors=look["color"], linewidths=look["linewidth"], alpha=look["alpha"],
    )  # fmt: skip
    axes.add_collection(lines, autolim=False)
    of = distribution[distribution["d"] >= 0].set_index("d")
    for column, name in (("sampler", "all inputs"), ("exact", "exact posterior")):
        f = of[column] / of[column].sum()
        axes.plot(f.loc[:SHOWN].index, f.where(f > 0, least).loc[:SHOWN], **LOOKS[name])
    axes.plot(k, 0.5 ** (k + 1), **LOOKS["Geometric(½)"])
