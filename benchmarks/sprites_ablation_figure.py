"""The figure of the ablation of sprites: similarity and colour over the arms of
`docs/results/tables/sprites_ablation.csv`, seeds as points.

Bands: least and greatest of three seeds of a comparison model (docs/results/dsprites.md).
"""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure
from shared import arguments, parser

from plot_attractors.plots.style import BLUE, CRIMSON, GREY, LIGHT_BLUE, ORANGE, style

DOCS = Path(__file__).parents[1] / "docs"
PICTURE: Path | BytesIO = DOCS / "pictures" / "sprites-ablation.png"
SMALL = {"PICTURE": BytesIO()}
COLUMNS = {"similarity": "topographic similarity", "colour": "colour, accuracy"}
BANDS = {
    "VQ-VAE, commitment 25": (ORANGE, {"similarity": (0.429, 0.479), "colour": (0.898, 0.923)}),
    "emergent communication": (
        LIGHT_BLUE,
        {"similarity": (0.247, 0.250), "colour": (0.227, 0.242)},
    ),
}
TARGETS = {"similarity": 0.525, "colour": 0.90}


def main() -> None:
    arguments(globals(), parser(__doc__))
    table = pd.read_csv(DOCS / "results" / "tables" / "sprites_ablation.csv")
    arms = list(dict.fromkeys(table["arm"]))
    with style():
        figure = Figure(figsize=(10, 0.9 + 0.42 * len(arms)), layout="constrained")
        grid = figure.subplots(1, 2, sharey=True)
        for axes, (column, label) in zip(grid, COLUMNS.items(), strict=True):
            for name, (colour, of) in BANDS.items():
                axes.axvspan(*of[column], color=colour, alpha=0.35, linewidth=0, label=name)
            axes.axvline(TARGETS[column], color=GREY, linestyle=":", label="target")
            for row, arm in enumerate(arms):
                x = table.loc[table["arm"] == arm, column]
                own = CRIMSON if arm.startswith("default:") else BLUE
                axes.scatter(x, [row] * len(x), color=own, s=22, zorder=3)
                axes.plot([x.median()] * 2, [row - 0.25, row + 0.25], color=own, linewidth=1.5)
            axes.set(xlabel=label, xlim=(0.2, 1.0 if column == "colour" else 0.7))
            axes.grid(axis="y", linewidth=0.4)
        grid[0].set_yticks(range(len(arms)), arms)
        grid[0].invert_yaxis()
        handles, labels = grid[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3)
        figure.savefig(PICTURE, dpi=150)


if __name__ == "__main__":
    main()
