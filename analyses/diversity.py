"""How varied the sentences of one input are, and what the number depends on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from plot_attractors.analysis import probes
from plot_attractors.analysis.parts import note, write
from plot_attractors.analysis.probes import Prediction
from plot_attractors.analysis.sampling import exact_states, is_listed
from plot_attractors.analysis.style import BLUE, GREEN, GREY, LIGHT_BLUE, RED
from plot_attractors.data import ColouredSprites, Feature, HierarchicalBinaryVectors
from plot_attractors.measures.diversity import Diversity, diversity
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.ranges import Distinct, Positive, Size
from plot_attractors.runs import Run
from plot_attractors.split_names import split_name

TITLE = "Sample diversity"
CAPTIONS = {
    "diversity": (
        "How varied are the sentences of one input? Each is decoded to probabilities of features, "
        "and the spread of these points is measured by their differential entropy, nats, estimated "
        "from distances to the k-th nearest of N points. Upper row: the entropies of single "
        "inputs. Blue: the model; green: exact samples of its posterior, as diverse as the model "
        "ought to be; grey: one sentence only, with the noise of the states around its embedding, "
        "so that what lies to the right of grey is diversity and not noise. Red: mean and 95 % "
        "range of the paper, which tells neither N nor k. Lower row: what the number depends on. "
        "The estimate falls with N, for it is −∞ in truth wherever the points fill fewer "
        "dimensions than are counted (the legend tells how many they fill, judged by the slope), "
        "and it rises with k; it is higher for logarithms of probabilities (dotted), which go on "
        "changing where a decoder is sure; it also changes when the decoder's probabilities are "
        "made sharper (temperature below 1) or softer. Compare entropies of equal N, k, dimensions "
        "and scale only, and models with the grey control beside them."
    )
}
SUMMARY = "split samples dimensions n k inputs mean low high sigma share_negative_infinity filled"
DEPENDENCE = "split samples dimensions n k temperature points mean low high sigma"
SPREAD = "split samples feature column sd most"


@dataclass(frozen=True)
class Config(probes.Training):
    """Sample sizes, beside those of `probes.Training`."""

    inputs: Size = 100  # in each split
    draws: Size = 256  # sentences of each input, N
    # N that are compared, up to draws
    numbers: Annotated[tuple[Size, ...], Distinct()] = (16, 32, 64, 128, 256)
    # k; the first is that of Kozachenko and Leonenko
    neighbours: Annotated[tuple[Size, ...], Distinct()] = (1, 3, 10)
    # sharpness of the decoder
    temperatures: Annotated[tuple[Positive, ...], Distinct()] = (0.5, 1.0, 2.0, 4.0)


def applies(run: Run) -> bool:
    """Whether the model has sentences, and a feature of the inputs is known that can vary."""
    return probes.is_described(run) and any(map(varies, run.data.features))


# -- measures --------------------------------------------------------------------------------------


POINTS = ("probabilities", "log-probabilities")  # what stands for a categorical feature in a point
ATTRACTORS = {  # dimensions, mean, 95 % range in nats, and σ, which the paper reports
    HierarchicalBinaryVectors: (18, -18.198, -34.199, -5.203, 0.088),  # six generations
    ColouredSprites: (9, -9.415, -16.231, -3.832, 0.085),
}


def varies(feature: Feature) -> bool:
    """Whether predictions of the feature can differ: it has not just one outcome."""
    return len(feature.outcomes) != 1


def of_paper(data: Any, dimensions: int) -> pd.DataFrame | None:
    """The paper's numbers for attractor models of such data, if it has any for the dimensions."""
    for kind, numbers in ATTRACTORS.items():
        if isinstance(data, kind) and numbers[0] == dimensions:
            return pd.DataFrame([numbers], columns=["dimensions", "mean", "low", "high", "sigma"])
    return None


@torch.no_grad()
def samples(model: Any, decoder: Any, x: Tensor, draws: int) -> dict[str, Prediction]:
    """What is decoded of inputs x from sentences (B, draws) of the model and of its controls.

    ``model``; ``exact``, s ~ π(s | x) and z_T ~ N(ẑ_s, ε²), where sentences can be listed or the
    posterior factors; ``one sentence``, the first of the model's and z_T ~ N(ẑ_s, ε²), for
    attractor models.
    """
    description = model.describe(x, draws)
    states = {"model": description.z}
    if isinstance(model, AttractorModel):
        encoding = model.encode(x)
        if is_listed(model) or model.posterior.factored:
            states["exact"] = exact_states(model, encoding, draws)[0]
        one = description.s[:, :1].expand(-1, draws, -1)
        states["one sentence"] = model.terminal_kernel(one).sample()
    return {name: _without_constants(decoder(z)) for name, z in states.items()}


