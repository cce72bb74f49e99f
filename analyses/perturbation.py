"""Whether embeddings are attractors: where states go that start beside one, by the size of the perturbation."""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator
from scipy.optimize import isotonic_regression
from torch import Tensor

from plot_attractors.attractor import AttractorModel
from plot_attractors.figures import BLUE, CRIMSON, GREEN, GREY, ORANGE, save, style
from plot_attractors.metrics.attractors import binomial_interval, nearest
from plot_attractors.metrics.bootstrap import resample
from plot_attractors.sampling import (
    LENGTHS,
    is_listed,
    require_bits,
    require_listed,
    sentences_in_use,
    settle,
    shows_bits,
)

if TYPE_CHECKING:
    from plot_attractors.runs import Run

__all__ = ["CAPTIONS", "TITLE", "Critical", "analyze", "applies", "critical_perturbation", "distances"]

TITLE = "Perturbation"
CAPTIONS = {
    "distances": (
        "How far a state ends from the embedding it was pushed away from. Each trajectory of an input is read as a "
        "sentence s; its embedding ẑ_s plus a perturbation ν of a random direction and the given size is a new start, "
        "which follows the dynamics for five times T steps. Left: distance of the end to ẑ_s. Right: to the nearest "
        "embedding, that of any sentence in use. Dashed: medians; thin lines: percentiles. The median on the left is "
        "flat as long as most states come back, and rises steeply at the critical perturbation (vertical line, band: "
        "95 % interval), from which on half of the states that would have come back do not: the radius of a typical "
        "basin. The median on the right is flat at any size: a state that has left its basin ends at another "
        "embedding. The norms are drawn as square roots, the distances on a logarithmic scale."
    ),
    "perturbation": (
        "Are embeddings of sentences attractors? States start beside the embedding of a sentence, perturbed in a "
        "random direction, and follow the dynamics for five times T steps. Left: share of states that end within "
        "three times ε√d of an embedding of the same meaning (solid, with 95 % intervals), whose nearest embedding "
        "has that meaning (dotted), or that are within three times ε√d of any embedding (dashed); size 1 is half the "
        "distance to the nearest sentence in use of another meaning. An attractor takes back perturbations smaller "
        "than its basin: solid lines are flat and fall beyond some size, while dashed lines stay at 1, since a state "
        "that has left one basin falls into another. Right: median distance of the last states to the embedding they "
        "started at (solid) and to the nearest one (dashed); dotted, ε√d, is how far exact samples are from their "
        "embedding. The solid lines are flat up to a critical size, the dashed ones at any size. Blue: starts at "
        "every sentence in use, equally often; orange: as often as trajectories say it."
    ),
}

INPUTS = 512  # inputs that tell which sentences are in use
TRAJECTORIES = 1000  # for each kind of start and each size
FACTORS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)  # sizes, in halves of the distance to another meaning
SAME_MEANING = 2  # bits by which sentences of one meaning may differ; a leaf of hierarchical binary vectors holds two
BACK = 2.0  # a state is back when it is nearer than this many median distances of states that nothing perturbs
RADIUS = 3.0  # a state is at an embedding when it is nearer than this many ε√d
ROWS = 4096  # states that follow the dynamics at once
CELLS = 4_000_000  # entries of a (states, sentences) table held at once
NORMS = tuple((k / 30) ** 2 for k in range(31))  # ‖ν‖ in largest distances between embeddings in use: dense near 0
NORM_STARTS = 500  # inputs whose sentences are perturbed by each
PERCENTILES = (5, 10, 25, 50, 75, 90, 95)
TARGETS = {"original": "Original ẑ_s", "nearest": "Nearest ẑ_n"}
STARTS = {"used": "sentences in use, equally often", "sampled": "as often as trajectories say them"}
COLOURS = {"used": BLUE, "sampled": ORANGE}


