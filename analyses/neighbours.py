"""Whether sentences that share a basin mean the same: their features, as a decoder reads them."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from plot_attractors.analysis import probes, sampling
from plot_attractors.analysis.parts import dot
from plot_attractors.analysis.shape import ATTRACTORS, DESCRIBED
from plot_attractors.analysis.style import CRIMSON, GREY, colours_of, plain
from plot_attractors.data import Feature
from plot_attractors.measures.bootstrap import resample
from plot_attractors.ranges import Size
from plot_attractors.runs import Run

TITLE = "Neighbours"
CAPTIONS = {
    "neighbours": (
        "Do sentences that share a basin mean the same? States start exactly at the embedding ẑ_s "
        "of a sentence sampled for an input, and follow the dynamics for 5T steps. Kept are those "
        "that end nearer to ẑ_s than the median state, and yet nearest to ẑ_n of another sentence "
        "(of all that can be said); where these are too few, all that end nearest to "
        "another one, as the headline says. A panel for each feature: what a decoder of features "
        "reads at ẑ_s (across) and at ẑ_n (up), a point for each pair and outcome. Dashed: line of "
        "best fit; r: Pearson correlation of all points, with its 95 % interval; random pairs: the "
        "same with each ẑ_s beside the ẑ_n of another, above 0 where some outcomes are likelier "
        "than others; within outcomes: r without these differences. Of colours the means of R, G "
        "and B, too, as in the paper. Grey: alike in meaning. A "
        "state that ends at a sentence of the same meaning counts here as a pair, and as recovered "
        "in the analysis perturbation."
    )
}


@dataclass(frozen=True)
class Config(probes.DecoderTraining):
    trajectories: Size = 2000  # unperturbed starts


NEEDS = ATTRACTORS & DESCRIBED


# -- measures --------------------------------------------------------------------------------------


SHOWN = 400  # pairs that are drawn
LEAST = 20  # different sentences that a correlation needs
CHANNELS = "RGB"


class Correlation(NamedTuple):
    """Pearson r with its 95 % interval, r of random pairs, r within columns, and the line of best
    fit of ẑ_n's prediction on ẑ_s's; why what is NaN is so.
    """

    r: float = math.nan
    r_low: float = math.nan
    r_high: float = math.nan
    r_random: float = math.nan
    r_within: float = math.nan
    slope: float = math.nan
    intercept: float = math.nan
    reason: str = ""


class Pairs(NamedTuple):
    """n pairs of embeddings: numbers (n,) of the sentences s, predictions (n, k) of each feature at
    ẑ_s and at ẑ_n.
    """

    start: Tensor
    original: tuple[Tensor, ...]
    other: tuple[Tensor, ...]

    @property
    def sentences(self) -> int:
        """How many different sentences s there are."""
        return len(self.start.unique())

    def correlations(self) -> list[Correlation]:
        """One for each feature, with a bootstrap over sentences."""
        enough = self.sentences >= LEAST
        times = resample(self.start[:, None]) if enough else torch.ones(1, len(self.start))
        features = zip(self.original, self.other, strict=True)
        return [correlate(a, b, self.start, times) for a, b in features]

    def arrays(self, features: Sequence[Feature]) -> dict[str, np.ndarray]:
        """The first pairs: predictions (n, D) of all features side by side, the feature, outcome
        and own colour of each column, the latter two empty where there is none.
        """
        columns = [
            (f.name, outcome, f.colours[k] if f.colours else "")
            for f in features
            for k, outcome in enumerate(f.outcomes or ("",))
        ]
        names = zip(("feature", "outcome", "colour"), zip(*columns, strict=True), strict=True)
        parts = {"original": self.original, "other": self.other}
        return {name: np.array(texts) for name, texts in names} | {
            name: torch.cat(part, -1)[:SHOWN].numpy() for name, part in parts.items()
        }


def correlate(original: Tensor, other: Tensor, start: Tensor, times: Tensor) -> Correlation:
    """Pearson r over all n pairs and all k columns of predictions (n, k) at ẑ_s and at ẑ_n.

    The line is of least squares. The interval is from a bootstrap over the sentences s, `start`
    (n,), since pairs of one are not independent: `times` (resamples, n), their
    `plot_attractors.measures.bootstrap.resample`, says how often each pair counts.
    Columns are pooled, so r is above 0 already where the columns' means differ: `r_random` is the
    mean of r over all n! ways to pair the same n predictions anew, 0 for a single column.
    `r_within` is r of predictions less their column's mean, NaN, with the reason, where nothing is
    left; it equals r for a single column.

    Fewer than `LEAST` different sentences, or predictions that are all alike: NaN, with the reason.
    """
    n, sentences = len(original), len(start.unique())
    if sentences < LEAST:
        size = f"{n} pairs of {sentences} different sentences"
        return Correlation(reason=f"{size}: a correlation needs {LEAST} sentences")
    a, b = original.double(), other.double()
    ones = torch.ones(1, n, dtype=torch.float64)
    once = _moments(a, b, ones)
    if min(float(once.var_a), float(once.var_b)) < 1e-12:
        return Correlation(reason="the decoder predicts the same of all sentences")
    within = _moments(a - a.mean(0), b - b.mean(0), ones)
    left = min(float(within.var_a), float(within.var_b)) >= 1e-12
    of_means = ((a.mean(0) - a.mean()) * (b.mean(0) - b.mean())).mean()
    bounds = torch.tensor([0.025, 0.975], dtype=torch.float64)
    low, high = _moments(a, b, times.double()).r.nanquantile(bounds)
    slope = once.cov / once.var_a
    return Correlation(
        r=float(once.r),
        r_low=float(low),
        r_high=float(high),
        r_random=float(of_means / (once.var_a * once.var_b).sqrt()),
        r_within=float(within.r) if left else math.nan,
        slope=float(slope),
        intercept=float(b.mean() - slope * a.mean()),
        reason="" if left else "no r_within: every outcome is as probable at all embeddings",
    )


class _Moments(NamedTuple):
    """(resamples,) variances and covariance."""

    var_a: Tensor
    var_b: Tensor
    cov: Tensor

    @property
    def r(self) -> Tensor:
        return self.cov / (self.var_a * self.var_b).sqrt()


def _moments(a: Tensor, b: Tensor, times: Tensor) -> _Moments:
    """Those of a and b (n, k), pooled over columns, with weights (resamples, n)."""
    a, b = a - a.mean(), b - b.mean()
    weight = times / times.sum(-1, keepdim=True)
    mean_a, mean_b = weight @ a.mean(-1), weight @ b.mean(-1)
    return _Moments(
        weight @ a.square().mean(-1) - mean_a**2,
        weight @ b.square().mean(-1) - mean_b**2,
        weight @ (a * b).mean(-1) - mean_a * mean_b,
    )


def channels(prediction: probes.Prediction) -> tuple[list[Feature], list[Tensor]]:
    """The features and their predictions (n, k), and of colours (r, g, b) the mean of each channel
    (n, 1), as the paper has them.
    """
    features, parts = [], []
    for feature, part in zip(prediction.features, prediction.parts, strict=True):
        features.append(feature)
        parts.append(part)
        if feature.colours:
            features += [Feature(f"{feature.name} {channel}") for channel in CHANNELS]
            parts += feature.mean_place(part).split(1, -1)
    return features, parts


@torch.no_grad()
def measure(run: Run, config: Config) -> dict[str, Any]:
    """Features at ẑ_s, s read at z_T of trajectories of training inputs, and at the nearest ẑ_n.

    - ``summary.csv``: a row for each choice of pairs (ẑ_s, ẑ_n) and each feature; ``n`` pairs; see
      `correlate`. ``near``, the paper's, are of the states that are nearest to ẑ_n ≠ ẑ_s after 5T
      steps and have ‖z' − ẑ_s‖ below its median over all states; ``all``, without that bound. A
      categorical feature's values are the probabilities of all its outcomes, pooled; of colours
      there are the means of R, G and B besides;
    - ``ends.csv``, a row: ``trajectories``; ``elsewhere``, share of states nearest to ẑ_n ≠ ẑ_s;
    - ``pairs.npz``: what is shown: ``near`` if these are of `LEAST` sentences, else ``all``.

    Raises ValueError where the model has no attractors, or the data has no features. Source:
    Section *Attractor dynamics*, Fig. *nn_similarity*.
    """
    model = run.model
    s = sampling.sampled_sentences(run, config.trajectories)
    start = sampling.number_sentences(model, s)
    ends = sampling.end_states(model, s, model.embed(s))
    elsewhere = (ends.sentence != s).any(-1)
    chosen = {"near": elsewhere & (ends.original < ends.original.median()), "all": elsewhere}
    decoder, rows, pairs = probes.feature_decoders(run, config)[0], [], {}
    for name, kept in chosen.items():
        features, here = channels(decoder(model.embed(s[kept])))
        there = channels(decoder(model.embed(ends.sentence[kept])))[1]
        pairs[name] = Pairs(start[kept], tuple(here), tuple(there))
        results = zip(features, pairs[name].correlations(), strict=True)
        n = int(kept.sum())
        rows += [{"pairs": name, "feature": f.name, "n": n} | r._asdict() for f, r in results]
    row = {"trajectories": len(start), "elsewhere": float(elsewhere.double().mean())}
    shown = "near" if pairs["near"].sentences >= LEAST else "all"
    return {
        "summary.csv": pd.DataFrame(rows),
        "ends.csv": pd.DataFrame([row]),
        "pairs.npz": pairs[shown].arrays(features) | {"shown": np.array(shown)},
    }


# -- figures ---------------------------------------------------------------------------------------


def draw_neighbours(
    pairs: Mapping[str, np.ndarray], summary: pd.DataFrame, ends: Mapping[str, Any]
) -> Figure:
    """The arrays and tables of the analysis, `ends` the row of ``ends.csv``."""
    shown = str(pairs["shown"])
    rows: list[Any] = summary[summary["pairs"] == shown].to_dict("records")
    # the columns of each feature, in the order of the rows
    names, first = np.unique(pairs["feature"], return_index=True)
    features = [np.flatnonzero(pairs["feature"] == name) for name in names[first.argsort()]]
    outcomes = [tuple(filter(None, pairs["outcome"][part].tolist())) for part in features]
    lines, columns = math.ceil(len(features) / 3), min(3, len(features))
    figure = Figure(figsize=(10.5, 0.8 + 3.5 * lines), layout="constrained")
    panels = figure.subplots(lines, columns, squeeze=False).flatten()
    for axes, part, names_of, row in zip(panels, features, outcomes, rows, strict=False):
        colours = colours_of(pairs["colour"][part].tolist(), len(part))
        axes.set_title(plain(str(pairs["feature"][part[0]])))
        if math.isnan(row["r"]):
            note, place = textwrap.fill(row["reason"], 34), {"transform": axes.transAxes}
            axes.text(0.05, 0.95, note, va="top", fontsize=9, **place)
            axes.set(xticks=[], yticks=[])
        else:
            original, other = pairs["original"][:, part], pairs["other"][:, part]
            _draw_pairs(axes, original, other, colours, row, categorical=bool(names_of))
        what = "probability" if names_of else "prediction"
        axes.set(xlabel=f"{what} at ẑ_s", ylabel=f"{what} at ẑ_n")
        if names_of:
            named = zip(colours, names_of, strict=True)
            handles = [dot(colour, plain(name)) for colour, name in named]
            axes.legend(handles=handles, loc="lower right", fontsize=8)
    for axes in panels[len(features) :]:
        axes.set_visible(False)
    count = {name: part["n"].iloc[0] for name, part in summary.groupby("pairs")}
    headline = (
        f"{ends['elsewhere']:.0%} of {ends['trajectories']} states end nearest to another "
        f"embedding, {count['near']} of these nearer to ẑ_s than the median state."
    )
    if shown == "all":
        headline += f"\nSince that is too few: all {count['all']} that end elsewhere."
    figure.suptitle(headline, x=0.01, ha="left", fontsize=10)
    return figure


def _draw_pairs(
    axes: Axes,
    a: np.ndarray,
    b: np.ndarray,
    colours: Sequence[str],
    row: Mapping[str, Any],
    *,
    categorical: bool,
) -> None:
    """Points of predictions a and b (n, k), the diagonal, the line of best fit, and r."""
    dots: Any = {"s": 12, "alpha": 0.45, "linewidths": 0, "rasterized": True}
    for k, colour in enumerate(colours):
        axes.scatter(a[:, k], b[:, k], color=colour, **dots)
    low, high = (0.0, 1.0) if categorical else (min(a.min(), b.min()), max(a.max(), b.max()))
    room = 0.03 * (high - low)
    ends = np.array([low - room, high + room])
    axes.plot(ends, ends, color=GREY, linewidth=0.9, zorder=0)
    line = row["intercept"] + row["slope"] * ends
    axes.plot(ends, line, color=CRIMSON, linestyle="--", linewidth=1.8)
    axes.set_xlim(*ends)
    axes.set_ylim(ends[0], ends[1] + 8 * room)  # room for the note
    note = (
        f"r = {row['r']:.2f} [{row['r_low']:.2f}, {row['r_high']:.2f}]\n"
        f"random pairs {row['r_random']:.2f}"
    )
    if categorical:
        axes.set_yticks([0, 0.2, 0.4, 0.6, 0.8, 1])
        if not math.isnan(row["r_within"]):
            note += f"; within outcomes {row['r_within']:.2f}"
    axes.text(0.03, 0.98, note, transform=axes.transAxes, va="top", fontsize=8.5)


def draw(tables: dict[str, Any]) -> dict[str, Any]:
    """A panel for each feature."""
    (ends,) = tables["ends.csv"].to_dict("records")
    return {"neighbours": draw_neighbours(tables["pairs.npz"], tables["summary.csv"], ends)}
