"""Trajectories of latent states in their principal plane: many classes, one exemplar, and an animation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
import torch
from matplotlib.animation import PillowWriter
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from torch import Tensor

from plot_attractors.attractor import AttractorModel
from plot_attractors.data import HierarchicalBinaryVectors
from plot_attractors.em import in_use_threshold
from plot_attractors.figures import BLUE, CLASS_COLOURS, CRIMSON, GREY, PURPLE, save, style
from plot_attractors.sampling import LENGTHS, is_listed, nearest_distance, require_listed

if TYPE_CHECKING:
    from plot_attractors.runs import Run

__all__ = ["CAPTIONS", "TITLE", "analyze", "applies"]

TITLE = "Trajectories"
CAPTIONS = {
    "trajectories": (
        "Latent states from the initial one to the last, projected onto the first two principal components. (A) "
        "Five exemplars of each of ten classes, a trajectory each, coloured by class. (B) Many trajectories from "
        "one exemplar, enlarged: the dynamics are stochastic, so that one input is described by several sentences. "
        "Black: initial states z0; blue: states after T steps; red: embeddings of the sentences in use. (C) "
        "Distance of the states of (A) and (B) to the nearest embedding over five times T steps, median and middle "
        "half; the dotted line is the distance that exact samples have."
    ),
    "settling": "The trajectories of panel A, step by step up to twice T; red dots are embeddings of sentences in use.",
}

CLASSES, EXEMPLARS = 10, 5
DRAWS = 50  # trajectories of the one exemplar
USE_INPUTS = 512  # inputs that tell which sentences are in use
TRAIL = 6  # steps that a point of the animation leaves behind it
FRAMES_A_SECOND = 8
HOLD = 8  # times that the last frame is shown


class Panel(NamedTuple):
    """Trajectories z (steps + 1, B, d), and the colour of each."""

    title: str
    z: Tensor
    colours: list[str]


def applies(run: Run) -> bool:
    """Whether the run's model has attractors and sentences that can be listed."""
    return is_listed(run.model)


