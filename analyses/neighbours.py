"""Whether embeddings that share a basin mean the same: features of a sentence and of the one where
its state ends.
"""

from __future__ import annotations

import math
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from torch import Tensor

from plot_attractors.data import Feature
from plot_attractors.evaluation.metrics.bootstrap import bootstrap, resample
from plot_attractors.evaluation.probes import feature_decoders, is_described, require_described
from plot_attractors.evaluation.sampling import (
    LENGTHS,
    is_listed,
    nearest_sentence,
    number_sentences,
    require_attractors,
    sentences_in_use,
    settle,
)
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.plots.style import (
    BLUE,
    CLASS_COLOURS,
    CRIMSON,
    GREEN,
    GREY,
    ORANGE,
    own_colours,
    plain,
    save,
    style,
)

if TYPE_CHECKING:
    from plot_attractors.runs import Run

__all__ = [
    "CAPTIONS",
    "TITLE",
    "Correlation",
    "Ends",
    "analyze",
    "applies",
    "correlate",
    "find_ends",
]

TITLE = "Neighbours"
CAPTIONS = {
    "neighbours": (
        "Do sentences that share a basin mean the same? A state starts exactly at the embedding "
        "ẑ_s of a sentence, as "
        "often as trajectories of inputs say it, and follows the dynamics for five times T steps. "
        "Kept are the states "
        "that end nearer to ẑ_s than the median state, and yet nearest to the embedding ẑ_n of "
        "another sentence in "
        "use (of any other sentence, where there are too many to list); where these are too few, "
        "all states that end "
        "nearest to another one, as the headline says. A decoder that has learned to tell the "
        "inputs' features from "
        "states reads both embeddings. A panel for each feature: what it says at ẑ_s (across) and "
        "at ẑ_n (up), a point "
        "for each pair and, where a feature has several outcomes, for the probability of each of "
        "them. Dashed: line of "
        "best fit; r: Pearson correlation of all points of a panel, with its 95 % interval; random "
        "pairs: the same r "
        "with each ẑ_s beside the ẑ_n of another, above 0 where some outcomes are likelier than "
        "others for all "
        "sentences; within outcomes: r without these differences. Points near the grey diagonal "
        "are sentences of one "
        "meaning."
    )
}

INPUTS = 512  # inputs that tell which sentences are in use
TRAJECTORIES = 2000  # unperturbed starts
LEAST = 20  # different sentences that a correlation needs
NEAR, ALL = (
    "near",
    "all",
)  # pairs of states that stay near their start, and of all that end elsewhere
SHOWN = 400  # pairs that are drawn
FEW_COLOURS = (BLUE, ORANGE, GREEN)


class Ends(NamedTuple):
    """Where n states are: distance (n,) to the ẑ_s of their start, the nearest sentence (n, width),
    and whether that is another one and nearer than ẑ_s (n,).
    """

    distance: Tensor
    nearest: Tensor
    elsewhere: Tensor


class Pairs(NamedTuple):
    """n pairs of embeddings: numbers (n,) of the sentences s, predictions (n, k) of each feature at
    ẑ_s and at ẑ_n.
    """

    start: Tensor
    original: tuple[Tensor, ...]
    other: tuple[Tensor, ...]


class Correlation(NamedTuple):
    """Pearson r with its 95 % interval, the line of best fit of ẑ_n's prediction on ẑ_s's, r of
    random pairs, and r within columns; why what is NaN is so.
    """

    r: float = math.nan
    r_low: float = math.nan
    r_high: float = math.nan
    r_random: float = math.nan
    r_within: float = math.nan
    slope: float = math.nan
    intercept: float = math.nan
    reason: str = ""


def applies(run: Run) -> bool:
    """Whether the run's model has attractors, and its data has features."""
    return isinstance(run.model, AttractorModel) and is_described(run)


