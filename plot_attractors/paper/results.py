"""The paper as data: its figures and numbers in its order, and what makes each of them here.

`RESULTS` is section → figure → model, analysis, file, column → the paper's value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from plot_attractors.measures.registry import (
    HELD_OUT,
    LARGEST,
    METRICS,
    PAPER_DATA,
    Metric,
    Paper,
)
from plot_attractors.paper.fits import ALL, ATTRACTORS, DATA, EC, LEARNED, MODELS, THOUGHT, VQVAE

__all__ = [
    "NOT_REPRODUCED", "OURS", "RESULTS", "Number", "Result", "Plot", "analyses_of", "map_rows",
    "of_paper", "to_markdown",
]  # fmt: skip


# What the paper shows.


class Plot(NamedTuple):
    """A figure of ours: ``runs/<data>-attractors-<seed>/analyses/<analysis>/<stem>.svg``."""

    data: str
    analysis: str
    stem: str


@dataclass(frozen=True)
class Number:
    """A number of one data set, of some models, with what the paper says of each of these: a value,
    or words where it has none.
    """

    data: str
    metric: Metric
    models: tuple[str, ...] = (ATTRACTORS,)
    paper: Mapping[str, Paper | str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.metric.name}_{self.data}"


@dataclass(frozen=True)
class Result:
    """A figure or a passage of the paper.

    - ``section``, ``place``: of the paper; ``data``: which data sets the paper shows it for;
    - ``says``: what the paper found, in short; ``reading``: how to read what stands here;
    - ``shown``: figures of our first seed; ``side_by_side``: the figure of all models.
    """

    key: str
    section: str
    place: str
    title: str
    says: str
    reading: str
    shown: tuple[Plot, ...] = ()
    numbers: tuple[Number, ...] = ()
    side_by_side: bool = False


def _number(data: str, name: str, models: Sequence[str] = (ATTRACTORS,), **paper: Any) -> Number:
    """A number of the registry, whose values of the paper are of the attractor model."""
    metric = METRICS[name]
    own = {ATTRACTORS: metric.paper[data]} if data in metric.paper else {}
    return Number(data, metric, tuple(models), own | paper)


def _own(
    data: str,
    name: str,
    title: str,
    read: tuple[str, str, str],
    where: Mapping[str, Any],
    models: Sequence[str] = (ATTRACTORS,),
    unit: str = "",
    **paper: Paper | str,
) -> Number:
    """A number that only this map has, read from (analysis, table, column)."""
    analysis, table, column = read
    metric = Metric(name, "paper", title, "", analysis, column, where, table=table, unit=unit)
    return Number(data, metric, tuple(models), paper)


def _distance(t: int) -> Number:
    where = {"panel": "A", "t": t}
    title = f"median distance to the nearest embedding at t = {t}"
    return _own("hbv", f"distance_{t}", title, ("trajectories", "summary", "distance"), where)


def _perturbed(data: str) -> tuple[Number, ...]:
    read = "perturbation", "norms", "p50"
    rows = (
        ("original", 0.0, "median distance to ẑ_s, no perturbation", ""),
        ("original", LARGEST, "median distance to ẑ_s, largest perturbation", "grows"),
        ("nearest", 0.0, "median distance to the nearest ẑ, no perturbation", ""),
        ("nearest", LARGEST, "median distance to the nearest ẑ, largest perturbation", "unchanged"),
    )
    numbers = [
        _own(
            data, f"{target}_{size}".replace(".", "_"), title, read,
            {"target": target, "norm": size}, **({ATTRACTORS: says} if says else {}),
        )
        for target, size, title, says in rows
    ]  # fmt: skip
    critical = "perturbation", "critical", "critical"
    title = "critical perturbation"
    return (_own(data, "critical", title, critical, {}, attractors="there is one"), *numbers)


def _correlation(feature: str) -> Number:
    where = {"pairs": "near", "feature": feature}
    read = "neighbours", "summary", "r"
    key = f"r_{feature.replace(' ', '_')}"
    return _own("dsprites", key, f"{feature}, r", read, where, attractors="strong")


def _error(name: str, analysis: str, source: str, split: str) -> Number:
    where = {"split": split, "source": source, "kind": "continuous"}
    suffix = "" if split == "train" else ", held-out inputs"
    kind = "sentences" if source == "sentence" else "composed sentences"
    title = f"error of size, x and y decoded from {kind}{suffix}"
    unit = "of the variance"
    return _own("dsprites", name, title, (analysis, "summary", "loss"), where, ALL, unit)


def _divergence(baseline: str, title: str) -> Number:
    where = {
        "split": "train", "inputs": "all", "source": "learned", "baseline": baseline,
        "reading": "heard", "measure": "js", "feature": "node",
    }  # fmt: skip
    read = "compare_language_of_thought", "summary", "value"
    name = f"js_{baseline}".replace(" ", "_")
    return _own("hbv", name, title, read, where, (*LEARNED, THOUGHT), "bits")


_OTHERS_HBV = {VQVAE: Paper(-float("inf")), EC: Paper(-173.66, -218.62, -62.666)}
_SIGMA_HBV = {ATTRACTORS: Paper(0.088, 0.036, 0.181), EC: Paper(0.0, 0.0, 0.007)}  # not 0.36
_SIGMA_SPRITES = {ATTRACTORS: Paper(0.085, 0.040, 0.158), EC: Paper(0.001, 0.0, 0.065)}
_EC_SPRITES = Paper(-49.973, -109.607, -11.785)
DIVERSE = (*LEARNED, THOUGHT)

OURS = "Ours"  # in the place of a place
# In the paper's order.
RESULTS: tuple[Result, ...] = (
    Result(
        "trajectories", "Model", "Figure 2", "Trajectories in two principal dimensions",
        "Trajectories of one input and of many end at sentence embeddings.",
        "States leave z0 (black) and gather (blue) at embeddings (red); distances to the nearest "
        "embedding shrink on the way, in the units of the latent space.",
        (Plot("hbv", "trajectories", "trajectories"),),
        (_distance(0), _distance(20)),
    ),
    Result(
        "data", "Experiments", "Figure 3; Figure 8 of the appendix", "The data sets",
        "A tree of classes of binary vectors, and coloured sprites; some of either are held out.",
        "The figure of the vectors has the appendix' probabilities of bits as its panel E. The "
        "share of images that the split position holds out is 1/16 in the paper.",
        (Plot("hbv", "data", "data"), Plot("dsprites", "data", "inputs")),
        (_own("dsprites", "position_share", "share of images that the split position holds out",
              ("data", "summary", "share"), {"split": "position"}, attractors="1/16"),),
    ),
    Result(
        "perturbation", "Results: Attractor dynamics", "Figure 4",
        "Distance from embeddings after a perturbation",
        "The median distance to ẑ_s is stable up to a critical size; that to the nearest embedding "
        "does not change at any size.",
        "A sentence is an attractor where the distance to the nearest embedding is as small after "
        "the largest perturbation as after none; the critical perturbation is the radius of a "
        "typical basin, and has no value where half of the states come back from any.",
        (Plot("hbv", "perturbation", "distances"), Plot("dsprites", "perturbation", "distances")),
        (*_perturbed("hbv"), *_perturbed("dsprites")),
    ),
    Result(
        "neighbours", "Results: Attractor dynamics", "Figure 5",
        "Features at an embedding and at its neighbour in the same basin",
        "States of sprites often end nearer to another embedding than to their own, and both mean "
        "nearly the same: all features correlate strongly.",
        "r is Pearson's correlation of what a decoder reads at ẑ_s and at the nearest ẑ_n; near 1, "
        "both sentences mean the same. The paper's values stand in its picture only.",
        (Plot("dsprites", "neighbours", "neighbours"),),
        (*(_correlation(f"colour {channel}") for channel in "RGB"),
         *(_correlation(name) for name in ("shape", "size", "x", "y")),
         _own("dsprites", "elsewhere", "share of states that end nearest to another embedding",
              ("neighbours", "ends", "elsewhere"), {}, attractors="most")),
    ),
    Result(
        "decodability", "Results: Emergent language", "Figure 6, red bars", "Feature decodability",
        "The three learned models are above the not compositional baseline and below the fully "
        "compositional one; attractors generalise best to held-out shapes.",
        "Accuracy of features decoded from one sentence, higher is better: of the first four "
        "levels of the tree, or of colour and shape; the error of numbers is 1 for a guess, lower "
        "is better. The paper's values stand in its picture only, so that the order is what can be "
        "compared.",
        (Plot("hbv", "decodability", "decodability"),
         Plot("dsprites", "decodability", "decodability")),
        (_number("hbv", "accuracy", ALL),
         _number("hbv", "accuracy_held_out", ALL),
         _number("dsprites", "accuracy", ALL),
         _number("dsprites", "accuracy_held_out", ALL),
         _own("dsprites", "held_out_shape", "held-out shape decoded from sentences",
              ("decodability", "summary", "value"),
              {"split": "position+shape", "source": "sentence", "feature": "shape"}, ALL,
              attractors="almost full"),
         _error("error", "decodability", "sentence", "train"),
         _error("error_held_out", "decodability", "sentence", HELD_OUT)),
        side_by_side=True,
    ),
    Result(
        "similarity", "Results: Emergent language", "Text", "Representational similarity analysis",
        "Distances between sprites and between their sentences correlate most for attractors.",
        "Spearman's correlation of distances between inputs and between their sentences: 0 for a "
        "language without system, higher is better.",
        (Plot("dsprites", "language_measures", "language_measures"),),
        (_number("dsprites", "topographic_similarity", ALL,
                 **{VQVAE: Paper(0.314), EC: Paper(0.156)}),),
    ),
    Result(
        "composition", "Results: Emergent language", "Figure 6, blue bars",
        "Feature-wise composition",
        "Sentences composed token by token for one feature after the other are understood about as "
        "well as sampled ones; less so for held-out inputs.",
        "The numbers of feature decodability, for composed sentences: equal where a feature has a "
        "token of its own. The side by side figure above has both.",
        (Plot("hbv", "composition", "composition"),
         Plot("dsprites", "composition", "composition")),
        (_number("hbv", "composed", ALL),
         _number("hbv", "composed_held_out", ALL),
         _number("dsprites", "composed", ALL),
         _number("dsprites", "composed_held_out", ALL),
         _error("composed_error", "composition", "composed", "train"),
         _error("composed_error_held_out", "composition", "composed", HELD_OUT)),
    ),
    Result(
        "diversity", "Results: Sample diversity", "Text", "Concept diversity",
        "Sentences of one input mean more different things for attractors than for emergent "
        "communication; a VQ-VAE has one sentence an input.",
        "Differential entropy of what is decoded from the sentences of one input, higher is more "
        "diverse. It depends on the number of sentences and of neighbours, which the paper does "
        "not tell; so it stands here for two choices. −∞: some sentences are the same point.",
        (Plot("hbv", "diversity", "diversity"), Plot("dsprites", "diversity", "diversity")),
        (_number("hbv", "diversity", DIVERSE, **_OTHERS_HBV),
         _number("hbv", "diversity_floored", DIVERSE, **_OTHERS_HBV),
         _number("hbv", "diversity_distinct", DIVERSE, **_OTHERS_HBV),
         _number("hbv", "diversity_16", DIVERSE, **_OTHERS_HBV),
         _number("hbv", "diversity_sigma", DIVERSE, **_SIGMA_HBV),
         _number("dsprites", "diversity", DIVERSE, **{EC: _EC_SPRITES}),
         _number("dsprites", "diversity_floored", DIVERSE, **{EC: _EC_SPRITES}),
         _number("dsprites", "diversity_distinct", DIVERSE, **{EC: _EC_SPRITES}),
         _number("dsprites", "diversity_16", DIVERSE, **{EC: _EC_SPRITES}),
         _number("dsprites", "diversity_sigma", DIVERSE, **_SIGMA_SPRITES)),
    ),
    Result(
        "information_loss", "Results: Sample diversity", "Figure 7",
        "Information lost by discretisation",
        "The bits d = c0 − cT that a sentence loses follow Geometric(½) closely; for held-out "
        "classes the model favours smaller losses.",
        "p is ½ and KL is 0 where sentences are sampled in proportion to what they tell. Both "
        "leave d < 0 out, whose share stands beside them; the paper does not say what it does with "
        "these.",
        (Plot("hbv", "information_loss", "information_loss"),),
        tuple(_number("hbv", name)
              for name in ("p", "kl", "p_held_out", "kl_held_out", "p_negative")),
    ),
    Result(
        "language_of_thought", "Beyond the paper", OURS,
        "Beside a Bayesian language of thought",
        "The paper compares its model with probabilistic languages of thought in words only.",
        "Jensen-Shannon divergence of what is understood of an input from a model's sentences and "
        "from a grammar's expressions: 0 bits where both say the same, 1 where they have nothing "
        "in common.",
        (Plot("hbv", "compare_language_of_thought", "compare"),),
        (_divergence("paths", "divergence from the grammar of paths"),
         _divergence("slots", "divergence from the grammar of slots"),
         _divergence("node", "divergence from the posterior over nodes")),
    ),
)  # fmt: skip

NOT_REPRODUCED: Mapping[str, str] = {
    "Figure 1": "a drawing of the concept; nothing is measured.",
    "Table 1": "a list of the model's modules: models/attractor.py puts them together.",
    "Values of the bars of Figure 6 and r of Figure 5": "they stand in pictures, which the source "
    "of the text does not hold; what the text says of them stands beside our numbers.",
    "Entropy of emergent communication": "the paper has −173.66 and −49.973 nats. Equal sentences "
    "are equal points, for which the entropy is −∞; the paper does not say how it broke ties. So "
    "it stands here in three ways: as it is, with no distance below 2⁻²³, and of the different "
    "points of each input.",
    "The paper's algorithm": "what it gives here is in docs/results/to-the-letter.md; the "
    "attractor model is fitted by the defaults.",
    "The original dSprites file": "the sprites are drawn by a renderer of our own, which needs no "
    "download.",
}


# The map, read.


def analyses_of(data: str, model: str) -> list[str]:
    """The analyses that some result needs of a model on a data set, in the map's order."""
    names: list[str] = []
    for result in RESULTS:
        if model == ATTRACTORS:
            names += [shown.analysis for shown in result.shown if shown.data == data]
        names += [n.metric.analysis for n in result.numbers if n.data == data and model in n.models]
    return list(dict.fromkeys(names))


