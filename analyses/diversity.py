"""How varied the descriptions of one input are, how much of it is noise, and what the number
depends on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from plot_attractors.data import ColouredSprites, Feature, HierarchicalBinaryVectors
from plot_attractors.evaluation.metrics import Diversity, diversity
from plot_attractors.evaluation.probes import (
    Prediction,
    feature_decoders,
    is_described,
    require_described,
)
from plot_attractors.evaluation.sampling import exact_states, is_listed
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.plots.style import BLUE, GREEN, GREY, LIGHT_BLUE, RED, SPLIT_NAMES, save, style

if TYPE_CHECKING:
    from plot_attractors.runs import Run

__all__ = ["CAPTIONS", "TITLE", "analyze", "applies"]

TITLE = "Sample diversity"
CAPTIONS = {
    "diversity": (
        "How varied are the things that are said of one input? Every description is decoded to "
        "probabilities of "
        "features, and the spread of these points is measured by their differential entropy, nats, "
        "estimated from "
        "distances to the k-th nearest of N points. Upper row: the entropies of single inputs. "
        "Blue: the model; "
        "green: exact samples of its posterior, as diverse as the model ought to be; grey: one "
        "sentence only, with the "
        "noise of the states around its embedding, so that what lies to the right of grey is "
        "diversity and not noise. "
        "Red: mean and 95 % range of the paper, which tells neither N nor k. Lower row: what the "
        "number depends on. "
        "The estimate falls with N, for it is −∞ in truth wherever the points fill fewer "
        "dimensions than are counted "
        "(the legend tells how many they fill, judged by the slope), and it rises with k; it is "
        "higher for logarithms of probabilities (dotted), which go on changing where a decoder is "
        "sure; it also "
        "changes when the decoder's probabilities are made sharper (temperature below 1) or "
        "softer. Compare "
        "entropies of equal N, k, dimensions and scale only, and models with the grey control "
        "beside them."
    )
}

INPUTS, DRAWS = 100, 256  # inputs in each split, and descriptions of each
NEIGHBOUR = 1  # k, as Kozachenko and Leonenko have it
SIZES = (
    16,
    32,
    64,
    128,
    256,
)  # numbers of descriptions N that estimates are compared at, up to DRAWS
NEIGHBOURS = (1, 3, 10)  # and k
TEMPERATURES = (0.5, 1.0, 2.0, 4.0)  # and sharpness of the decoder
POINTS = ("probabilities", "log-probabilities")  # what stands for a categorical feature in a point
SAMPLE_NAMES = {
    "model": "model",
    "exact": "exact posterior",
    "one sentence": "one sentence and its noise",
}
COLOURS = {"model": BLUE, "exact": GREEN, "one sentence": GREY}
LOWEST = -300.0  # nats; lower entropies are drawn there, so that a few do not hide the others


class Paper(NamedTuple):
    """Mean, 95 % range in nats, and σ, in so many dimensions."""

    dimensions: int
    mean: float
    low: float
    high: float
    sigma: float


PAPER = {  # of the attractor models
    HierarchicalBinaryVectors: Paper(18, -18.198, -34.199, -5.203, 0.088),  # six generations
    ColouredSprites: Paper(9, -9.415, -16.231, -3.832, 0.085),
}


class Samples(NamedTuple):
    """What is decoded from N descriptions of each of B inputs, and how many different sentences are
    among them.
    """

    prediction: Prediction
    sentences: float


def applies(run: Run) -> bool:
    """Whether the run's model says sentences, and features of the inputs are known that have more
    than one value.
    """
    return is_described(run) and any(_varies(feature) for feature in run.data.features)


@torch.no_grad()
def analyze(run: Run, out: Path) -> None:
    """Write ``summary.csv``, ``dependence.csv``, ``spread.csv`` and the figure ``diversity`` into
    ``out``.

    256 descriptions of each of 100 inputs of every split are decoded by the first of the run's two
    feature decoders, from the states z_T. The columns of a prediction, the probabilities of all
    outcomes of categorical features (their mean place, where outcomes have coordinates, as colours
    in RGB) and the means of continuous ones, are a point (a feature of one outcome, whose
    probability is always 1, adds nothing and is left out); the points of one input have the entropy
    H, by Kozachenko and Leonenko. ``summary.csv`` has a row for each split, each kind of samples,
    and each number of dimensions:

    - ``samples``: ``model``; ``exact``, s ~ π(s | x) and z_T ~ N(ẑ_s, ε²), where sentences can be
      listed or the posterior factors; ``one sentence``, the first that the model said and z_T ~
      N(ẑ_s, ε²), for attractor models;
    - ``dimensions``: all D columns, as in the paper, or one less for each feature whose
    probabilities sum to 1;
    - ``n``, ``k``, ``inputs``; ``mean``, ``low``, ``high``: H, nats, its mean and 95 % range over
    inputs;
    - ``sigma``, ``sigma_low``, ``sigma_high``: standard deviation of the isotropic Gaussian of this
      entropy, in as many dimensions;
    - ``mean_finite``, ``share_negative_infinity``: mean over inputs with finite H, and share of the
    others;
    - ``filled``: D / (1 − b), with b the slope of mean H on log N: the dimensions that the points
      fill. H has a limit for large N only where this is D;
    - ``ties``: share of points that coincide with another one of the same input; ``sentences``:
      different sentences of an input, mean over inputs.

    ``dependence.csv`` (split, samples, dimensions, n, k, temperature, points, mean, low, high,
    sigma): the same for other N and k, with the decoder's log-probabilities divided by a
    temperature, and (``points``) of log-probabilities in the place of probabilities: the text does
    not tell which of them its predictor's outputs are. ``spread.csv`` (split, samples, feature,
    column, sd, most): for every column of a prediction, an outcome or a coordinate, sd, the
    standard deviation within an input (geometric mean over inputs), and most = ½ log(2πe sd²),
    nats: H is at most their sum, since no law of a variance has more entropy than the Gaussian.
    Source: Section *Sample diversity*.

    Raises ValueError where the model says no sentences, or no features are known, or none with two
    values or more.
    """
    _, described = require_described(run)
    if not any(_varies(feature) for feature in described.features):
        raise ValueError(
            "every feature has one value only, so that predictions cannot differ: leave this "
            "analysis out"
        )
    decoder = feature_decoders(run)[0]
    sizes = [size for feature in decoder.features if _varies(feature) for size in _blocks(feature)]
    rows, dependence, spread = [], [], []
    entropies: dict[str, dict[str, Tensor]] = {}
    for split in run.data.splits:
        entropies[split] = {}
        for name, found in _samples(run, decoder, split).items():
            curves = _dependence(found.prediction, sizes)
            dependence.append(curves.assign(split=split, samples=name))
            spread.append(_spread(found.prediction).assign(split=split, samples=name))
            ties = _ties(found.prediction.points)
            for reduced in (False, True):
                result = diversity(found.prediction.points, NEIGHBOUR, sizes, reduced)
                if not reduced:
                    entropies[split][name] = result.entropy
                row = {"split": split, "samples": name, "inputs": len(result.entropy)} | _numbers(
                    result
                )
                rows.append(
                    row
                    | {
                        "filled": _filled(curves, result),
                        "ties": ties,
                        "sentences": found.sentences,
                    }
                )
    columns = (
        "split samples dimensions n k inputs mean low high sigma sigma_low sigma_high mean_finite "
    )
    columns += "share_negative_infinity filled ties sentences"
    summary = pd.DataFrame(rows)[columns.split()]
    table = pd.concat(dependence)[
        [
            "split",
            "samples",
            "dimensions",
            "n",
            "k",
            "temperature",
            "points",
            "mean",
            "low",
            "high",
            "sigma",
        ]
    ]
    summary.to_csv(out / "summary.csv", index=False)
    table.to_csv(out / "dependence.csv", index=False)
    columns = "split samples feature column sd most"
    pd.concat(spread)[columns.split()].to_csv(out / "spread.csv", index=False)
    of_paper = [
        paper
        for data, paper in PAPER.items()
        if isinstance(run.data, data) and paper.dimensions == sum(sizes)
    ]
    paper = of_paper[0] if of_paper else None
    with style():
        save(_draw(entropies, summary, table, paper=paper), out / "diversity")


def _varies(feature: Feature) -> bool:
    """Whether predictions of the feature can differ: it is continuous, or has two outcomes
    or more.
    """
    return len(feature.outcomes) != 1


def _blocks(feature: Feature) -> list[int]:
    """Sizes of the blocks of columns that a prediction of the feature takes: of probabilities, or
    single numbers.
    """
    return [1] * len(feature.coordinates[0]) if feature.coordinates else [feature.columns]


def _columns(feature: Feature) -> list[str]:
    """Names of the columns that a prediction of the feature takes among the points."""
    if feature.coordinates:
        return [str(k + 1) for k in range(len(feature.coordinates[0]))]
    return list(feature.outcomes) or [feature.name]


def _spread(prediction: Prediction) -> pd.DataFrame:
    """Standard deviation of every column within an input, and the most entropy that it allows,
    nats.
    """
    log_sd = prediction.points.double().std(1).log().mean(0)
    names = [
        (feature.name, column) for feature in prediction.features for column in _columns(feature)
    ]
    table = pd.DataFrame(names, columns=["feature", "column"])
    return table.assign(
        sd=log_sd.exp().numpy(), most=(log_sd + 0.5 * math.log(2 * math.pi * math.e)).numpy()
    )


def _of_varying(prediction: Prediction) -> Prediction:
    """The prediction without features of one outcome."""
    kept = torch.tensor([_varies(feature) for feature in prediction.features])
    features = tuple(feature for feature in prediction.features if _varies(feature))
    columns = kept.repeat_interleave(
        torch.tensor([feature.columns for feature in prediction.features])
    )
    return Prediction(
        features, prediction.outputs[..., columns], prediction.centre[kept], prediction.scale[kept]
    )


def _samples(run: Run, decoder: Any, split: str) -> dict[str, Samples]:
    """Decoded descriptions of inputs of a split, by the model and its controls."""
    model, x = run.model, run.data.batch(INPUTS, split).x
    description = model.describe(x, DRAWS)
    found = {
        "model": Samples(
            _of_varying(decoder(description.z)), _different(model.language.key(description.s))
        )
    }
    if isinstance(model, AttractorModel):
        encoding = model.encode(x)
        if is_listed(model) or model.factored:
            z, s = exact_states(model, encoding, DRAWS)
            found["exact"] = Samples(_of_varying(decoder(z)), _different(model.language.key(s)))
        one = description.s[:, :1].expand(-1, DRAWS, -1)
        z = model.first_backward_kernel(one, encoding.context[:, None]).sample()
        found["one sentence"] = Samples(_of_varying(decoder(z)), 1.0)
    return found


def _different(names: Tensor) -> float:
    """Mean over inputs of the number of different entries of a row (B, N)."""
    return float(np.mean([len(row.unique()) for row in names]))


def _ties(points: Tensor) -> float:
    """Share of the points (B, N, D) that coincide with another one of the same input."""
    alone = sum(int((of_one.unique(dim=0, return_counts=True)[1] == 1).sum()) for of_one in points)
    return 1 - alone / (points.shape[0] * points.shape[1])


def _softened(prediction: Prediction, temperature: float) -> Tensor:
    """(…, D) predictions as points, with p ∝ p^(1/temperature) for the outcomes of categorical
    features.
    """
    outputs = prediction.outputs.split([feature.columns for feature in prediction.features], -1)
    parts = [
        (part / temperature).log_softmax(-1) if feature.categorical else part
        for feature, part in zip(prediction.features, outputs, strict=True)
    ]
    return Prediction(
        prediction.features, torch.cat(parts, -1), prediction.centre, prediction.scale
    ).points


def _logarithmic(prediction: Prediction) -> Tensor:
    """(…, D) predictions as points, with log-probabilities in the place of the probabilities among
    them.
    """
    outputs = prediction.outputs.split([feature.columns for feature in prediction.features], -1)
    points = prediction.points.split([sum(_blocks(feature)) for feature in prediction.features], -1)
    parts = [
        output if feature.categorical and not feature.coordinates else point
        for feature, output, point in zip(prediction.features, outputs, points, strict=True)
    ]
    return torch.cat(parts, -1)


def _numbers(result: Diversity) -> dict[str, Any]:
    return {name: value for name, value in result._asdict().items() if name != "entropy"}


def _dependence(prediction: Prediction, sizes: list[int]) -> pd.DataFrame:
    """Entropies by N and k, by temperature, and of log-probabilities, of the first N
    descriptions.
    """
    points, logarithmic = prediction.points, _logarithmic(prediction)
    n = points.shape[1]
    cases = [(few, k) for few in SIZES for k in NEIGHBOURS if k < few <= n]
    found = [
        (diversity(points[:, :few], k, sizes, reduced), 1.0, POINTS[0])
        for few, k in cases
        for reduced in (False, True)
        if not (reduced and k != NEIGHBOUR)
    ]
    if not torch.equal(points, logarithmic):  # probabilities are among them
        found += [(diversity(logarithmic[:, :few], k), 1.0, POINTS[1]) for few, k in cases]
    found += [
        (diversity(_softened(prediction, temperature), NEIGHBOUR, sizes), temperature, POINTS[0])
        for temperature in TEMPERATURES
        if temperature != 1
    ]
    rows = [_numbers(result) | {"temperature": at, "points": of} for result, at, of in found]
    order = ["points", "dimensions", "k", "temperature", "n"]
    return pd.DataFrame(rows).sort_values(order, ascending=[False, False, True, True, True])


def _filled(curves: pd.DataFrame, result: Diversity) -> float:
    """D / (1 − b) with b the slope of the mean entropy on log N, NaN where fewer than two of these
    are finite.
    """
    chosen = (
        (curves["dimensions"] == result.dimensions)
        & (curves["k"] == result.k)
        & (curves["temperature"] == 1)
    )
    part = curves[chosen & (curves["points"] == POINTS[0]) & np.isfinite(curves["mean"])]
    if len(part) < 2:
        return math.nan
    slope = np.polyfit(np.log(part["n"]), part["mean"], 1)[0]
    return float(result.dimensions / (1 - slope))


def _draw(
    entropies: Mapping[str, Mapping[str, Tensor]],
    summary: pd.DataFrame,
    table: pd.DataFrame,
    *,
    paper: Paper | None,
) -> Figure:
    rows = math.ceil(len(entropies) / 2)
    figure = Figure(figsize=(11, 4.1 * (rows + 1)), layout="constrained")
    grid = figure.subplots(rows + 1, 2)
    panels, bottom = grid[:rows].flatten(), grid[rows]
    first = summary.iloc[0]
    d = int(first["dimensions"])
    values = np.concatenate(
        [h.clamp(min=LOWEST).numpy() for of in entropies.values() for h in of.values()]
    )
    low, high = float(values.min()), float(values.max())
    if paper:
        low, high = min(low, paper.low), max(high, paper.high)
    bins = np.linspace(low - 1, high + 1, 41)
    for axes, (split, of) in zip(panels, entropies.items(), strict=False):
        _draw_entropies(
            axes,
            of,
            summary[(summary["split"] == split) & (summary["dimensions"] == d)],
            bins,
            paper=paper,
        )
        axes.set_title(
            f"{SPLIT_NAMES.get(split, split)}, {d} dimensions, N = {first['n']}, k = {first['k']}"
        )
    for axes in panels[len(entropies) :]:
        axes.set_axis_off()
    split = next(iter(entropies))
    table = table[table["split"] == split].replace(-np.inf, np.nan)
    _draw_size(bottom[0], table[table["temperature"] == 1], summary[summary["split"] == split], d)
    bottom[0].set_title(f"Number of samples and neighbour, {SPLIT_NAMES.get(split, split)}")
    sharpness = table[
        (table["n"] == first["n"]) & (table["k"] == first["k"]) & (table["dimensions"] == d)
    ]
    sharpness = sharpness[sharpness["points"] == POINTS[0]]
    for name, part in sharpness.sort_values("temperature").groupby("samples", sort=False):
        axes = bottom[1]
        axes.plot(
            part["temperature"],
            part["mean"],
            marker="o",
            color=COLOURS[str(name)],
            label=SAMPLE_NAMES[str(name)],
        )
    bottom[1].set_xscale("log", base=2)
    bottom[1].set_xticks(TEMPERATURES, [f"{t:g}" for t in TEMPERATURES])
    bottom[1].minorticks_off()
    bottom[1].set_xlabel("temperature: sharper, 1 as trained, softer")
    bottom[1].set_title(f"Sharpness of the decoder, N = {first['n']}, k = {first['k']}")
    bottom[1].legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2, fontsize=8)
    for axes in bottom:
        axes.set_ylabel("mean entropy, nats")
        if paper:
            axes.axhline(paper.mean, color=RED, linewidth=1.2)
            axes.annotate("paper", (1, paper.mean), (-2, -3), ("axes fraction", "data"), "offset points", color=RED,
                          ha="right", va="top", fontsize=9)  # fmt: skip
    if table["mean"].isna().all():
        for axes in bottom:
            _draw_nothing(axes)
    return figure


def _draw_entropies(
    axes: Axes,
    of: Mapping[str, Tensor],
    summary: pd.DataFrame,
    bins: np.ndarray,
    *,
    paper: Paper | None,
) -> None:
    for index, (name, entropy) in enumerate(of.items()):
        row = summary[summary["samples"] == name].iloc[0]
        shown = entropy[entropy > -math.inf].clamp(min=LOWEST).numpy()
        line = ":" if name == "exact" else "-"
        fill: dict[str, Any] = (
            {"alpha": 0.6}
            if name == "model"
            else {"histtype": "step", "linewidth": 1.8, "linestyle": line}
        )
        axes.hist(shown, bins=bins.tolist(), color=COLOURS[name], **fill)
        note = f"{_range(row['mean'], row['low'], row['high'])}, σ {row['sigma']:.3f}"
        if row["share_negative_infinity"] > 0:
            note += f"; −∞ for {row['share_negative_infinity']:.0%}"
        axes.text(
            0.02, 0.97 - 0.075 * index, f"{SAMPLE_NAMES[name]}: {note}", color=COLOURS[name],
            transform=axes.transAxes, va="top", fontsize=8.5,
        )  # fmt: skip
    if paper:
        axes.axvline(paper.mean, ymax=0.72, color=RED, linewidth=1.5)
        axes.axvspan(paper.low, paper.high, ymax=0.72, color=RED, alpha=0.08, linewidth=0)
        text = f"paper: {_range(paper.mean, paper.low, paper.high)}, σ {paper.sigma}"
        place = 0.97 - 0.075 * len(of)
        axes.text(0.02, place, text, color=RED, transform=axes.transAxes, va="top", fontsize=8.5)
    axes.set_ylim(top=1.5 * axes.get_ylim()[1])  # room for the notes
    axes.set_xlim(bins[0], bins[-1])
    axes.set_xlabel("entropy of the predictions for an input, nats")
    axes.set_ylabel("inputs")
    if all((entropy == -math.inf).all() for entropy in of.values()):
        _draw_nothing(axes)


def _draw_nothing(axes: Axes) -> None:
    axes.text(
        0.5, 0.5, "−∞: descriptions of an input coincide", transform=axes.transAxes, ha="center"
    )
    axes.set_xticks([])
    axes.set_yticks([])


def _range(mean: float, low: float, high: float) -> str:
    return f"{mean:.1f} [{low:.1f}, {high:.1f}]".replace("inf", "∞").replace("-", "−")


def _draw_size(axes: Axes, table: pd.DataFrame, summary: pd.DataFrame, d: int) -> None:
    """Mean entropy over N: of the model for every k and in fewer dimensions, of its controls for
    the usual k.
    """
    filled = {(row["samples"], row["dimensions"]): row["filled"] for _, row in summary.iterrows()}
    for _, part in table.groupby(["samples", "k", "dimensions", "points"], sort=False):
        name, k, dimensions = (
            str(part["samples"].iloc[0]),
            int(part["k"].iloc[0]),
            int(part["dimensions"].iloc[0]),
        )
        logarithmic = part["points"].iloc[0] == POINTS[1]
        if name != "model" and (k != NEIGHBOUR or dimensions != d or logarithmic):
            continue
        label = f"{SAMPLE_NAMES[name]}, k = {k}"
        if logarithmic:
            label += ", log-probabilities"
        elif k == NEIGHBOUR and np.isfinite(filled[name, dimensions]):
            label += f", fills {filled[name, dimensions]:.1f} of {dimensions}"
        colour = COLOURS[name] if k == NEIGHBOUR else LIGHT_BLUE
        line = ":" if logarithmic else "--" if dimensions != d else "-"
        marker = "os^Dv"[NEIGHBOURS.index(k)]
        axes.plot(
            part["n"],
            part["mean"],
            color=colour,
            linestyle=line,
            marker=marker,
            markersize=5,
            label=label,
        )
    axes.set_xscale("log", base=2)
    sizes = sorted(table["n"].unique())
    axes.set_xticks(sizes, [str(n) for n in sizes])
    axes.minorticks_off()
    axes.set_xlabel("N, descriptions of an input")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2, fontsize=8)
