"""What several figures share: notes in a corner, names of splits and trajectory lengths."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from plot_attractors.plots.style import BLUE, SPLIT_NAMES, plain

__all__ = ["draw_bars", "note", "split_name", "steps_name", "whole_numbers"]

FEW_BARS = 20  # that have room for names in full size


def note(axes: Axes, text: str, place: str = "right", top: float = 0.97, **options: Any) -> None:
    """Write small text into the upper corner of a panel, `place` being "left" or "right"."""
    x = 0.97 if place == "right" else 0.03
    look: dict[str, Any] = {"ha": place, "va": "top", "fontsize": 8.5, **options}
    axes.text(x, top, text, transform=axes.transAxes, **look)


def split_name(split: str) -> str:
    """How figures name a split of the inputs."""
    return SPLIT_NAMES.get(split, split)


def steps_name(steps: int, table: pd.DataFrame) -> str:
    """``2T = 40 steps``, T being the least number of steps in the table."""
    times = round(steps / max(int(table["steps"].min()), 1))
    return f"{times if times > 1 else ''}T = {steps} steps"


def whole_numbers(axes: Axes, most: int | str = "auto") -> None:
    """Ticks at whole numbers of both axes."""
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(most, integer=True))


def draw_bars(axes: Axes, names: list[str], lengths: Any) -> None:
    """Horizontal bars with names, the first at the top."""
    places = range(len(names))
    axes.barh(places, lengths, color=BLUE)
    size = 10 if len(names) <= FEW_BARS else 7
    axes.set_yticks(places, [plain(name) for name in names], fontsize=size)
    axes.invert_yaxis()