@torch.no_grad()
def analyze(run: Run, out: Path) -> None:
    """Write ``summary.csv``, ``ends.csv`` and the figure ``neighbours`` into ``out``.

    States start at ẑ_s, with s as read at z_T of trajectories of training inputs, and follow the
    forward dynamics for T' = 5T steps, see `plot_attractors.evaluation.sampling.settle`. ẑ_n is the
    nearest of all embeddings of sentences in use, or of all sentences where these are too many to
    list (`plot_attractors.evaluation.sampling.nearest_sentence`).

    - ``summary.csv`` (pairs, feature, n, r, r_low, r_high, r_random, r_within, slope, intercept,
      reason): a row for each choice of pairs (ẑ_s, ẑ_n) and each feature; n pairs; see `correlate`.
      ``near``, the paper's, are of the states that end nearer to ẑ_n ≠ ẑ_s than to ẑ_s and have
      ‖z'_{T'} − ẑ_s‖ below its median over all states; ``all`` are without that bound. A
      categorical feature's values are the probabilities of all its outcomes, pooled;
    - ``ends.csv`` (trajectories, median_distance, elsewhere, elsewhere_low, elsewhere_high, near,
      sentences): one row; median of ‖z'_{T'} − ẑ_s‖; share of states that end nearer to ẑ_n ≠ ẑ_s
      than to ẑ_s, with its 95 % bootstrap interval over sentences s; share of states that make a
      pair of ``near``; different s.

    The figure shows ``near`` where these are of `LEAST` sentences or more, else ``all``. Raises
    ValueError where the model has no attractors, or the data has no features. Source: Section
    *Attractor dynamics*, Fig. *nn_similarity*.
    """
    model = require_attractors(run.model)
    _, data = require_described(run)
    x = run.data.batch(INPUTS).x
    used = model.sentences[sentences_in_use(model, x)] if is_listed(model) else None
    said = model.describe(run.data.batch(TRAJECTORIES).x).s[:, 0]
    start = number_sentences(model, said)
    ends = find_ends(model, said, used)
    middle = ends.distance.median()
    chosen = {NEAR: ends.elsewhere & (ends.distance < middle), ALL: ends.elsewhere}
    decoder = feature_decoders(run)[0]
    pairs = {
        name: Pairs(
            start[kept], *(decoder(model.embed(s[kept])).parts for s in (said, ends.nearest))
        )
        for name, kept in chosen.items()
    }
    found = {name: _correlations(of) for name, of in pairs.items()}
    rows = [
        {"pairs": name, "feature": feature.name, "n": len(pairs[name].start)}
        | correlation._asdict()
        for name, correlations in found.items()
        for feature, correlation in zip(data.features, correlations, strict=True)
    ]
    pd.DataFrame(rows).to_csv(out / "summary.csv", index=False)
    elsewhere = bootstrap(ends.elsewhere[:, None].double(), resample(start[:, None]))
    row = {
        "trajectories": len(start),
        "median_distance": float(middle),
        "elsewhere": float(elsewhere.value),
        "elsewhere_low": float(elsewhere.low),
        "elsewhere_high": float(elsewhere.high),
        "near": float(chosen[NEAR].double().mean()),
        "sentences": len(start.unique()),
    }
    pd.DataFrame([row]).to_csv(out / "ends.csv", index=False)
    shown = NEAR if _sentences(pairs[NEAR]) >= LEAST else ALL
    with style():
        save(
            _draw(data.features, pairs[shown], found[shown], _headline(shown, pairs, row)),
            out / "neighbours",
        )


def _sentences(pairs: Pairs) -> int:
    """How many different sentences s there are."""
    return len(pairs.start.unique())


def _correlations(pairs: Pairs) -> list[Correlation]:
    enough = _sentences(pairs) >= LEAST
    times = resample(pairs.start[:, None]) if enough else torch.ones(1, len(pairs.start))
    return [
        correlate(a, b, pairs.start, times)
        for a, b in zip(pairs.original, pairs.other, strict=True)
    ]


