"""The paper's figure of all models side by side: features decoded from sampled and from composed
sentences.
"""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from plot_attractors.analysis.style import BLUE, RED

WIDTH = 0.36
KINDS = {False: ("sampled", -WIDTH / 2, RED), True: ("composed", WIDTH / 2, BLUE)}
ROWS = {False: "within distribution", True: "held out"}


def draw_side_by_side(table: pd.DataFrame) -> Figure:
    """From rows (data, measure, held_out, composed, model, median, least, greatest): a column for
    each data set and measure, above for training inputs and below for held-out ones; bars are
    medians over seeds, lines go from the least to the greatest.
    """
    columns = list(table.groupby(["data", "measure"], sort=False))
    figure = Figure(figsize=(3.5 * len(columns), 6.4), layout="constrained")
    grid = figure.subplots(len(ROWS), len(columns), squeeze=False, sharey="col", sharex="col")
    for row, (held_out, title) in zip(grid, ROWS.items(), strict=True):
        for axes, ((data, measure), part) in zip(row, columns, strict=True):
            _draw_bars(axes, part[part["held_out"] == held_out])
            axes.set(title=f"{data}, {title}", ylabel=measure)
    handles = [Patch(color=colour, label=f"{kind} sentence") for kind, _, colour in KINDS.values()]
    figure.legend(handles=handles, loc="outside upper center", ncols=2)
    return figure


def _draw_bars(axes: Axes, part: pd.DataFrame) -> None:
    models = list(dict.fromkeys(part["model"]))
    for composed, (_, shift, colour) in KINDS.items():
        rows = part[part["composed"] == composed].set_index("model").reindex(models)
        x = [k + shift for k in range(len(models))]
        axes.bar(x, rows["median"], width=WIDTH, color=colour)
        axes.vlines(x, rows["least"], rows["greatest"], color="black", linewidth=1)
    axes.set_xticks(range(len(models)), models, rotation=45, ha="right", rotation_mode="anchor")
    axes.set_ylim(bottom=0)
