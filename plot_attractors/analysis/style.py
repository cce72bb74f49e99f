"""Figures of analyses: colours that colour-blind readers can tell apart, and small parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable

# Okabe and Ito's colours
BLUE, ORANGE, GREEN = "#0072B2", "#E69F00", "#009E73"
RED, PURPLE, LIGHT_BLUE = "#D55E00", "#CC79A7", "#56B4E9"
GREY, LIGHT_GREY = "#8C8C8C", "#D9D9D9"
# ten classes: Paul Tol's muted colours, and a brown
CLASS_COLOURS = (
    "#332288", "#88CCEE", "#44AA99", "#117733", "#999933",
    "#DDCC77", "#CC6677", "#882255", "#AA4499", "#8B5A2B",
)  # fmt: skip

SPLIT_COLOURS = {
    "train": BLUE,
    "held_out": ORANGE,
    "position": ORANGE,
    "position+colour": PURPLE,
    "position+shape": GREEN,
}


def add_scale(axes: Axes, image: ScalarMappable, label: str, **options: Any) -> None:
    """Draw the colour scale of an image beside its axes."""
    figure = axes.get_figure()
    if figure is not None:
        figure.colorbar(image, ax=axes, label=label, **{"shrink": 0.8, "pad": 0.02, **options})


def lettered(letter: str, text: str) -> str:
    """The title of a panel, its letter in bold."""
    return rf"$\bf{{{letter}}}$  {text}"


def letter(panel: int) -> str:
    """Of a panel, by its number from 0: a to z, then aa."""
    return "abcdefghijklmnopqrstuvwxyz"[panel % 26] * (1 + panel // 26)


def plain(text: str, longest: int = 24) -> str:
    """A user's text for a figure: shortened, and with no dollar sign to start a formula."""
    return (text if len(text) <= longest else text[: longest - 1] + "…").replace("$", r"\$")


def colours_of(own: Sequence[str], n: int) -> list[str]:
    """n colours, of outcomes or classes: their own where they have any, else ten that recur."""
    colours = [colour for colour in own if colour] or CLASS_COLOURS
    return [colours[k % len(colours)] for k in range(n)]
