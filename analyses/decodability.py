"""What a listener can tell of an input's features from its sentence, from its end state, and at
best.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from torch import Tensor

from plot_attractors.data import Feature, HierarchicalBinaryVectors, Labelled
from plot_attractors.evaluation import probes
from plot_attractors.evaluation.metrics.bootstrap import bootstrap, resample, root
from plot_attractors.evaluation.probes import Prediction
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.plots.style import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SPLIT_NAMES,
    plain,
    save,
    style,
)

if TYPE_CHECKING:
    from plot_attractors.runs import Run

__all__ = ["CAPTIONS", "TITLE", "analyze", "applies", "bayes_optimum"]

TITLE = "Feature decodability"
CAPTIONS = {
    "decodability": (
        "What can be told of an input from its sentence? Two networks, the listeners, were trained "
        "apart from each "
        "other to name the features of training inputs. Blue: what they name right when they are "
        "given a sentence "
        "that the model says (filled and open: the two listeners; vertical lines: 95 % intervals "
        "over inputs). "
        "Orange: given the state at which the sentence is read. Green: given the state that the "
        "input is encoded in, "
        "before it is put into words. Black: given the input itself; for hierarchical binary "
        "vectors this is the exact "
        "optimum of who knows the training classes, and purple of who knows all classes: noisy "
        "inputs do not tell all. "
        "Grey: a guess without a look. Where blue is as high as orange, sentences keep all that "
        "the last states hold; "
        "blue below green is what words cost, green below black what encoding costs. For features "
        "that are numbers "
        "the root mean squared error is drawn: lower is better. In a tree an input's path may end "
        "early: on the left, "
        "“it has ended” is an answer like “left” and “right”; on the right, only inputs whose path "
        "goes on are "
        "counted, left or right. Held-out classes are new to model and listeners. Who knows the "
        "training classes only "
        "takes the branch that was held out for one that is never taken, so that there even the "
        "optimum (black) falls "
        "to chance."
    )
}

INPUTS, DRAWS = 2000, 2  # inputs of each split, and descriptions of each
ENDED = "none"  # outcome of a tree's levels below an input's own
COLUMNS = [
    "split",
    "feature",
    "kind",
    "source",
    "decoder",
    "value",
    "low",
    "high",
    "chance",
    "loss",
    "agreement",
    "n",
]
_YLABELS = {"categorical": "accuracy", "continuous": "RMSE"}
STYLES = {
    "sentence": ("a sentence", BLUE, "o"),
    "state": ("the last state", ORANGE, "s"),
    "encoding": ("the first state", GREEN, "D"),
    "input": ("the input", "black", "_"),
    "tree": ("the input and all classes", PURPLE, "_"),
}


class Answers(NamedTuple):
    """What one decoder says of the inputs, (n, draws), given one source."""

    source: str
    decoder: int
    prediction: Prediction


def applies(run: Run) -> bool:
    """Whether the run's model says sentences, and its data knows features of the inputs."""
    return probes.is_described(run)


