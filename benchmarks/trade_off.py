"""The trade-off figure: total variation at T steps against that at 5T, every setting of
`docs/results/tables/settings.csv` a point.
"""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure
from shared import arguments, parser

from plot_attractors.plots.style import BLUE, GREEN, GREY, LIGHT_BLUE, ORANGE, PURPLE, RED, style

DOCS = Path(__file__).parents[1] / "docs"
PICTURE: Path | BytesIO = DOCS / "pictures" / "trade_off.png"
SMALL = {"PICTURE": BytesIO()}
STUDIES = {  # in the order in which they were made
    "first sleep": ("sleep on sampled next states", ORANGE, "o"),
    "fewer waits": ("a few stationary steps stand for all", PURPLE, "s"),
    "expected score": ("next states not sampled", BLUE, "D"),
    "second target": ("the same, on a softer target", GREEN, "^"),
    "third target": ("perturbed starts, geometric target", LIGHT_BLUE, "P"),
    "reported": ("the default from scratch, seeds 10 to 14", "black", "*"),
    "balance": ("balance added, or alone", RED, "v"),
}


def main() -> None:
    arguments(globals(), parser(__doc__))
    table = pd.read_csv(DOCS / "results" / "tables" / "settings.csv")
    with style():
        figure = Figure(figsize=(6.4, 5.6), layout="constrained")
        axes = figure.subplots()
        low, high = 0.06, 0.9
        axes.plot([low, high], [low, high], color=GREY, linewidth=1, label="no change after T")
        axes.axvline(0.15, color=GREY, linestyle=":", linewidth=1)
        axes.axhline(0.20, color=GREY, linestyle=":", linewidth=1, label="targets")
        for study, (label, colour, marker) in STUDIES.items():
            part = table[table["study"] == study]
            x, y = part["tv_excess"], part["tv_excess_5T"]
            axes.scatter(x, y, color=colour, marker=marker, s=30, label=label)
        axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high), aspect="equal")
        ticks = [0.07, 0.1, 0.15, 0.2, 0.3, 0.5, 0.8]
        axes.set_xticks(ticks, [str(t) for t in ticks], minor=False)
        axes.set_yticks(ticks, [str(t) for t in ticks], minor=False)
        axes.minorticks_off()
        axes.set_xlabel("total variation from the target above its floor, T = 20 steps")
        axes.set_ylabel("the same at 100 steps")
        axes.legend(loc="lower right", bbox_to_anchor=(1.0, 0.02), borderpad=0)
        figure.savefig(PICTURE, dpi=150)


if __name__ == "__main__":
    main()