@torch.no_grad()
def analyze(run: Run, out: Path) -> None:
    """Write ``summary.csv``, the figure ``trajectories`` and the animation ``settling.gif`` into ``out``.

    ``summary.csv`` (panel, t, distance, low, high, variance1, variance2): median and quartiles over trajectories of the
    distance to the nearest ẑ at time t, and the shares of the variance of the panel's states up to T in the first two
    components, which are fitted to the states of both panels up to T and to the embeddings in use. Raises ValueError
    where sentences are too many to list. Source: the paper's figure of trajectories.
    """
    model = require_listed(run.model)
    x, colours = _exemplars(run)
    one = x[len(x) // 2]
    panels = [
        Panel(f"{len(x)} exemplars of {len(set(colours))} classes", _simulate(model, x), colours),
        Panel(f"One exemplar, {DRAWS} trajectories", _simulate(model, one.expand(DRAWS, -1)), [GREY] * DRAWS),
    ]
    used = model.log_posterior(model.encode(run.data.batch(USE_INPUTS).x).distribution).exp().mean(0)
    embeddings = model.embeddings()[used > in_use_threshold(len(used))]
    states = [panel.z[: model.steps + 1].flatten(0, 1) for panel in panels]
    center, plane = _principal_plane(torch.cat([*states, embeddings]))

    rows = []
    for name, panel, state in zip("AB", panels, states, strict=True):
        along = ((state - state.mean(0)) @ plane).var(0) / state.var(0).sum()
        quartiles = nearest_distance(model, panel.z).quantile(torch.tensor([0.25, 0.5, 0.75]), 1).T
        for t, (low, median, high) in enumerate(quartiles.tolist()):
            rows.append((name, t, median, low, high, float(along[0]), float(along[1])))
    table = pd.DataFrame(rows, columns=["panel", "t", "distance", "low", "high", "variance1", "variance2"])
    table.to_csv(out / "summary.csv", index=False)

    flat = [panel._replace(z=(panel.z - center) @ plane) for panel in panels]
    points = ((embeddings - center) @ plane).numpy()
    noise = model.embeddings()[torch.randint(len(used), (2000,))]
    floor = float(nearest_distance(model, noise + model.epsilon * torch.randn_like(noise)).median())
    with style():
        save(_draw(flat, points, table, model.steps, floor), out / "trajectories")
        _animate(flat[0], points, model.steps, out / "settling.gif")


def _exemplars(run: Run) -> tuple[Tensor, list[str]]:
    """Exemplars x, and a colour for each one's class: nodes of the tree, values of the first label, or rows."""
    data = run.data
    if isinstance(data, HierarchicalBinaryVectors):
        # all of one generation where it is large enough, spread from left to right
        depths = data.depths[data.train_classes]
        enough = [d for d in range(1, data.depth + 1) if int((depths == d).sum()) >= CLASSES]
        nodes = data.train_classes[depths == (enough[0] if enough else data.depth)]
        chosen = nodes[torch.linspace(0, len(nodes) - 1, min(CLASSES, len(nodes))).round().long()]
        x = data.exemplars(chosen.repeat_interleave(EXEMPLARS))
        return x, [CLASS_COLOURS[k % len(CLASS_COLOURS)] for k in range(len(chosen)) for _ in range(EXEMPLARS)]
    batch = data.batch(100 * CLASSES * EXEMPLARS)
    classes = batch.labels[:, 0] if batch.labels.shape[1] else batch.y
    names, counts = classes[classes >= 0].unique(return_counts=True)
    chosen = names[counts.argsort(descending=True)[:CLASSES]]
    rows = [torch.nonzero(classes == name).flatten()[:EXEMPLARS] for name in chosen]
    return batch.x[torch.cat(rows)], [CLASS_COLOURS[k] for k, of in enumerate(rows) for _ in of]


def _simulate(model: AttractorModel, x: Tensor) -> Tensor:
    encoding = model.encode(x)
    return model.trajectories(encoding.z0, LENGTHS[-1] * model.steps, encoding.context)


def _principal_plane(points: Tensor) -> tuple[Tensor, Tensor]:
    """Mean (d,) and the two directions (d, 2) of greatest variance of points (n, d), their largest entries positive."""
    center = points.mean(0)
    directions = torch.linalg.svd(points - center, full_matrices=False).Vh[:2].T
    largest = directions.gather(0, directions.abs().argmax(0, keepdim=True))
    return center, directions * largest.sign()


def _draw(panels: list[Panel], points: np.ndarray, table: pd.DataFrame, steps: int, floor: float) -> Figure:
    figure = Figure(figsize=(12, 8.2), layout="constrained")
    grid = figure.add_gridspec(2, 2, height_ratios=[1.9, 1])
    for column, (name, panel) in enumerate(zip("AB", panels, strict=True)):
        axes = figure.add_subplot(grid[0, column])
        z = panel.z[: steps + 1].numpy()
        size, alpha, order = (7, 0.45, 1) if name == "A" else (16, 0.8, 3)
        axes.scatter(points[:, 0], points[:, 1], s=size, color=CRIMSON, alpha=alpha, linewidths=0, zorder=order)
        lines = LineCollection(list(z.transpose(1, 0, 2)), colors=panel.colours, linewidths=0.8, alpha=0.8, zorder=2)
        axes.add_collection(lines, autolim=False)
        axes.scatter(z[-1, :, 0], z[-1, :, 1], s=20, color=BLUE, edgecolors="white", linewidths=0.4, zorder=3)
        axes.scatter(z[0, :, 0], z[0, :, 1], s=20, color="black", edgecolors="white", linewidths=0.4, zorder=4)
        shares = table[table["panel"] == name].iloc[0]
        axes.set_title(f"{name}  {panel.title}")
        axes.set_xlabel(f"first component ({shares['variance1']:.0%} of these states' variance)")
        axes.set_ylabel(f"second component ({shares['variance2']:.0%})")
        low, high = _bounds(panel, points if name == "A" else points[:0], steps)  # B is a part of A, enlarged
        axes.set_xlim(low[0], high[0])
        axes.set_ylim(low[1], high[1])
    axes = figure.add_subplot(grid[1, :])
    for name, colour in (("A", BLUE), ("B", PURPLE)):
        part = table[table["panel"] == name]
        axes.fill_between(part["t"], part["low"], part["high"], color=colour, alpha=0.2, linewidth=0)
        axes.plot(part["t"], part["distance"], color=colour, label=f"states of panel {name}")
    axes.axhline(floor, color="black", linestyle=":", label="exact samples, N(ẑ, ε²)")
    axes.axvline(steps, color=GREY, linewidth=0.8)
    axes.text(steps, axes.get_ylim()[1], " T", va="top", color=GREY)
    axes.set_ylim(bottom=0)
    axes.set_xlim(0, table["t"].max())
    axes.set_title("C  Distance to the nearest embedding")
    axes.set_xlabel("step t")
    axes.set_ylabel("median distance")
    axes.legend(ncols=3, loc="upper right")
    figure.legend(handles=_handles(), loc="outside upper center", ncols=4)
    return figure


def _handles() -> list[Line2D]:
    def dot(colour: str, label: str) -> Line2D:
        return Line2D([], [], color=colour, marker="o", markersize=5, linestyle="", label=label)

    return [
        dot("black", "initial state z0"),
        Line2D([], [], color=GREY, linewidth=1, label="trajectory"),
        dot(BLUE, "state after T steps"),
        dot(CRIMSON, "embedding ẑ of a sentence in use"),
    ]


def _bounds(panel: Panel, points: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray]:
    everything = np.concatenate([panel.z[: steps + 1].flatten(0, 1).numpy(), points])
    margin = 0.04 * np.ptp(everything, axis=0)
    return everything.min(0) - margin, everything.max(0) + margin


def _animate(panel: Panel, points: np.ndarray, steps: int, path: Path) -> None:
    """States of a panel up to 2T with a fading trail, one frame a step."""
    z = panel.z[: 2 * steps + 1].numpy().transpose(1, 0, 2)
    figure = Figure(figsize=(5, 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.scatter(points[:, 0], points[:, 1], s=5, color=CRIMSON, alpha=0.45, linewidths=0)
    low, high = _bounds(panel, points, 2 * steps)
    axes.set_xlim(low[0], high[0])
    axes.set_ylim(low[1], high[1])
    axes.set_xlabel("first principal component")
    axes.set_ylabel("second principal component")
    trails = LineCollection([], linewidths=1, alpha=0.6)
    axes.add_collection(trails, autolim=False)
    dots = axes.scatter(z[:, 0, 0], z[:, 0, 1], s=24, c=panel.colours, edgecolors="white", linewidths=0.5, zorder=3)
    writer = PillowWriter(fps=FRAMES_A_SECOND)
    with writer.saving(figure, str(path), dpi=90):
        for t in [*range(2 * steps + 1), *[2 * steps] * HOLD]:
            trails.set_segments(list(z[:, max(0, t - TRAIL) : t + 1]))
            trails.set_color(panel.colours)
            dots.set_offsets(z[:, t])
            axes.set_title(f"step {t} of T = {steps}" if t <= steps else f"step {t}, {t - steps} after T")
            writer.grab_frame()
