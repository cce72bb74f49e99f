"""Whether embeddings are attractors: where states end that start beside one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import torch

from plot_attractors.evaluation import perturbation, probes, sampling
from plot_attractors.evaluation.metrics.bootstrap import resample
from plot_attractors.evaluation.metrics.critical import critical_perturbation
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.ranges import Count, Distinct, NonNegative, Size
from plot_attractors.runs import Run

TITLE = "Perturbation"
CAPTIONS = {
    "distances": (
        "How far states end, after 5T steps, from the embedding ẑ_s of a sampled sentence that "
        "they were perturbed from in a random direction. Left: distance to ẑ_s. Right: to the "
        "nearest embedding, in use where sentences can be listed. Dashed: medians; thin: "
        "percentiles. Green: the critical perturbation (95 % interval), from which on half of the "
        "states that would have returned do not: the radius of a typical basin."
    ),
    "perturbation": (
        "Are embeddings attractors? Left: share of perturbed states that end within 3 ε√d of an "
        "embedding of the same meaning (solid, 95 % intervals), whose nearest embedding has that "
        "meaning (dotted), or that are within 3 ε√d of any (dashed); size 1 is half the distance "
        "to another meaning. Right: median distance to the start's embedding (solid) and to the "
        "nearest (dashed); dotted: of exact samples. Starts: see the legend."
    ),
    "features": (
        "What is left of a meaning. First panel: share of states whose nearest sentence n is s "
        "itself. Others: how alike the features are that a decoder reads at ẑ_n and ẑ_s: share of "
        "equal likeliest outcomes, or root mean squared difference. Bands: 95 % intervals over "
        "sentences; grey: random pairs; green: critical perturbation."
    ),
}


@dataclass(frozen=True)
class Config(probes.Training):
    inputs: Size = 512  # that tell which sentences are in use
    trajectories: Size = 1000  # for each kind of start and each factor
    factors: Annotated[tuple[NonNegative, ...], Distinct()] = (
        0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0,
    )  # fmt: skip
    norms: Count = 30  # steps from no perturbation to the largest, denser near 0
    norm_starts: Count = 500  # inputs whose sentences are perturbed by each norm


def applies(run: Run) -> bool:
    """Whether the model has attractors, and the bits of its sentences differ, if compared."""
    return isinstance(run.model, AttractorModel) and perturbation.distinguishes(run)


@torch.no_grad()
def measure(run: Run, config: Config) -> dict[str, Any]:
    """Ends after 5T steps of states at ẑ_s + ν, ν in a uniformly random direction.

    - ``norms.csv``: see `perturbation.end_percentiles`; s as at z_T of trajectories of inputs;
    - ``critical.csv``: see `perturbation.critical_row`;
    - ``summary.csv``, where bits are compared: see `perturbation.perturb_meanings`;
    - ``features.csv``, else, where features are known: see `perturbation.compare_features`.

    Raises ValueError where no sentence has another meaning, and for a model without attractors.
    Source: Section *Attractor dynamics*, Fig. *perturbation*.
    """
    model = sampling.require_attractors(run.model)
    x, bits, tables = run.data.batch(config.inputs).x, perturbation.compares_bits(run), {}
    used = sampling.sentences_in_use(model, x) if sampling.is_listed(model) else None
    if used is not None and bits:
        n, factors = config.trajectories, config.factors
        tables["summary.csv"] = perturbation.perturb_meanings(run, used, n, factors)
    s = sampling.sampled_sentences(run, config.norm_starts)
    known = None if used is None else model.sentences[used]
    norms = perturbation.norm_grid(model, s, known, config.norms)
    ends = perturbation.ends_by_norm(model, s, norms, known)
    number = sampling.number_sentences(model, s)
    critical = critical_perturbation(norms, ends.original, number)
    tables["norms.csv"] = perturbation.end_percentiles(norms, ends, critical.radius)
    tables["critical.csv"] = perturbation.critical_row(model, critical, norms, len(s))
    if not bits and probes.is_described(run):
        given = model, s, norms, ends, resample(number[:, None])
        decoder = probes.feature_decoders(run, config)[0]
        tables["features.csv"] = perturbation.compare_features(decoder, *given)
    return tables


def plot(tables: dict[str, Any]) -> dict[str, Any]:
    """Distances by norm, and what is left of the meaning."""
    from plot_attractors.plots import perturbation as draw

    (critical,) = tables["critical.csv"].to_dict("records")
    figures = {"distances": draw.draw_distances(tables["norms.csv"], critical)}
    if "summary.csv" in tables:
        figures["perturbation"] = draw.draw_meanings(tables["summary.csv"], critical["noise"])
    if "features.csv" in tables:
        figures["features"] = draw.draw_features(tables["features.csv"], critical["critical"])
    return figures
