"""The figure of noise: bound of a step and T, against total variation and the time of settling.

Rows of `docs/results/tables/noise.csv`, made by `benchmarks/e_step.py`, one for a walk of K steps,
T and a seed.
"""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure
from shared import arguments, parser

from plot_attractors.plots.style import BLUE, ORANGE, style

DOCS = Path(__file__).parents[1] / "docs"
PICTURE: Path | BytesIO = DOCS / "pictures" / "noise.png"
SMALL = {"PICTURE": BytesIO()}
PANELS = {
    "tv": "total variation above its floor, T",
    "tv_5T": "the same after 5T",
    "last_change": "step of the last change",
}


def main() -> None:
    arguments(globals(), parser(__doc__))
    table = pd.read_csv(DOCS / "results" / "tables" / "noise.csv")
    with style():
        figure = Figure(figsize=(9.6, 3.4), layout="constrained")
        for axes, (column, title) in zip(figure.subplots(1, 3), PANELS.items(), strict=True):
            for (steps, rows), colour in zip(table.groupby("steps"), (BLUE, ORANGE), strict=False):
                of = rows.groupby("noise")[column]
                axes.plot(of.median().index, of.median(), color=colour, label=f"T = {steps}")
                axes.scatter(rows["noise"], rows[column], color=colour, s=14)
            ticks = sorted(table["noise"].unique())
            axes.set(xscale="log", xlabel="bound of the noise of a step", title=title)
            axes.set_xticks(ticks, [f"{t:.2g}" for t in ticks])
            axes.minorticks_off()
            axes.set_ylim(bottom=0)
        axes.legend()
        figure.savefig(PICTURE, dpi=150)


if __name__ == "__main__":
    main()
