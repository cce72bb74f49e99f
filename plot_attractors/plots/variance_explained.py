"""Variance explained from states, nats lost by inputs, and variance explained of each column."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from plot_attractors.plots.parts import MOST_NAMED, steps_name
from plot_attractors.plots.style import BLUE, GREY, SPLIT_COLOURS, plain
from plot_attractors.split_names import split_name


def plot(tables: Mapping[str, Any]) -> dict[str, Figure]:
    """Figure ``variance_explained``."""
    summary, columns = tables["summary.csv"], tables["columns.csv"]
    figure = Figure(figsize=(12, 9), layout="constrained")
    grid = figure.add_gridspec(2, 2)
    _draw_shares(figure.add_subplot(grid[0, 0]), summary)
    _draw_nats(figure.add_subplot(grid[0, 1]), tables["inputs.csv"])
    _draw_columns(figure.add_subplot(grid[1, :]), columns)
    return {"variance_explained": figure}


def _draw_shares(axes: Axes, summary: pd.DataFrame) -> None:
    first = summary.drop_duplicates("split")
    places = ["from z0", *(steps_name(t, summary) for t in summary["steps"].unique())]
    exact = bool(summary["explained_exact"].notna().any())
    places += ["exact samples"] if exact else []
    for k, split in enumerate(first["split"]):
        part = summary[summary["split"] == split]
        sources = [
            (part.iloc[0], "explained_z0"),
            *((row, "explained") for _, row in part.iterrows()),
        ]
        sources += [(part.iloc[0], "explained_exact")] if exact else []
        value, low, high = (
            np.array([row[f"{name}{end}"] for row, name in sources])
            for end in ("", "_low", "_high")
        )
        x = np.arange(len(sources)) + 0.12 * (k - (len(first) - 1) / 2)
        look: dict[str, Any] = {"fmt": "o", "color": SPLIT_COLOURS.get(split, BLUE), "capsize": 3}
        axes.errorbar(x, value, [value - low, high - value], label=split_name(split), **look)
    axes.set(title="A  Variance explained", ylim=(min(0, axes.get_ylim()[0]), 1), ylabel="R²")
    axes.set_xticks(range(len(places)), places)
    axes.legend()


def _draw_nats(axes: Axes, inputs: pd.DataFrame) -> None:
    for split, part in inputs[inputs["steps"] == inputs["steps"].min()].groupby(
        "split", sort=False
    ):
        colour = SPLIT_COLOURS.get(str(split), BLUE)
        for name, line in (("nats", "-"), ("nats_exact", ":")):
            if name in part and part[name].notna().any():
                x = np.sort(part[name].to_numpy())
                label = split_name(str(split)) + (", exact samples" if line == ":" else "")
                y = np.arange(1, len(x) + 1) / len(x)
                axes.step(x, y, where="post", color=colour, linestyle=line, label=label)
    axes.axvline(0, color=GREY, linewidth=0.8)
    axes.set(title="B  Nats lost by an input", xlabel="log P(x | z0) − log P(x | z)")
    axes.set(ylabel="share of inputs", ylim=(0, 1))
    axes.legend(loc="lower right")


def _draw_columns(axes: Axes, columns: pd.DataFrame) -> None:
    table = columns.sort_values("explained", ascending=False, kind="stable")
    x = np.arange(len(table))
    look: dict[str, Any] = {"linestyle": "none" if len(table) <= MOST_NAMED else "-"}
    look["marker"] = "o" if len(table) <= MOST_NAMED else None
    axes.plot(x, table["explained_z0"], color=GREY, label="from z0", **look)
    axes.plot(
        x, table["explained"], color=BLUE, label="from states that sentences are read from", **look
    )
    axes.axhline(0, color=GREY, linewidth=0.8)
    axes.set(title="C  Variance explained of each column", ylabel="R²")
    if len(table) <= MOST_NAMED:
        axes.set_xticks(x, [plain(str(name)) for name in table["column"]], rotation=90, fontsize=7)
    else:
        axes.set_xlabel("columns, in order")
    axes.legend()