HEAD = ("section", "in the paper", "data", "models", "figure", "read from", "the paper's value")


def map_rows() -> list[tuple[str, ...]]:
    """The map as rows of text under `HEAD`, one for each result and data set."""
    rows: list[tuple[str, ...]] = []
    for result in RESULTS:
        for data in DATA:
            shown = [f"{s.analysis}/{s.stem}.svg" for s in result.shown if s.data == data]
            numbers = [number for number in result.numbers if number.data == data]
            if not shown and not numbers:
                continue
            models = tuple(m for m in MODELS if any(m in n.models for n in numbers))
            names = "all" if models == ALL else ", ".join(models or (ATTRACTORS,))
            at = (result.section, result.place, PAPER_DATA[data], names, ", ".join(shown))
            rows.append((*at, _columns(numbers), "; ".join(filter(None, map(_of_paper, numbers)))))
    return rows


def _columns(numbers: Sequence[Number]) -> str:
    """Files and their columns, each once."""
    files: dict[str, dict[str, None]] = {}
    for metric in (number.metric for number in numbers):
        file = f"{metric.analysis}/{metric.table}.csv"
        files.setdefault(file, {})[metric.column] = None
    return "; ".join(f"{file}: {', '.join(columns)}" for file, columns in files.items())


def _of_paper(number: Number) -> str:
    values = number.paper.values()
    if not values:
        return ""
    if tuple(number.paper) == (ATTRACTORS,):
        return f"{number.metric.name} {of_paper(*values)}"
    parts = [f"{model} {of_paper(value)}" for model, value in number.paper.items()]
    return f"{number.metric.name}: {', '.join(parts)}"


def of_paper(value: Paper | str) -> str:
    """What the paper says, as text."""
    return str(value).replace("−inf", "−∞")


def to_markdown() -> str:
    """The map as a Markdown table."""
    rows = [HEAD, tuple(":--" for _ in HEAD), *map_rows()]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)
