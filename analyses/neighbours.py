"""Whether sentences that share a basin mean the same: their features, as a decoder reads them."""

from __future__ import annotations

import math
import textwrap
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
from plot_attractors.analysis.shape import ATTRACTORS, DESCRIBED, panels
from plot_attractors.analysis.style import GREY, RED, colours_of, letter, lettered, plain
from plot_attractors.data import Feature
from plot_attractors.measures.bootstrap import resample
from plot_attractors.ranges import Size, setting
from plot_attractors.runs import Run

TITLE = "Neighbours"
CAPTIONS = {
    "neighbours": (
        "Do sentences that share a basin mean the same? States start at the embedding ẑ_s of a "
        "sentence sampled for an input, and follow the dynamics for 5T steps. Kept are those that "
        "end nearer to ẑ_s than the median state, and yet nearest to ẑ_n of another sentence; "
        "where these are too few, all that end nearest to another one, as the headline says. A "
        "panel for each feature, of colours the means of R, G and B, too: what a decoder of "
        "features reads at ẑ_s (across) and at ẑ_n (up), a point for each pair and outcome. "
        "The first panel with the same outcomes tells their colours. "
        "Dashed: line of best fit; r: Pearson correlation of all points, with its 95 % interval; "
        "random pairs: the same with each ẑ_s beside the ẑ_n of another. Grey: alike in meaning. A "
        "state that ends at a sentence of the same meaning is a pair here, and recovered in the "
        "analysis perturbation."
    )
}


@dataclass(frozen=True)
class Config(probes.DecoderTraining):
    trajectories: Size = setting(2000, "unperturbed starts")


NEEDS = ATTRACTORS & DESCRIBED


# -- measures --------------------------------------------------------------------------------------


SHOWN = 400  # pairs that are drawn
LEAST = 20  # different sentences that a correlation needs
CHANNELS = "RGB"


class Correlation(NamedTuple):
    """Pearson r with its 95 % interval, r of random pairs, and the line of best fit of ẑ_n's
    prediction on ẑ_s's; why these are NaN.
    """

    r: float = math.nan
    r_low: float = math.nan
    r_high: float = math.nan
    r_random: float = math.nan
    slope: float = math.nan
    intercept: float = math.nan
    reason: str = ""


def correlate(original: Tensor, other: Tensor, start: Tensor, times: Tensor) -> Correlation:
    """Pearson r over all n pairs and all k columns of predictions (n, k) at ẑ_s and at ẑ_n.

    The line is of least squares. The interval is from a bootstrap over the sentences s, `start`
    (n,), since pairs of one are not independent: `times` (resamples, n), their
    `plot_attractors.measures.bootstrap.resample`, says how often each pair counts.
    Columns are pooled, so r is above 0 already where the columns' means differ: `r_random` is the
    mean of r over all n! ways to pair the same n predictions anew, 0 for a single column.

    Fewer than `LEAST` different sentences, or predictions that are all alike: NaN, with the reason.
    """
    n, sentences = len(original), len(start.unique())
    if sentences < LEAST:
        size = f"{n} pairs of {sentences} different sentences"
        return Correlation(reason=f"{size}: a correlation needs {LEAST} sentences")
    a, b = original.double(), other.double()
    var_a, var_b, cov = _moments(a, b, torch.ones(1, n, dtype=torch.float64))
    if min(float(var_a), float(var_b)) < 1e-12:
        return Correlation(reason="the decoder predicts the same of all sentences")
    of_means = ((a.mean(0) - a.mean()) * (b.mean(0) - b.mean())).mean()
    many_a, many_b, many_cov = _moments(a, b, times.double())
    bounds = torch.tensor([0.025, 0.975], dtype=torch.float64)
    low, high = (many_cov / (many_a * many_b).sqrt()).nanquantile(bounds)
    slope, scale = cov / var_a, (var_a * var_b).sqrt()
    line = float(slope), float(b.mean() - slope * a.mean())
    return Correlation(float(cov / scale), float(low), float(high), float(of_means / scale), *line)


