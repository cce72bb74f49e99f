"""What several figures share: notes, names, and panels of accuracy and error by feature."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from plot_attractors.analysis.style import letter, lettered, plain
from plot_attractors.split_names import split_name


def note(axes: Axes, text: str, place: str = "right", top: float = 0.97, **options: Any) -> None:
    """Write small text into the upper corner of a panel, `place` being "left" or "right"."""
    x = 0.97 if place == "right" else 0.03
    look: dict[str, Any] = {"ha": place, "va": "top", "fontsize": 8.5, **options}
    axes.text(x, top, text, transform=axes.transAxes, **look)


def error(part: pd.DataFrame) -> np.ndarray:
    """(2, n) how far the bounds ``low`` and ``high`` are from the values."""
    value = part["value"]
    return np.stack([value - part["low"], part["high"] - value]).clip(min=0)


def dot(colour: str, label: str) -> Line2D:
    """A dot for a legend."""
    return Line2D([], [], color=colour, marker="o", markersize=5, linestyle="", label=label)


def draw_features(
    table: pd.DataFrame,
    draw: Callable[[Axes, pd.DataFrame], None],
    handles: list[Any],
    row_height: float,
) -> Figure:
    """Categorical features by accuracy and continuous ones by RMSE, each where there are some, side
    by side: a row of panels for each split, with one legend above.

    `draw` is given the axes and the rows of the split, and places features at 0, 1, …
    """
    parts = {"accuracy": table["kind"] == "categorical", "RMSE": table["kind"] == "continuous"}
    panels = [(label, table[rows]) for label, rows in parts.items() if rows.any()]
    splits = list(panels[0][1]["split"].unique())
    figure = Figure(figsize=(10.5, 0.7 + row_height * len(splits)), layout="constrained")
    widths = [max(3, rows["feature"].nunique()) for _, rows in panels]
    grid = figure.subplots(len(splits), len(panels), squeeze=False, width_ratios=widths)
    number = count()
    for row, split in zip(grid, splits, strict=True):
        for axes, (label, rows) in zip(row, panels, strict=True):
            part = rows[rows["split"] == split]
            draw(axes, part)
            title = split_name(split)
            title = lettered(letter(next(number)), title) if grid.size > 1 else title
            axes.set(title=title, ylabel=label)
            axes.set_ylim(0, None if label == "RMSE" else 1.03)
            names = [plain(name, 14) for name in part["feature"].unique()]
            axes.set_xticks(range(len(names)), names, rotation=90 if len(names) > 8 else 0)
            axes.set_xlim(-0.6, len(names) - 0.4)
    figure.legend(handles=handles, loc="outside upper center", ncols=3)
    return figure
