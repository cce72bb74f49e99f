"""Whether embeddings are attractors: where states go that start beside one, by the size of the
perturbation.
"""

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
from torch import Tensor

from plot_attractors.evaluation.metrics.attractors import binomial_interval
from plot_attractors.evaluation.metrics.bootstrap import bootstrap, resample
from plot_attractors.evaluation.metrics.critical import Critical, critical_perturbation
from plot_attractors.evaluation.probes import FeatureDecoder, feature_decoders, is_described
from plot_attractors.evaluation.sampling import (
    LENGTHS,
    is_listed,
    nearest_sentence,
    number_sentences,
    require_attractors,
    sentences_in_use,
    settle,
    shows_bits,
)
from plot_attractors.language.policy import SentencePolicy
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.plots.style import BLUE, CRIMSON, GREEN, GREY, ORANGE, plain, save, style

if TYPE_CHECKING:
    from plot_attractors.runs import Run

__all__ = ["CAPTIONS", "TITLE", "Ends", "analyze", "applies", "compare_features", "find_ends"]

TITLE = "Perturbation"
CAPTIONS = {
    "distances": (
        "How far a state ends from the embedding it was pushed away from. Each trajectory of an "
        "input is read as a "
        "sentence s; its embedding ẑ_s plus a perturbation ν of a random direction and the given "
        "size is a new start, "
        "which follows the dynamics for five times T steps. Left: distance of the end to ẑ_s. "
        "Right: to the nearest "
        "embedding, that of any sentence in use. Dashed: medians; thin lines: percentiles. The "
        "median on the left is "
        "flat as long as most states come back, and rises steeply at the critical perturbation "
        "(vertical line, band: "
        "95 % interval), from which on half of the states that would have come back do not: the "
        "radius of a typical "
        "basin. The median on the right is flat at any size: a state that has left its basin ends "
        "at another "
        "embedding. Where sentences are too many to list, those that are said tell the largest "
        "size, and the nearest "
        "embedding is that of any sentence at all. The norms are drawn as square roots, the "
        "distances on a logarithmic "
        "scale."
    ),
    "perturbation": (
        "Are embeddings of sentences attractors? States start beside the embedding of a sentence, "
        "perturbed in a "
        "random direction, and follow the dynamics for five times T steps. Left: share of states "
        "that end within "
        "three times ε√d of an embedding of the same meaning (solid, with 95 % intervals), whose "
        "nearest embedding "
        "has that meaning (dotted), or that are within three times ε√d of any embedding (dashed); "
        "size 1 is half the "
        "distance to the nearest sentence in use of another meaning. An attractor takes back "
        "perturbations smaller "
        "than its basin: solid lines are flat and fall beyond some size, while dashed lines stay "
        "at 1, since a state "
        "that has left one basin falls into another. Right: median distance of the last states to "
        "the embedding they "
        "started at (solid) and to the nearest one (dashed); dotted, ε√d, is how far exact samples "
        "are from their "
        "embedding. The solid lines are flat up to a critical size, the dashed ones at any size. "
        "Blue: starts at "
        "every sentence in use, equally often; orange: as often as trajectories say it."
    ),
    "features": (
        "Up to which size of a perturbation does a meaning survive? The states are those of the "
        "distances. At the end "
        "of each, the sentence with the nearest embedding ẑ_n is taken, and a decoder that has "
        "learned to tell the "
        "inputs' features from states reads ẑ_n and the original ẑ_s. First panel: share of states "
        "whose nearest "
        "sentence is s itself. Then a panel for each feature: where it has outcomes, the share of "
        "states of which the "
        "likeliest outcome is the same at both; where it is a number, the root mean squared "
        "difference of the two "
        "predictions, in the feature's units, so that lower is better. Bands: 95 % intervals over "
        "sentences. Grey, "
        "dashed: random pairs of the sentences said; states that end at sentences seldom said may "
        "differ more. Green "
        "line: the critical perturbation of the distances. A feature that is kept where the "
        "sentence is not is one "
        "that the sentences of a basin share. The norms are drawn as square roots."
    ),
}

