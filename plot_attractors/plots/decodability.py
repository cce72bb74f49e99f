"""Figure of the analysis ``decodability``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from plot_attractors.plots.features import Panel, by_kind, draw_panels
from plot_attractors.plots.style import BLUE, GREEN, GREY, ORANGE, PURPLE

STYLES = {
    "sentence": ("a sentence", BLUE, "o"),
    "state": ("the last state", ORANGE, "s"),
    "encoding": ("the first state", GREEN, "D"),
    "input": ("the input", "black", "_"),
    "tree": ("the input and all classes", PURPLE, "_"),
}


def draw(table: pd.DataFrame, branches: pd.DataFrame | None) -> Figure:
    """From ``summary.csv`` and ``branches.csv``: accuracy, that of branches, and RMSE."""
    panels = by_kind(table[~table["feature"].str.startswith("mean of ")])
    if branches is not None:
        panels.insert(1, Panel(branches, "accuracy, left or right", ", paths that go on"))
    used = {source: STYLES[source] for source in STYLES if (table["source"] == source).any()}
    handles = [
        Line2D([], [], color=colour, linestyle="none", label=f"given {name}", **_marker(marker))
        for name, colour, marker in used.values()
    ]
    handles.append(Line2D([], [], color=GREY, linestyle="--", label="without a look"))
    return draw_panels(panels, _draw_points, handles, 3.2)


def _draw_points(axes: Axes, part: pd.DataFrame) -> None:
    features = np.arange(part["feature"].nunique())
    groups = part.groupby(["source", "decoder"], sort=False)
    for j, ((source, decoder), of) in enumerate(groups):
        _, colour, marker = STYLES[str(source)]
        x = features + 0.7 * ((j + 0.5) / groups.ngroups - 0.5)
        axes.vlines(x, of["low"], of["high"], color=colour, linewidth=1.2)
        fill = "white" if decoder else colour
        axes.plot(
            x, of["value"], color=colour, linestyle="none", markerfacecolor=fill, **_marker(marker)
        )
    chance = part.drop_duplicates("feature")["chance"]
    axes.hlines(chance, features - 0.45, features + 0.45, color=GREY, linestyle="--")


def _marker(marker: str) -> dict[str, Any]:
    size = {"markersize": 9, "markeredgewidth": 2} if marker == "_" else {"markersize": 5}
    return {"marker": marker} | size
