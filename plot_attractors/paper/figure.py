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
KINDS = {"sampled": (-WIDTH / 2, RED), "composed": (WIDTH / 2, BLUE)}
ROWS = {False: "within distribution", True: "held out"}


def draw_side_by_side(table: pd.DataFrame) -> Figure:
    """From rows (panel, measure, held_out, kind, model, median, least, greatest): a column for each
    panel and measure, above for training inputs and below for held-out ones; bars are medians over
    seeds, lines go from the least to the greatest.
    """
    columns = table[["panel", "measure"]].drop_duplicates().to_numpy().tolist()
    figure = Figure(figsize=(3.5 * len(columns), 6.4), layout="constrained")
    grid = figure.subplots(len(ROWS), len(columns), squeeze=False, sharey="col", sharex="col")
    for row, (held_out, title) in zip(grid, ROWS.items(), strict=True):
        for axes, (panel, measure) in zip(row, columns, strict=True):
            chosen = (table["panel"] == panel) & (table["measure"] == measure)
            _draw_bars(axes, table[chosen & (table["held_out"] == held_out)])
            axes.set(title=f"{panel}, {title}", ylabel=measure)
    handles = [Patch(color=colour, label=f"{kind} sentence") for kind, (_, colour) in KINDS.items()]
    figure.legend(handles=handles, loc="outside upper center", ncols=2)
    return figure


def _draw_bars(axes: Axes, part: pd.DataFrame) -> None:
    models = list(dict.fromkeys(part["model"]))
    for kind, (shift, colour) in KINDS.items():
        rows = part[part["kind"] == kind].set_index("model").reindex(models)
        x = [k + shift for k in range(len(models))]
        axes.bar(x, rows["median"], width=WIDTH, color=colour)
        axes.vlines(x, rows["least"], rows["greatest"], color="black", linewidth=1)
    axes.set_xticks(range(len(models)), models, rotation=45, ha="right", rotation_mode="anchor")
    axes.set_ylim(bottom=0)