def _without_constants(of: Prediction) -> Prediction:
    """The prediction without features of one outcome."""
    kept = torch.tensor([varies(feature) for feature in of.features])
    columns = kept.repeat_interleave(torch.tensor([f.columns for f in of.features]))
    features = tuple(filter(varies, of.features))
    return Prediction(features, of.outputs[..., columns], of.centre[kept], of.scale[kept])


def summarise(result: Diversity, curves: pd.DataFrame) -> dict[str, Any]:
    """A row of the summary: of the diversity of samples, whose dependence is `curves`.

    ``filled`` = D / (1 − b), with b the slope of mean H on log N: the dimensions that the points
    fill, D where H has a limit.
    """
    numbers = {"inputs": len(result.entropy)} | _numbers(result)
    return numbers | {"filled": _filled(curves, result)}


def _numbers(result: Diversity) -> dict[str, Any]:
    return {name: value for name, value in result._asdict().items() if name != "entropy"}


def _filled(curves: pd.DataFrame, result: Diversity) -> float:
    """As in `summarise`; NaN where fewer than two of the mean entropies are finite."""
    at = {"k": result.k, "temperature": 1, "points": POINTS[0]}
    chosen = np.isfinite(curves["mean"])
    for column, value in at.items():
        chosen &= curves[column] == value
    part = curves[chosen]
    if len(part) < 2:
        return math.nan
    slope = np.polyfit(np.log(part["n"]), part["mean"], 1)[0]
    return float(result.dimensions / (1 - slope))


def spread(prediction: Prediction) -> pd.DataFrame:
    """Standard deviation (sd) of every column within an input, a geometric mean over inputs, and
    ½ log(2πe sd²) nats, the most entropy that it allows: the sum over columns bounds H.
    """
    names = []
    for feature in prediction.features:
        places = range(len(feature.coordinates[0])) if feature.coordinates else ()
        columns = [str(k + 1) for k in places] or feature.outcomes or [feature.name]
        names += [(feature.name, column) for column in columns]
    log_sd = prediction.points.double().std(1).log().mean(0)
    table = pd.DataFrame(names, columns=["feature", "column"])
    most = log_sd + 0.5 * math.log(2 * math.pi * math.e)
    return table.assign(sd=log_sd.exp().numpy(), most=most.numpy())


def dependence(
    prediction: Prediction,
    numbers: Sequence[int],
    neighbours: Sequence[int],
    temperatures: Sequence[float],
) -> pd.DataFrame:
    """Entropies by N and k, by temperature (k is the first of the neighbours), and of
    log-probabilities, of the first N sentences.
    """
    points, logarithmic = prediction.points, _logarithmic(prediction)
    cases = [(few, k) for few in numbers for k in neighbours if k < few <= points.shape[1]]
    found = [(diversity(points[:, :few], k), 1.0, POINTS[0]) for few, k in cases]
    if not torch.equal(points, logarithmic):  # probabilities are among them
        found += [(diversity(logarithmic[:, :few], k), 1.0, POINTS[1]) for few, k in cases]
    found += [
        (diversity(_softened(prediction, temperature), neighbours[0]), temperature, POINTS[0])
        for temperature in temperatures
        if temperature != 1
    ]
    rows = [_numbers(result) | {"temperature": at, "points": of} for result, at, of in found]
    order = ["points", "k", "temperature", "n"]
    return pd.DataFrame(rows).sort_values(order, ascending=[False, True, True, True])


def _softened(of: Prediction, temperature: float) -> Tensor:
    """(…, D) points with p ∝ p^(1/temperature) for the outcomes of categorical features."""
    parts = [
        (part / temperature).log_softmax(-1) if feature.categorical else part
        for feature, part in zip(of.features, of.split, strict=True)
    ]
    return Prediction(of.features, torch.cat(parts, -1), of.centre, of.scale).points


def _logarithmic(of: Prediction) -> Tensor:
    """(…, D) points with log-probabilities in the place of the probabilities among them."""
    parts = [
        output if feature.categorical and not feature.coordinates else place
        for feature, output, place in zip(of.features, of.split, of.places, strict=True)
    ]
    return torch.cat(parts, -1)


