"""Panels of accuracy and error, feature by feature, a row for each split."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from plot_attractors.analysis.style import plain
from plot_attractors.split_names import split_name

Panel = tuple[str, pd.DataFrame]  # the name of values, and rows (split, feature, …)


def by_kind(table: pd.DataFrame) -> list[Panel]:
    """Categorical features by accuracy and continuous ones by RMSE, each where there are some."""
    parts = {"accuracy": "categorical", "RMSE": "continuous"}
    panels = [(label, table[table["kind"] == kind]) for label, kind in parts.items()]
    return [(label, rows) for label, rows in panels if len(rows)]


def draw_panels(
    panels: Sequence[Panel],
    draw: Callable[[Axes, pd.DataFrame], None],
    handles: list[Any],
    row_height: float,
) -> Figure:
    """A panel for each column and split, features side by side, with one legend above.

    `draw` is given the axes and the rows of the split, and places features at 0, 1, …
    """
    splits = list(panels[0][1]["split"].unique())
    figure = Figure(figsize=(10.5, 0.7 + row_height * len(splits)), layout="constrained")
    widths = [max(3, rows["feature"].nunique()) for _, rows in panels]
    grid = figure.subplots(len(splits), len(panels), squeeze=False, width_ratios=widths)
    for row, split in zip(grid, splits, strict=True):
        for axes, (label, rows) in zip(row, panels, strict=True):
            part = rows[rows["split"] == split]
            draw(axes, part)
            axes.set(title=split_name(split), ylabel=label)
            axes.set_ylim(0, None if label == "RMSE" else 1.03)
            names = [plain(name, 14) for name in part["feature"].unique()]
            axes.set_xticks(range(len(names)), names, rotation=90 if len(names) > 8 else 0)
            axes.set_xlim(-0.6, len(names) - 0.4)
    figure.legend(handles=handles, loc="outside upper center", ncols=3)
    return figure
