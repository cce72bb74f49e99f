"""Panels of accuracy and error, feature by feature, a row for each split."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from plot_attractors.analysis.style import plain
from plot_attractors.split_names import split_name


class Panel(NamedTuple):
    """A column of panels: rows (split, feature, …), the name of their values, end of the title."""

    table: pd.DataFrame
    label: str
    title: str = ""


def by_kind(table: pd.DataFrame) -> list[Panel]:
    """Categorical features by accuracy and continuous ones by RMSE, each where there are some."""
    parts = {"accuracy": "categorical", "RMSE": "continuous"}
    panels = [Panel(table[table["kind"] == kind], label) for label, kind in parts.items()]
    return [panel for panel in panels if len(panel.table)]


def draw_panels(
    panels: Sequence[Panel],
    draw: Callable[[Axes, pd.DataFrame], None],
    handles: list[Any],
    row_height: float,
) -> Figure:
    """A panel for each column and split, features side by side, with one legend above.

    `draw` is given the axes and the rows of the split, and places features at 0, 1, …
    """
    splits = list(panels[0].table["split"].unique())
    figure = Figure(figsize=(10.5, 0.7 + row_height * len(splits)), layout="constrained")
    widths = [max(3, panel.table["feature"].nunique()) for panel in panels]
    grid = figure.subplots(len(splits), len(panels), squeeze=False, width_ratios=widths)
    for row, split in zip(grid, splits, strict=True):
        for axes, panel in zip(row, panels, strict=True):
            part = panel.table[panel.table["split"] == split]
            draw(axes, part)
            axes.set(title=split_name(split) + panel.title, ylabel=panel.label)
            axes.set_ylim(0, None if panel.label == "RMSE" else 1.03)
            names = [plain(name, 14) for name in part["feature"].unique()]
            axes.set_xticks(range(len(names)), names, rotation=90 if len(names) > 8 else 0)
            axes.set_xlim(-0.6, len(names) - 0.4)
    figure.legend(handles=handles, loc="outside upper center", ncols=3)
    return figure