def measure(run: Run, config: Config) -> dict[str, Any]:
    """Entropies of the predictions of features from the states z_T that sentences are read from.

    The first of the run's two feature decoders predicts. A point has the probabilities of all
    outcomes of categorical features (their mean place, where outcomes have coordinates, as colours
    in RGB) and the means of continuous ones; features of one outcome are left out.

    ``summary.csv``, a row for each split and kind of samples (see `evaluation.diversity.samples`):
    the fields of `Diversity`, and ``filled`` of `evaluation.diversity.summarise`.
    ``dependence.csv``: the same for other N, k and temperatures, and of log-probabilities.
    ``spread.csv``: of every column of a point, see `evaluation.diversity.spread`.
    ``entropies.csv``: H of every input. ``paper.csv``: the paper's numbers, where
    it has any. Source: Section *Sample diversity*.

    Raises ValueError: the model has no sentences, or no feature is known that can vary.
    """
    _, described = probes.require_described(run)
    if not any(map(varies, described.features)):
        raise ValueError("every feature has one value only: leave this analysis out")
    decoder = probes.feature_decoders(run, config)[0]
    rows, curves, spreads, entropies = [], [], [], []
    compared = config.numbers, config.neighbours, config.temperatures
    for split in run.data.splits:
        x = run.data.batch(config.inputs, split).x
        for name, prediction in samples(run.model, decoder, x, config.draws).items():
            at = {"split": split, "samples": name}
            curve = dependence(prediction, *compared)
            curves.append(curve.assign(**at))
            spreads.append(spread(prediction).assign(**at))
            result = diversity(prediction.points, config.neighbours[0])
            rows.append(at | summarise(result, curve))
            entropies.append(pd.DataFrame({**at, "entropy": result.entropy.numpy()}))
    paper = of_paper(run.data, result.dimensions)
    return {
        "summary.csv": pd.DataFrame(rows)[SUMMARY.split()],
        "dependence.csv": pd.concat(curves)[DEPENDENCE.split()],
        "spread.csv": pd.concat(spreads)[SPREAD.split()],
        "entropies.csv": pd.concat(entropies),
    } | ({} if paper is None else {"paper.csv": paper})


# -- figures ---------------------------------------------------------------------------------------


NAMES = {"model": "model", "exact": "exact posterior", "one sentence": "one sentence and its noise"}
COLOURS = {"model": BLUE, "exact": GREEN, "one sentence": GREY}
LOWEST = -300.0  # nats; lower entropies are drawn there, so that a few do not hide the others
NOTHING = "−∞: sentences of an input coincide"
BELOW: dict[str, Any] = {
    "loc": "upper center", "bbox_to_anchor": (0.5, -0.16), "ncols": 2, "fontsize": 8,
}  # fmt: skip


def plot(tables: Mapping[str, Any]) -> dict[str, Figure]:
    """Figure ``diversity`` from ``summary.csv``, ``entropies.csv``, ``dependence.csv`` and, where
    there is one, ``paper.csv``.
    """
    summary, entropies = tables["summary.csv"], tables["entropies.csv"]
    paper = tables["paper.csv"].iloc[0] if "paper.csv" in tables else None
    splits, first = list(summary["split"].unique()), summary.iloc[0]
    of_points = f"N = {first['n']}, k = {first['k']}"
    rows = math.ceil(len(splits) / 2)
    figure = Figure(figsize=(11, 4.1 * (rows + 1)), layout="constrained")
    grid = figure.subplots(rows + 1, 2)
    panels, (size, sharpness) = grid[:rows].flatten(), grid[rows]
    bins = _bins(entropies["entropy"], paper)
    for axes, split in zip(panels, splits, strict=False):
        of, numbers = (table[table["split"] == split] for table in (entropies, summary))
        _draw_entropies(axes, of, numbers.set_index("samples"), bins, paper)
        axes.set_title(f"{split_name(split)}, {first['dimensions']} dimensions, {of_points}")
    for axes in panels[len(splits) :]:
        axes.set_axis_off()
    table = tables["dependence.csv"]
    table = table[table["split"] == splits[0]].replace(-np.inf, np.nan)
    _draw_size(size, table[table["temperature"] == 1], summary[summary["split"] == splits[0]])
    size.set_title(f"Number of samples and neighbour, {split_name(splits[0])}")
    _draw_sharpness(sharpness, table, first)
    sharpness.set_title(f"Sharpness of the decoder, {of_points}")
    for axes in (size, sharpness):
        axes.legend(**BELOW)
        axes.minorticks_off()
        axes.set_ylabel("mean entropy, nats")
        if paper is not None:
            axes.axhline(paper["mean"], color=RED, linewidth=1.2)
            place: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "xytext": (-2, -3)}
            place |= {"textcoords": "offset points", "ha": "right", "va": "top"}
            axes.annotate("paper", (1, paper["mean"]), **place, color=RED, fontsize=9)
        if table["mean"].isna().all():
            write(axes, NOTHING)
    return {"diversity": figure}


