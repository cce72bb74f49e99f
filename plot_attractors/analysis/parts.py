"""What several figures share: notes, names of trajectory lengths, bars, and images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from plot_attractors.analysis.style import BLUE, GREY, LIGHT_GREY, plain

FEW_BARS = 20  # that have room for names in full size
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


def draw_bars(axes: Axes, names: Any, lengths: Any) -> None:
    """Horizontal bars with names, the first at the top."""
    places = range(len(names))
    axes.barh(places, lengths, color=BLUE)
    size = 10 if len(names) <= FEW_BARS else 7
    axes.set_yticks(places, [plain(str(name)) for name in names], fontsize=size)
    axes.invert_yaxis()


def draw_images(axes: Axes, x: np.ndarray, rows: int) -> None:
    """Draw images (n, channels, side, side) of one channel or three, from 0 to 255, in rows.

    The last row may be shorter than the others.
    """
    n, side, columns = len(x), x.shape[-1], -(-len(x) // rows)
    grey = int(LIGHT_GREY[1:3], 16)
    framed = np.full((rows * columns, 3, side + 2, side + 2), grey, dtype=np.uint8)
    framed[:n, :, 1:-1, 1:-1] = x
    framed[n:] = 255
    sheet = framed.reshape(rows, columns, 3, side + 2, side + 2).transpose(0, 3, 1, 4, 2)
    axes.imshow(sheet.reshape(rows * (side + 2), -1, 3), interpolation="nearest")
    axes.set_axis_off()
