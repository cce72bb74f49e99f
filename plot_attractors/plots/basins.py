"""Figures of basins: the landscape that states move in, and the fixed points of the dynamics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from scipy.ndimage import gaussian_filter

from plot_attractors.plots.parts import write
from plot_attractors.plots.style import (
    BLUE,
    CRIMSON,
    GREEN,
    GREY,
    LIGHT_GREY,
    ORANGE,
    PURPLE,
    add_scale,
)

ENERGY_RANGE = 12.0  # nats above the lowest that are drawn
NEAR = 1.5  # ε√d within which a fixed point is at an embedding
WHITE_TO_BLUE = LinearSegmentedColormap.from_list("wells", ["#08395E", BLUE, "#9CCBE6", "#F4F9FC"])
EMBEDDING: dict[str, Any] = {"facecolors": "none", "edgecolors": CRIMSON}
STABLE: dict[str, Any] = {"facecolors": ORANGE, "edgecolors": "black"}
UNSTABLE: dict[str, Any] = {"facecolors": "white", "edgecolors": "black"}


def draw_landscape(maps: Mapping[str, np.ndarray]) -> Figure:
    """Two planes, from the arrays of `plot_attractors.evaluation.landscape.landscape`."""
    figure = Figure(figsize=(13, 6.9), layout="compressed")
    left, right = figure.subplots(1, 2)
    image = _draw_plane(left, maps, "plane", density=1.5, size=1.0)
    left.set_title("A  Seen from above: the plane of two principal components")
    left.set(xlabel="first principal component", ylabel="second principal component")
    if "cut_window" in maps:
        _draw_plane(right, maps, "cut", density=1.2, size=3.2)
        right.set(title="B  A cut through three neighbouring wells", xlabel="distance in the plane")
        right.set_ylabel("distance in the plane")
    else:
        write(right, "fewer than three stable fixed points")
        right.set_box_aspect(1)
    add_scale(right, image, "−log F above its minimum in either plane, nats", shrink=0.75)
    figure.legend(handles=_handles(), loc="outside upper center", ncols=5)
    return figure


def _draw_plane(
    axes: Axes, maps: Mapping[str, np.ndarray], name: str, density: float, size: float
) -> Any:
    """Energy, flow, borders between basins, and embeddings and fixed points as dots of a size."""
    low, high = maps[f"{name}_window"]
    energy, flow = maps[f"{name}_energy"], maps[f"{name}_flow"]
    image = axes.imshow(
        energy - energy.min(),
        extent=(low[0], high[0], low[1], high[1]),
        origin="lower",
        cmap=WHITE_TO_BLUE,
        vmin=0,
        vmax=ENERGY_RANGE,
        interpolation="bilinear",
        zorder=0,
    )
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    x, y = np.linspace(low.astype(float), high.astype(float), len(flow)).T
    u, v = flow.transpose(2, 0, 1)
    if np.isfinite(u).sum() >= 4:
        lines: Any = {"color": GREY, "linewidth": 0.6, "arrowsize": 0.7, "zorder": 1}
        axes.streamplot(x, y, u, v, density=density, **lines)
    if f"{name}_basins" in maps:
        _draw_borders(axes, x, y, maps[f"{name}_basins"])
    thin, thick = 0.35 * size**0.5, 0.7 * size**0.5
    for kind, area, width, look, order in (
        ("unstable", 6, thin, UNSTABLE, 2),
        ("embeddings", 30, thick, EMBEDDING, 3),
        ("stable", 9, thin, STABLE, 4),
    ):
        at = maps[f"{name}_{kind}"]
        axes.scatter(at[:, 0], at[:, 1], s=area * size, linewidths=width, zorder=order, **look)
    return image


def _draw_borders(axes: Axes, x: np.ndarray, y: np.ndarray, basin: np.ndarray) -> None:
    """Lines between the cells (len(y), len(x)) of different basins, smoothed over about a cell."""
    inside = np.stack([gaussian_filter((basin == k).astype(float), 0.8) for k in np.unique(basin)])
    for k in range(len(inside) if len(inside) > 1 else 0):
        lead = inside[k] - np.delete(inside, k, 0).max(0)
        axes.contour(x, y, lead, levels=[0.0], colors="black", linewidths=1.0, zorder=1.5)


def _handles() -> list[Line2D]:
    def dot(label: str, look: dict[str, Any], size: int, width: float) -> Line2D:
        colours: Any = {
            "markerfacecolor": look["facecolors"],
            "markeredgecolor": look["edgecolors"],
        }
        shape: Any = {"marker": "o", "linestyle": "", "markersize": size, "markeredgewidth": width}
        return Line2D([], [], label=label, **shape, **colours)

    return [
        dot("embedding ẑ of a sentence in use", EMBEDDING, 8, 1.0),
        dot("stable fixed point", STABLE, 5, 0.5),
        dot("unstable fixed point", UNSTABLE, 5, 0.5),
        Line2D([], [], color=GREY, linewidth=0.8, label="mean flow"),
        Line2D([], [], color="black", linewidth=1.0, label="border between basins (B)"),
    ]


def draw_fixed_points(table: pd.DataFrame, shares: pd.DataFrame, control: np.ndarray) -> Figure:
    """Distances, eigenvalues, sentences and shares of fixed points, from the analysis' tables."""
    figure = Figure(figsize=(11, 8), layout="constrained")
    (a, b), (c, d) = figure.subplots(2, 2)
    stable = table[table["kind"] == "stable"]
    _draw_distances(a, stable, control)
    if table.empty:
        write(b, "no fixed point was found")
    else:
        _draw_moduli(b, table)
    if stable.empty:
        for axes in (c, d):
            write(axes, "no stable fixed point was found")
    else:
        _draw_sentences(c, stable)
        _draw_shares(d, stable, shares)
    for axes, title, x, y in (
        (a, "A  Distance to the nearest embedding", "distance, in units of ε√d", "share"),
        (b, "B  Eigenvalues of the Jacobian", "modulus (share of a perturbation left after a step)",
         "fixed points"),
        (c, "C  Sentences in use that share a basin",
         "sentences in the basin of a stable fixed point", "stable fixed points"),
        (d, "D  Basin shares", "basins, the most probable first", "mean share of a basin"),
    ):  # fmt: skip
        axes.set(title=title, xlabel=x, ylabel=y)
    return figure


