"""Whether embeddings are attractors: where states end that start beside one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd
import torch

from plot_attractors.evaluation import perturbation, sampling
from plot_attractors.evaluation.metrics.bootstrap import resample
from plot_attractors.evaluation.metrics.critical import critical_perturbation
from plot_attractors.evaluation.probes import feature_decoders, is_described
from plot_attractors.model.attractor import AttractorModel

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from plot_attractors.runs import Run

TITLE = "Perturbation"
CAPTIONS = {
    "distances": (
        "How far a state ends from the embedding ẑ_s it was perturbed from: ẑ_s, of the sentence s "
        "sampled for an input, plus ν of a random direction and the given norm, after 5T steps. "
        "Left: distance to ẑ_s. Right: to the nearest embedding of a sentence in use, or of any "
        "where these are too many to list. Dashed: medians; thin: percentiles. The left median "
        "rises steeply at the critical perturbation (green; band: 95 % interval), from which on "
        "half of the states that would have returned do not: the radius of a typical basin. The "
        "right median is flat at any size: states that leave a basin end in another."
    ),
    "perturbation": (
        "Are embeddings attractors? Left: share of perturbed states that after 5T steps are within "
        "3 ε√d of an embedding of the same meaning (solid, 95 % intervals), whose nearest "
        "embedding has that meaning (dotted), or that are within 3 ε√d of any (dashed); size 1 is "
        "half the distance to another meaning in use. Right: median distance to the embedding they "
        "started at (solid) and to the nearest (dashed); dotted: ε√d, that of exact samples. Blue: "
        "starts at every sentence in use equally often; orange: as often as it is sampled."
    ),
    "features": (
        "Up to which size of a perturbation does a meaning survive? First panel: share of states "
        "whose nearest sentence n is the original s. Others: how alike the features are that a "
        "decoder reads at ẑ_n and at ẑ_s: share of equal likeliest outcomes, or the root mean "
        "squared difference of a number (lower is better). Bands: 95 % intervals over sentences. "
        "Grey: random pairs of sampled sentences. Green: the critical perturbation. A feature that "
        "is kept where the sentence is not is one that the sentences of a basin share."
    ),
}


@dataclass(frozen=True)
class Config:
    inputs: int = 512  # that tell which sentences are in use
    trajectories: int = 1000  # for each kind of start and each factor
    factors: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)
    norms: int = 30  # steps from no perturbation to the largest, denser near 0
    norm_starts: int = 500  # inputs whose sentences are perturbed by each norm


@torch.no_grad()
def applies(run: Run) -> bool:
    """Whether the model has attractors, and the bits of its sentences differ, if compared."""
    if not isinstance(run.model, AttractorModel):
        return False
    return not perturbation.compares_bits(run) or perturbation.Meanings.of(run.model).differ()


@torch.no_grad()
def measure(run: Run, config: Config) -> dict[str, Any]:
    """Ends after 5T steps of states at ẑ_s + ν, ν in a uniformly random direction.

    - ``norms.csv``: see `perturbation.end_percentiles`; s is read at z_T of trajectories of
      training inputs, ‖ν‖ goes up to `perturbation.largest_norm`;
    - ``critical.csv``, a row: see `critical_perturbation`; ``n`` starts; ``largest`` norm;
      ``noise``, ε√d, the distance of exact samples;
    - ``summary.csv``, where bits are compared: see `perturbation.perturb_meanings`;
    - ``features.csv``, else, where features are known: see `perturbation.compare_features`.

    Raises ValueError where no sentence has another meaning, and for a model without attractors.
    Source: Section *Attractor dynamics*, Fig. *perturbation*.
    """
    model = sampling.require_attractors(run.model)
    x, tables = run.data.batch(config.inputs).x, {}
    used = sampling.sentences_in_use(model, x) if sampling.is_listed(model) else None
    bits = perturbation.compares_bits(run)
    if used is not None and bits:
        n = config.trajectories
        tables["summary.csv"] = perturbation.perturb_meanings(run, used, n, config.factors)
    s = sampling.sampled_sentences(run, config.norm_starts)
    known = None if used is None else model.sentences[used]
    norms = perturbation.norm_grid(model, s, known, config.norms)
    ends = perturbation.ends_by_norm(model, s, norms, known)
    number = sampling.number_sentences(model, s)
    critical = critical_perturbation(norms, ends.original, number)
    tables["norms.csv"] = perturbation.end_percentiles(norms, ends, critical.radius)
    sizes = {"n": len(s), "largest": float(norms[-1]), "noise": model.epsilon * model.latent**0.5}
    row = pd.DataFrame([critical._asdict() | sizes])
    tables["critical.csv"] = row.rename(columns={"norm": "critical"})
    if not bits and is_described(run):
        given = feature_decoders(run)[0], model, s, norms, ends, resample(number[:, None])
        tables["features.csv"] = perturbation.compare_features(*given)
    return tables


def plot(tables: dict[str, Any]) -> dict[str, Figure]:
    """Distances by norm, and what is left of the meaning."""
    from plot_attractors.plots import perturbation as draw

    (critical,) = tables["critical.csv"].to_dict("records")
    figures = {"distances": draw.draw_distances(tables["norms.csv"], critical)}
    if "summary.csv" in tables:
        figures["perturbation"] = draw.draw_meanings(tables["summary.csv"], critical["noise"])
    if "features.csv" in tables:
        figures["features"] = draw.draw_features(tables["features.csv"], critical["critical"])
    return figures
