"""Learned sentences of a table beside conjunctions: divergences, translations, and examples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from plot_attractors.plots.style import BLUE, GREY, ORANGE, plain

MOST_COLUMNS, MOST_SENTENCES = 40, 18


def draw_table(tables: Mapping[str, Any]) -> dict[str, Figure]:
    """Figure ``table``, of training rows."""
    summary, translations = tables["summary.csv"], tables["translations.csv"]
    of = summary[(summary["split"] == "train") & (summary["column"] != "all")]
    whole = summary[(summary["split"] == "train") & (summary["column"] == "all")].iloc[0]
    of = of.sort_values("js", ascending=False, kind="stable")[:MOST_COLUMNS]
    figure = Figure(figsize=(13, 9), layout="constrained")
    grid = figure.add_gridspec(2, 2, height_ratios=[1, 1.15])
    axes = figure.add_subplot(grid[0, :])
    x = np.arange(len(of))
    axes.errorbar(x, of["js"], [of["js"] - of["low"], of["high"] - of["js"]], fmt="o", color=BLUE,
                  capsize=2, label="sentences and conjunctions")  # fmt: skip
    axes.plot(x, of["floor"], color=GREY, linestyle="--", label="as many draws of the grammar")
    axes.plot(x, of["shuffled"], color=ORANGE, linestyle=":", label="answer to another input")
    axes.set_xticks(x, [plain(str(name)) for name in of["column"]], rotation=90, fontsize=7)
    mean = f"{whole['js']:.3f}, another input {whole['shuffled']:.3f}"
    axes.set(title=f"A  How far answers are apart (mean {mean} bits)", ylim=(0, None))
    axes.set_ylabel("Jensen-Shannon divergence, bits")
    axes.legend()
    _draw_residuals(figure.add_subplot(grid[1, 0]), translations)
    _draw_translations(figure.add_subplot(grid[1, 1]), translations)
    return {"table": figure}


def _draw_residuals(axes: Axes, table: pd.DataFrame) -> None:
    for name, colour, label in (
        ("residual", BLUE, "sentences"), ("dealt", ORANGE, "columns dealt anew"),
    ):  # fmt: skip
        part = table.sort_values(name)
        share = (
            part["usage"].cumsum()
            if name == "residual"
            else np.arange(1, len(part) + 1) / len(part)
        )
        axes.step(part[name], share, where="post", color=colour, label=label)
    axes.set(title="B  Translated to the nearest conjunction", ylim=(0, 1), xlim=(0, None))
    axes.set(xlabel="divergence, bits, mean over columns", ylabel="share of sentences")
    axes.legend(loc="lower right")


def _draw_translations(axes: Axes, table: pd.DataFrame) -> None:
    axes.set_axis_off()
    axes.set_title("C  The sentences used most, and their conjunctions")
    shown = table[:MOST_SENTENCES]
    for row, (_, of) in enumerate(shown.iterrows()):
        y = 1 - (row + 0.7) / MOST_SENTENCES
        axes.text(0.0, y, plain(of["sentence"], 20), fontsize=8, va="center")
        axes.text(0.24, y, f"{of['usage']:.1%}", fontsize=8, va="center", ha="right", color=GREY)
        axes.text(0.27, y, plain(of["expression"], 60), fontsize=8, va="center")
        axes.text(1.0, y, f"{of['residual']:.2f}", fontsize=8, va="center", ha="right", color=GREY)