def _draw_distances(axes: Axes, stable: pd.DataFrame, control: np.ndarray) -> None:
    bins = np.geomspace(0.005, 50, 49)

    def draw(values: Any, **look: Any) -> None:
        weights = np.full(len(values), 1 / len(values))
        axes.hist(np.clip(values, bins[0], bins[-1]), bins.tolist(), weights=weights, **look)

    line = {"histtype": "step", "linewidth": 1.5}
    if len(stable):
        draw(stable["distance"], color=BLUE, alpha=0.75, label="stable, to a sentence in use")
        draw(stable["distance_any"], **line, color=PURPLE, label="to any sentence")
    draw(control, **line, linestyle=":", color=GREEN, label="Gaussian points")
    axes.axvline(NEAR, color=GREY, linestyle="--", linewidth=1, label=f"{NEAR:g} ε√d")
    axes.set(xscale="log", xlim=(bins[0], bins[-1]))
    axes.margins(y=0.3)
    axes.legend(loc="upper left")


def _draw_moduli(axes: Axes, table: pd.DataFrame) -> None:
    stable, others = table[table["kind"] == "stable"], table[table["kind"] != "stable"]
    names = [name for name in stable.columns if name.startswith("modulus")]
    bins = np.linspace(0.4, 2.4, 81)  # what lies outside is counted in the outermost bars

    def draw(values: Any, **look: Any) -> None:
        axes.hist(np.clip(values, bins[0], bins[-1]), bins.tolist(), **look)

    rest, n = stable[names[1:]].to_numpy().ravel(), len(names) - 1
    label = f"stable: the other {n}, count ÷ {n}"
    draw(rest, weights=np.full(len(rest), 1 / n), color=LIGHT_GREY, label=label)
    draw(stable["modulus1"], color=BLUE, alpha=0.75, label="stable: the largest")
    outline = {"histtype": "step", "linewidth": 1.6}
    draw(others["modulus1"], color=ORANGE, label="unstable: the largest", **outline)
    axes.set_xlim(bins[0], bins[-1])
    axes.axvline(1, color="black", linestyle=":", linewidth=1.2)
    axes.legend(loc="upper right")


def _draw_sentences(axes: Axes, stable: pd.DataFrame) -> None:
    counts = stable["sentences"].astype(int).value_counts().sort_index()
    bars = axes.bar(counts.index, counts.to_numpy(), width=0.7, color=BLUE)
    axes.bar_label(bars, padding=2, fontsize=9)
    axes.margins(y=0.12)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))


def _draw_shares(axes: Axes, stable: pd.DataFrame, shares: pd.DataFrame) -> None:
    posterior = stable["posterior"].sort_values(ascending=False).to_numpy()
    rank = np.arange(1, len(stable) + 1)[posterior > 0]
    label = "posterior of its sentences"
    axes.plot(rank, posterior[posterior > 0], color=ORANGE, linewidth=2, label=label)
    for name, colour, label in (
        ("data", BLUE, "ends of data trajectories"),
        ("random", GREEN, "random states"),
    ):
        # a logarithmic axis has no 0
        part = shares[(shares["start"] == name) & (shares["share"] > 0)]
        y = part["share"]
        error = np.stack([y - part["low"], part["high"] - y]).clip(min=0)
        points: Any = {"fmt": "o", "markersize": 4.5, "linewidth": 1.2, "color": colour}
        axes.errorbar(part["rank"], y, error, label=label, **points)
    axes.set(yscale="log", xlim=(0, len(stable) + 1))
    axes.margins(y=0.12)
    axes.legend(loc="best")