@torch.no_grad()
def analyze(run: Run, out: Path) -> None:
    """Write ``summary.csv``, ``branches.csv`` for a tree, and the figure ``decodability`` into
    ``out``.

    ``summary.csv`` has a row for each split, feature, source and decoder:

    - ``kind``: categorical or continuous;
    - ``source``: what the decoder is given: ``sentence``, ẑ_s of a sentence that the model says of
      the input; ``state``, the z_T that it is read from; and as ceilings ``encoding``, z0, by a
      decoder trained on it, and ``input``, x, by a decoder trained on it. For hierarchical binary
      vectors ``input`` is the exact optimum of who knows the training classes, and ``tree`` of who
      knows all classes of the tree (`bayes_optimum`);
    - ``decoder``: 0 or 1, which of the run's two decoders; ceilings have one, 0;
    - ``value``: accuracy, or RMSE in the feature's units; ``low``, ``high``: 95 % bootstrap
    interval over inputs;
    - ``chance``: share of the commonest outcome, or standard deviation, among training inputs;
    - ``loss``: −log P(true outcome) in nats, or squared error in units of the variance; mean;
    - ``agreement``: share of sentences (states) of which both decoders say the same, or root mean
      squared difference of what they say; NaN for ceilings;
    - ``n``: inputs whose feature is known.

    The first levels of a tree (`probes.leading_levels`) have a row of their mean, too. Accuracy
    counts "none", the path has ended above this level, as an outcome like the others.
    ``branches.csv`` (split, feature, source, decoder, value, low, high, chance, n) leaves it out:
    among inputs whose path has that level, how often the likelier one of the other outcomes is
    true.

    The training rows of a table are those that decoders have learned from. Source: Section *Feature
    decodability*.
    """
    model, data = probes.require_described(run)
    features, pair = data.features, probes.feature_decoders(run)
    training = run.data.batch(probes.INPUTS)
    told = data.feature_values(training)
    ceilings: dict[str, Callable[[Tensor], Tensor]] = {}
    if isinstance(model, AttractorModel):
        ceilings["encoding"] = lambda x: model.encode(x).z0
    if not isinstance(run.data, HierarchicalBinaryVectors):
        ceilings["input"] = lambda x: x.flatten(1)
    trained = {
        source: probes.train_decoder(see(training.x), told, features, run.seed)
        for source, see in ceilings.items()
    }

    rows: list[dict[str, Any]] = []
    branches: list[dict[str, Any]] = []
    for split in run.data.splits:
        batch = run.data.batch(INPUTS, split)
        values, times = data.feature_values(batch), resample(batch.x)
        description = model.describe(batch.x, DRAWS)
        given = {"sentence": model.embed(description.s), "state": description.z}
        answers = [Answers(source, k, pair[k](z)) for source, z in given.items() for k in (0, 1)]
        answers += [
            Answers(source, 0, trained[source](see(batch.x)[:, None]))
            for source, see in ceilings.items()
        ]
        if isinstance(run.data, HierarchicalBinaryVectors):
            everything = torch.arange(len(run.data.depths))
            for source, classes in (("input", run.data.train_classes), ("tree", everything)):
                answers.append(
                    Answers(source, 0, bayes_optimum(run.data, batch.x[:, None], classes))
                )
        agreement = {
            source: root(bootstrap(pair[0](z).score(pair[1](z).values).mean(1), times), features)
            for source, z in given.items()
        }
        for answer in answers:
            same = agreement[answer.source].value if answer.source in agreement else None
            keys = {"split": split, "source": answer.source, "decoder": answer.decoder}
            rows += [
                keys | row for row in _summarise(data, answer.prediction, values, told, times, same)
            ]
            branches += [
                keys | row for row in _branches(data, answer.prediction, values, told, times)
            ]
    table = pd.DataFrame(rows, columns=COLUMNS)
    table.to_csv(out / "summary.csv", index=False)
    beside = pd.DataFrame(
        branches, columns=[c for c in COLUMNS if c not in ("kind", "loss", "agreement")]
    )
    if branches:
        beside.to_csv(out / "branches.csv", index=False)
    with style():
        save(_draw(table, beside, features), out / "decodability")


def bayes_optimum(data: HierarchicalBinaryVectors, x: Tensor, classes: Tensor) -> Prediction:
    """P(features | x) of inputs x (…, bits), by Bayes' rule and the true P(x | class), the given
    classes (n,) being equally likely: where inputs are of such classes, no decoder does better.
    """
    p = data.probabilities[classes].double()
    log_p = (x.double() @ (p.log() - (-p).log1p()).T + (-p).log1p().sum(-1)).log_softmax(
        -1
    )  # (…, classes)
    outputs = []
    for k, f in enumerate(data.features):
        member = (data.paths[classes, k] + 1)[:, None] == torch.arange(len(f.outcomes))
        outputs.append(torch.where(member, log_p[..., None], -torch.inf).logsumexp(-2))
    constant = torch.zeros(len(data.features))
    return Prediction(data.features, torch.cat(outputs, -1).float(), constant, constant + 1)


def _summarise(
    data: Labelled,
    prediction: Prediction,
    values: Tensor,
    told: Tensor,
    times: Tensor,
    agreement: Tensor | None,
) -> list[dict[str, Any]]:
    """The rows of summary.csv of one decoder, given one source."""
    features = data.features
    score, loss = (
        prediction.score(values[:, None]).mean(1),
        prediction.loss(values[:, None]).mean(1),
    )
    found, chance = root(bootstrap(score, times), features), probes.chance(told, features)
    rows = [
        {
            "feature": f.name,
            "kind": f.kind,
            "value": float(found.value[k]),
            "low": float(found.low[k]),
            "high": float(found.high[k]),
            "chance": float(chance[k]),
            "loss": float(loss[:, k].nanmean()),
            "agreement": np.nan if agreement is None else float(agreement[k]),
            "n": int((~values[:, k].isnan()).sum()),
        }
        for k, f in enumerate(features)
    ]
    if levels := probes.leading_levels(data):
        mean = bootstrap(score[:, :levels].nanmean(1, keepdim=True), times)
        row: dict[str, Any] = {
            "feature": f"mean of {levels}",
            "kind": "categorical",
            "n": len(values),
        }
        row |= {name: float(part) for name, part in mean._asdict().items()}
        row |= {
            name: float(np.mean([r[name] for r in rows[:levels]]))
            for name in ("chance", "loss", "agreement")
        }
        rows.append(row)
    return rows


