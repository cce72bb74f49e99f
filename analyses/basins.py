"""Whether attractors sit at sentence embeddings: fixed points of the mean dynamics, and basins."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from scipy.ndimage import gaussian_filter
from torch import Tensor

from plot_attractors.analysis.parts import write
from plot_attractors.analysis.sampling import (
    noise_radius,
    sentences_in_use,
    used_axes,
)
from plot_attractors.analysis.shape import LISTED, PLANE, Needs
from plot_attractors.analysis.style import (
    BLUE,
    CRIMSON,
    GREEN,
    GREY,
    LIGHT_GREY,
    ORANGE,
    add_scale,
)
from plot_attractors.measures.attractors import (
    Converged,
    Near,
    SmoothedMap,
    antithetic_draws,
    find_fixed_points,
    fixed_point_iteration,
    free_energy,
    kernel_regression,
    nearest,
    principal_plane,
)
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.ranges import Count, Size
from plot_attractors.runs import Run

TITLE = "Attractor basins"
SLOW = True
CAPTIONS = {
    "landscape": (
        "(A) The plane of the embeddings' first two principal components. Colour: free energy "
        "−log F; F is the flow at T averaged over inputs: N(ẑ_s, ε²), weighted by the posterior of "
        "s, other directions integrated out. Arrows: average steps of states that project there. "
        "(B) A plane through the most visited fixed point and two neighbours; black: borders "
        "between basins. Red rings: embeddings in use; dots: fixed points of the mean dynamics, "
        "filled if stable; in (B), those within 1.5 ε√d. If attractors sit at embeddings, every "
        "ring holds a dot; a dot without one is at a sentence that is not in use."
    ),
    "fixed_points": (
        "(A) Distance of stable fixed points to the nearest embedding; exact samples have 1; dots: "
        "points of the Gaussian with the embeddings' mean and covariance. (B) Eigenvalues: the "
        "share of a perturbation left after a step. (C) Sentences that flow to the same point."
    ),
}


@dataclass(frozen=True)
class Config:
    inputs: Size = 1000  # training inputs, a trajectory each
    random_states: Size = 1000  # random states, from which fixed points are sought, too
    controls: Count = 10_000  # points that know nothing of sentences
    pixels: Size = 360  # sides of the pictures


NEEDS = (
    LISTED
    & PLANE
    & Needs("forward dynamics that do not see the input", lambda run: not run.model.input_dependent)
)


# -- measures --------------------------------------------------------------------------------------


USE_INPUTS = 512  # that tell which sentences are in use
MOST_SENTENCES = 2000  # in use, that are followed; a random choice where there are more
DRAWS, FINE_DRAWS = 32, 256  # states of the cloud whose centre is followed; for eigenvalues
ITERATIONS = 60  # of the mean dynamics, at most
ARROWS = 36  # on each side of the plane of two principal components
CUT_PIXELS = 48  # sides of the cut, of its flow and its basins
STEP_TOLERANCE = 0.01  # a centre has converged when it moves less than this many ε in a step
SOLVED = 0.001  # a fixed point is solved to this many ε
SAME = 0.1  # fixed points nearer than this many ε√d are one
INSIDE = 0.25  # a centre that converged nearer to a stable fixed point is in its basin, ε√d
NEAR = 1.5  # a fixed point is at an embedding when it is nearer than this many ε√d
KINDS = ("stable", "saddle", "repeller")


class SentencesInUse(NamedTuple):
    """Rows (S,) of the language, ẑ (S, d) and mean probability (S,)."""

    rows: Tensor
    embedding: Tensor
    probability: Tensor

    @classmethod
    def of(cls, model: AttractorModel, x: Tensor) -> SentencesInUse:
        """Those in use for inputs x (B, …), a random choice where there are too many."""
        rows = torch.nonzero(sentences_in_use(model, x)).flatten()
        rows = rows[torch.randperm(len(rows))[:MOST_SENTENCES].sort().values]
        probability = model.posterior.log_prob(model.encode(x).distribution).exp().mean(0)
        return cls(rows, model.embeddings()[rows], probability[rows])


def gaussian_like(points: Tensor, n: int) -> Tensor:
    """(n, d) draws from the Gaussian with the mean and the covariance, which may be singular, of
    points (N, d).
    """
    centered = points - points.mean(0)
    scale = math.sqrt(max(1, len(points) - 1))
    return points.mean(0) + torch.randn(n, len(points)) @ centered / scale


def share(mask: Tensor) -> float:
    """The share of true entries, NaN where there are none at all."""
    return float(mask.double().mean())


class Basins:
    r"""The mean dynamics F of a model, its fixed points, and what flows to each.

    .. math:: F(z) = E_η[μ(z + εη)], \quad η \sim N(0, 1), \quad μ(z) = E[z_{t+1} | z_t = z].

    F is where the centre of a cloud of states of width ε, that of N(ẑ_s, ε²), is after one step. μ
    itself has no fixed points: its step, max_step · sigmoid(m) · v/‖v‖, is never 0 and changes its
    direction at once where v = 0, at an attractor. F is smooth, and by Stein's identity its
    Jacobian is the share of a perturbation of the centre that is left. η are fixed draws, so that F
    has no noise. t is T + 1: the learned start vector (t = 0) is left out, and from T on dynamics
    that see the time no longer change.

    States that start at `starts` follow F until they converge; where they end is merged, refined by
    Newton's method and merged again by single linkage. Newton's method from half way between
    neighbouring stable points finds unstable ones, not all of them. A state is in the basin of the
    stable fixed point that F takes it to. Distances to embeddings are in the d axes that embeddings
    use, in units of ε√d, `unit`.

    `starts` are states (n, d) beside the embeddings of sentences in use: "data", of trajectories at
    T, and "random".
    """

    def __init__(
        self, model: AttractorModel, sentences: SentencesInUse, starts: Mapping[str, Tensor]
    ) -> None:
        self.model, self.sentences = model, sentences
        self.unit, self.axes = noise_radius(model), used_axes(model)
        self.f = self._smoothed(DRAWS)
        starts = {"sentences": sentences.embedding, **starts}
        ends = {name: self.iterate(z) for name, z in starts.items()}
        points = find_fixed_points(
            self.f.linearize,
            torch.cat([end.z[end.converged] for end in ends.values()]),
            tolerance=SOLVED * model.epsilon,
            same=SAME * self.unit,
            reach=self.unit,
            judge=self._smoothed(FINE_DRAWS).linearize,
        )
        count = self._counts(points.basin(ends["data"].z, INSIDE * self.unit), len(points.stable))
        order = count.argsort(descending=True, stable=True)
        self.points = points[torch.cat([order, torch.arange(len(order), len(points.z))])]
        self.basins = {name: self.basin(end.z) for name, end in ends.items()}

    def _smoothed(self, draws: int) -> SmoothedMap:
        """F, of as many draws, or twice as many as there are dimensions."""
        model = self.model
        eta = antithetic_draws(max(draws, 2 * model.latent), model.latent).to(model.embeddings())
        # dynamics that see no input ignore the third argument
        mean = lambda z: model.transition(z, float(model.steps + 1), z).loc  # noqa: E731
        return SmoothedMap(mean, model.epsilon, eta)

    def iterate(self, z: Tensor) -> Converged:
        """The ends of states (n, d) that follow F, and which of them converged."""
        tolerance = STEP_TOLERANCE * self.model.epsilon
        return fixed_point_iteration(self.f, z, tolerance, ITERATIONS)

    @staticmethod
    def _counts(basin: Tensor, n: int) -> Tensor:
        return torch.bincount(basin[basin >= 0], minlength=n)

    def basin(self, z: Tensor) -> Tensor:
        """(n,) the stable fixed point that each end (n, d) is at, −1 for none."""
        return self.points.basin(z, INSIDE * self.unit)

    def nearest(self, z: Tensor, to: Tensor) -> Near:
        """The nearest of points (m, d) to each of z (n, d), in the axes that embeddings use."""
        near = nearest(z[:, self.axes], to[:, self.axes])
        return near._replace(distance=near.distance / self.unit)

    def fixed_points(self) -> pd.DataFrame:
        """A row for each fixed point, stable ones first, by ``data``.

        - ``kind``: stable (all moduli below 1), repeller (none) or saddle; ``modulus1`` …;
        - ``sentence``, ``distance``: the nearest in use;
        - ``sentences``: those in use in its basin; ``posterior``: their summed probability, the
          mean of P(s | x) over inputs;
        - ``data``, ``random``: shares of the ends of these states in its basin;
        - ``z1`` …. Unstable ones have no basin: NaN.
        """
        model, points, sentences = self.model, self.points, self.sentences
        n, stable, d = len(points.z), len(points.stable), points.z.shape[-1]

        def of_stable(values: Tensor) -> np.ndarray:
            return np.concatenate([values.double().numpy(), np.full(n - stable, np.nan)])

        kinds = [KINDS[0 if k == 0 else 2 if k == d else 1] for k in points.unstable.tolist()]
        columns: dict[str, Any] = {"kind": kinds}
        columns |= {f"modulus{k + 1}": points.moduli[:, k].numpy() for k in range(d)}
        near = self.nearest(points.z, sentences.embedding)
        rows = sentences.rows[near.row].tolist()
        columns["sentence"] = [model.language.name(model.sentences[k]) for k in rows]
        columns["distance"] = near.distance.numpy()
        basin = self.basins["sentences"]
        columns["sentences"] = of_stable(self._counts(basin, stable))
        mass = torch.zeros(stable, dtype=torch.float64)
        probability = sentences.probability.double()[basin >= 0]
        columns["posterior"] = of_stable(mass.index_add(0, basin[basin >= 0], probability))
        for name in ("data", "random"):
            count = self._counts(self.basins[name], stable)
            columns[name] = of_stable(count.double() / len(self.basins[name]))
        columns |= {f"z{k + 1}": points.z[:, k].numpy() for k in range(d)}
        return pd.DataFrame(columns)

    def summary(self, table: pd.DataFrame, control: Tensor, z0: Tensor) -> dict[str, float]:
        """Numbers of all fixed points; NaN: there is nothing to count. Controls are of points (n,
        d) that know nothing of sentences, and of the states z0 (n, d) of inputs.

        - ``fixed_points``, ``stable``, ``unstable``: how many were found;
        - ``near``: share of stable ones within 1.5 of an embedding in use; ``near_control``: of
          points that know nothing of sentences;
        - ``sentences``: in use; ``attracting``: share of them with a stable fixed point within 1.5;
          ``attracting_control``: of points that know nothing of sentences;
        - ``spectral_radius``: median of the largest eigenvalue modulus of stable fixed points;
        - ``sentences_per_basin``: mean over basins that hold a sentence in use;
        - ``data_at_embeddings``: share of data trajectories in basins whose fixed point is within
          1.5 of an embedding in use; ``data_control``: share of z0 that are that near to one.
        """
        stable = table[table["kind"] == "stable"]
        near = torch.from_numpy((stable["distance"] < NEAR).to_numpy(copy=True))
        data, embedding = self.basins["data"], self.sentences.embedding

        def reached(z: Tensor, to: Tensor) -> float:
            return share(self.nearest(z, to).distance < NEAR)

        return {
            "fixed_points": len(table),
            "stable": len(stable),
            "unstable": len(table) - len(stable),
            "near": share(near),
            "near_control": reached(control, embedding),
            "sentences": len(self.sentences.rows),
            "attracting": reached(embedding, self.points.stable),
            "attracting_control": reached(control, self.points.stable),
            "spectral_radius": float(stable["modulus1"].median()),
            "sentences_per_basin": float(stable.loc[stable["sentences"] > 0, "sentences"].mean()),
            "data_at_embeddings": share(torch.isin(data, near.nonzero().flatten())),
            "data_control": reached(z0, embedding),
        }


LEAST_SUPPORT = 3  # states that an average step needs


def landscape(basins: Basins, visited: Tensor, pixels: int) -> dict[str, np.ndarray]:
    """What the figure shows of the plane of two principal components, and of a plane cut
    through three stable fixed points, where there are so many.

    Names begin with the plane's: ``…_window`` (2, 2) its corners; ``…_energy`` (n, n) −log F,
    nats; ``…_flow`` (m, m, 2) mean steps, NaN where few of the states `visited` (N, d) tell
    them; ``…_embeddings``, ``…_stable`` and ``…_unstable`` (k, 2); ``cut_basins`` (m, m).
    """
    sentences, epsilon = basins.sentences, basins.model.epsilon
    weights = sentences.probability / sentences.probability.sum()
    view = View.principal(sentences.embedding, basins.unit)
    spots = view.project(sentences.embedding)
    arrays = _points(basins, "plane", view, math.inf)
    energy = free_energy(view.grid(pixels), spots, weights, epsilon)
    arrays["plane_energy"] = energy.view(pixels, pixels).numpy()
    steps = (basins.f.mean(visited) - visited) @ view.axes
    bandwidth = 0.7 * float(view.high[0] - view.low[0]) / (ARROWS - 1)
    at, origins = view.grid(ARROWS), view.project(visited)
    flow, support = kernel_regression(at, origins, steps, bandwidth)
    flow[support < LEAST_SUPPORT] = math.nan
    arrays["plane_flow"] = flow.view(ARROWS, ARROWS, 2).numpy()

    cut = View.through(basins.points.stable, basins.unit)
    if cut is not None:
        arrays |= _points(basins, "cut", cut, NEAR * basins.unit)
        at = cut.lift(cut.grid(pixels // 2))
        energy = free_energy(at, sentences.embedding, weights, epsilon)
        arrays["cut_energy"] = energy.view(pixels // 2, pixels // 2).numpy()
        z = cut.lift(cut.grid(CUT_PIXELS))
        flow, basin = (basins.f(z) - z) @ cut.axes, basins.basin(basins.iterate(z).z)
        arrays["cut_flow"] = flow.view(CUT_PIXELS, CUT_PIXELS, 2).numpy()
        arrays["cut_basins"] = basin.view(CUT_PIXELS, CUT_PIXELS).numpy()
    return arrays


def _points(basins: Basins, name: str, view: View, reach: float) -> dict[str, np.ndarray]:
    """Places (k, 2) in the window of a plane of points no further than `reach` from it."""
    arrays = {f"{name}_window": torch.stack([view.low, view.high]).numpy()}
    points = {
        "embeddings": basins.sentences.embedding,
        "stable": basins.points.stable,
        "unstable": basins.points.z[basins.points.unstable > 0],
    }
    for kind, z in points.items():
        u = view.project(z[view.distance(z) <= reach])
        inside = ((u >= view.low) & (u <= view.high)).all(-1)
        arrays[f"{name}_{kind}"] = u[inside].numpy()
    return arrays


class View(NamedTuple):
    """A plane: a point (d,) in it, two orthonormal directions (d, 2), and the corners (2,) of the
    window that is shown of it.
    """

    origin: Tensor
    axes: Tensor
    low: Tensor
    high: Tensor

    @classmethod
    def principal(cls, points: Tensor, unit: float) -> View:
        """The plane of greatest variance of points (n, d)."""
        center, directions = principal_plane(points)
        window = square_window((points - center) @ directions, 0.08, 2 * unit)
        return cls(center, directions, *window)

    @classmethod
    def through(cls, points: Tensor, unit: float) -> View | None:
        """The plane through the first of points (n, d) and those two of its nearest five that span
        the fullest triangle; None for fewer than three points.
        """
        if len(points) < 3:
            return None
        first = points[0]
        sides = points[(points - first).norm(dim=-1).argsort()[1:6]] - first
        i, j = torch.triu_indices(len(sides), len(sides), 1)
        along = torch.nn.functional.normalize(sides[i], dim=-1)
        across = sides[j] - (sides[j] * along).sum(-1, keepdim=True) * along
        lengths = [part.norm(dim=-1) for part in (sides[i], sides[j], sides[i] - sides[j])]
        area = across.norm(dim=-1) * sides[i].norm(dim=-1)
        best = int((area / torch.stack(lengths).amax(0) ** 2).argmax())
        second = torch.nn.functional.normalize(across[best], dim=-1)
        axes = torch.stack([along[best], second], -1)
        corners = torch.stack([torch.zeros(2), sides[i][best] @ axes, sides[j][best] @ axes])
        return cls(first, axes, *square_window(corners, 0.9, unit / 2))

    def project(self, z: Tensor) -> Tensor:
        """(…, d) → (…, 2)."""
        return (z - self.origin) @ self.axes

    def lift(self, u: Tensor) -> Tensor:
        """(…, 2) → (…, d), the points of the plane itself."""
        return self.origin + u @ self.axes.T

    def distance(self, z: Tensor) -> Tensor:
        """(…) from the plane."""
        return (z - self.lift(self.project(z))).norm(dim=-1)

    def grid(self, n: int) -> Tensor:
        """(n · n, 2) points of a grid in the window, row by row."""
        sides = zip(self.low.tolist(), self.high.tolist(), strict=True)
        x, y = (torch.linspace(low, high, n) for low, high in sides)
        return torch.stack(torch.meshgrid(x, y, indexing="xy"), -1).flatten(0, 1)


def square_window(u: Tensor, margin: float, least: float) -> tuple[Tensor, Tensor]:
    """Corners of a square that holds points u (n, 2) and a margin, a share of its side, which is at
    least 2 · `least` without the margin.
    """
    middle = (u.amax(0) + u.amin(0)) / 2
    half = max(float((u.amax(0) - u.amin(0)).max()) / 2, least) * (1 + margin)
    return middle - half, middle + half


@torch.no_grad()
def measure(run: Run, config: Config) -> dict[str, Any]:
    """Fixed points of the mean dynamics and their basins, see `basins.Basins`.

    ``summary.csv``, one row, see its ``summary``; ``fixed_points.csv``, see ``fixed_points``;
    ``landscape.npz`` and ``controls.npz``: what the figures show besides.

    Raises ValueError where sentences cannot be listed, for one latent dimension, and for dynamics
    that see the input. Source: the paper's claim that attractors sit at sentence embeddings.
    """
    model = run.model
    sentences = SentencesInUse.of(model, run.data.batch(USE_INPUTS).x)
    encoding = model.encode(run.data.batch(config.inputs).x)
    z = model.trajectories(encoding.z0)
    random = gaussian_like(encoding.z0, config.random_states)
    starts = {"data": z[-1], "random": random}
    basins = Basins(model, sentences, starts)
    table = basins.fixed_points()
    control = gaussian_like(sentences.embedding, config.controls)
    summary = pd.DataFrame([basins.summary(table, control, encoding.z0)])
    paths = z, model.trajectories(random)
    visited = torch.cat([path[1 : model.steps].flatten(0, 1) for path in paths])
    return {
        "summary.csv": summary,
        "fixed_points.csv": table,
        "landscape.npz": landscape(basins, visited, config.pixels),
        "controls.npz": {"distance": basins.nearest(control, sentences.embedding).distance.numpy()},
    }


# -- figures ---------------------------------------------------------------------------------------


ENERGY_RANGE = 12.0  # nats above the lowest that are drawn
WHITE_TO_BLUE = LinearSegmentedColormap.from_list("wells", ["#08395E", BLUE, "#9CCBE6", "#F4F9FC"])
LOOKS: dict[str, dict[str, Any]] = {  # of points, the last on top
    "unstable": {
        "facecolors": "white", "edgecolors": "black", "label": "unstable fixed point",
    },
    "embeddings": {
        "facecolors": "none", "edgecolors": CRIMSON, "label": "embedding ẑ of a sentence in use",
    },
    "stable": {"facecolors": ORANGE, "edgecolors": "black", "label": "stable fixed point"},
}  # fmt: skip
LINES = [
    Line2D([], [], color=GREY, linewidth=0.8, label="mean flow"),
    Line2D([], [], color="black", linewidth=1.0, label="border between basins (B)"),
]


def draw_landscape(maps: Mapping[str, np.ndarray]) -> Figure:
    """Two planes, from the arrays of `landscape`."""
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
    points = left.get_legend_handles_labels()[0]
    figure.legend(handles=[*points, *LINES], loc="outside upper center", ncols=5)
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
    sizes = (6, thin), (30, thick), (9, thin)
    for order, ((kind, look), (area, width)) in enumerate(
        zip(LOOKS.items(), sizes, strict=True), 2
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


def draw_fixed_points(table: pd.DataFrame, control: np.ndarray) -> Figure:
    """Distances, eigenvalues and sentences of fixed points, from the analysis' tables."""
    figure = Figure(figsize=(14, 4), layout="constrained")
    a, b, c = figure.subplots(1, 3)
    stable = table[table["kind"] == "stable"]
    _draw_distances(a, stable, control)
    if table.empty:
        write(b, "no fixed point was found")
    else:
        _draw_moduli(b, table)
    if stable.empty:
        write(c, "no stable fixed point was found")
    else:
        _draw_sentences(c, stable)
    for axes, title, x, y in (
        (a, "A  Distance to the nearest embedding", "distance, in units of ε√d", "share"),
        (b, "B  Eigenvalues of the Jacobian", "modulus (share of a perturbation left after a step)",
         "fixed points"),
        (c, "C  Sentences in use that share a basin",
         "sentences in the basin of a stable fixed point", "stable fixed points"),
    ):  # fmt: skip
        axes.set(title=title, xlabel=x, ylabel=y)
    return figure


def _draw_distances(axes: Axes, stable: pd.DataFrame, control: np.ndarray) -> None:
    bins = np.geomspace(0.005, 50, 49)

    def draw(values: Any, **look: Any) -> None:
        weights = np.full(len(values), 1 / len(values))
        axes.hist(np.clip(values, bins[0], bins[-1]), bins.tolist(), weights=weights, **look)

    if len(stable):
        draw(stable["distance"], color=BLUE, alpha=0.75, label="stable fixed points")
    line: Any = {"histtype": "step", "linewidth": 1.5, "linestyle": ":"}
    draw(control, **line, color=GREEN, label="Gaussian points")
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


def draw(tables: dict[str, Any]) -> dict[str, Any]:
    """The landscape, and the fixed points."""
    points = draw_fixed_points(tables["fixed_points.csv"], tables["controls.npz"]["distance"])
    return {"landscape": draw_landscape(tables["landscape.npz"]), "fixed_points": points}
