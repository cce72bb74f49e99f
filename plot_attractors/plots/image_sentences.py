"""Figures of the analysis ``sentences`` of images: sentences decoded, and what tokens change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from plot_attractors.plots.style import BLUE, GREY, LIGHT_GREY, RED, plain
from plot_attractors.split_names import split_name

LETTERS = 11  # of a sentence on a line, with room for its dots
MOST_FEATURES = 8  # in the figure of tokens
TITLES = {"train": "Training", "held_out": "Held out"}  # images need not have classes
SOURCES = {"sampler": BLUE, "posterior": RED}
# inches: an image, its column and row, the heading, a gap; so that all stand where they belong
IMAGE, COLUMN, ROW, HEAD, GAP = 0.74, 0.88, 1.12, 0.78, 0.14
THUMB, LINE, CELL = 0.5, 0.56, 0.42  # of tokens: an image, a row, a field of the heat maps
SHARES, START = (0.95, 1.56), 1.75  # where the columns of shares end, and the images start


def draw_images(sentences: pd.DataFrame, images: Mapping[str, np.ndarray]) -> Figure:
    """For the first inputs of each split: the input, its reconstruction, the sentences read most
    often and the best one, decoded. The first split stands on the left, the others on the right.
    """
    splits = list(sentences["split"].unique())
    read = images[splits[0]].shape[1] - 3
    block = (3 + read) * COLUMN + 2 * GAP
    sides = [side for side in (splits[:1], splits[1:]) if side]
    heights = [sum(HEAD + ROW * len(images[split]) for split in side) for side in sides]
    width, height = (block + 2 * GAP) * len(sides), max(heights) + GAP
    figure, axes = _canvas(width, height)
    for k, side in enumerate(sides):
        y = GAP / 2
        for split in side:
            part, labels = sentences[sentences["split"] == split], images[f"{split} labels"]
            title = TITLES.get(split) or split_name(split).capitalize()
            _draw_split(axes, title, part, images[split], labels, GAP + k * (block + 2 * GAP), y)
            y += HEAD + ROW * len(images[split])
    return figure


def _draw_split(
    axes: Axes,
    title: str,
    sentences: pd.DataFrame,
    images: np.ndarray,
    labels: np.ndarray,
    x: float,
    y: float,
) -> None:
    """Draw the inputs of a split with the upper left corner at x, y."""
    axes.text(x, y + 0.2, title, fontsize=11)
    read = images.shape[1] - 3
    gaps = GAP * np.repeat([0, 1, 2], [2, read, 1])
    across = x + COLUMN * np.arange(3 + read) + gaps + (COLUMN - IMAGE) / 2
    centres = across + IMAGE / 2
    below: dict[str, Any] = {"fontsize": 8, "ha": "center", "va": "bottom"}
    heads = {
        "input": centres[0],
        "decoded\nfrom z0": centres[1],
        "sentences read most often": (across[2] + across[1 + read] + IMAGE) / 2,
        "best\nby reward": centres[-1],
    }
    for text, centre in heads.items():
        axes.text(centre, y + HEAD - 0.08, text, **below)
    for k, (_, part) in enumerate(sentences.groupby("input")):
        best = part[part["best"] == 1].iloc[0]
        often = part[(part["sampler"] > 0) & (part["rank"] <= read)]
        label = "\n".join(plain(line, 14) for line in str(labels[k]).split("\n"))
        shown = [
            (0, 0, label),
            (1, 1, ""),
            (2 + read, 2, _text(best["sentence"], best["posterior"])),
        ]
        for j, (s, share) in enumerate(zip(often["sentence"], often["sampler"], strict=True)):
            shown.append((2 + j, 3 + j, _text(s, share)))
        top = y + HEAD + ROW * k
        for column, image, text in shown:
            _place(axes, images[k, image], across[column], top, IMAGE)
            axes.text(
                centres[column], top + IMAGE + 0.03, text, fontsize=7.5, ha="center", va="top",
                linespacing=1.05,
            )  # fmt: skip


def _text(sentence: str, share: float) -> str:
    return f"{_lines(sentence)}\n{share:.0%}"


def _lines(name: str) -> str:
    """A sentence on one line, or on two where it is long, cut off where it is longer still."""

    def fits(tokens: list[str]) -> bool:  # a dot takes half the room of a letter
        return len("".join(tokens)) + len(tokens) / 2 <= LETTERS

    lines, tokens = [], name.split("·")
    while tokens:
        n = max(1, sum(fits(tokens[:k]) for k in range(1, len(tokens) + 1)))
        lines.append("·".join(tokens[:n]))
        tokens = tokens[n:]
    return "·\n".join(lines[:2]) + ("…" if len(lines) > 2 else "")


def draw_changes(tokens: pd.DataFrame, changes: Mapping[str, np.ndarray]) -> Figure:
    """For each token in use: its share, what it changes in decoded images, and R² on features."""
    in_use = list(changes["token"])
    by_source = {
        source: tokens[tokens["source"] == source].set_index("token") for source in SOURCES
    }
    features = _most_explained(tokens.filter(like="r2_"))
    names = [plain(name.removeprefix("r2_")) for name in features]
    examples = changes["examples"].shape[1]
    x_examples = START + LINE + GAP
    x = x_examples + examples * (2 * THUMB + GAP) + GAP
    head = max(0.95, 0.45 + 0.085 * max(map(len, names), default=0))
    width = x + len(SOURCES) * (len(features) * CELL + 2 * GAP)
    figure, axes = _canvas(width, head + LINE * len(in_use) + GAP)
    above: dict[str, Any] = {"fontsize": 8, "ha": "center", "va": "bottom"}
    axes.text(START / 2, head - 0.32, "share of sentences", **above)
    axes.text(START + THUMB / 2, head - 0.1, "mean\nchange", **above)
    middle = x_examples + examples * (THUMB + GAP / 2)
    axes.text(middle, head - 0.1, "sentences without the token, and with it", **above)
    for (source, colour), at in zip(SOURCES.items(), SHARES, strict=True):
        axes.text(at, head - 0.1, source, color=colour, **above | {"ha": "right"})
    for row, token in enumerate(in_use):
        y = head + LINE * row
        axes.text(0.15, y + THUMB / 2, token, fontsize=11, va="center")
        for (source, colour), at in zip(SOURCES.items(), SHARES, strict=True):
            share = f"{by_source[source]['share'][token]:.0%}"
            axes.text(at, y + THUMB / 2, share, fontsize=8, ha="right", va="center", color=colour)
        _place(axes, changes["mean"][row], START, y, THUMB)
        for k, pair in enumerate(changes["examples"][row]):
            at = x_examples + k * (2 * THUMB + GAP)
            if not (pair == 255).all():  # fewer sentences hold the token
                _place(axes, pair[0], at, y, THUMB)
                _place(axes, pair[1], at + THUMB, y, THUMB)
    for source, colour in SOURCES.items() if features else ():
        r2 = by_source[source].loc[in_use, features].to_numpy()
        _draw_explained(axes, r2, names, x, head)
        middle = x + len(features) * CELL / 2
        axes.text(middle, 0.12, f"R², {source}", color=colour, **above | {"va": "top"})
        x += len(features) * CELL + 2 * GAP
    return figure


def _most_explained(r2: pd.DataFrame) -> list[str]:
    """Features of the heat map, in their order: those that explain a token best, where many."""
    most = r2.fillna(0).max().sort_values(ascending=False, kind="stable")[:MOST_FEATURES]
    return [name for name in r2.columns if name in most.index]


def _draw_explained(axes: Axes, r2: np.ndarray, names: Sequence[str], x: float, y: float) -> None:
    centred: dict[str, Any] = {"ha": "center", "va": "center"}
    for row, values in enumerate(r2):
        top = y + LINE * row
        axes.imshow(
            values[None], extent=(x, x + CELL * len(names), top + THUMB, top), aspect="auto",
            cmap="Blues", vmin=0, vmax=1, interpolation="nearest",
        )  # fmt: skip
        for k, value in enumerate(values.tolist()):
            text = "–" if value != value else f"{value:.2f}"
            ink = "white" if value > 0.55 else "black" if value >= 0.05 else GREY
            at = x + CELL * (k + 0.5), top + THUMB / 2
            axes.text(*at, text, fontsize=7, color=ink, **centred)
    for k, name in enumerate(names):
        at = x + CELL * (k + 0.5), y - 0.08
        axes.text(*at, name, fontsize=8, rotation=90, ha="center", va="bottom")


def _canvas(width: float, height: float) -> tuple[Figure, Axes]:
    """A figure with one pair of axes in inches, from its upper left corner."""
    figure = Figure(figsize=(width, height))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_autoscale_on(False)
    axes.set(xlim=(0, width), ylim=(height, 0))
    return figure, axes


def _place(axes: Axes, image: np.ndarray, x: float, y: float, size: float) -> None:
    """Draw bytes (channels, side, side) in a grey frame, with the upper left corner at x, y."""
    pixels = np.moveaxis(np.broadcast_to(image, (3, *image.shape[1:])), 0, -1)
    axes.imshow(pixels, extent=(x, x + size, y + size, y), aspect="auto", interpolation="nearest")
    corners = [x, x + size, x + size, x, x], [y, y, y + size, y + size, y]
    axes.plot(*corners, color=LIGHT_GREY, linewidth=0.6, zorder=3)
