"""Figure of the analysis ``similarity``: distances, measures, and what tokens tell of features."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from plot_attractors.plots.parts import error, write
from plot_attractors.plots.style import BLUE, GREY, SPLIT_COLOURS, add_scale, plain
from plot_attractors.split_names import split_name

LEAST_PAIRS = 50  # of a column of the heat map
MEASURE_NAMES = {
    "topographic_similarity": "topographic similarity",
    "topographic_similarity_tree": "the same, by tree distance",
    "posdis": "posdis",
    "bosdis": "bosdis",
    "context_independence": "context independence",
    "mutual_information": "information of a sentence",
    "tree_reconstruction_error": "tree reconstruction error",
}
WHITE_TO_GREY = LinearSegmentedColormap.from_list("share", ["#FFFFFF", "#555555"])
WHITE_TO_BLUE = LinearSegmentedColormap.from_list("information", ["#FFFFFF", BLUE, "#00233A"])


def draw(summary: pd.DataFrame, information: pd.DataFrame, pairs: pd.DataFrame) -> Figure:
    """From ``summary.csv``, ``information.csv`` and ``pairs.csv``."""
    hierarchy = (summary["measure"] == "topographic_similarity_tree").any()
    figure = Figure(figsize=(11, 8.2), layout="constrained")
    panels = figure.subplot_mosaic("AB;CD" if hierarchy else "AC;DD")
    titles = iter("ABCD")
    features = information["feature"].nunique()
    whole = pairs.empty or (pairs["distance"] % 1 == 0).all()  # no continuous feature
    label = f"features that differ, of {features}" if whole else "distance of features"
    measures = {"A": ("topographic_similarity", label)}
    if hierarchy:
        measures["B"] = ("topographic_similarity_tree", "edges between two nodes of the tree")
    similarity = summary.set_index(["measure", "split"])["value"]
    splits = list(summary["split"].unique())
    for panel, (measure, label) in measures.items():
        _draw_distances(panels[panel], pairs[pairs["measure"] == measure])
        named = splits if len(splits) <= 2 else splits[:1]  # all are in the panel of measures
        rho = [f"{similarity[measure, s]:.2f} ({split_name(s)})" for s in named]
        panels[panel].set(title=f"{next(titles)}  ρ = {', '.join(rho)}", xlabel=label)
    panels["C"].set_title(f"{next(titles)}  Measures, beside shuffled languages")
    _draw_measures(panels["C"], summary)
    panels["D"].set_title(f"{next(titles)}  What tokens tell of features, {split_name('train')}")
    _draw_information(panels["D"], information[information["split"] == "train"])
    return figure


def _draw_distances(axes: Axes, pairs: pd.DataFrame) -> None:
    """Sentence distances given feature distance, of the first split, and means of all."""
    if pairs.empty:
        write(axes, "one input only")
        return
    for index, (split, part) in enumerate(pairs.groupby("split", sort=False)):
        name, colour = split_name(str(split)), SPLIT_COLOURS.get(str(split), GREY)
        table = part.pivot(index="distance", columns="tokens", values="pairs").fillna(0)
        table = table.reindex(columns=range(part["tokens"].max() + 1), fill_value=0)
        count = table.to_numpy()
        shown = count.sum(1) >= min(LEAST_PAIRS, count.sum(1).max())
        place, count, tokens = table.index.to_numpy()[shown], count[shown], table.columns.to_numpy()
        mean = count @ tokens / count.sum(1)
        axes.plot(place, mean, color=colour, marker="o", markersize=4, label=name)
        overall = np.average(part["tokens"], weights=part["pairs"])
        axes.axhline(overall, color=colour, linestyle=":", linewidth=1.2)
        if index == 0:
            share, half = count / count.sum(1, keepdims=True), part["width"].iloc[0] / 2
            for at, heights in zip(place, share, strict=True):
                image = axes.imshow(
                    heights[:, None], cmap=WHITE_TO_GREY, vmin=0, vmax=max(share.max(), 0.1),
                    aspect="auto", origin="lower", zorder=0,
                    extent=(at - half, at + half, -0.5, len(heights) - 0.5),
                )  # fmt: skip
            axes.set_xlim(place[0] - half, place[-1] + half)
            axes.set_ylim(-0.5, np.flatnonzero(share.max(0) > 1e-3)[-1] + 0.5)
            add_scale(axes, image, f"share of pairs, {name}")
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylabel("tokens that only one sentence has")
    axes.legend(loc="lower right")


def _draw_measures(axes: Axes, summary: pd.DataFrame) -> None:
    names, splits = list(summary["measure"].unique()), list(summary["split"].unique())
    height = 0.8 / len(splits)
    cross: dict[str, Any] = {"color": "black", "marker": "x", "markeredgewidth": 1.5}
    diamond: dict[str, Any] = {"color": "white", "marker": "D", "markeredgecolor": "black"}
    for k, split in enumerate(splits):
        part = summary[summary["split"] == split]
        y = np.arange(len(names)) + (k - (len(splits) - 1) / 2) * height
        value = part["value"].to_numpy(dtype=float)
        axes.barh(
            y, value, 0.9 * height, xerr=error(part), color=SPLIT_COLOURS.get(split, GREY),
            ecolor="black", error_kw={"linewidth": 1}, label=split_name(split),
        )  # fmt: skip
        axes.plot(part["null_mean"], y, linestyle="", markersize=6, **cross)
        axes.plot(part["holistic_mean"], y, linestyle="", markersize=5, **diamond)
        for at in y[np.isnan(value)]:
            axes.text(0.01, at, "undefined", va="center", fontsize=8)
    axes.set_yticks(range(len(names)), [MEASURE_NAMES[name] for name in names])
    axes.invert_yaxis()
    axes.axvline(0, color=GREY, linewidth=0.8)
    axes.set_xlim(np.nanmin([0.0, *summary["low"]]), 1.05)
    axes.set_xlabel("value; best is 1, but 0 for the error")
    marks = [
        Line2D([], [], linestyle="", label="shuffled over inputs", **cross),
        Line2D([], [], linestyle="", label="shuffled over meanings", **diamond),
    ]
    handles = [*axes.get_legend_handles_labels()[0], *marks]
    axes.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.35, -0.13), ncols=2)


def _draw_information(axes: Axes, table: pd.DataFrame) -> None:
    rows = [group for _, group in table.groupby("feature", sort=False)]
    bits = np.stack([group["information"].to_numpy()[:-1] for group in rows])  # the last: sentences
    tokens = list(rows[0]["token"])[:-1]
    most = max(float(np.nanmax(bits, initial=0)), 0.01)
    image = axes.imshow(bits, cmap=WHITE_TO_BLUE, vmin=0, vmax=most, aspect="auto")
    axes.set_yticks(range(len(rows)), [plain(group["feature"].iloc[0]) for group in rows])
    every = max(1, len(tokens) // 24)
    axes.set_xticks(range(0, len(tokens), every), tokens[::every])
    axes.set_xlabel("token")
    add_scale(axes, image, "I(token; feature), bits")
