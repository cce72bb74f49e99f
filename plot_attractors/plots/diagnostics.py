"""Importance weights, a predictive check, and the distribution function of information loss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from plot_attractors.plots.parts import note, write
from plot_attractors.plots.style import BLUE, GREY, LIGHT_BLUE, ORANGE, RED

UNTRUSTED = 0.7  # k̂ above which weights cannot be trusted


def plot(tables: Mapping[str, Any]) -> dict[str, Figure]:
    """Figure ``diagnostics``: three panels of bits, two of images, which have no ``ones.npz``."""
    bits, summary = "ones.npz" in tables, tables["summary.csv"]
    figure = Figure(figsize=(12 if bits else 8, 4), layout="constrained")
    panels = figure.subplots(1, 3 if bits else 2)
    _draw_weights(panels[0], summary)
    if bits:
        checks = tables["checks.csv"].set_index("statistic")
        _draw_ones(panels[1], **tables["ones.npz"], p=checks.loc["ones", "p_total"])
        _draw_loss(panels[2], tables["ecdf.csv"], tables["losses.csv"].iloc[0])
    else:
        _draw_rewards(panels[1], summary)
    return {"diagnostics": figure}


def _draw_weights(axes: Axes, summary: pd.DataFrame) -> None:
    known = summary[np.isfinite(summary["pareto_k"])]
    axes.scatter(known["pareto_k"], known["ess"], s=22, color=BLUE, alpha=0.7, linewidths=0)
    axes.axvline(UNTRUSTED, ymax=0.87, color=RED, linewidth=1.4, linestyle="--")
    axes.set_ylim(0, 1.25 * summary["ess"].max())
    middle = summary[["pareto_k", "ess"]].median()
    text = f"median k̂ {middle['pareto_k']:.2f}, median size {middle['ess']:.1f}"
    if len(known) < len(summary):
        text += f"\n{len(summary) - len(known)} inputs without a finite k̂"
    note(axes, text)
    axes.set(title="A  Importance weights", xlabel="k̂, tail of the weights of an input")
    axes.set_ylabel("effective sample size")


def _draw_rewards(axes: Axes, summary: pd.DataFrame) -> None:
    look: dict[str, Any] = {"s": 22, "color": BLUE, "alpha": 0.7, "linewidths": 0}
    axes.scatter(summary["length"], summary["log_reward"], **look)
    axes.set(title="B  Rewards and lengths", xlabel="tokens in a sentence, mean of an input")
    axes.set_ylabel("log R(s; x), nats, mean of an input")


def _draw_ones(axes: Axes, observed: np.ndarray, replicated: np.ndarray, p: float) -> None:
    observed, replicated = np.sort(observed), np.sort(replicated, axis=-1)
    share = np.arange(1, len(observed) + 1) / len(observed)
    height = np.append(0, np.repeat(share, 2)[:-1])
    steps = [np.column_stack([np.repeat(ones, 2), height]) for ones in replicated]
    axes.add_collection(LineCollection(steps, colors=LIGHT_BLUE, linewidths=0.7, alpha=0.35))
    axes.plot(np.repeat(observed, 2), height, color="black", linewidth=1.8)
    axes.set(xlim=(0, 1.05 * max(observed[-1], replicated.max())), ylim=(0, 1.02))
    handles = [
        Line2D([], [], color="black", linewidth=1.8, label="inputs"),
        Line2D([], [], color=LIGHT_BLUE, linewidth=1.4, label="replicates"),
    ]
    title = f"p-value of the sum {p:.2f}"
    axes.legend(handles=handles, loc="lower right", title=title, title_fontsize=9)
    axes.set(title="B  Predictive check", xlabel="number of 1s")
    axes.set_ylabel("share of inputs with at most as many")


def _draw_loss(axes: Axes, ecdf: pd.DataFrame, number: pd.Series) -> None:
    axes.set(title="C  Information loss against Geometric(½)", xlabel="d, bits lost")
    axes.set_ylabel("ECDF − Geometric(½)")
    axes.axhline(0, color=ORANGE, linewidth=1.4, linestyle="--")
    if ecdf.empty:
        write(axes, "every draw has d < 0")
        return
    band: dict[str, Any] = {"step": "post", "color": GREY, "alpha": 0.25, "linewidth": 0}
    axes.fill_between(ecdf["d"], ecdf["low"], ecdf["high"], **band)
    axes.step(ecdf["d"], ecdf["difference"], where="post", color=BLUE, linewidth=2)
    note(axes, f"{number['kept']} draws with d ≥ 0, {number['negative']} with d < 0")