@torch.no_grad()
def find_ends(model: AttractorModel, s: Tensor, used: Tensor | None = None) -> Ends:
    """Where states are 5T steps after they started at the ẑ_s of sentences s (n, width); the
    nearest is of those `used` (U, width), or of all sentences.
    """
    embedding = model.embed(s)
    z = settle(model, embedding, embedding, LENGTHS[-1] * model.steps)
    distance = (z - embedding).norm(dim=-1)
    near = nearest_sentence(model, z, used, indexed=True)
    return Ends(distance, near.s, (near.s != s).any(-1) & (near.distance < distance))


def correlate(original: Tensor, other: Tensor, start: Tensor, times: Tensor) -> Correlation:
    """Pearson r over all n pairs and all k columns of predictions (n, k) at ẑ_s and at ẑ_n.

    The line is of least squares. The interval is from a bootstrap over the sentences s, `start`
    (n,), since pairs of one are not independent: `times` (resamples, n), their
    `plot_attractors.evaluation.metrics.bootstrap.resample`, says how often each pair counts.
    Columns are pooled, so r is above 0 already where the columns' means differ: `r_random` is the
    mean of r over all n! ways to pair the same n predictions anew, 0 for a single column.
    `r_within` is r of predictions less their column's mean, NaN, with the reason, where nothing is
    left; it equals r for a single column.

    Fewer than `LEAST` different sentences, or predictions that are all alike: NaN, with the reason.
    """
    n, sentences = len(original), len(start.unique())
    if sentences < LEAST:
        return Correlation(
            reason=f"{n} pairs of {sentences} different sentences: a correlation needs {LEAST} sentences"
        )
    a, b = original.double(), other.double()
    once = _moments(a, b, torch.ones(1, n, dtype=torch.float64))
    if min(float(once.var_a), float(once.var_b)) < 1e-12:
        return Correlation(reason="the decoder says the same of all sentences")
    r = once.cov / (once.var_a * once.var_b).sqrt()
    within = _moments(a - a.mean(0), b - b.mean(0), torch.ones(1, n, dtype=torch.float64))
    left = min(float(within.var_a), float(within.var_b)) >= 1e-12
    of_means = ((a.mean(0) - a.mean()) * (b.mean(0) - b.mean())).mean()
    again = _moments(a, b, times.double())
    low, high = (again.cov / (again.var_a * again.var_b).sqrt()).nanquantile(
        torch.tensor([0.025, 0.975], dtype=torch.float64)
    )
    slope = once.cov / once.var_a
    return Correlation(
        float(r),
        float(low),
        float(high),
        float(of_means / (once.var_a * once.var_b).sqrt()),
        float(within.cov / (within.var_a * within.var_b).sqrt()) if left else math.nan,
        float(slope),
        float(b.mean() - slope * a.mean()),
        "" if left else "no r_within: every outcome is as probable at all embeddings",
    )


class _Moments(NamedTuple):
    var_a: Tensor
    var_b: Tensor
    cov: Tensor


def _moments(a: Tensor, b: Tensor, times: Tensor) -> _Moments:
    """(resamples,) variances and covariance of a and b (n, k), pooled over columns, with weights
    (resamples, n).
    """
    a, b = a - a.mean(), b - b.mean()
    weight = times / times.sum(-1, keepdim=True)
    mean_a, mean_b = weight @ a.mean(-1), weight @ b.mean(-1)
    return _Moments(
        weight @ a.square().mean(-1) - mean_a**2,
        weight @ b.square().mean(-1) - mean_b**2,
        weight @ (a * b).mean(-1) - mean_a * mean_b,
    )


def _headline(shown: str, pairs: dict[str, Pairs], row: dict[str, float]) -> str:
    line = (
        f"{row['elsewhere']:.0%} of {row['trajectories']} states end nearest to another embedding, "
        f"{len(pairs[NEAR].start)} of these nearer to ẑ_s than the median state."
    )
    return (
        line
        if shown == NEAR
        else f"{line}\nSince that is too few: all {len(pairs[ALL].start)} that end elsewhere."
    )