@dataclass(frozen=True)
class Sentences:
    """Some sentences' ẑ (n, d), and the bits (n, N) that the decoder reads there, 0 or 1."""

    embedding: Tensor
    bits: Tensor

    def __getitem__(self, index: Tensor) -> Sentences:
        return Sentences(self.embedding[index], self.bits[index])


class Distances(NamedTuple):
    """(K, n) distances of n last states to the ẑ_s that each started beside, perturbed by K norms, and to the nearest
    of all embeddings in use and ẑ_s.
    """

    original: Tensor
    nearest: Tensor


class Critical(NamedTuple):
    """The critical perturbation: its norm and 95 % interval, NaN where `reason` says why; `radius`, the distance
    within which a state counts as back; `kept`, the share of states that are back when nothing perturbs them.
    """

    norm: float
    low: float
    high: float
    radius: float
    kept: float
    reason: str


class Nearest(NamedTuple):
    """Distances (n,) to the nearest sentence in use of the same meaning and of another; ∞ where there is none."""

    same: Tensor
    other: Tensor


def applies(run: Run) -> bool:
    """Whether inputs are bits, and the run's model has attractors, sentences that can be listed, and a decoder that
    tells some apart.
    """
    if not is_listed(run.model) or not shows_bits(run.data):
        return False
    bits = _listed(run.model).bits.unique(dim=0)
    rows = bits.split(max(1, CELLS // len(bits)))
    return any(bool((_differing(part, bits) > SAME_MEANING).any()) for part in rows)  # the first rows tell, mostly


@torch.no_grad()
def analyze(run: Run, out: Path) -> None:
    """Write ``summary.csv``, ``norms.csv``, ``critical.csv`` and the figures ``distances`` and ``perturbation``.

    All states start at z = ẑ_s + ν, with ν in a uniformly random direction, and follow the forward dynamics for T' = 5T
    steps, see `plot_attractors.sampling.settle`. Distances are Euclidean, in units of the latent space.

    The paper's experiment has absolute norms ‖ν‖, from 0 to the largest distance between embeddings of sentences in
    use (of all sentences, where only one is in use); s is read at z_T of trajectories of training inputs; starts and
    directions are the same at every norm.

    - ``norms.csv`` (norm, target, within, p5, p10, p25, p50, p75, p90, p95): percentiles of the distance to the
      ``original`` ẑ_s and to the ``nearest`` of it and all sentences in use, exactly; share of states within the
      radius of ``critical.csv`` from it;
    - ``critical.csv`` (critical, low, high, radius, kept, reason, n, largest), a row: see `critical_perturbation`;
      ``n`` starts; ``largest``, the greatest norm.

    Two further starts have norms by the room that a sentence has, ‖ν‖ = factor · h_s, where h_s is half the
    distance from ẑ_s to the nearest ẑ of a sentence in use with another meaning. Two sentences mean the same where the
    bits that the decoder reads at their ẑ differ in two or fewer. ``summary.csv`` has a row for each kind of start and
    each factor:

    - ``start``: how s is drawn: ``used``, uniformly from the sentences in use, or ``sampled``, as read at the ends z_T
      of trajectories of training inputs;
    - ``factor``; ``norm``: median ‖ν‖;
    - ``recovered``: share of states that end nearer than 3 ε√d to ẑ_s or to the ẑ of a sentence in use of the same
      meaning; ``recovered_low``, ``recovered_high``: its 95 % interval (Wilson);
    - ``nearest_same``: share of states whose nearest embedding of these means the same, which is stricter where
      meanings lie nearer to each other than that radius;
    - ``settled``: share of states nearer than it to ẑ_s or to any sentence in use;
    - ``distance_to_start``, ``distance_to_nearest``: median distance to ẑ_s, and to the nearest of it and all in use.

    Sentences that no other meaning is in use beside are left out; where that is all of them, h_s is measured to all
    sentences instead. Raises ValueError where none has another meaning, and where
    sentences are too many to list. Source: Section *Attractor dynamics*, Fig. *perturbation*.
    """
    model = require_listed(run.model)
    require_bits(run.data)
    used = sentences_in_use(model, run.data.batch(INPUTS).x)
    sentences = _listed(model)
    starts = {
        "used": torch.nonzero(used).flatten()[torch.randint(int(used.sum()), (TRAJECTORIES,))],
        "sampled": _sampled(run, model, TRAJECTORIES),
    }
    rows = []
    for start, index in starts.items():
        half = _nearest(sentences.embedding[index], sentences[index], sentences[used]).other / 2
        if not half.isfinite().any():
            half = _nearest(sentences.embedding[index], sentences[index], sentences).other / 2
        kept = half.isfinite()
        if not kept.any():
            raise ValueError(
                f"sentences decode to bits that differ in {SAME_MEANING} at most: there is no other meaning to "
                "measure a perturbation by"
            )
        at, half = sentences[index[kept]], half[kept]
        for factor in FACTORS:
            rows.append({"start": start, "factor": factor} | _perturb(model, at, sentences[used], factor * half))
    table = pd.DataFrame(rows)
    table.to_csv(out / "summary.csv", index=False)
    said = _sampled(run, model, NORM_STARTS)
    beside = used if int(used.sum()) > 1 else torch.ones_like(used)
    norms = torch.tensor(NORMS) * _largest_distance(sentences.embedding[beside])
    found = distances(model, sentences.embedding[said], sentences.embedding[used], norms)
    critical = critical_perturbation(norms, found.original, said)
    by_norm = _tabulate(norms, found, critical.radius)
    by_norm.to_csv(out / "norms.csv", index=False)
    row = critical._asdict() | {"n": len(said), "largest": float(norms[-1])}
    pd.DataFrame([row]).rename(columns={"norm": "critical"}).to_csv(out / "critical.csv", index=False)
    with style():
        save(_draw_distances(by_norm, critical), out / "distances")
        save(_draw(table, model), out / "perturbation")


@torch.no_grad()
def distances(model: AttractorModel, start: Tensor, used: Tensor, norms: Tensor) -> Distances:
    """States that start at ẑ_s (n, d), perturbed by each of K norms in one random direction a state, after 5T steps.

    `used` (U, d) are the embeddings of sentences in use.
    """
    direction = torch.nn.functional.normalize(torch.randn_like(start), dim=-1)
    beside = (start + norms[:, None, None] * direction).flatten(0, 1)
    origin = start.repeat(len(norms), 1)
    original, near = [], []
    for z0, e in zip(beside.split(ROWS), origin.split(ROWS), strict=True):
        z = settle(model, z0, e, LENGTHS[-1] * model.steps)
        original.append((z - e).norm(dim=-1))
        near.append(nearest(z, used).distance)
    moved = torch.cat(original).unflatten(0, (len(norms), -1))
    return Distances(moved, torch.cat(near).unflatten(0, (len(norms), -1)).minimum(moved))


def critical_perturbation(norms: Tensor, distance: Tensor, sentence: Tensor) -> Critical:
    r"""The norm at which half of the states that come back when nothing perturbs them do no more.

    .. math:: p(\nu) = P(\|z'_{T'} - \hat z_s\| \le r), \qquad p(\nu^*) = p(0) / 2

    This is the median radius of a basin, over starts and directions. p is made to fall by isotonic regression and read
    between norms by straight lines. r is twice the median distance at ‖ν‖ = 0, far enough for a state's own
    noise, and not less than the least norm that is not 0. It is where the median distance leaves its plateau, the
    paper's inflection point, since the median jumps from one basin to the next when half of the states have left.

    Why not the steepest point of the median itself: on wells whose boundaries are known (a ball, a cubic lattice and
    lattices of random size, in 2, 4 and 8 dimensions, 500 starts, 25 norms), this one is off by 0.05 or less, by the
    grid alone, with r = 2, 3 or 4 medians alike, and whether or not a fifth of the states leave by noise. The steepest
    point of a monotone fit to the median can only be the middle of two norms, and is off by up to 0.11 with that
    noise; a logistic curve fitted to the median is off by 0.16 and more, since the median goes on rising with ‖ν‖.
    Where embeddings lie no farther apart than r, a state at the next one counts as back, so r is the least of these:
    on trained models of hierarchical binary vectors, 0.29 from one embedding to the next, three medians reach it.

    Args:
        norms: (K,) from 0 on, increasing.
        distance: (K, n) of the last states to the embedding where they started.
        sentence: (n,) number of the sentence where each started. The interval is from a bootstrap over sentences, as
            starts at one share a basin; a bound of ∞ is beyond the largest norm. One sentence alone has no interval
            (NaN, with a reason).

    The norm is NaN, with a reason, where the median has no inflection: half of the states or more are as near after
    the largest perturbation; fewer than half are after the second smallest; or those that count as back are on their
    way only, the farther from ẑ_s the larger ‖ν‖ (three quarters of them, just below ν*, are beyond r/2).
    """
    x, d = norms.double().numpy(), distance.double().numpy()
    times = resample(sentence[:, None]).numpy()
    once = np.ones(d.shape[1])
    radius = _radius(x, d, once)
    back = d <= radius
    norm = _half_way(x, back @ once / len(once))
    at = int(np.searchsorted(x, norm)) - 1  # the last norm below it
    reason = ""
    if norm == math.inf:
        reason = "half of the states or more end as near after the largest perturbation as after none"
    elif at <= 1:
        reason = "half of the states are gone after the two smallest perturbations of the grid"
    elif np.quantile(d[at][back[at]], 0.25) > radius / 2:
        reason = "the median distance has no inflection: states end the farther, the farther they start"
    kept = float(back[0].mean())
    if reason:
        return Critical(math.nan, math.nan, math.nan, radius, kept, reason)
    if len(sentence.unique()) == 1:
        return Critical(norm, math.nan, math.nan, radius, kept, "all states start at one sentence: no interval")
    again = [_half_way(x, (d <= _radius(x, d, w)) @ w / w.sum()) for w in times]
    low, high = np.quantile(again, [0.025, 0.975], method="inverted_cdf")
    return Critical(norm, float(low), float(high), radius, kept, reason)


def _radius(norms: np.ndarray, distance: np.ndarray, weight: np.ndarray) -> float:
    """Within which a state is back, from distances (K, n) of states that count `weight` (n,) times."""
    order = np.argsort(distance[0])
    middle = np.searchsorted(np.cumsum(weight[order]), weight.sum() / 2)
    return max(BACK * float(distance[0][order[middle]]), float(norms[1]))


def _half_way(norms: np.ndarray, share: np.ndarray) -> float:
    """The norm at which a share (K,), made to fall, is half of what it is at first; ∞ where it stays above."""
    falling = isotonic_regression(share, increasing=False).x
    below = np.flatnonzero(falling < falling[0] / 2)
    if not len(below):
        return math.inf
    k = below[0]
    step = (falling[k - 1] - falling[0] / 2) / (falling[k - 1] - falling[k])
    return float(norms[k - 1] + step * (norms[k] - norms[k - 1]))


def _largest_distance(points: Tensor) -> float:
    """The largest distance between any two of points (n, d)."""
    rows = points.split(max(1, CELLS // len(points)))
    return max(float(torch.cdist(part, points).max()) for part in rows)


def _tabulate(norms: Tensor, found: Distances, radius: float) -> pd.DataFrame:
    rows = []
    for target, distance in found._asdict().items():
        levels = distance.double().quantile(torch.tensor(PERCENTILES, dtype=torch.float64) / 100, -1)
        for norm, level, d in zip(norms.tolist(), levels.T.tolist(), distance, strict=True):
            row = {"norm": norm, "target": target, "within": float((d <= radius).double().mean())}
            rows.append(row | {f"p{p}": v for p, v in zip(PERCENTILES, level, strict=True)})
    return pd.DataFrame(rows)


@torch.no_grad()
def _listed(model: AttractorModel) -> Sentences:
    embeddings = model.embeddings()
    return Sentences(embeddings, (model.decoder(embeddings).logits > 0).float())


def _sampled(run: Run, model: AttractorModel, n: int) -> Tensor:
    """(n,) rows of sentences that are read at the end of a trajectory from each of n inputs."""
    encoding = model.encode(run.data.batch(n).x)
    z = model.trajectories(encoding.z0, model.steps, encoding.context)[-1]
    return model.index(model.sentence_given_state(z, encoding.context).sample())


def _perturb(model: AttractorModel, start: Sentences, used: Sentences, norm: Tensor) -> dict[str, float]:
    """One row's numbers, of states that start beside `start` by perturbations of the given norms (n,)."""
    direction = torch.nn.functional.normalize(torch.randn_like(start.embedding), dim=-1)
    z = start.embedding + norm[:, None] * direction
    z = settle(model, z, start.embedding, LENGTHS[-1] * model.steps)
    moved = (z - start.embedding).norm(dim=-1)
    found = _nearest(z, start, used)
    same = found.same.minimum(moved)  # a sentence that a trajectory says need not be in use
    anywhere = same.minimum(found.other)
    radius = RADIUS * model.epsilon * math.sqrt(model.latent)
    back = (same < radius).sum()
    low, high = binomial_interval(back, len(z))
    return {
        "norm": float(norm.median()),
        "recovered": int(back) / len(z),
        "recovered_low": float(low),
        "recovered_high": float(high),
        "nearest_same": float((same <= found.other).double().mean()),
        "settled": float((anywhere < radius).double().mean()),
        "distance_to_start": float(moved.median()),
        "distance_to_nearest": float(anywhere.median()),
    }


def _nearest(z: Tensor, start: Sentences, used: Sentences) -> Nearest:
    """How far states z (n, d) are from sentences in use that mean the same as `start` (n), and something else."""
    parts = []
    for rows in torch.arange(len(z)).split(max(1, CELLS // len(used.bits))):
        # not by matrix products, which round away the small distances that matter here
        distance = torch.cdist(z[rows], used.embedding, compute_mode="donot_use_mm_for_euclid_dist")
        same = _differing(start.bits[rows], used.bits) <= SAME_MEANING
        far = torch.full_like(distance, math.inf)
        parts.append((torch.where(same, distance, far).amin(-1), torch.where(same, far, distance).amin(-1)))
    return Nearest(*(torch.cat(part) for part in zip(*parts, strict=True)))


def _differing(bits: Tensor, others: Tensor) -> Tensor:
    """(n, m) in how many bits each of bits (n, N) differs from each of others (m, N)."""
    return bits @ (1 - others).T + (1 - bits) @ others.T


def _draw_distances(table: pd.DataFrame, critical: Critical) -> Figure:
    figure = Figure(figsize=(10.5, 4.8), layout="constrained")
    panels = figure.subplots(1, 2, sharex=True, sharey=True)
    levels = table[[f"p{p}" for p in PERCENTILES]].to_numpy(dtype=float)
    low, high, largest = float(levels.min()), float(levels.max()), float(table["norm"].max())
    ticks = [digit * 10.0**power for power in range(-6, 7) for digit in (1, 2, 5)]
    for axes, (target, title) in zip(panels, TARGETS.items(), strict=True):
        axes.set_xscale("function", functions=(np.sqrt, np.square))
        axes.set_xlim(0, largest)
        axes.set_xticks([0.0, *(x for x in ticks if largest / 50 <= x <= largest)])
        axes.xaxis.set_major_formatter("{x:g}")
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter("")
        axes.set_ylim(0.8 * max(low, high / 1e4), 1.25 * high)
        if math.isfinite(critical.norm):
            if not critical.reason:
                axes.axvspan(critical.low, min(critical.high, largest), color=GREEN, alpha=0.2, linewidth=0)
            axes.axvline(critical.norm, color=GREEN, linewidth=1.6)
        _draw_percentiles(axes, table[table["target"] == target])
        axes.set_title(title)
        axes.set_xlabel("‖ν‖, norm of the perturbation")
    left = panels[0]
    left.set_ylabel("distance after 5T steps")
    if math.isfinite(critical.norm):
        interval = "(one sentence)" if critical.reason else f"[{critical.low:.3g}, {critical.high:.3g}]"
        note = f"critical perturbation {critical.norm:.3g} {interval}"
        left.set_title(note, loc="right", fontsize=9, color=GREEN)
    else:
        note = "no critical perturbation:\n" + "\n".join(textwrap.wrap(critical.reason, 44))
        left.text(0.03, 0.97, note, transform=left.transAxes, va="top", fontsize=9, color=GREEN)
    return figure


def _draw_percentiles(axes: Axes, table: pd.DataFrame) -> None:
    """A line for each percentile against the norm, named at its end where the names have room."""
    bottom, top = np.log(axes.get_ylim())
    taken: list[float] = []
    for p in sorted(PERCENTILES, key=lambda p: (p != 50, -abs(p - 50))):  # the median first, then the outer ones
        x, y = table["norm"], table[f"p{p}"]
        name, colour, line, width = ("median", CRIMSON, "--", 2.2) if p == 50 else (f"{p} %", BLUE, "-", 0.9)
        axes.plot(x, y, color=colour, linestyle=line, linewidth=width, zorder=3 if p == 50 else 2)
        height = float((np.log(max(y.iloc[-1], 1e-12)) - bottom) / (top - bottom))
        if 0 <= height <= 1 and all(abs(height - other) > 0.03 for other in taken):
            taken.append(height)
            axes.text(1.01, height, name, transform=axes.transAxes, va="center", fontsize=8, color=colour)


def _draw(table: pd.DataFrame, model: AttractorModel) -> Figure:
    figure = Figure(figsize=(10.5, 5), layout="constrained")
    left, right = figure.subplots(1, 2)
    for start, name in STARTS.items():
        part, colour = table[table["start"] == start], COLOURS[start]
        x = part["factor"]
        left.fill_between(x, part["recovered_low"], part["recovered_high"], color=colour, alpha=0.2, linewidth=0)
        left.plot(x, part["recovered"], color=colour, marker="o", markersize=4, label=f"same meaning: {name}")
        left.plot(x, part["nearest_same"], color=colour, linestyle=":", label=f"nearest of the same: {name}")
        left.plot(x, part["settled"], color=colour, linestyle="--", label=f"any meaning: {name}")
        x = part["norm"]
        right.plot(x, part["distance_to_start"], color=colour, marker="o", markersize=4, label=f"to the start: {name}")
        right.plot(x, part["distance_to_nearest"], color=colour, linestyle="--", label=f"to the nearest: {name}")
    left.axvline(1, color=GREY, linestyle=":", label="half way to another meaning")
    left.set_ylim(0, 1.03)
    left.set_xlim(0, max(FACTORS))
    left.set_title("Back at an embedding")
    left.set_xlabel("size of the perturbation, in half distances to another meaning")
    left.set_ylabel("share of states after 5T steps")
    right.axhline(model.epsilon * math.sqrt(model.latent), color="black", linestyle=":", label="exact samples, ε√d")
    right.set_xlim(left=0)
    right.set_ylim(bottom=0)
    right.set_title("Distance from embeddings")
    right.set_xlabel("median ‖ν‖, size of the perturbation")
    right.set_ylabel("median distance after 5T steps")
    for axes in (left, right):
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14))
    return figure