INPUTS = 512  # inputs that tell which sentences are in use
TRAJECTORIES = 1000  # for each kind of start and each size
FACTORS = (
    0.0,
    0.25,
    0.5,
    0.75,
    1.0,
    1.5,
    2.0,
    3.0,
)  # sizes, in halves of the distance to another meaning
# bits by which sentences of one meaning may differ; a leaf of hierarchical binary vectors holds two
SAME_MEANING = 2
RADIUS = 3.0  # a state is at an embedding when it is nearer than this many ε√d
ROWS = 4096  # states that follow the dynamics at once
CELLS = 4_000_000  # entries of a (states, sentences) table held at once
NORMS = tuple(
    (k / 30) ** 2 for k in range(31)
)  # ‖ν‖ in largest distances between embeddings: dense near 0
NORM_STARTS = 500  # inputs whose sentences are perturbed by each
PERCENTILES = (5, 10, 25, 50, 75, 90, 95)
TARGETS = {"original": "Original ẑ_s", "nearest": "Nearest ẑ_n"}
SENTENCE = "sentence"  # name and kind of the rows that say whether s itself is the nearest
COLUMNS = 3  # panels in a row
STARTS = {"used": "sentences in use, equally often", "sampled": "as often as trajectories say them"}
COLOURS = {"used": BLUE, "sampled": ORANGE}


@dataclass(frozen=True)
class Sentences:
    """Some sentences' ẑ (n, d), and the bits (n, N) that the decoder reads there, 0 or 1."""

    embedding: Tensor
    bits: Tensor

    def __getitem__(self, index: Tensor) -> Sentences:
        return Sentences(self.embedding[index], self.bits[index])


class Ends(NamedTuple):
    """Distances (K, n) of n last states to the ẑ_s that each started beside, perturbed by K norms,
    and to the nearest of known embeddings and ẑ_s; the sentence (K, n, width) that this one is of.
    """

    original: Tensor
    nearest: Tensor
    sentence: Tensor


class Nearest(NamedTuple):
    """Distances (n,) to the nearest sentence in use of the same meaning and of another; ∞ where
    there is none.
    """

    same: Tensor
    other: Tensor


