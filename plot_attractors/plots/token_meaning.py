"""Heat map of what each token tells of the columns and labels of a table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from plot_attractors.plots.parts import MOST_NAMED, name_columns
from plot_attractors.plots.style import GREY, add_scale

BOUNDS = {"log odds ratio": 4.0, "difference": 1.5}  # what is stronger has the same colour
UNITS = {"log odds ratio": "nats", "difference": "sd"}


def draw_token_columns(table: pd.DataFrame, meaning: pd.DataFrame) -> Figure:
    """Log odds ratios, or differences, tokens × columns; white where the interval has 0 in it. Of
    more columns than have room, those that the tokens tell most of.
    """
    tokens = list(meaning["token"])
    told = table[["column", "kind", "measure"]].drop_duplicates(["column", "kind"])
    names, is_label = told["column"].to_numpy(), (told["kind"] == "label").to_numpy()
    ratio, low, high = (
        table[part].to_numpy().reshape(len(tokens), -1) for part in ("value", "low", "high")
    )
    bounds = told["measure"].map(BOUNDS).to_numpy()
    ratio = np.where((low > 0) | (high < 0), ratio, np.nan) / bounds  # of the colour scale
    strength = np.nan_to_num(np.abs(ratio))
    labels = _strongest(is_label, strength, MOST_NAMED // 2)
    columns = _strongest(~is_label, strength, MOST_NAMED - len(labels))
    # side by side what the same token tells most of
    best = np.where(strength.any(0), strength.argmax(0), len(tokens))
    columns = columns[np.lexsort((-strength.max(0)[columns], best[columns]))]
    order = np.concatenate([columns, labels])
    figure = Figure(figsize=(3 + 0.24 * len(order), 2.4 + 0.26 * len(tokens)), layout="constrained")
    axes = figure.subplots()
    look: dict[str, Any] = {"cmap": "RdBu_r", "vmin": -1, "vmax": 1, "aspect": "auto"}
    image = axes.imshow(ratio[:, order], **look)
    name_columns(axes, list(names[order]))
    shares = [f"{t}  {s:.0%}" for t, s in zip(tokens, meaning["share"], strict=True)]
    axes.set_yticks(range(len(tokens)), shares, fontsize=9)
    if len(labels):
        axes.axvline(len(columns) - 0.5, color=GREY, linewidth=1.5)
    more = int((~is_label).sum()) - len(columns)
    rest = f" ({more} more columns are in the file)" if more else ""
    axes.set(title=f"Tokens and columns{rest}", ylabel="token, and its share of sentences")
    for measure in told["measure"].unique():
        label, bound = f"{measure}, {UNITS[measure]}", BOUNDS[measure]
        marks = FuncFormatter(lambda share, _, bound=bound: f"{bound * share:g}")
        add_scale(axes, image, label, extend="both", ticks=np.linspace(-1, 1, 5), format=marks)
    return figure


def _strongest(chosen: np.ndarray, strength: np.ndarray, most: int) -> np.ndarray:
    """Numbers of those chosen columns (C,) that any token tells most of, in increasing order."""
    of = np.where(chosen, strength.max(0), -1.0)
    return np.sort(np.argsort(-of, kind="stable")[: min(most, int(chosen.sum()))])