def _bins(entropy: pd.Series[float], paper: pd.Series[float] | None) -> np.ndarray:
    values = list(entropy.clip(lower=LOWEST)) + (
        [] if paper is None else [paper["low"], paper["high"]]
    )
    return np.linspace(min(values) - 1, max(values) + 1, 41)


def _draw_entropies(
    axes: Axes,
    entropies: pd.DataFrame,
    summary: pd.DataFrame,
    bins: np.ndarray,
    paper: pd.Series[float] | None,
) -> None:
    for index, (name, row) in enumerate(summary.iterrows()):
        entropy = entropies.loc[entropies["samples"] == name, "entropy"]
        look: dict[str, Any] = {"color": COLOURS[str(name)]}
        if name == "model":
            look |= {"alpha": 0.6}
        else:
            line = ":" if name == "exact" else "-"
            look |= {"histtype": "step", "linewidth": 1.8, "linestyle": line}
        axes.hist(entropy[np.isfinite(entropy)].clip(lower=LOWEST), bins=bins.tolist(), **look)
        text = f"{NAMES[str(name)]}: {_range(row)}, σ {row['sigma']:.3f}"
        if row["share_negative_infinity"] > 0:
            text += f"; −∞ for {row['share_negative_infinity']:.0%}"
        note(axes, text, "left", 0.97 - 0.075 * index, color=COLOURS[str(name)])
    if paper is not None:
        axes.axvline(paper["mean"], ymax=0.72, color=RED, linewidth=1.5)
        axes.axvspan(paper["low"], paper["high"], ymax=0.72, color=RED, alpha=0.08, linewidth=0)
        text = f"paper: {_range(paper)}, σ {paper['sigma']}"
        note(axes, text, "left", 0.97 - 0.075 * len(summary), color=RED)
    axes.set_ylim(top=1.5 * axes.get_ylim()[1])  # room for the notes
    axes.set_xlim(bins[0], bins[-1])
    axes.set_xlabel("entropy of the predictions for an input, nats")
    axes.set_ylabel("inputs")
    if not np.isfinite(entropies["entropy"]).any():
        write(axes, NOTHING)


def _range(row: pd.Series[float]) -> str:
    text = f"{row['mean']:.1f} [{row['low']:.1f}, {row['high']:.1f}]"
    return text.replace("inf", "∞").replace("-", "−")


def _draw_size(axes: Axes, table: pd.DataFrame, summary: pd.DataFrame) -> None:
    """Mean entropy over N: of the model for every k, of its controls for the usual k."""
    filled = summary.set_index("samples")["filled"]
    usual, d = summary[["k", "dimensions"]].iloc[0]
    neighbours = sorted(table["k"].unique())
    by = ["samples", "k", "points"]
    for _, part in table.groupby(by, sort=False):
        name, k, points = part[by].iloc[0]
        logarithmic = points == "log-probabilities"
        if name != "model" and (k != usual or logarithmic):
            continue
        label = f"{NAMES[name]}, k = {k}"
        if logarithmic:
            label += ", log-probabilities"
        elif k == usual and np.isfinite(filled[name]):
            label += f", fills {filled[name]:.1f} of {d}"
        look: dict[str, Any] = {"color": COLOURS[name] if k == usual else LIGHT_BLUE}
        look["linestyle"] = ":" if logarithmic else "-"
        look |= {"marker": "os^Dv"[neighbours.index(k) % 5], "markersize": 5}
        axes.plot(part["n"], part["mean"], label=label, **look)
    axes.set_xscale("log", base=2)
    sizes = sorted(table["n"].unique())
    axes.set_xticks(sizes, [str(n) for n in sizes])
    axes.set_xlabel("N, sentences of an input")


def _draw_sharpness(axes: Axes, table: pd.DataFrame, first: pd.Series) -> None:
    for column in ("n", "k"):
        table = table[table[column] == first[column]]
    table = table[table["points"] == "probabilities"].sort_values("temperature")
    for name, part in table.groupby("samples", sort=False):
        look: dict[str, Any] = {"color": COLOURS[str(name)], "label": NAMES[str(name)]}
        axes.plot(part["temperature"], part["mean"], marker="o", **look)
    axes.set_xscale("log", base=2)
    temperatures = sorted(table["temperature"].unique())
    axes.set_xticks(temperatures, [f"{t:g}" for t in temperatures])
    axes.set_xlabel("temperature: sharper, 1 as trained, softer")
