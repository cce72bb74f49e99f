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
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator
from torch import Tensor

from plot_attractors.analysis import sampling, shape
from plot_attractors.analysis.responses import radius
from plot_attractors.analysis.style import BLUE, GREEN, RED, lettered
from plot_attractors.measures.critical import critical_perturbation
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.ranges import Count, Size, setting
from plot_attractors.runs import Run

TITLE = "Perturbation"
CAPTIONS = {
    "distances": (
        "How far states end, after 5T steps, from the embedding ẑ_s of a sampled sentence that "
        "they were perturbed from in a random direction. (a) Distance to ẑ_s. (b) To the "
        "nearest embedding of all. Dashed: medians; thin: percentiles 5, 10, 25, 75, 90 and 95. "
        "Green: the critical perturbation (95 % interval), from which on half of the states that "
        "would have returned do not: the radius of a typical basin."
    ),
}


@dataclass(frozen=True)
class Config:
    inputs: Size = setting(512, "that tell which sentences are in use")
    trajectories: Size = setting(1000, "for each kind of start and each factor")
    norms: Count = setting(30, "steps from no perturbation to the largest, denser near 0")
    norm_starts: Count = setting(500, "inputs whose sentences are perturbed by each norm")


NEEDS = shape.ATTRACTORS


# -- measures --------------------------------------------------------------------------------------


FACTORS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)  # of half the distance to another meaning
PERCENTILES = (5, 10, 25, 50, 75, 90, 95)
SAME_MEANING = 2  # bits by which sentences of one meaning may differ


class Meanings(NamedTuple):
    """ẑ (n, d) of n sentences, and the bits (n, N) that the decoder reads there, 0 or 1."""

    embedding: Tensor
    bits: Tensor

    def take(self, index: Tensor) -> Meanings:
        return Meanings(self.embedding[index], self.bits[index])


def perturb_meanings(run: Run, used: Tensor, n: int) -> pd.DataFrame:
    """Whether states come back to an embedding of their meaning, ‖ν‖ = factor · h_s.

    h_s is half the distance from ẑ_s to the nearest ẑ of a sentence in use of another meaning, or
    of any sentence where all starts are without. Sentences mean the same where the bits decoded at
    their ẑ differ in two or fewer. Starts without another meaning in use are left out.

    A row for each kind of n starts, and each factor; none where all sentences mean the same:

    - ``start``: ``used``, uniformly from the sentences in use, `used` (U, width), or ``sampled``,
      as read at z_T of trajectories of training inputs;
    - ``recovered``: share of states that end nearer than 2 ε√d to an embedding in use of the same
      meaning, or to ẑ_s; ``settled``: nearer than that to ẑ_s or to any sentence in use;
    - ``recovered_control``, ``settled_control``: the same shares without dynamics, of states that
      stay where they were put.
    """
    model, among = run.model, run.model.language.row(used)
    z_hat = model.embeddings()
    meanings = Meanings(z_hat, sampling.decoded_bits(model, z_hat))
    in_use = meanings.take(among)
    starts = {"used": among[torch.randint(len(among), (n,))]}
    starts["sampled"] = model.language.row(sampling.sampled_sentences(run, n))
    back, rows = radius(model), []

    def within(z: Tensor, start: Meanings) -> tuple[float, float]:
        """The shares of states z (n, d) at the meaning of their start, and at any sentence."""
        moved = (z - start.embedding)[:, sampling.used_axes(model)].norm(dim=-1)
        same, other = _nearest(model, z, start, in_use)
        same = same.minimum(moved)  # a sentence that a trajectory samples need not be in use
        at_meaning, anywhere = same < back, same.minimum(other) < back
        return float(at_meaning.double().mean()), float(anywhere.double().mean())

    for kind, index in starts.items():
        start = meanings.take(index)
        half = _nearest(model, start.embedding, start, in_use)[1] / 2
        if not half.isfinite().any():
            half = _nearest(model, start.embedding, start, meanings)[1] / 2
        kept = half.isfinite()
        start, half = start.take(kept), half[kept, None]
        for factor in FACTORS if kept.any() else ():
            away = sampling.random_directions(model, start.embedding)
            put = start.embedding + factor * half * away
            ends = sampling.perturbed_trajectories(model, put, start.embedding)
            recovered, settled = within(ends, start)
            before = within(put, start)
            row = {"start": kind, "factor": factor, "recovered": recovered, "settled": settled}
            row |= {"recovered_control": before[0], "settled_control": before[1]}
            rows.append(row)
    return pd.DataFrame(rows)


