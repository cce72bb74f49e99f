"""Figure of the analysis ``language_measures``: measures beside chance, code lengths, NPMI."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from plot_attractors.plots.parts import write
from plot_attractors.plots.style import BLUE, GREEN, GREY, SPLIT_COLOURS, add_scale, plain
from plot_attractors.split_names import split_name

RATIOS = {
    "language_compositionality": "features",
    "language_compositionality_z0": "latent states z0",
}
SHARES = {
    "dci_disentanglement": "disentanglement (DCI)",
    "dci_completeness": "completeness (DCI)",
    "dci_informativeness": "informativeness (DCI)",
    "mutual_information_gap": "mutual information gap",
    "npmi": "NPMI, tokens and values",
    "npmi_tokens": "NPMI, tokens and tokens",
}
MARKS: dict[str, tuple[str, dict[str, Any]]] = {
    "null_mean": ("shuffled over inputs", {"color": "black", "marker": "x", "markersize": 6}),
    "holistic_mean": (
        "shuffled over meanings",
        {"color": "white", "marker": "D", "markeredgecolor": "black", "markersize": 5},
    ),
    "spelled": (
        "features spelled out",
        {"color": "white", "marker": "^", "markeredgecolor": "black", "markersize": 6},
    ),
}
SOURCES = {"without sentences": (GREY, "-"), "sentences": (BLUE, "-"), "spelled": (GREEN, "--")}
MOST_ROWS = 32  # values of features that have room for a name


def draw(summary: pd.DataFrame, npmi: pd.DataFrame, code_lengths: pd.DataFrame) -> Figure:
    """From ``summary.csv``, ``npmi.csv`` and ``code_lengths.csv``."""
    figure = Figure(figsize=(11, 9), layout="constrained")
    panels = figure.subplot_mosaic("AB;CD", height_ratios=[1, 1.3])  # type: ignore[arg-type]
    known = summary[summary["value"].notna()]
    ratios = [name for name in RATIOS if (known["measure"] == name).any()]
    panels["A"].set_title("A  Compositionality C = K(Z) / K(Z | W)")
    _draw_measures(panels["A"], summary, RATIOS, ratios, start=1.0)
    panels["A"].set_xscale("log")
    panels["A"].xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    panels["A"].xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    panels["A"].xaxis.set_minor_formatter(NullFormatter())
    panels["A"].axvline(1, color=GREY, linewidth=0.8)
    panels["A"].set_xlabel("C, times shorter (logarithmic)")
    panels["B"].set_title("B  Measures, beside other languages")
    shares = [name for name in SHARES if (known["measure"] == name).any()]
    _draw_measures(panels["B"], summary, SHARES, shares)
    panels["B"].axvline(0, color=GREY, linewidth=0.8)
    panels["B"].set_xlabel("value; best is 1")
    marks = [Line2D([], [], linestyle="", label=label, **look) for label, look in MARKS.values()]
    handles = [*panels["A"].get_legend_handles_labels()[0], *marks]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles))
    panels["C"].set_title(f"C  Prequential code, {split_name('train')}")
    _draw_code(panels["C"], code_lengths[code_lengths["split"] == "train"])
    panels["D"].set_title(f"D  NPMI of tokens and values, {split_name('train')}")
    _draw_npmi(panels["D"], npmi[npmi["split"] == "train"])
    return figure


def _draw_measures(
    axes: Axes,
    summary: pd.DataFrame,
    titles: dict[str, str],
    names: Sequence[str],
    start: float = 0.0,
) -> None:
    """Bars from `start`, one a measure and split, and marks of other languages."""
    if not names:
        write(axes, "undefined")
        return
    splits = list(summary["split"].unique())
    height = 0.8 / len(splits)
    for k, split in enumerate(splits):
        part = summary[summary["split"] == split].set_index("measure").loc[list(names)]
        y = np.arange(len(names)) + (k - (len(splits) - 1) / 2) * height
        value = part["value"].to_numpy(dtype=float)
        colour = SPLIT_COLOURS.get(split, GREY)
        axes.barh(y, value - start, 0.9 * height, left=start, color=colour, label=split_name(split))
        for column, (_, look) in MARKS.items():
            axes.plot(part[column], y, linestyle="", **look)
        for at in y[np.isnan(value)]:
            axes.text(start or 0.01, at, "undefined", va="center", fontsize=8)
    axes.set_yticks(range(len(names)), [titles[name] for name in names])
    axes.invert_yaxis()


def _draw_code(axes: Axes, table: pd.DataFrame) -> None:
    """Bits an input by inputs seen, of features; of z0 fainter, if there is one."""
    if table.empty:
        write(axes, "too few inputs")
        return
    shown = table[table["represented"] == "features"]
    if shown.empty:
        shown = table
    for source, part in shown.groupby("source", sort=False):
        colour, line = SOURCES[str(source)]
        later = part[part["seen"] > 0]
        look: dict[str, Any] = {"color": colour, "linestyle": line, "marker": "o", "markersize": 4}
        axes.plot(later["seen"], later["bits"], label=plain(str(source)), **look)
    axes.set_xscale("log", base=2)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("inputs that the decoder has learned from")
    axes.set_ylabel(f"bits an input, {shown['represented'].iloc[0]}")
    axes.legend()


def _draw_npmi(axes: Axes, table: pd.DataFrame) -> None:
    if table.empty or table["npmi"].isna().all():
        write(axes, "no token or no feature varies")
        return
    tokens = list(table["token"].unique())
    values = table["npmi"].to_numpy(dtype=float).reshape(len(tokens), -1).T
    of_first = table[["feature", "value"]].head(len(values))
    rows = list(of_first.itertuples(index=False, name=None))
    image = axes.imshow(values, cmap="RdBu", vmin=-1, vmax=1, aspect="auto")
    every = -(-len(rows) // MOST_ROWS)
    names = [plain(f"{feature} {value}") for feature, value in rows]
    axes.set_yticks(range(0, len(rows), every), names[::every], fontsize=8)
    every = max(1, len(tokens) // 24)
    axes.set_xticks(range(0, len(tokens), every), [plain(str(token)) for token in tokens[::every]])
    axes.set_xlabel("token")
    add_scale(axes, image, "NPMI")