def applies(run: Run) -> bool:
    """Whether the run's model has attractors, and a decoder that tells some sentences apart, where
    these can be listed and inputs are bits.
    """
    if not isinstance(run.model, AttractorModel):
        return False
    if not _compares_bits(run):
        return True
    bits = _listed(run.model).bits.unique(dim=0)
    rows = bits.split(max(1, CELLS // len(bits)))
    return any(
        bool((_differing(part, bits) > SAME_MEANING).any()) for part in rows
    )  # the first rows tell, mostly


@torch.no_grad()
def analyze(run: Run, out: Path) -> None:
    """Write ``norms.csv``, ``critical.csv`` and the figure ``distances``; where sentences can be
    listed and inputs are bits, ``summary.csv`` and the figure ``perturbation``, and else, where
    features of the inputs are known, ``features.csv`` and the figure ``features``.

    All states start at z = ẑ_s + ν, with ν in a uniformly random direction, and follow the forward
    dynamics for T' = 5T steps, see `plot_attractors.evaluation.sampling.settle`. Distances are
    Euclidean, in units of the latent space.

    The paper's experiment has absolute norms ‖ν‖, from 0 to the largest distance between embeddings
    of sentences in use (of all sentences, where only one is in use); s is read at z_T of
    trajectories of training inputs; starts and directions are the same at every norm. Where
    sentences are too many to list, the sentences said stand for those in use in that distance
    (draws from the prior, where only one is said), and the nearest sentence is of all, see
    `plot_attractors.evaluation.sampling.nearest_sentence`.

    - ``norms.csv`` (norm, target, within, p5, p10, p25, p50, p75, p90, p95): percentiles of the
      distance to the ``original`` ẑ_s and to the ``nearest`` of it and all sentences in use; share
      of states within the radius of ``critical.csv`` from it;
    - ``critical.csv`` (critical, low, high, radius, kept, reason, n, largest), a row: see
      `plot_attractors.evaluation.metrics.critical.critical_perturbation`; ``n`` starts;
      ``largest``, the greatest norm;
    - ``features.csv`` (norm, feature, kind, value, low, high, random): how much of the meaning of s
      is left in the nearest sentence, see `compare_features`.

    In ``summary.csv`` two further starts have norms by the room that a sentence has, ‖ν‖ = factor ·
    h_s, where h_s is half the distance from ẑ_s to the nearest ẑ of a sentence in use with another
    meaning. Two sentences mean the same where the bits that the decoder reads at their ẑ differ in
    two or fewer. There is a row for each kind of start and each factor:

    - ``start``: how s is drawn: ``used``, uniformly from the sentences in use, or ``sampled``, as
      read at the ends z_T of trajectories of training inputs;
    - ``factor``; ``norm``: median ‖ν‖;
    - ``recovered``: share of states that end nearer than 3 ε√d to ẑ_s or to the ẑ of a sentence in
      use of the same meaning; ``recovered_low``, ``recovered_high``: its 95 % interval (Wilson);
    - ``nearest_same``: share of states whose nearest embedding of these means the same, which is
      stricter where meanings lie nearer to each other than that radius;
    - ``settled``: share of states nearer than it to ẑ_s or to any sentence in use;
    - ``distance_to_start``, ``distance_to_nearest``: median distance to ẑ_s, and to the nearest of
    it and all in use.

    Sentences that no other meaning is in use beside are left out; where that is all of them, h_s is
    measured to all sentences instead. Raises ValueError where none has another meaning, and for a
    model without attractors. Source: Section *Attractor dynamics*, Fig. *perturbation*.
    """
    model = require_attractors(run.model)
    x = run.data.batch(INPUTS).x
    used = sentences_in_use(model, x) if is_listed(model) else None
    if used is not None and _compares_bits(run):
        table = _perturb_meanings(run, model, used)
        table.to_csv(out / "summary.csv", index=False)
        with style():
            save(_draw(table, model), out / "perturbation")
    s = _said(run, model, NORM_STARTS)
    known = None if used is None else model.sentences[used]
    norms = torch.tensor(NORMS) * _largest_distance(model.embed(_extent(model, s, known)))
    ends = find_ends(model, s, norms, known)
    number = number_sentences(model, s)
    critical = critical_perturbation(norms, ends.original, number)
    by_norm = _tabulate(norms, ends, critical.radius)
    by_norm.to_csv(out / "norms.csv", index=False)
    row = critical._asdict() | {"n": len(s), "largest": float(norms[-1])}
    pd.DataFrame([row]).rename(columns={"norm": "critical"}).to_csv(
        out / "critical.csv", index=False
    )
    with style():
        save(_draw_distances(by_norm, critical), out / "distances")
    if not _compares_bits(run) and is_described(run):
        by_feature = compare_features(
            feature_decoders(run)[0], model, s, norms, ends, resample(number[:, None])
        )
        by_feature.to_csv(out / "features.csv", index=False)
        with style():
            save(_draw_features(by_feature, critical), out / "features")


def _compares_bits(run: Run) -> bool:
    """Whether meanings are told by the bits that sentences decode to."""
    return is_listed(run.model) and shows_bits(run.data)


def _perturb_meanings(run: Run, model: AttractorModel, used: Tensor) -> pd.DataFrame:
    """The rows of summary.csv; `used` (S,) says which sentences are in use."""
    sentences = _listed(model)
    starts = {
        "used": torch.nonzero(used).flatten()[torch.randint(int(used.sum()), (TRAJECTORIES,))],
        "sampled": model.index(_said(run, model, TRAJECTORIES)),
    }
    rows = []
    for start, index in starts.items():
        half = _nearest(sentences.embedding[index], sentences[index], sentences[used]).other / 2
        if not half.isfinite().any():
            half = _nearest(sentences.embedding[index], sentences[index], sentences).other / 2
        kept = half.isfinite()
        if not kept.any():
            raise ValueError(
                f"sentences decode to bits that differ in {SAME_MEANING} at most: there is no "
                f"other meaning to "
                "measure a perturbation by"
            )
        at, half = sentences[index[kept]], half[kept]
        for factor in FACTORS:
            rows.append(
                {"start": start, "factor": factor}
                | _perturb(model, at, sentences[used], factor * half)
            )
    return pd.DataFrame(rows)


@torch.no_grad()
def find_ends(model: AttractorModel, s: Tensor, norms: Tensor, known: Tensor | None = None) -> Ends:
    """Where states end that start at ẑ_s of sentences s (n, width), perturbed by each of K norms
    (K,) in one random direction a state, after 5T steps; the nearest is of the sentences `known`
    (U, width) and s, or of all.
    """
    start = model.embed(s)
    direction = torch.nn.functional.normalize(torch.randn_like(start), dim=-1)
    beside = (start + norms[:, None, None] * direction).flatten(0, 1)
    origin, said = start.repeat(len(norms), 1), s.repeat(len(norms), 1)
    steps = LENGTHS[-1] * model.steps
    z = torch.cat(
        [
            settle(model, z0, e, steps)
            for z0, e in zip(beside.split(ROWS), origin.split(ROWS), strict=True)
        ]
    )
    moved, near = (z - origin).norm(dim=-1), nearest_sentence(model, z, known, indexed=True)
    sentence = torch.where((moved <= near.distance)[:, None], said, near.s)
    return Ends(
        *(
            part.unflatten(0, (len(norms), -1))
            for part in (moved, near.distance.minimum(moved), sentence)
        )
    )


@torch.no_grad()
def compare_features(
    decoder: FeatureDecoder,
    model: AttractorModel,
    s: Tensor,
    norms: Tensor,
    ends: Ends,
    times: Tensor,
) -> pd.DataFrame:
    """How much of the meaning of n sentences s (n, width) is left in the sentences nearest to where
    states end that started beside them, perturbed by K norms (K,).

    `times` (resamples, n) says how often each start counts in a bootstrap sample
    (`plot_attractors.evaluation.metrics.bootstrap.resample`). A row for each norm, and for the
    sentence and each feature:

    - ``kind``: ``sentence``, ``categorical`` or ``continuous``;
    - ``value``: share of states whose nearest sentence is s; share of those that the decoder names
      the same likeliest outcome at ẑ_n of and at ẑ_s; root mean squared difference of its
      predictions there, in the feature's units;
    - ``low``, ``high``: its 95 % bootstrap interval over sentences;
    - ``random``: the same of all n(n − 1) pairs of different starts, ẑ_s beside the ẑ_s of another;
    NaN for n = 1.
    """
    features, at_s, at_n = (
        decoder.features,
        decoder(model.embed(s)),
        decoder(model.embed(ends.sentence)),
    )
    same = (ends.sentence == s).all(-1, keepdim=True)
    score = torch.cat([same.to(at_s.outputs.dtype), at_n.score(at_s.values)], -1)  # (K, n, 1 + F)
    said = torch.cat([number_sentences(model, s)[:, None].double(), at_s.values.double()], -1)
    kinds = [SENTENCE, *(f.kind for f in features)]
    squared = torch.tensor([kind == "continuous" for kind in kinds])
    found = bootstrap(score.transpose(0, 1).flatten(1), times)
    shares = [part.unflatten(0, (len(norms), -1)) for part in found]
    levels = torch.stack(
        [torch.where(squared, part.sqrt(), part) for part in shares], -1
    )  # (K, 1 + F, 3)
    tables = []
    for k, (name, kind) in enumerate(
        zip([SENTENCE, *(f.name for f in features)], kinds, strict=True)
    ):
        table = pd.DataFrame(levels[:, k], columns=["value", "low", "high"])
        keys = {"norm": norms.tolist(), "feature": name, "kind": kind}
        tables.append(
            pd.DataFrame(keys).join(table).assign(random=_of_random_pairs(said[:, k], kind))
        )
    return pd.concat(tables, ignore_index=True)


def _of_random_pairs(values: Tensor, kind: str) -> float:
    """Of all ordered pairs of values (n,), the share that are alike, or of continuous ones the root
    mean squared difference.
    """
    n = len(values)
    if n < 2:
        return math.nan
    if kind == "continuous":
        return float((2 * values.var()).sqrt())
    times = values.unique(return_counts=True)[1].double()
    return float((times * (times - 1)).sum()) / (n * (n - 1))


def _extent(model: AttractorModel, s: Tensor, known: Tensor | None) -> Tensor:
    """(m, width) the sentences between whose embeddings the largest distance is the largest
    norm.
    """
    given = s.unique(dim=0) if known is None else known
    if len(given) > 1:
        return given
    if is_listed(model):
        return model.sentences
    return SentencePolicy(
        model.language.prior_logits, model.language, (len(s),), device=model.device
    ).sample()


def _largest_distance(points: Tensor) -> float:
    """The largest distance between any two of points (n, d)."""
    rows = points.split(max(1, CELLS // len(points)))
    return max(float(torch.cdist(part, points).max()) for part in rows)


def _tabulate(norms: Tensor, ends: Ends, radius: float) -> pd.DataFrame:
    rows = []
    for target in TARGETS:
        distance: Tensor = getattr(ends, target)
        levels = distance.double().quantile(
            torch.tensor(PERCENTILES, dtype=torch.float64) / 100, -1
        )
        for norm, level, d in zip(norms.tolist(), levels.T.tolist(), distance, strict=True):
            row = {"norm": norm, "target": target, "within": float((d <= radius).double().mean())}
            rows.append(row | {f"p{p}": v for p, v in zip(PERCENTILES, level, strict=True)})
    return pd.DataFrame(rows)


@torch.no_grad()
def _listed(model: AttractorModel) -> Sentences:
    embeddings = model.embeddings()
    return Sentences(embeddings, (model.decoder(embeddings).logits > 0).float())


def _said(run: Run, model: AttractorModel, n: int) -> Tensor:
    """(n, width) sentences that are read at the end of a trajectory from each of n inputs."""
    return model.describe(run.data.batch(n).x).s[:, 0]


def _perturb(
    model: AttractorModel, start: Sentences, used: Sentences, norm: Tensor
) -> dict[str, float]:
    """One row's numbers, of states that start beside `start` by perturbations of the given norms
    (n,).
    """
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
    """How far states z (n, d) are from sentences in use that mean the same as `start` (n), and
    something else.
    """
    parts = []
    for rows in torch.arange(len(z)).split(max(1, CELLS // len(used.bits))):
        # not by matrix products, which round away the small distances that matter here
        distance = torch.cdist(z[rows], used.embedding, compute_mode="donot_use_mm_for_euclid_dist")
        same = _differing(start.bits[rows], used.bits) <= SAME_MEANING
        far = torch.full_like(distance, math.inf)
        parts.append(
            (torch.where(same, distance, far).amin(-1), torch.where(same, far, distance).amin(-1))
        )
    return Nearest(*(torch.cat(part) for part in zip(*parts, strict=True)))


def _differing(bits: Tensor, others: Tensor) -> Tensor:
    """(n, m) in how many bits each of bits (n, N) differs from each of others (m, N)."""
    return bits @ (1 - others).T + (1 - bits) @ others.T


def _draw_distances(table: pd.DataFrame, critical: Critical) -> Figure:
    figure = Figure(figsize=(10.5, 4.8), layout="constrained")
    panels = figure.subplots(1, 2, sharex=True, sharey=True)
    levels = table[[f"p{p}" for p in PERCENTILES]].to_numpy(dtype=float)
    low, high, largest = float(levels.min()), float(levels.max()), float(table["norm"].max())
    for axes, (target, title) in zip(panels, TARGETS.items(), strict=True):
        _draw_norms(axes, largest)
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter("")
        axes.set_ylim(0.8 * max(low, high / 1e4), 1.25 * high)
        if math.isfinite(critical.norm):
            if not critical.reason:
                axes.axvspan(
                    critical.low, min(critical.high, largest), color=GREEN, alpha=0.2, linewidth=0
                )
            axes.axvline(critical.norm, color=GREEN, linewidth=1.6)
        _draw_percentiles(axes, table[table["target"] == target])
        axes.set_title(title)
    left = panels[0]
    left.set_ylabel("distance after 5T steps")
    if math.isfinite(critical.norm):
        interval = (
            "(one sentence)" if critical.reason else f"[{critical.low:.3g}, {critical.high:.3g}]"
        )
        note = f"critical perturbation {critical.norm:.3g} {interval}"
        left.set_title(note, loc="right", fontsize=9, color=GREEN)
    else:
        note = "no critical perturbation:\n" + "\n".join(textwrap.wrap(critical.reason, 44))
        left.text(0.03, 0.97, note, transform=left.transAxes, va="top", fontsize=9, color=GREEN)
    return figure


def _draw_norms(axes: Axes, largest: float, least: float = 1 / 50) -> None:
    """An axis of norms up to the largest, as square roots; `least` of it is the first that is named
    beside 0.
    """
    ticks = [digit * 10.0**power for power in range(-6, 7) for digit in (1, 2, 5)]
    axes.set_xscale("function", functions=(np.sqrt, np.square))
    axes.set_xlim(0, largest)
    axes.set_xticks([0.0, *(x for x in ticks if least * largest <= x <= largest)])
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("‖ν‖, norm of the perturbation")


def _draw_percentiles(axes: Axes, table: pd.DataFrame) -> None:
    """A line for each percentile against the norm, named at its end where the names have room."""
    bottom, top = np.log(axes.get_ylim())
    taken: list[float] = []
    for p in sorted(
        PERCENTILES, key=lambda p: (p != 50, -abs(p - 50))
    ):  # the median first, then the outer ones
        x, y = table["norm"], table[f"p{p}"]
        name, colour, line, width = (
            ("median", CRIMSON, "--", 2.2) if p == 50 else (f"{p} %", BLUE, "-", 0.9)
        )
        axes.plot(x, y, color=colour, linestyle=line, linewidth=width, zorder=3 if p == 50 else 2)
        height = float((np.log(max(y.iloc[-1], 1e-12)) - bottom) / (top - bottom))
        if 0 <= height <= 1 and all(abs(height - other) > 0.03 for other in taken):
            taken.append(height)
            axes.text(
                1.01, height, name, transform=axes.transAxes, va="center", fontsize=8, color=colour
            )


def _draw_features(table: pd.DataFrame, critical: Critical) -> Figure:
    names = list(dict.fromkeys(table["feature"]))
    lines = math.ceil(len(names) / COLUMNS)
    figure = Figure(figsize=(10.5, 0.6 + 3 * lines), layout="constrained")
    panels = figure.subplots(lines, COLUMNS, squeeze=False).flatten()
    for axes, name in zip(panels, names, strict=False):
        part = table[table["feature"] == name]
        kind = part["kind"].iloc[0]
        x = part["norm"]
        _draw_norms(axes, float(x.max()), 1 / 12)
        if math.isfinite(critical.norm):
            axes.axvline(critical.norm, color=GREEN, linewidth=1.6, label="critical perturbation")
        axes.fill_between(x, part["low"], part["high"], color=BLUE, alpha=0.2, linewidth=0)
        axes.plot(
            x, part["value"], color=BLUE, marker="o", markersize=3, label="states after 5T steps"
        )
        axes.axhline(
            part["random"].iloc[0], color=GREY, linestyle="--", label="random pairs of sentences"
        )
        axes.set_title("the sentence itself" if kind == SENTENCE else plain(name))
        axes.set_ylabel("RMS difference" if kind == "continuous" else "share of states")
        axes.set_ylim(0, None if kind == "continuous" else 1.03)
    for axes in panels[len(names) :]:
        axes.set_visible(False)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def _draw(table: pd.DataFrame, model: AttractorModel) -> Figure:
    figure = Figure(figsize=(10.5, 5), layout="constrained")
    left, right = figure.subplots(1, 2)
    for start, name in STARTS.items():
        part, colour = table[table["start"] == start], COLOURS[start]
        x = part["factor"]
        left.fill_between(
            x, part["recovered_low"], part["recovered_high"], color=colour, alpha=0.2, linewidth=0
        )
        left.plot(
            x,
            part["recovered"],
            color=colour,
            marker="o",
            markersize=4,
            label=f"same meaning: {name}",
        )
        left.plot(
            x,
            part["nearest_same"],
            color=colour,
            linestyle=":",
            label=f"nearest of the same: {name}",
        )
        left.plot(x, part["settled"], color=colour, linestyle="--", label=f"any meaning: {name}")
        x = part["norm"]
        right.plot(
            x,
            part["distance_to_start"],
            color=colour,
            marker="o",
            markersize=4,
            label=f"to the start: {name}",
        )
        right.plot(
            x,
            part["distance_to_nearest"],
            color=colour,
            linestyle="--",
            label=f"to the nearest: {name}",
        )
    left.axvline(1, color=GREY, linestyle=":", label="half way to another meaning")
    left.set_ylim(0, 1.03)
    left.set_xlim(0, max(FACTORS))
    left.set_title("Back at an embedding")
    left.set_xlabel("size of the perturbation, in half distances to another meaning")
    left.set_ylabel("share of states after 5T steps")
    right.axhline(
        model.epsilon * math.sqrt(model.latent),
        color="black",
        linestyle=":",
        label="exact samples, ε√d",
    )
    right.set_xlim(left=0)
    right.set_ylim(bottom=0)
    right.set_title("Distance from embeddings")
    right.set_xlabel("median ‖ν‖, size of the perturbation")
    right.set_ylabel("median distance after 5T steps")
    for axes in (left, right):
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14))
    return figure
