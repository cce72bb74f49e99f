"""Whether embeddings are attractors: where states end that start beside one."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator
from torch import Tensor

from plot_attractors.analysis import sampling
from plot_attractors.analysis.responses import radius
from plot_attractors.analysis.sampling import (
    CELLS,
    SAME_MEANING,
    EndStates,
    decoded_bits,
    differing_bits,
    end_states,
    is_listed,
    noise_radius,
    number_sentences,
    perturbed_trajectories,
    random_directions,
    sampled_sentences,
    shows_bits,
    used_axes,
)
from plot_attractors.analysis.shape import ATTRACTORS
from plot_attractors.analysis.style import BLUE, CRIMSON, GREEN, GREY, ORANGE
from plot_attractors.measures.attractors import binomial_interval
from plot_attractors.measures.critical import critical_perturbation
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.ranges import Count, Size
from plot_attractors.runs import Run

TITLE = "Perturbation"
SLOW = True
CAPTIONS = {
    "distances": (
        "How far states end, after 5T steps, from the embedding ẑ_s of a sampled sentence that "
        "they were perturbed from in a random direction. Left: distance to ẑ_s. Right: to the "
        "nearest embedding of all. Dashed: medians; thin: "
        "percentiles. Green: the critical perturbation (95 % interval), from which on half of the "
        "states that would have returned do not: the radius of a typical basin."
    ),
    "perturbation": (
        "Are embeddings attractors? Left: share of perturbed states that end within 2 ε√d of an "
        "embedding of the same meaning (solid, 95 % intervals), or of any (dashed); dotted: the "
        "first share without dynamics, of states that stay where they were put; size 1 is half the "
        "distance to another meaning. Right: median distance to the start's embedding (solid) and "
        "to the nearest (dashed); dotted: of exact samples. Starts: see the legend. Pushes and "
        "distances are in the latent axes that embeddings use."
    ),
}


@dataclass(frozen=True)
class Config:
    inputs: Size = 512  # that tell which sentences are in use
    trajectories: Size = 1000  # for each kind of start and each factor
    norms: Count = 30  # steps from no perturbation to the largest, denser near 0
    norm_starts: Count = 500  # inputs whose sentences are perturbed by each norm


NEEDS = ATTRACTORS


# -- measures --------------------------------------------------------------------------------------


FACTORS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)  # of half the distance to another meaning
PERCENTILES = (5, 10, 25, 50, 75, 90, 95)


# Sentences that decode to bits
class Meanings(NamedTuple):
    """ẑ (n, d) of n sentences, the bits (n, N) that the decoder reads there, 0 or 1, and the axes
    (d,) that embeddings use, in which distances are measured.
    """

    embedding: Tensor
    bits: Tensor
    axes: Tensor

    @classmethod
    def of(cls, model: AttractorModel) -> Meanings:
        """All sentences of a model."""
        embedding = model.embeddings()
        return cls(embedding, decoded_bits(model, embedding), used_axes(model))

    def take(self, index: Tensor) -> Meanings:
        """Those of some rows."""
        return Meanings(self.embedding[index], self.bits[index], self.axes)


def perturb_meanings(run: Run, used: Tensor, n: int) -> pd.DataFrame:
    """Whether states come back to an embedding of their meaning, ‖ν‖ = factor · h_s.

    h_s is half the distance from ẑ_s to the nearest ẑ of a sentence in use of another meaning, or
    of any sentence where all starts are without. Sentences mean the same where the bits decoded at
    their ẑ differ in two or fewer. Starts without another meaning in use are left out.

    A row for each kind of n starts, and each factor; none where all sentences mean the same:

    - ``start``: ``used``, uniformly from the sentences in use, `used` (U, width), or ``sampled``,
      as read at z_T of trajectories of training inputs;
    - ``norm``: median ‖ν‖;
    - ``recovered``: share of states that end nearer than 2 ε√d to an embedding in use of the same
      meaning, or to ẑ_s; ``recovered_low``, ``recovered_high``: its 95 % interval (Wilson);
    - ``settled``: share of states nearer than that to ẑ_s or to any sentence in use;
    - ``recovered_control``, ``settled_control``: the same shares without dynamics, of states that
      stay where they were put;
    - ``distance_to_start``, ``distance_to_nearest``: median distance to ẑ_s, and to the nearest of
      it and all in use.
    """
    model, among = run.model, run.model.language.row(used)
    meanings = Meanings.of(model)
    in_use = meanings.take(among)
    starts = {"used": among[torch.randint(len(among), (n,))]}
    starts["sampled"] = model.language.row(sampled_sentences(run, n))
    rows = []
    for start, index in starts.items():
        at = meanings.take(index)
        half = _nearest(at.embedding, at, in_use)[1] / 2
        if not half.isfinite().any():
            half = _nearest(at.embedding, at, meanings)[1] / 2
        kept = half.isfinite()
        at, half = at.take(kept), half[kept]
        for factor in FACTORS if kept.any() else ():
            row = _perturb(model, at, in_use, factor * half)
            rows.append({"start": start, "factor": factor} | row)
    return pd.DataFrame(rows)


def _perturb(
    model: AttractorModel, start: Meanings, used: Meanings, norm: Tensor
) -> dict[str, float]:
    """One row's numbers, of perturbations of the given norms (n,)."""
    put = start.embedding + norm[:, None] * random_directions(model, start.embedding)

    def distances(z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(n,) to ẑ_s, to the nearest of its meaning, and to the nearest of any."""
        moved = (z - start.embedding)[:, start.axes].norm(dim=-1)
        same, other = _nearest(z, start, used)
        same = same.minimum(moved)  # a sentence that a trajectory samples need not be in use
        return moved, same, same.minimum(other)

    moved, same, anywhere = distances(perturbed_trajectories(model, put, start.embedding))
    _, same_before, anywhere_before = distances(put)
    back = radius(model)
    low, high = binomial_interval((same < back).sum(), len(put))

    def within(distance: Tensor) -> float:
        return float((distance < back).double().mean())

    return {
        "norm": float(norm.median()),
        "recovered": within(same),
        "recovered_low": float(low),
        "recovered_high": float(high),
        "settled": within(anywhere),
        "recovered_control": within(same_before),
        "settled_control": within(anywhere_before),
        "distance_to_start": float(moved.median()),
        "distance_to_nearest": float(anywhere.median()),
    }


def _nearest(z: Tensor, start: Meanings, used: Meanings) -> tuple[Tensor, Tensor]:
    """Distances (n,) of states z (n, d) to the nearest sentence in use of the same meaning as
    `start` (n), and of another; ∞ where there is none.
    """
    parts = []
    for rows in torch.arange(len(z)).split(max(1, CELLS // len(used.bits))):
        # not by matrix products, which round away the small distances that matter here
        points = z[rows][:, used.axes], used.embedding[:, used.axes]
        distance = torch.cdist(*points, compute_mode="donot_use_mm_for_euclid_dist")
        same = differing_bits(start.bits[rows], used.bits) <= SAME_MEANING
        nearest = (distance.masked_fill(far, math.inf).amin(-1) for far in (~same, same))
        parts.append(tuple(nearest))
    same, other = (torch.cat(part) for part in zip(*parts, strict=True))
    return same, other


# The paper's absolute norms
def norm_grid(model: AttractorModel, s: Tensor, known: Tensor | None, steps: int) -> Tensor:
    """(steps + 1,) norms from 0 to the largest distance between embeddings of sentences `known`
    (U, width), or of s (n, width), the denser the nearer to 0.

    Where that is one sentence alone: of all sentences, or of draws from the prior where these are
    too many to list.
    """
    sentences = s.unique(dim=0) if known is None else known
    if len(sentences) == 1:
        sentences = model.sentences if is_listed(model) else model.draw_prior(len(s))
    points = model.embed(sentences)[:, used_axes(model)]
    rows = points.split(max(1, CELLS // len(points)))
    largest = max(float(torch.cdist(part, points).max()) for part in rows)
    return largest * torch.tensor([(k / steps) ** 2 for k in range(steps + 1)])


def ends_by_norm(model: AttractorModel, s: Tensor, norms: Tensor) -> EndStates:
    """The ends (K, n) of states that start at ẑ_s of sentences s (n, width), perturbed by each of K
    norms (K,) in one random direction a state.
    """
    start = model.embed(s)
    beside = start + norms[:, None, None] * random_directions(model, start)
    ends = end_states(model, s.repeat(len(norms), 1), beside.flatten(0, 1))
    return EndStates(*(part.unflatten(0, (len(norms), -1)) for part in ends))


def end_percentiles(norms: Tensor, ends: EndStates, radius: float) -> pd.DataFrame:
    """For each norm and target, the ``original`` ẑ_s or the ``nearest`` embedding: the share of
    states ``within`` a radius of it, and percentiles of the distance.
    """
    rows = []
    levels = torch.tensor(PERCENTILES, dtype=torch.float64) / 100
    for target in ("original", "nearest"):
        distance: Tensor = getattr(ends, target)
        quantiles = distance.double().quantile(levels, -1).T
        for norm, level, d in zip(norms.tolist(), quantiles.tolist(), distance, strict=True):
            row = {"norm": norm, "target": target, "within": float((d <= radius).double().mean())}
            rows.append(row | {f"p{p}": v for p, v in zip(PERCENTILES, level, strict=True)})
    return pd.DataFrame(rows)


@torch.no_grad()
def measure(run: Run, config: Config) -> dict[str, Any]:
    """Ends after 5T steps of states at ẑ_s + ν, ν in a uniformly random direction of the axes that
    embeddings use; distances are in these axes.

    - ``norms.csv``: see `perturbation.end_percentiles`; s as at z_T of trajectories of inputs;
    - ``critical.csv``: see `measures.critical`; ``n`` starts, the ``largest`` norm, and the
      ``noise`` ε√d, which is the distance of exact samples;
    - ``summary.csv``, where inputs are bits, sentences can be listed, and some differ in meaning:
      see `perturbation.perturb_meanings`;

    Raises ValueError for a model without attractors. Source: Section *Attractor dynamics*, Fig.
    *perturbation*.
    """
    model = run.model
    tables: dict[str, Any] = {}
    known = sampling.known_sentences(model, run.data.batch(config.inputs).x)
    if known is not None and shows_bits(run):
        meanings = perturb_meanings(run, known, config.trajectories)
        tables |= {} if meanings.empty else {"summary.csv": meanings}
    s = sampling.sampled_sentences(run, config.norm_starts)
    norms = norm_grid(model, s, known, config.norms)
    ends = ends_by_norm(model, s, norms)
    critical = critical_perturbation(norms, ends.original, number_sentences(model, s))
    tables["norms.csv"] = end_percentiles(norms, ends, critical.radius)
    row = {"critical": critical.norm} | critical._asdict() | {"n": len(s)}
    row |= {"largest": float(norms[-1]), "noise": noise_radius(model)}
    tables["critical.csv"] = pd.DataFrame([row]).drop(columns="norm")
    return tables


# -- figures ---------------------------------------------------------------------------------------


TARGETS = {"original": "Original ẑ_s", "nearest": "Nearest ẑ_n"}
STARTS = {
    "used": ("sentences in use, equally often", BLUE),
    "sampled": ("as often as they are sampled", ORANGE),
}


def draw_distances(table: pd.DataFrame, critical: Mapping[str, Any]) -> Figure:
    """Percentiles of distances against the norm, and the critical perturbation, a row of
    ``critical.csv``.
    """
    figure = Figure(figsize=(10.5, 4.8), layout="constrained")
    panels = figure.subplots(1, 2, sharex=True, sharey=True)
    levels = table.filter(regex=r"^p\d+$")
    numbers = levels.to_numpy(float)
    low, high, largest = numbers.min(), numbers.max(), float(table["norm"].max())
    norm, reason = critical["critical"], critical["reason"]
    alone = isinstance(reason, str)  # an empty cell is read as NaN
    for axes, (target, title) in zip(panels, TARGETS.items(), strict=True):
        _draw_norms(axes, largest)
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter("")
        axes.set_ylim(0.8 * max(low, high / 1e4), 1.25 * high)
        if math.isfinite(norm):
            if not alone:
                band = critical["low"], min(critical["high"], largest)
                axes.axvspan(*band, color=GREEN, alpha=0.2, linewidth=0)
            axes.axvline(norm, color=GREEN, linewidth=1.6)
        _draw_percentiles(axes, table.loc[table["target"] == target, ["norm", *levels.columns]])
        axes.set_title(title)
    left = panels[0]
    left.set_ylabel("distance after 5T steps")
    if math.isfinite(norm):
        interval = f"[{critical['low']:.3g}, {critical['high']:.3g}]"
        note = f"critical perturbation {norm:.3g} {'(one sentence)' if alone else interval}"
        left.set_title(note, loc="right", fontsize=9, color=GREEN)
    else:
        note = "no critical perturbation:\n" + textwrap.fill(str(reason), 44)
        left.text(0.03, 0.97, note, transform=left.transAxes, va="top", fontsize=9, color=GREEN)
    return figure


def _draw_norms(axes: Axes, largest: float) -> None:
    """A square-root axis of norms up to the largest."""
    ticks = [digit * 10.0**power for power in range(-6, 7) for digit in (1, 2, 5)]
    axes.set_xscale("function", functions=(np.sqrt, np.square))
    axes.set_xlim(0, largest)
    axes.set_xticks([0.0, *(x for x in ticks if largest / 50 <= x <= largest)])
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("‖ν‖, norm of the perturbation")


def _draw_percentiles(axes: Axes, table: pd.DataFrame) -> None:
    """A line for each percentile against the norm, named at its end where the names have room."""
    bottom, top = np.log(axes.get_ylim())
    taken: list[float] = []
    percentiles = [int(name[1:]) for name in table.columns[1:]]
    # the median first, then the outer ones
    for p in sorted(percentiles, key=lambda p: (p != 50, -abs(p - 50))):
        y = table[f"p{p}"]
        median = p == 50
        colour = CRIMSON if median else BLUE
        look: Any = {"linestyle": "--", "linewidth": 2.2} if median else {"linewidth": 0.9}
        axes.plot(table["norm"], y, color=colour, zorder=3 if median else 2, **look)
        height = float((np.log(max(y.iloc[-1], 1e-12)) - bottom) / (top - bottom))
        if 0 <= height <= 1 and all(abs(height - other) > 0.03 for other in taken):
            taken.append(height)
            place: Any = {"transform": axes.transAxes, "va": "center", "fontsize": 8}
            axes.text(1.01, height, "median" if median else f"{p} %", color=colour, **place)


def draw_meanings(table: pd.DataFrame, noise: float) -> Figure:
    """The rows of ``summary.csv``; `noise` is the distance of exact samples, ε√d."""
    figure = Figure(figsize=(10.5, 5), layout="constrained")
    left, right = figure.subplots(1, 2)
    dots = {"marker": "o", "markersize": 4}
    for start, (name, colour) in STARTS.items():
        part = table[table["start"] == start]

        def draw(axes: Axes, x: str, y: str, label: str, **look: Any) -> None:
            axes.plot(part[x], part[y], color=colour, label=f"{label}: {name}", **look)  # noqa: B023

        band = part["factor"], part["recovered_low"], part["recovered_high"]
        left.fill_between(*band, color=colour, alpha=0.2, linewidth=0)
        draw(left, "factor", "recovered", "same meaning", **dots)
        draw(left, "factor", "settled", "any meaning", linestyle="--")
        draw(left, "factor", "recovered_control", "no dynamics", linestyle=":")
        draw(right, "norm", "distance_to_start", "to the start", **dots)
        draw(right, "norm", "distance_to_nearest", "to the nearest", linestyle="--")
    left.axvline(1, color=GREY, linestyle=":", label="half way to another meaning")
    left.set(ylim=(0, 1.03), xlim=(0, table["factor"].max()), title="Back at an embedding")
    left.set_xlabel("size of the perturbation, in half distances to another meaning")
    left.set_ylabel("share of states after 5T steps")
    right.axhline(noise, color="black", linestyle=":", label="exact samples, ε√d")
    right.set(xlim=(0, None), ylim=(0, None), title="Distance from embeddings")
    right.set_xlabel("median ‖ν‖, size of the perturbation")
    right.set_ylabel("median distance after 5T steps")
    for axes in (left, right):
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14))
    return figure


def draw(tables: dict[str, Any]) -> dict[str, Any]:
    """Distances by norm, and what is left of meanings."""
    (critical,) = tables["critical.csv"].to_dict("records")
    figures = {"distances": draw_distances(tables["norms.csv"], critical)}
    if "summary.csv" in tables:
        figures["perturbation"] = draw_meanings(tables["summary.csv"], critical["noise"])
    return figures