def _draw(
    features: tuple[Feature, ...], pairs: Pairs, found: list[Correlation], headline: str
) -> Figure:
    columns = min(3, len(features))
    lines = math.ceil(len(features) / columns)
    figure = Figure(figsize=(10.5, 0.8 + 3.5 * lines), layout="constrained")
    panels = figure.subplots(lines, columns, squeeze=False).flatten()
    shared = len({feature.outcomes for feature in features}) == 1
    for axes, feature, a, b, correlation in zip(
        panels, features, pairs.original, pairs.other, found, strict=False
    ):
        axes.set_title(plain(feature.name))
        _draw_pairs(axes, feature, a[:SHOWN], b[:SHOWN], correlation)
        what = "probability" if feature.categorical else "prediction"
        axes.set_xlabel(f"{what} at ẑ_s")
        axes.set_ylabel(f"{what} at ẑ_n")
        if feature.categorical and not shared:
            axes.legend(handles=_handles(feature), loc="lower right", fontsize=8)
    for axes in panels[len(features) :]:
        axes.set_visible(False)
    if shared and features[0].categorical:
        figure.legend(handles=_handles(features[0]), loc="outside lower center", ncols=8)
    figure.suptitle(headline, x=0.01, ha="left", fontsize=10)
    return figure


def _draw_pairs(
    axes: Axes, feature: Feature, a: Tensor, b: Tensor, correlation: Correlation
) -> None:
    if math.isnan(correlation.r):
        axes.text(
            0.05,
            0.95,
            textwrap.fill(correlation.reason, 34),
            transform=axes.transAxes,
            va="top",
            fontsize=9,
        )
        axes.set_xticks([])
        axes.set_yticks([])
        return
    for k, colour in enumerate(_colours(feature)):
        axes.scatter(
            a[:, k], b[:, k], s=12, color=colour, alpha=0.45, linewidths=0, rasterized=True
        )
    low, high = (
        (0.0, 1.0)
        if feature.categorical
        else (float(min(a.min(), b.min())), float(max(a.max(), b.max())))
    )
    room = 0.03 * (high - low)
    ends = [low - room, high + room]
    axes.plot(ends, ends, color=GREY, linewidth=0.9, zorder=0)
    axes.plot(
        ends,
        [correlation.intercept + correlation.slope * x for x in ends],
        color=CRIMSON,
        linestyle="--",
        linewidth=1.8,
    )
    axes.set_xlim(*ends)
    axes.set_ylim(ends[0], ends[1] + 8 * room)  # room for the note
    if feature.categorical:
        axes.set_yticks([0, 0.2, 0.4, 0.6, 0.8, 1])
    note = (
        f"r = {correlation.r:.2f} [{correlation.r_low:.2f}, {correlation.r_high:.2f}]\n"
        f"random pairs {correlation.r_random:.2f}"
    )
    if feature.categorical:
        note += (
            ""
            if math.isnan(correlation.r_within)
            else f"; within outcomes {correlation.r_within:.2f}"
        )
    axes.text(0.03, 0.98, note, transform=axes.transAxes, va="top", fontsize=8.5)


def _colours(feature: Feature) -> tuple[str, ...]:
    if own := own_colours(feature):
        return own
    few = feature.columns <= len(FEW_COLOURS)
    return tuple(
        (FEW_COLOURS if few else CLASS_COLOURS)[k % len(CLASS_COLOURS)]
        for k in range(feature.columns)
    )


def _handles(feature: Feature) -> list[Line2D]:
    return [
        Line2D([], [], color=colour, marker="o", linestyle="", markersize=5, label=plain(outcome))
        for colour, outcome in zip(_colours(feature), feature.outcomes, strict=True)
    ]