def _moments(a: Tensor, b: Tensor, times: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(resamples,) variances and covariance of a and b (n, k), pooled over columns, with weights
    (resamples, n).
    """
    a, b = a - a.mean(), b - b.mean()
    weight = times / times.sum(-1, keepdim=True)
    mean_a, mean_b = weight @ a.mean(-1), weight @ b.mean(-1)
    return (
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


def list_pairs(feature: Feature, original: Tensor, other: Tensor) -> pd.DataFrame:
    """The rows of pairs.csv of the first pairs, and predictions (n, k) of a feature."""
    colours = feature.colours or [""] * original.shape[1]
    columns = zip(feature.outcomes or [""], colours, original.T, other.T, strict=True)
    tables = [
        pd.DataFrame({"outcome": name, "colour": colour, "original": a[:SHOWN], "other": b[:SHOWN]})
        for name, colour, a, b in columns
    ]
    return pd.concat(tables).assign(feature=feature.name)


@torch.no_grad()
def measure(run: Run, config: Config) -> dict[str, Any]:
    """Features at ẑ_s, s read at z_T of trajectories of training inputs, and at the nearest ẑ_n.

    - ``summary.csv``: a row for each choice of pairs (ẑ_s, ẑ_n) and each feature; ``n`` pairs; see
      `correlate`. ``near``, the paper's, are of the states that are nearest to ẑ_n ≠ ẑ_s after 5T
      steps and have ‖z' − ẑ_s‖ below its median over all states; ``all``, without that bound. A
      categorical feature's values are the probabilities of all its outcomes, pooled; of colours
      there are the means of R, G and B besides;
    - ``ends.csv``, a row: ``trajectories``; ``elsewhere``, share of states nearest to ẑ_n ≠ ẑ_s;
    - ``pairs.csv``: predictions that are shown: of ``near`` pairs if these are of `LEAST`
      sentences, else of ``all``.

    Source: Section *Attractor dynamics*, Fig. *nn_similarity*.
    """
    model = run.model
    s = sampling.sampled_sentences(run, config.trajectories)
    start = sampling.number_sentences(model, s)
    ends = sampling.end_states(model, s, model.embed(s))
    elsewhere = (ends.sentence != s).any(-1)
    chosen = {"near": elsewhere & (ends.original < ends.original.median()), "all": elsewhere}
    enough = {name: len(start[kept].unique()) >= LEAST for name, kept in chosen.items()}
    shown = "near" if enough["near"] else "all"
    decoder, rows = probes.feature_decoders(run, config)[0], []
    for name, kept in chosen.items():
        of, n = start[kept], int(kept.sum())
        features, here = channels(decoder(model.embed(s[kept])))
        there = channels(decoder(model.embed(ends.sentence[kept])))[1]
        times = resample(of[:, None]) if enough[name] else torch.ones(1, n)
        for feature, a, b in zip(features, here, there, strict=True):
            keys = {"pairs": name, "feature": feature.name, "n": n}
            rows.append(keys | correlate(a, b, of, times)._asdict())
        if name == shown:
            pairs = pd.concat(map(list_pairs, features, here, there)).assign(pairs=name)
    row = {"trajectories": len(start), "elsewhere": float(elsewhere.double().mean())}
    columns = ["pairs", "feature", "outcome", "colour", "original", "other"]
    return {
        "summary.csv": pd.DataFrame(rows),
        "ends.csv": pd.DataFrame([row]),
        "pairs.csv": pairs[columns],
    }


# -- figures ---------------------------------------------------------------------------------------


def draw(tables: dict[str, Any]) -> dict[str, Figure]:
    """A panel for each feature."""
    summary = tables["summary.csv"]
    pairs = tables["pairs.csv"].astype({"outcome": object, "colour": object}).fillna("")
    count = summary.groupby("pairs")["n"].first()
    shown = "near" if (pairs["pairs"] == "near").any() else "all"
    rows = summary[summary["pairs"] == shown].to_dict("records")
    figure, grid = panels(len(rows), columns=min(3, len(rows)), size=(3.5, 3.7))
    keys = set[tuple[str, ...]]()
    for k, (axes, row) in enumerate(zip(grid, rows, strict=True)):
        axes.set_title(lettered(letter(k), plain(row["feature"])))
        if math.isnan(row["r"]):
            note = textwrap.fill(row["reason"], 34)
            axes.text(0.05, 0.95, note, va="top", fontsize=9, transform=axes.transAxes)
            axes.set(xticks=[], yticks=[])
        else:
            _draw_pairs(axes, pairs[pairs["feature"] == row["feature"]], row)
        if legend := axes.get_legend():  # the first panel with these outcomes has the key
            names = tuple(text.get_text() for text in legend.get_texts())
            legend.set_visible(names not in keys)
            keys.add(names)
    (ends,) = tables["ends.csv"].to_dict("records")
    headline = (
        f"{ends['elsewhere']:.0%} of {ends['trajectories']} states end nearest to another "
        f"embedding, {count['near']} of these nearer to ẑ_s than the median state."
    )
    if shown == "all":
        headline += f"\nSince that is too few: all {count['all']} that end elsewhere."
    figure.suptitle(headline, x=0.01, ha="left", fontsize=10)
    return {"neighbours": figure}


def _draw_pairs(axes: Axes, pairs: pd.DataFrame, row: dict[Any, Any]) -> None:
    """Points of predictions, the diagonal, the line of best fit, and r."""
    dots: Any = {"s": 12, "alpha": 0.45, "linewidths": 0, "rasterized": True}
    outcomes = list(pairs.groupby("outcome", sort=False))
    categorical = "" not in dict(outcomes)
    colours = colours_of([part["colour"].iloc[0] for _, part in outcomes], len(outcomes))
    for colour, (_, part) in zip(colours, outcomes, strict=True):
        axes.scatter(part["original"], part["other"], color=colour, **dots)
    both = pairs[["original", "other"]].to_numpy()
    low, high = (0.0, 1.0) if categorical else (both.min(), both.max())
    room = 0.03 * (high - low)
    ends = np.array([low - room, high + room])
    axes.plot(ends, ends, color=GREY, linewidth=0.9, zorder=0)
    line = row["intercept"] + row["slope"] * ends
    axes.plot(ends, line, color=RED, linestyle="--", linewidth=1.8)
    axes.set_xlim(*ends)
    axes.set_ylim(ends[0], ends[1] + 8 * room)  # room for the note
    note = f"r = {row['r']:.2f} [{row['r_low']:.2f}, {row['r_high']:.2f}]"
    note += f"\nrandom pairs {row['r_random']:.2f}"
    axes.text(0.03, 0.98, note, transform=axes.transAxes, va="top", fontsize=8.5)
    what = "probability" if categorical else "prediction"
    axes.set(xlabel=f"{what} at ẑ_s", ylabel=f"{what} at ẑ_n")
    if categorical:
        axes.set_yticks([0, 0.2, 0.4, 0.6, 0.8, 1])
        named = zip(colours, outcomes, strict=True)
        handles = [dot(colour, plain(str(name))) for colour, (name, _) in named]
        axes.legend(handles=handles, loc="lower right", fontsize=8)
