"""The paper as data: its figures and numbers in its order, and what makes each of them here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from plot_attractors.measures.registry import HELD_OUT, METRICS, Metric, Paper

__all__ = [
    "ALL", "ATTRACTORS", "EC", "NUMBERS", "RESULTS", "THOUGHT", "VQVAE", "Number", "Plot", "Result",
    "analyses_of",
]  # fmt: skip

ATTRACTORS, VQVAE, EC = "attractors", "vqvae", "emergent_communication"
THOUGHT = "language_of_thought"
DIVERSE = (ATTRACTORS, VQVAE, EC, THOUGHT)
ALL = (*DIVERSE, "fully_compositional", "not_compositional")


# Numbers.


@dataclass(frozen=True)
class Number:
    """A number of one data set, of some models, with the paper's value of each that it tells of."""

    data: str
    metric: Metric
    models: tuple[str, ...] = (ATTRACTORS,)
    paper: Mapping[str, Paper] = field(default_factory=dict)


def _numbers(
    data: str, names: str, models: tuple[str, ...] = (ATTRACTORS,), **paper: Paper
) -> list[Number]:
    """Numbers of the registry, whose values of the paper are of the attractor model."""
    metrics = [METRICS[name] for name in names.split()]
    of_ours = [{ATTRACTORS: m.paper[data]} if data in m.paper else {} for m in metrics]
    return [Number(data, m, models, own | paper) for m, own in zip(metrics, of_ours, strict=True)]


def _error(name: str, analysis: str, source: str, split: str) -> Number:
    """The root mean squared error of what is decoded of sprites' numbers, in their own units."""
    kind = "composed sentences" if source == "composed" else "sentences"
    of = "" if split == "train" else ", held-out inputs"
    title = f"root mean squared error of size, x and y decoded from {kind}{of}"
    where = {"split": split, "source": source, "kind": "continuous"}
    return Number("dsprites", Metric(name, "paper", title, "", analysis, "value", where), ALL)


_DIVERSITY = "diversity diversity_16"
_DECODED = "accuracy accuracy_held_out composed composed_held_out"
NUMBERS: tuple[Number, ...] = (
    *_numbers("hbv", _DECODED, ALL),
    *_numbers("dsprites", _DECODED, ALL),
    _error("error", "decodability", "sentence", "train"),
    _error("error_held_out", "decodability", "sentence", HELD_OUT),
    _error("composed_error", "composition", "composed", "train"),
    _error("composed_error_held_out", "composition", "composed", HELD_OUT),
    *_numbers("dsprites", "topographic_similarity", ALL,
              **{VQVAE: Paper(0.314), EC: Paper(0.156)}),
    *_numbers("hbv", _DIVERSITY, DIVERSE,
              **{VQVAE: Paper(-float("inf")), EC: Paper(-173.66, -218.62, -62.666)}),
    *_numbers("hbv", "diversity_sigma", DIVERSE,
              **{ATTRACTORS: Paper(0.088, 0.036, 0.181), EC: Paper(0.0, 0.0, 0.007)}),  # not 0.36
    *_numbers("dsprites", _DIVERSITY, DIVERSE, **{EC: Paper(-49.973, -109.607, -11.785)}),
    *_numbers("dsprites", "diversity_sigma", DIVERSE,
              **{ATTRACTORS: Paper(0.085, 0.040, 0.158), EC: Paper(0.001, 0.0, 0.065)}),
    *_numbers("hbv", "p kl p_held_out kl_held_out p_negative"),
)  # fmt: skip


# Figures.


class Plot(NamedTuple):
    """A figure of ours: ``runs/<data>-attractors-<seed>/analyses/<analysis>/<stem>.svg``."""

    data: str
    analysis: str
    stem: str


class Result(NamedTuple):
    """A figure or a passage of the paper: where it stands, what the paper found, in short, and our
    figures.
    """

    section: str
    title: str
    says: str
    shown: tuple[Plot, ...]


def _both(analysis: str, stem: str) -> tuple[Plot, ...]:
    return Plot("hbv", analysis, stem), Plot("dsprites", analysis, stem)


DECODABILITY = "Figure 6, red bars: Feature decodability"
# In the paper's order.
RESULTS = (
    Result(
        "Model", "Figure 2: Trajectories in two principal dimensions",
        "Trajectories of one input and of many end at sentence embeddings.",
        (Plot("hbv", "trajectories", "trajectories"),),
    ),
    Result(
        "Experiments", "Figure 3; Figure 8 of the appendix: The data sets",
        "A tree of classes of binary vectors, and coloured sprites; some of either are held out, "
        "of the split position 1/16.",
        (Plot("hbv", "data", "data"), Plot("dsprites", "data", "inputs")),
    ),
    Result(
        "Results: Attractor dynamics", "Figure 4: Distance from embeddings after a perturbation",
        "The median distance to ẑ_s is stable up to a critical size; that to the nearest embedding "
        "does not change at any size.",
        _both("perturbation", "distances"),
    ),
    Result(
        "Results: Attractor dynamics",
        "Figure 5: Features at an embedding and at its neighbour in the same basin",
        "States of sprites often end nearer to another embedding than to their own, and both mean "
        "nearly the same: all features correlate strongly.",
        (Plot("dsprites", "neighbours", "neighbours"),),
    ),
    Result(
        "Results: Emergent language", DECODABILITY,
        "The three learned models are above the not compositional baseline and below the fully "
        "compositional one; attractors generalise best to held-out shapes, almost perfectly.",
        _both("decodability", "decodability"),
    ),
    Result(
        "Results: Emergent language", "Text: Representational similarity analysis",
        "Distances between sprites and between their sentences correlate most for attractors.",
        (Plot("dsprites", "language_measures", "language_measures"),),
    ),
    Result(
        "Results: Emergent language", "Figure 6, blue bars: Feature-wise composition",
        "Sentences composed token by token for one feature after the other are understood about as "
        "well as sampled ones; less so for held-out inputs.",
        _both("composition", "composition"),
    ),
    Result(
        "Results: Sample diversity", "Text: Concept diversity",
        "Sentences of one input mean more different things for attractors than for emergent "
        "communication; a VQ-VAE has one sentence an input. The paper does not tell the number of "
        "sentences and of neighbours, on which the entropy depends.",
        _both("diversity", "diversity"),
    ),
    Result(
        "Results: Sample diversity", "Figure 7: Information lost by discretisation",
        "The bits d = c0 − cT that a sentence loses follow Geometric(½) closely; for held-out "
        "classes the model favours smaller losses. The paper does not say what it does with d < 0.",
        (Plot("hbv", "information_loss", "information_loss"),),
    ),
    Result(
        "Beyond the paper", "Sampled beside exact probabilities",
        "The paper has no exact posterior of its sentences to compare with.",
        (Plot("hbv", "calibration", "shares"),),
    ),
)  # fmt: skip


def analyses_of(data: str, model: str) -> list[str]:
    """The analyses that the page needs of a model on a data set."""
    shown = [plot for result in RESULTS for plot in result.shown]
    names = [plot.analysis for plot in shown if (plot.data, model) == (data, ATTRACTORS)]
    names += [n.metric.analysis for n in NUMBERS if n.data == data and model in n.models]
    return list(dict.fromkeys(names))