def _nearest(
    model: AttractorModel, z: Tensor, start: Meanings, among: Meanings
) -> tuple[Tensor, Tensor]:
    """Distances (n,) of states z (n, d) to the nearest sentence of the same meaning as `start` (n),
    and of another; ∞ where there is none; in the axes that embeddings use.
    """
    axes, parts = sampling.used_axes(model), []
    for rows in torch.arange(len(z)).split(max(1, sampling.CELLS // len(among.bits))):
        # not by matrix products, which round away the small distances that matter here
        points = z[rows][:, axes], among.embedding[:, axes]
        distance = torch.cdist(*points, compute_mode="donot_use_mm_for_euclid_dist")
        same = torch.cdist(start.bits[rows], among.bits, p=1) <= SAME_MEANING  # bits that differ
        parts.append([distance.masked_fill(far, math.inf).amin(-1) for far in (~same, same)])
    same, other = (torch.cat(part) for part in zip(*parts, strict=True))
    return same, other


def norm_grid(model: AttractorModel, s: Tensor, known: Tensor | None, steps: int) -> Tensor:
    """(steps + 1,) norms from 0 to the largest distance between embeddings of sentences `known`
    (U, width), or of s (n, width), the denser the nearer to 0.
    """
    sentences = s.unique(dim=0) if known is None else known
    points = model.embed(sentences)[:, sampling.used_axes(model)]
    rows = points.split(max(1, sampling.CELLS // len(points)))
    largest = max(float(torch.cdist(part, points).max()) for part in rows)
    return largest * torch.tensor([(k / steps) ** 2 for k in range(steps + 1)])


def ends_by_norm(model: AttractorModel, s: Tensor, norms: Tensor) -> sampling.EndStates:
    """The ends (K, n) of states that start at ẑ_s of sentences s (n, width), perturbed by each of K
    norms (K,) in one random direction a state.
    """
    start = model.embed(s)
    beside = start + norms[:, None, None] * sampling.random_directions(model, start)
    ends = sampling.end_states(model, s.repeat(len(norms), 1), beside.flatten(0, 1))
    return sampling.EndStates(*(part.unflatten(0, (len(norms), -1)) for part in ends))


def end_percentiles(norms: Tensor, ends: sampling.EndStates) -> pd.DataFrame:
    """For each norm and target, the ``original`` ẑ_s or the ``nearest`` embedding: percentiles of
    the distance.
    """
    rows = []
    levels = torch.tensor(PERCENTILES, dtype=torch.float64) / 100
    for target in ("original", "nearest"):
        distance: Tensor = getattr(ends, target)
        quantiles = distance.double().quantile(levels, -1).T
        for norm, level in zip(norms.tolist(), quantiles.tolist(), strict=True):
            row = {"norm": norm, "target": target}
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
      see `perturbation.perturb_meanings`.

    Source: Section *Attractor dynamics*, Fig. *perturbation*.
    """
    model = run.model
    tables: dict[str, Any] = {}
    x, known = run.data.batch(config.inputs).x, None
    if sampling.is_listed(model):
        known = model.sentences[sampling.sentences_in_use(model, x)]
    if known is not None and sampling.kind_of_inputs(run) == sampling.BITS:
        meanings = perturb_meanings(run, known, config.trajectories)
        tables |= {} if meanings.empty else {"summary.csv": meanings}
    s = sampling.sampled_sentences(run, config.norm_starts)
    norms = norm_grid(model, s, known, config.norms)
    ends = ends_by_norm(model, s, norms)
    critical = critical_perturbation(norms, ends.original, sampling.number_sentences(model, s))
    tables["norms.csv"] = end_percentiles(norms, ends)
    row = {"critical": critical.norm} | critical._asdict() | {"n": len(s)}
    row |= {"largest": float(norms[-1]), "noise": sampling.noise_radius(model)}
    tables["critical.csv"] = pd.DataFrame([row]).drop(columns="norm")
    return tables


# -- figures ---------------------------------------------------------------------------------------


TARGETS = {"original": "Original ẑ_s", "nearest": "Nearest ẑ_n"}


def draw(tables: Mapping[str, Any]) -> dict[str, Figure]:
    """Percentiles of distances against the norm, and the critical perturbation."""
    table = tables["norms.csv"]
    (critical,) = tables["critical.csv"].to_dict("records")
    levels = table.filter(regex=r"^p\d+$")
    low, high, largest = levels.min(axis=None), levels.max(axis=None), table["norm"].max()
    norm, reason = critical["critical"], critical["reason"]
    alone = isinstance(reason, str) and reason != ""  # an empty cell is read as NaN
    figure, panels = shape.panels(2, size=(5.2, 4.8))
    for axes, letter, (target, title) in zip(panels, "ab", TARGETS.items(), strict=True):
        part = table[table["target"] == target]
        for p in PERCENTILES:
            look: Any = {"color": BLUE, "linewidth": 0.9}
            if p == 50:
                look = {"color": RED, "linestyle": "--", "linewidth": 2.2, "zorder": 3}
            axes.plot(part["norm"], part[f"p{p}"], **look)
        axes.set_xscale("function", functions=(np.sqrt, np.square))
        axes.set(xlim=(0, largest), xlabel="‖ν‖, norm of the perturbation")
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
        axes.set(title=lettered(letter, title), ylabel="distance after 5T steps")
    left = panels[0]
    if math.isfinite(norm):
        interval = f"[{critical['low']:.3g}, {critical['high']:.3g}]"
        note = f"critical perturbation {norm:.3g} {'(one sentence)' if alone else interval}"
        left.set_title(note, loc="right", fontsize=9, color=GREEN)
    else:
        note = "no critical perturbation:\n" + textwrap.fill(str(reason), 44)
        left.text(0.03, 0.97, note, transform=left.transAxes, va="top", fontsize=9, color=GREEN)
    return {"distances": figure}
