"""Whether attractors sit at sentence embeddings: fixed points of the mean dynamics, their
stability, their basins.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

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

from plot_attractors.evaluation.metrics import in_use, total_variation
from plot_attractors.evaluation.metrics.attractors import (
    SmoothedMap,
    antithetic_draws,
    binomial_interval,
    free_energy,
    kernel_regression,
    nearest,
    settle,
    single_linkage,
    solve_fixed_points,
    stability,
)
from plot_attractors.evaluation.sampling import (
    LENGTHS,
    is_listed,
    require_bits,
    require_listed,
    shows_bits,
)
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.plots.style import (
    BLUE,
    CRIMSON,
    GREEN,
    GREY,
    LIGHT_GREY,
    ORANGE,
    PURPLE,
    add_scale,
    save,
    style,
)
from plot_attractors.training.em import in_use_threshold

if TYPE_CHECKING:
    from plot_attractors.runs import Run

__all__ = ["CAPTIONS", "TITLE", "analyze", "applies"]

TITLE = "Attractor basins"
CAPTIONS = {
    "landscape": (
        "The landscape that states move in. (A) The plane of the first two principal components of "
        "the embeddings. "
        "Colour: free energy −log F, where F is the flow at time T averaged over inputs, a mixture "
        "of one Gaussian "
        "N(ẑ_s, ε²) for every sentence in use, weighted as by the exact posterior, integrated over "
        "all other "
        "directions of the latent space; dark is where trained states should end, the palest 12 "
        "nats or more above. "
        "Arrows: the average step of states whose shadow lies there, from trajectories of inputs "
        "and of random "
        "states; they say how states travel on average, not where a single one goes, as many wells "
        "at different "
        "depths share a place in the plane. (B) A plane cut through the most visited fixed point "
        "and two of its "
        "neighbours, with nothing integrated out: colour is −log F at the very points of the "
        "plane, arrows the part "
        "of the mean step that lies in it, black lines the borders between basins. Red rings: "
        "embeddings of "
        "sentences in use; filled dots: stable fixed points of the mean dynamics; open dots: "
        "unstable ones, the "
        "passes between wells; in (B), those no further from the plane than 1.5 ε√d. If attractors "
        "sit at "
        "embeddings, every ring holds a dot, and no dot is without a ring: a dot without one in "
        "(A) may sit at the "
        "embedding of a sentence that is not in use."
    ),
    "fixed_points": (
        "Fixed points of the mean dynamics. (A) How far stable ones are from the nearest embedding "
        "of a sentence in "
        "use, and from that of any sentence, in units of ε√d, which is how far exact samples are "
        "from theirs; and "
        "the same for points drawn from the Gaussian that has the embeddings' mean and covariance, "
        "which is what "
        "fixed points would show that know nothing of sentences. (B) Moduli of the eigenvalues of "
        "the Jacobian: the "
        "largest of each fixed point, and all others. Below 1 a perturbation shrinks in that "
        "direction, in one step "
        "to this share of its size; above 1 it grows. (C) How many sentences in use flow to the "
        "same fixed point. "
        "(D) Basins in the order of the probability that the exact posterior gives to the "
        "sentences in them, "
        "averaged over inputs (line), and, for groups of basins, the mean share of a basin among "
        "end states of "
        "trajectories of inputs and among random states, with 95 % intervals. Where the blue dots "
        "follow the line, "
        "basins are visited as often as their sentences are true of inputs; random states show how "
        "large the basins "
        "are."
    ),
}

INPUTS = 1000  # training inputs, a trajectory each
RANDOM = 1000  # random states
USE_INPUTS = 512  # inputs that tell which sentences are in use
MOST = 2000  # sentences in use that are followed; a random choice where there are more
DRAWS = 64  # states of the cloud whose centre is followed
FINE_DRAWS = 256  # the same, for eigenvalues
ITERATIONS = 60  # of the mean dynamics, at most
AT_REST = 0.01  # a centre is at rest when it moves less than this many ε in a step
SOLVED = 0.001  # a fixed point is solved to this many ε
SAME = 0.1  # fixed points nearer than this many ε√d are one
ARRIVED = (
    0.25  # a centre at rest is in the basin of the stable fixed point nearer than this many ε√d
)
NEIGHBOURS = 3  # of each stable fixed point: half way to them, unstable ones are looked for
NEAR = 1.5  # a fixed point is at an embedding when it is nearer than this many ε√d
CONTROLS = 10_000  # points without meaning
REPEATS = 50  # of the draws that tell the noise of the basins' total variation
SAME_MEANING = (
    2  # bits by which sentences of one meaning may differ, as in the analysis of perturbations
)
PIXELS, ARROWS, SLICE = 360, 36, 48  # of the pictures' sides
GROUPS = 16  # of basins in the picture of their shares
ENERGY_RANGE = 12.0  # nats above the lowest that are drawn

WHITE_TO_BLUE = LinearSegmentedColormap.from_list("wells", ["#08395E", BLUE, "#9CCBE6", "#F4F9FC"])
KINDS = ("stable", "saddle", "repeller")


class Sentences(NamedTuple):
    """Sentences in use: rows (S,) of the language, ẑ (S, d), probability (S,), and the bits (S, N)
    decoded at ẑ.
    """

    rows: Tensor
    embedding: Tensor
    probability: Tensor
    bits: Tensor


@dataclass(frozen=True)
class FixedPoints:
    """Fixed points z (n, d), stable ones first, with their eigenvalues' moduli (n, d), largest
    first.
    """

    z: Tensor
    moduli: Tensor
    unstable: Tensor
    """(n,) number of moduli above 1."""

    @property
    def stable(self) -> Tensor:
        """(m, d) the stable ones."""
        return self.z[self.unstable == 0]

    def __getitem__(self, index: Tensor) -> FixedPoints:
        return FixedPoints(self.z[index], self.moduli[index], self.unstable[index])


def applies(run: Run) -> bool:
    """Whether inputs are bits, and the run's model has attractors in two or more dimensions,
    sentences that can be listed, and dynamics that do not see the input.
    """
    return shows_bits(run.data) and is_listed(run.model) and not _unfit(run.model)


@torch.no_grad()
def analyze(run: Run, out: Path) -> None:
    r"""Write ``summary.csv``, ``fixed_points.csv`` and the figures ``landscape`` and
    ``fixed_points`` into ``out``.

    The mean dynamics are those of the centre of a cloud of states,

    .. math:: F(z) = E_η[μ(z + εη)], \quad η \sim N(0, 1), \quad μ(z) = E[z_{t+1} | z_t = z].

    The plain mean μ has no fixed points: its step, max_step · sigmoid(m) · v/‖v‖, is never 0 and
    changes its direction
    at once where v = 0, which is what happens at an attractor. States near one are not at a point,
    either, but a cloud of width ε, the width N(ẑ_s, ε²) that training asks for. F says where the
    centre of such a cloud is after one step; it is smooth, and its Jacobian, by Stein's identity,
    is the share of a perturbation of the centre that is left. η are fixed draws, so that F has no
    noise. The learned start vector (t = 0) is left out: t is T + 1, after which dynamics that see
    the time no longer change.

    Centres start at every sentence in use, at z_T of a trajectory from each of some training
    inputs, and at random states, N(mean, covariance) of these inputs' z0. They follow F until they
    rest; resting places are merged, refined by Newton's method and merged again by single linkage.
    Newton's method from half way between neighbouring stable points finds unstable ones, not all of
    them. A state is in the basin of the stable fixed point that F takes it to. Distances are in
    units of ε√d.

    ``summary.csv``, one row (NaN: there is nothing to count):

    - ``fixed_points``, ``stable``, ``unstable``: how many were found;
    - ``near``: share of stable fixed points within 1.5 of an embedding in use; ``near_any``: of any
      sentence's embedding; ``near_control``: the first for points of the Gaussian with the mean and
      covariance of the embeddings in use;
    - ``distance``, ``distance_control``: median distance to the nearest embedding in use of either;
    - ``sentences``: sentences in use; ``attracting``: share of them with a stable fixed point
      within 1.5; ``attracting_control``: the same share of the Gaussian's points;
    - ``spectral_radius``: median of the largest eigenvalue modulus of stable fixed points;
    - ``sentences_per_basin``: mean over basins that hold a sentence in use;
    - ``synonyms_together``: of pairs of sentences in use whose decoded bits differ in two or fewer,
      the share in one basin; ``pairs_together``: of all pairs; ``same_meaning``: of pairs in one
      basin, the share that are synonyms;
    - ``data_at_embeddings``, ``random_at_embeddings``: share of data trajectories, and of random
      states, in basins whose fixed point is within 1.5 of an embedding in use;
    - ``data_settled``, ``random_settled``: share that come to rest in a basin at all;
    - ``kept``: of the data trajectories whose state at T is in a basin, the share whose state at 5T
    is in the same one;
    - ``basin_tv``: total variation between the shares of basins of data trajectories and
      ``posterior`` below, each normalised; ``basin_tv_floor``: its mean for as many draws from the
      latter as trajectories settled.

    ``fixed_points.csv``, a row for each, stable ones first, by ``data``: ``kind`` (stable: all
    moduli below 1; repeller: none; saddle); ``modulus1`` … ``modulus<d>``; ``sentence``,
    ``distance``: the nearest one in use; ``distance_any``: to the nearest of all sentences;
    ``sentences``: those in use in its basin; ``posterior``: their summed probability, mean of P(s |
    x) over inputs; ``data``, ``random``: basin shares with ``_low``, ``_high``, their 95 %
    intervals (Wilson); ``z1`` … ``z<d>``. Unstable ones have no basin: NaN.

    Raises ValueError where sentences cannot be listed, for one latent dimension, and for dynamics
    that see the input, which have a landscape of their own for every input. Source: the paper's
    claim that attractors sit at sentence embeddings.
    """
    model = require_listed(run.model)
    require_bits(run.data)
    if reason := _unfit(model):
        raise ValueError(f"{reason}: leave this analysis out")
    unit = model.epsilon * math.sqrt(model.latent)
    everything = model.embeddings()
    probability = model.log_posterior(model.encode(run.data.batch(USE_INPUTS).x).distribution).exp()
    used = in_use(probability, in_use_threshold(len(everything)))
    rows = torch.nonzero(used).flatten()
    rows = rows[torch.randperm(len(rows))[:MOST].sort().values]
    bits = (model.decoder(everything[rows]).logits > 0).float()
    sentences = Sentences(rows, everything[rows], probability.mean(0)[rows], bits)

    encoding = model.encode(run.data.batch(INPUTS).x)
    z = model.trajectories(encoding.z0, LENGTHS[-1] * model.steps, encoding.context)
    starts = {
        "sentences": sentences.embedding,
        "data": z[model.steps],
        "later": z[-1],
        "random": _gaussian_like(encoding.z0, RANDOM),
    }
    centre = _cloud(model, DRAWS)
    ends = {
        name: settle(centre, z, AT_REST * model.epsilon, ITERATIONS) for name, z in starts.items()
    }
    points = _find(model, centre, torch.cat([end.z[end.at_rest] for end in ends.values()]), unit)
    order = _counts(_basins(ends["data"].z, points.stable, unit), len(points.stable))
    order = order.argsort(descending=True, stable=True)
    points = points[torch.cat([order, torch.arange(len(order), len(points.z))])]
    basins = {name: _basins(end.z, points.stable, unit) for name, end in ends.items()}

    table = _tabulate(model, points, sentences, basins, unit)
    table.to_csv(out / "fixed_points.csv", index=False)
    control = _gaussian_like(sentences.embedding, CONTROLS)
    summary = _summarize(table, points, sentences, basins, control, unit)
    pd.DataFrame([summary]).to_csv(out / "summary.csv", index=False)
    paths = (z, model.trajectories(starts["random"]))
    visited = torch.cat([path[1 : model.steps].flatten(0, 1) for path in paths])
    with style():
        save(_draw_landscape(model, centre, points, sentences, visited, unit), out / "landscape")
        control_distance = (nearest(control, sentences.embedding).distance / unit).numpy()
        save(_draw_fixed_points(table, control_distance), out / "fixed_points")


def _unfit(model: AttractorModel) -> str:
    """Why fixed points of this model make no sense; empty where they do."""
    if model.latent < 2:
        return f"the latent space has {model.latent} dimension, and a landscape needs two"
    if getattr(model.forward_dynamics, "context", 0):
        return "the forward dynamics see the input, so that every input has fixed points of its own"
    return ""


def _cloud(model: AttractorModel, draws: int) -> SmoothedMap:
    """F, of as many draws, or twice as many as there are dimensions."""
    eta = antithetic_draws(max(draws, 2 * model.latent), model.latent).to(model.embeddings())
    # dynamics that see no input ignore the third argument
    return SmoothedMap(
        lambda z: model.forward_dynamics(z, float(model.steps + 1), z).loc, model.epsilon, eta
    )


def _gaussian_like(points: Tensor, n: int) -> Tensor:
    """(n, d) draws from the Gaussian with the mean and the covariance of points (N, d), which may
    be singular.
    """
    centered = points - points.mean(0)
    return points.mean(0) + torch.randn(n, len(points)) @ centered / math.sqrt(
        max(1, len(points) - 1)
    )


def _find(model: AttractorModel, centre: SmoothedMap, resting: Tensor, unit: float) -> FixedPoints:
    """Fixed points at resting places (n, d), and half way between neighbouring ones."""

    def solve(starts: Tensor) -> Tensor:
        solved = solve_fixed_points(centre.linearize, starts, SOLVED * model.epsilon, reach=unit)
        return solved.z[solved.at_rest]

    found = solve(_merge(resting, unit))
    known = _merge(found, unit)
    k = min(NEIGHBOURS, len(known) - 1)
    if k > 0:
        neighbours = torch.cdist(known, known).topk(k + 1, largest=False).indices[:, 1:]
        pairs = torch.stack(
            [torch.arange(len(known)).repeat_interleave(k), neighbours.flatten()], -1
        )
        found = torch.cat([found, solve(known[pairs.sort(-1).values.unique(dim=0)].mean(1))])
    z = _merge(found, unit)
    moduli, unstable = stability(_cloud(model, FINE_DRAWS).linearize(z)[1])
    return FixedPoints(z, moduli, unstable)[unstable.argsort(stable=True)]


def _merge(z: Tensor, unit: float) -> Tensor:
    """One of each group of points (n, d) that single linkage joins, the first."""
    labels = single_linkage(z, SAME * unit).numpy()
    return z[torch.from_numpy(np.unique(labels, return_index=True)[1])]


def _basins(z: Tensor, stable: Tensor, unit: float) -> Tensor:
    """(n,) the stable fixed point that each resting place (n, d) is, −1 for none."""
    near = nearest(z, stable)
    return torch.where(near.distance < ARRIVED * unit, near.row, -1)


def _counts(basin: Tensor, n: int) -> Tensor:
    return torch.bincount(basin[basin >= 0], minlength=n)


def _tabulate(
    model: AttractorModel,
    points: FixedPoints,
    sentences: Sentences,
    basins: dict[str, Tensor],
    unit: float,
) -> pd.DataFrame:
    n, stable, d = len(points.z), len(points.stable), points.z.shape[-1]

    def column(values: Tensor) -> np.ndarray:
        return np.concatenate([values.double().numpy(), np.full(n - stable, np.nan)])

    kinds = [KINDS[0 if k == 0 else 2 if k == d else 1] for k in points.unstable.tolist()]
    columns: dict[str, Any] = {"kind": kinds}
    columns |= {f"modulus{k + 1}": points.moduli[:, k].numpy() for k in range(d)}
    near = nearest(points.z, sentences.embedding)
    columns["sentence"] = [
        model.language.name(model.sentences[sentences.rows[k]]) for k in near.row.tolist()
    ]
    columns["distance"] = (near.distance / unit).numpy()
    columns["distance_any"] = (nearest(points.z, model.embeddings()).distance / unit).numpy()
    of_sentence = basins["sentences"]
    columns["sentences"] = column(_counts(of_sentence, stable))
    probability = sentences.probability.double()
    mass = torch.zeros(stable, dtype=torch.float64)
    columns["posterior"] = column(
        mass.index_add(0, of_sentence[of_sentence >= 0], probability[of_sentence >= 0])
    )
    for name in ("data", "random"):
        count = _counts(basins[name], stable)
        low, high = binomial_interval(count, len(basins[name]))
        columns |= {
            name: column(count.double() / len(basins[name])),
            f"{name}_low": column(low),
            f"{name}_high": column(high),
        }
    columns |= {f"z{k + 1}": points.z[:, k].numpy() for k in range(d)}
    return pd.DataFrame(columns)


def _summarize(
    table: pd.DataFrame,
    points: FixedPoints,
    sentences: Sentences,
    basins: dict[str, Tensor],
    control: Tensor,
    unit: float,
) -> dict[str, float]:
    stable = table[table["kind"] == "stable"]
    near = torch.from_numpy((stable["distance"] < NEAR).to_numpy(copy=True))
    of_control = nearest(control, sentences.embedding).distance / unit
    attracted = nearest(sentences.embedding, points.stable).distance / unit
    basin = basins["sentences"]
    together = (basin[:, None] == basin) & (basin >= 0)[:, None]
    bits = sentences.bits
    synonyms = bits @ (1 - bits).T + (1 - bits) @ bits.T <= SAME_MEANING
    pairs = torch.ones_like(together).triu(1)

    def share(of: Tensor, among: Tensor | None = None) -> float:
        of = of if among is None else of[among]
        return float(of.double().mean())  # NaN where there are none

    def at_embeddings(name: str) -> float:
        inside = basins[name] >= 0
        return share(inside) if not len(near) else share(inside & near[basins[name].clamp(min=0)])

    return {
        "fixed_points": len(table),
        "stable": len(stable),
        "unstable": len(table) - len(stable),
        "near": float((stable["distance"] < NEAR).mean()),
        "near_any": float((stable["distance_any"] < NEAR).mean()),
        "near_control": share(of_control < NEAR),
        "distance": float(stable["distance"].median()),
        "distance_control": float(of_control.median()),
        "sentences": len(basin),
        "attracting": share(attracted < NEAR),
        "attracting_control": share(nearest(control, points.stable).distance < NEAR * unit),
        "spectral_radius": float(stable["modulus1"].median()),
        "sentences_per_basin": float(stable.loc[stable["sentences"] > 0, "sentences"].mean()),
        "synonyms_together": share(together, pairs & synonyms),
        "pairs_together": share(together, pairs),
        "same_meaning": share(synonyms, pairs & together),
        "data_at_embeddings": at_embeddings("data"),
        "random_at_embeddings": at_embeddings("random"),
        "data_settled": share(basins["data"] >= 0),
        "random_settled": share(basins["random"] >= 0),
        "kept": share(basins["data"] == basins["later"], basins["data"] >= 0),
        **_basin_tv(stable, int((basins["data"] >= 0).sum())),
    }


def _basin_tv(stable: pd.DataFrame, draws: int) -> dict[str, float]:
    """The total variation of the laws of basins, and its floor; NaN where either law has no
    basin.
    """
    data, posterior = (
        torch.from_numpy(stable[name].to_numpy(copy=True)) for name in ("data", "posterior")
    )
    if not (data.sum() > 0 and posterior.sum() > 0):
        return {"basin_tv": math.nan, "basin_tv_floor": math.nan}
    data, posterior = data / data.sum(), posterior / posterior.sum()
    exact = torch.distributions.Multinomial(draws, posterior).sample(torch.Size([REPEATS])) / draws
    return {
        "basin_tv": float(total_variation(data, posterior)),
        "basin_tv_floor": float(total_variation(exact, posterior).mean()),
    }


# Figures.


class View(NamedTuple):
    """A plane: a point (d,) in it, two orthonormal directions (d, 2), and the corners (2,) of what
    is seen of it.
    """

    origin: Tensor
    axes: Tensor
    low: Tensor
    high: Tensor

    def project(self, z: Tensor) -> Tensor:
        """(…, d) → (…, 2)."""
        return (z - self.origin) @ self.axes

    def lift(self, u: Tensor) -> Tensor:
        """(…, 2) → (…, d), the points of the plane itself."""
        return self.origin + u @ self.axes.T

    def distance(self, z: Tensor) -> Tensor:
        """(…) from the plane."""
        return (z - self.lift(self.project(z))).norm(dim=-1)

    def grid(self, n: int) -> tuple[np.ndarray, np.ndarray, Tensor]:
        """Coordinates (n,) and (n,) of a grid, and its points (n · n, 2), row by row."""
        x, y = (
            torch.linspace(float(a), float(b), n) for a, b in zip(self.low, self.high, strict=True)
        )
        points = torch.stack(torch.meshgrid(x, y, indexing="xy"), -1).flatten(0, 1)
        return x.numpy(), y.numpy(), points


def _window(u: Tensor, margin: float, least: float) -> tuple[Tensor, Tensor]:
    """Corners of a square of side 2 · `least` or more that holds points u (n, 2), and a margin, a
    share of it.
    """
    middle = (u.amax(0) + u.amin(0)) / 2
    half = max(float((u.amax(0) - u.amin(0)).max()) / 2, least) * (1 + margin)
    return middle - half, middle + half


def _principal_view(points: Tensor, unit: float) -> View:
    origin = points.mean(0)
    directions = torch.linalg.svd(points - origin, full_matrices=True).Vh[:2].T
    largest = directions.gather(0, directions.abs().argmax(0, keepdim=True))
    directions = directions * largest.sign()
    return View(origin, directions, *_window((points - origin) @ directions, 0.08, 2 * unit))


def _slice_view(points: FixedPoints, unit: float) -> View | None:
    """The plane through the first stable fixed point and those two of its neighbours that span the
    fullest triangle.
    """
    stable = points.stable
    if len(stable) < 3:
        return None
    a = stable[0]
    sides = stable[(stable - a).norm(dim=-1).argsort()[1:6]] - a
    i, j = torch.triu_indices(len(sides), len(sides), 1)
    along = torch.nn.functional.normalize(sides[i], dim=-1)
    across = sides[j] - (sides[j] * along).sum(-1, keepdim=True) * along
    longest = torch.stack(
        [sides[i].norm(dim=-1), sides[j].norm(dim=-1), (sides[i] - sides[j]).norm(dim=-1)]
    ).amax(0)
    best = int((across.norm(dim=-1) * sides[i].norm(dim=-1) / longest**2).argmax())
    axes = torch.stack([along[best], torch.nn.functional.normalize(across[best], dim=-1)], -1)
    corners = torch.stack([torch.zeros(2), sides[i][best] @ axes, sides[j][best] @ axes])
    return View(a, axes, *_window(corners, 0.9, unit / 2))


def _draw_landscape(
    model: AttractorModel,
    centre: SmoothedMap,
    points: FixedPoints,
    sentences: Sentences,
    visited: Tensor,
    unit: float,
) -> Figure:
    figure = Figure(figsize=(13, 6.9), layout="compressed")
    left, right = figure.subplots(1, 2)
    weights = sentences.probability / sentences.probability.sum()

    view = _principal_view(sentences.embedding, unit)
    x, y, at = view.grid(PIXELS)
    energy = free_energy(at, view.project(sentences.embedding), weights, model.epsilon).unflatten(
        0, (PIXELS, PIXELS)
    )
    image = _draw_energy(left, x, y, energy)
    x, y, at = view.grid(ARROWS)
    steps = centre.mean(visited) - visited
    spacing = float(x[1] - x[0])
    drift, support = kernel_regression(at, view.project(visited), steps @ view.axes, 0.7 * spacing)
    drift[support < 3] = math.nan  # too few states to tell
    _draw_flow(left, x, y, drift, density=1.5)
    _draw_points(left, view, points, sentences, size=1.0, reach=math.inf)
    left.set_title("A  Seen from above: the plane of two principal components")
    left.set_xlabel("first principal component")
    left.set_ylabel("second principal component")

    cut = _slice_view(points, unit)
    if cut is None:
        _say(right, "fewer than three stable fixed points")
        right.set_box_aspect(1)
    else:
        x, y, at = cut.grid(PIXELS // 2)
        energy = free_energy(cut.lift(at), sentences.embedding, weights, model.epsilon)
        _draw_energy(right, x, y, energy.unflatten(0, (len(y), len(x))))
        x, y, at = cut.grid(SLICE)
        z = cut.lift(at)
        _draw_flow(right, x, y, (centre(z) - z) @ cut.axes, density=1.2)
        ends = settle(centre, z, AT_REST * model.epsilon, ITERATIONS).z
        basin = _basins(ends, points.stable, unit).unflatten(0, (SLICE, SLICE))
        _draw_borders(right, x, y, basin.numpy())
        _draw_points(right, cut, points, sentences, size=3.2, reach=NEAR * unit)
        right.set_title("B  A cut through three neighbouring wells")
        right.set_xlabel("distance in the plane")
        right.set_ylabel("distance in the plane")
    add_scale(right, image, "−log F above its minimum in either plane, nats", shrink=0.75)
    figure.legend(handles=_handles(), loc="outside upper center", ncols=5)
    return figure


def _say(axes: Axes, text: str) -> None:
    """Text in place of a picture."""
    axes.text(0.5, 0.5, text, ha="center", va="center", color=GREY, transform=axes.transAxes)
    axes.set_xticks([])
    axes.set_yticks([])


def _draw_energy(axes: Axes, x: np.ndarray, y: np.ndarray, energy: Tensor) -> Any:
    extent = (float(x[0]), float(x[-1]), float(y[0]), float(y[-1]))
    image = axes.imshow(
        (energy - energy.min()).numpy(), extent=extent, origin="lower", cmap=WHITE_TO_BLUE, vmin=0, vmax=ENERGY_RANGE,
        interpolation="bilinear", aspect="equal", zorder=0,
    )  # fmt: skip
    axes.set_xlim(extent[:2])
    axes.set_ylim(extent[2:])
    return image


def _draw_flow(axes: Axes, x: np.ndarray, y: np.ndarray, drift: Tensor, density: float) -> None:
    u, v = drift.unflatten(0, (len(y), len(x))).numpy().transpose(2, 0, 1)
    if np.isfinite(u).sum() < 4:
        return
    axes.streamplot(x, y, u, v, density=density, color=GREY, linewidth=0.6, arrowsize=0.7, zorder=1)


def _draw_borders(axes: Axes, x: np.ndarray, y: np.ndarray, basin: np.ndarray) -> None:
    """Lines between the cells (len(y), len(x)) of different basins, smoothed over about a cell."""
    inside = np.stack([gaussian_filter((basin == k).astype(float), 0.8) for k in np.unique(basin)])
    for k in range(len(inside) if len(inside) > 1 else 0):
        lead = inside[k] - np.delete(inside, k, 0).max(0)
        axes.contour(x, y, lead, levels=[0.0], colors="black", linewidths=1.0, zorder=1.5)


def _draw_points(
    axes: Axes, view: View, points: FixedPoints, sentences: Sentences, size: float, reach: float
) -> None:
    """Embeddings as rings, fixed points as dots, those no further than `reach` from the plane."""

    def scatter(z: Tensor, **options: Any) -> None:
        u = view.project(z[view.distance(z) <= reach]).numpy()
        inside = ((u >= view.low.numpy()) & (u <= view.high.numpy())).all(-1)
        axes.scatter(u[inside, 0], u[inside, 1], **options)

    scatter(
        points.z[points.unstable > 0], s=6 * size, facecolors="white", edgecolors="black", linewidths=0.35 * size**0.5,
        zorder=2,
    )  # fmt: skip
    scatter(
        sentences.embedding,
        s=30 * size,
        facecolors="none",
        edgecolors=CRIMSON,
        linewidths=0.7 * size**0.5,
        zorder=3,
    )
    scatter(
        points.stable,
        s=9 * size,
        color=ORANGE,
        edgecolors="black",
        linewidths=0.35 * size**0.5,
        zorder=4,
    )


def _handles() -> list[Line2D]:
    def dot(label: str, **options: Any) -> Line2D:
        return Line2D([], [], marker="o", linestyle="", label=label, **options)

    return [
        dot(
            "embedding ẑ of a sentence in use",
            markersize=8,
            markerfacecolor="none",
            markeredgecolor=CRIMSON,
        ),
        dot(
            "stable fixed point",
            markersize=5,
            color=ORANGE,
            markeredgecolor="black",
            markeredgewidth=0.5,
        ),
        dot(
            "unstable fixed point",
            markersize=5,
            color="white",
            markeredgecolor="black",
            markeredgewidth=0.5,
        ),
        Line2D([], [], color=GREY, linewidth=0.8, label="mean flow"),
        Line2D([], [], color="black", linewidth=1.0, label="border between basins (B)"),
    ]


def _draw_fixed_points(table: pd.DataFrame, control: np.ndarray) -> Figure:
    figure = Figure(figsize=(11, 8), layout="constrained")
    (a, b), (c, d) = figure.subplots(2, 2)
    stable = table[table["kind"] == "stable"]
    _draw_distances(a, stable, control)
    for axes, draw, part in (
        (b, _draw_moduli, table),
        (c, _draw_sentences, stable),
        (d, _draw_shares, stable),
    ):
        if part.empty:
            _say(
                axes, "no fixed point was found" if axes is b else "no stable fixed point was found"
            )
        else:
            draw(axes, part)
    b.set_title("B  Eigenvalues of the Jacobian")
    b.set_xlabel("modulus (share of a perturbation left after a step)")
    b.set_ylabel("fixed points")
    c.set_title("C  Sentences in use that share a basin")
    c.set_xlabel("sentences in the basin of a stable fixed point")
    c.set_ylabel("stable fixed points")
    d.set_title("D  Basin shares")
    d.set_xlabel("basins, the most probable first")
    d.set_ylabel("mean share of a basin")
    return figure


def _draw_distances(axes: Axes, stable: pd.DataFrame, control: np.ndarray) -> None:
    bins = np.geomspace(0.005, 50, 49)

    def shares(values: Any) -> dict[str, Any]:
        return {
            "x": np.clip(values, bins[0], bins[-1]),
            "bins": bins,
            "weights": np.full(len(values), 1 / len(values)),
        }

    if len(stable):
        axes.hist(
            **shares(stable["distance"]),
            color=BLUE,
            alpha=0.75,
            label="stable, to a sentence in use",
        )
        axes.hist(
            **shares(stable["distance_any"]),
            histtype="step",
            color=PURPLE,
            linewidth=1.5,
            label="to any sentence",
        )
    axes.hist(
        **shares(control),
        histtype="step",
        color=GREEN,
        linestyle=":",
        linewidth=1.8,
        label="Gaussian points",
    )
    axes.axvline(NEAR, color=GREY, linestyle="--", linewidth=1, label=f"{NEAR:g} ε√d")
    axes.set_xscale("log")
    axes.set_xlim(bins[0], bins[-1])
    axes.margins(y=0.3)
    axes.legend(loc="upper left")
    axes.set_title("A  Distance to the nearest embedding")
    axes.set_xlabel("distance, in units of ε√d")
    axes.set_ylabel("share")


def _draw_moduli(axes: Axes, table: pd.DataFrame) -> None:
    stable, others = table[table["kind"] == "stable"], table[table["kind"] != "stable"]
    names = [name for name in stable.columns if name.startswith("modulus")]
    bins = np.linspace(0.4, 2.4, 81)  # what lies outside is counted in the outermost bars
    others_of_stable = np.clip(stable[names[1:]].to_numpy().ravel(), bins[0], bins[-1])
    weights = np.full(len(others_of_stable), 1 / (len(names) - 1))
    label = f"stable: the other {len(names) - 1}, count ÷ {len(names) - 1}"
    axes.hist(others_of_stable, bins=bins.tolist(), weights=weights, color=LIGHT_GREY, label=label)
    largest = [part["modulus1"].clip(bins[0], bins[-1]) for part in (stable, others)]
    axes.hist(largest[0], bins=bins.tolist(), color=BLUE, alpha=0.75, label="stable: the largest")
    axes.hist(
        largest[1],
        bins=bins.tolist(),
        histtype="step",
        color=ORANGE,
        linewidth=1.6,
        label="unstable: the largest",
    )
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


def _draw_shares(axes: Axes, stable: pd.DataFrame) -> None:
    stable = stable.sort_values("posterior", ascending=False, kind="stable")
    rank = np.arange(1, len(stable) + 1)
    posterior = stable["posterior"].to_numpy()
    axes.plot(
        rank[posterior > 0],
        posterior[posterior > 0],
        color=ORANGE,
        linewidth=2,
        label="posterior of its sentences",
    )
    groups = np.array_split(np.arange(len(stable)), min(GROUPS, len(stable)))
    size = np.array([len(group) for group in groups])
    place = np.array([rank[group].mean() for group in groups])
    for name, colour, label in (
        ("data", BLUE, "ends of data trajectories"),
        ("random", GREEN, "random states"),
    ):
        share = np.array([stable[name].to_numpy()[group].sum() for group in groups])
        n = INPUTS if name == "data" else RANDOM
        low, high = (
            bound.numpy() for bound in binomial_interval(torch.from_numpy(share * n).round(), n)
        )
        shown = share > 0  # a logarithmic axis has no 0
        error = np.stack([share - low, high - share]).clip(min=0)[:, shown] / size[shown]
        axes.errorbar(place[shown], (share / size)[shown], error, color=colour, fmt="o", markersize=4.5,
                      linewidth=1.2, label=label)  # fmt: skip
    axes.set_yscale("log")
    axes.set_xlim(0, len(stable) + 1)
    axes.margins(y=0.12)
    axes.legend(loc="best")
