"""Measures how varied the decoded sentences of one input are, and what the number depends on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from plot_attractors.data import ColouredSprites, Feature, HierarchicalBinaryVectors
from plot_attractors.evaluation.metrics.diversity import Diversity, diversity
from plot_attractors.evaluation.probes import Prediction
from plot_attractors.evaluation.sampling import exact_states, is_listed
from plot_attractors.model.attractor import AttractorModel

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