def _branches(
    data: Labelled, prediction: Prediction, values: Tensor, told: Tensor, times: Tensor
) -> list[dict[str, Any]]:
    """The rows of branches.csv of one decoder, given one source: only inputs whose path has the
    level.
    """
    if not data.ordered or any(f.outcomes[:1] != (ENDED,) for f in data.features):
        return []
    taken, chance = (
        torch.where(values > 0, values, torch.nan),
        torch.where(told > 0, told, torch.nan),
    )
    branch = torch.stack([part[..., 1:].argmax(-1) + 1 for part in prediction.parts], -1)
    right = torch.where(taken.isnan()[:, None], torch.nan, (branch == taken[:, None]).float()).mean(
        1
    )
    found, guess = bootstrap(right, times), probes.chance(chance, data.features)
    return [
        {
            "feature": f.name,
            "value": float(found.value[k]),
            "low": float(found.low[k]),
            "high": float(found.high[k]),
            "chance": float(guess[k]),
            "n": int((~taken[:, k].isnan()).sum()),
        }
        for k, f in enumerate(data.features)
    ]


def _draw(table: pd.DataFrame, branches: pd.DataFrame, features: Sequence[Feature]) -> Figure:
    # A row of panels for each split: accuracy, accuracy of branches, RMSE, each where there is one.
    names = {
        kind: [f.name for f in features if f.categorical == (kind == "categorical")]
        for kind in _YLABELS
    }
    panels = [(kind, table[table["feature"].isin(names[kind])]) for kind in _YLABELS if names[kind]]
    if len(branches):
        panels.insert(1, ("branches", branches))
    widths = [max(3, part["feature"].nunique()) for _, part in panels]
    splits = list(table["split"].unique())
    figure = Figure(figsize=(10.5, 0.7 + 3.2 * len(splits)), layout="constrained")
    grid = figure.subplots(len(splits), len(panels), squeeze=False, width_ratios=widths)
    for row, split in zip(grid, splits, strict=True):
        for axes, (kind, part) in zip(row, panels, strict=True):
            _draw_panel(axes, part[part["split"] == split])
            title = SPLIT_NAMES.get(split, split)
            axes.set_title(f"{title}, paths that go on" if kind == "branches" else title)
            axes.set_ylabel(_YLABELS.get(kind, "accuracy, left or right"))
            if kind == "continuous":
                axes.set_ylim(bottom=0)
            else:
                axes.set_ylim(0, 1.03)
    handles = [
        Line2D(
            [],
            [],
            color=colour,
            marker=marker,
            linestyle="none",
            label=f"given {name}",
            **_size(marker),
        )
        for source, (name, colour, marker) in STYLES.items()
        if (table["source"] == source).any()
    ]
    handles.append(Line2D([], [], color=GREY, linestyle="--", label="without a look"))
    figure.legend(handles=handles, loc="outside upper center", ncols=3)
    return figure


def _draw_panel(axes: Axes, part: pd.DataFrame) -> None:
    names = list(part["feature"].unique())
    series = list(part[["source", "decoder"]].drop_duplicates().itertuples(index=False))
    for j, (source, decoder) in enumerate(series):
        _, colour, marker = STYLES[source]
        of = part[(part["source"] == source) & (part["decoder"] == decoder)]
        x = np.arange(len(names)) + 0.7 * ((j + 0.5) / len(series) - 0.5)
        axes.vlines(x, of["low"], of["high"], color=colour, linewidth=1.2)
        fill = "white" if decoder else colour
        axes.plot(
            x,
            of["value"],
            color=colour,
            marker=marker,
            linestyle="none",
            markerfacecolor=fill,
            **_size(marker),
        )
    chance = part.drop_duplicates("feature")["chance"]
    axes.hlines(
        chance,
        np.arange(len(names)) - 0.45,
        np.arange(len(names)) + 0.45,
        color=GREY,
        linestyle="--",
    )
    many = len(names) > 8
    axes.set_xticks(
        range(len(names)), [plain(name, 14) for name in names], rotation=90 if many else 0
    )
    axes.set_xlim(-0.6, len(names) - 0.4)


def _size(marker: str) -> dict[str, Any]:
    return {"markersize": 9, "markeredgewidth": 2} if marker == "_" else {"markersize": 5}
