"""What several figures share: notes, names of trajectory lengths and of columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from plot_attractors.analysis.style import GREY, plain

MOST_NAMED = 40  # columns that are drawn with their names


def note(axes: Axes, text: str, place: str = "right", top: float = 0.97, **options: Any) -> None:
    """Write small text into the upper corner of a panel, `place` being "left" or "right"."""
    x = 0.97 if place == "right" else 0.03
    look: dict[str, Any] = {"ha": place, "va": "top", "fontsize": 8.5, **options}
    axes.text(x, top, text, transform=axes.transAxes, **look)


def write(axes: Axes, text: str) -> None:
    """Text in place of a picture."""
    axes.text(0.5, 0.5, text, ha="center", va="center", color=GREY, transform=axes.transAxes)
    axes.set(xticks=[], yticks=[])


def error(part: pd.DataFrame) -> np.ndarray:
    """(2, n) how far the bounds ``low`` and ``high`` are from the values."""
    value = part["value"]
    return np.stack([value - part["low"], part["high"] - value]).clip(min=0)


def dot(colour: str, label: str) -> Line2D:
    """A dot for a legend."""
    return Line2D([], [], color=colour, marker="o", markersize=5, linestyle="", label=label)


def steps_name(steps: int, table: pd.DataFrame) -> str:
    """``2T = 40 steps``, T being the least number of steps in the table."""
    times = round(steps / max(int(table["steps"].min()), 1))
    return f"{times if times > 1 else ''}T = {steps} steps"


def whole_numbers(axes: Axes) -> None:
    """Ticks at whole numbers of both axes."""
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True))


def name_columns(axes: Axes, names: Sequence[str], first: float = 0.0) -> bool:
    """Names below the columns of an image, from `first` on, where there are few enough; whether
    there were.
    """
    if not 0 < len(names) <= MOST_NAMED:
        return False
    shown = [plain(str(name)) for name in names]
    axes.set_xticks(np.arange(len(names)) + first, shown, rotation=90, fontsize=7)
    axes.set_xlabel("")
    return True
