"""What can be decoded of an input's features from its sentence, from its end state, and at best."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from torch import Tensor

from plot_attractors.analysis import probes
from plot_attractors.analysis.parts import draw_features
from plot_attractors.analysis.probes import Prediction
from plot_attractors.analysis.shape import DESCRIBED, by_split
from plot_attractors.analysis.style import BLUE, GREEN, GREY, ORANGE
from plot_attractors.data import Batch, HierarchicalBinaryVectors
from plot_attractors.measures.bootstrap import resample
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.model.bits import filled
from plot_attractors.ranges import Size, setting
from plot_attractors.runs import Run

TITLE = "Feature decodability"
CAPTIONS = {
    "decodability": (
        "What can be told of an input from its sentence? Two networks were trained apart to name "
        "the features of training inputs. Blue: what they name right when given a sentence sampled "
        "by the model (filled and open: the two networks; vertical lines: 95 % intervals over "
        "inputs). Orange: given the state at which the sentence is read; green: the state that the "
        "input is encoded in; black: the input itself, of hierarchical binary vectors the exact "
        "optimum of who knows the training classes. Grey: a guess without a look. Blue below green "
        "is what tokens cost, green below black what encoding costs. Of features that are numbers "
        "the root mean squared error is drawn: lower is better. In a tree “the path has ended” is "
        "an answer like “left” and “right”. Who knows the training classes only takes the branch "
        "that was held out for one that is never taken, so that on held-out classes even the "
        "optimum (black) falls to chance."
    )
}


@dataclass(frozen=True)
class Config(probes.DecoderTraining):
    """Sample sizes, beside those of `probes.DecoderTraining`."""

    inputs: Size = setting(2000, "of each split")


NEEDS = DESCRIBED


# -- measures --------------------------------------------------------------------------------------


DRAWS = 2  # sentences of each input
COLUMNS = "split feature kind source decoder value low high chance n"


def bayes_optimum(data: HierarchicalBinaryVectors, x: Tensor, classes: Tensor) -> Prediction:
    """P(features | x) of inputs x (…, bits), by Bayes' rule and the true P(x | class), the given
    classes (n,) being equally likely: where inputs are of such classes, no decoder does better.
    """
    p = data.probabilities[classes].double()
    log_p = x.double() @ (p.log() - (-p).log1p()).T + (-p).log1p().sum(-1)
    log_p = log_p.log_softmax(-1)  # (…, classes)
    outputs = []
    for k, f in enumerate(data.features):
        member = (data.paths[classes, k] + 1)[:, None] == torch.arange(len(f.outcomes))
        outputs.append(torch.where(member, log_p[..., None], -torch.inf).logsumexp(-2))
    constant = torch.zeros(len(data.features))
    return Prediction(data.features, torch.cat(outputs, -1).float(), constant, constant + 1)


@torch.no_grad()
def measure(run: Run, config: Config) -> dict[str, pd.DataFrame]:
    """A row for each split, feature, source and decoder (Section *Feature decodability*).

    - ``summary.csv``: ``source``: what the decoder is given: ``sentence``, ẑ_s of a sentence of the
      input; ``state``, the z_T that it is read from; and as ceilings ``encoding``, z0, and
      ``input``, x, by decoders trained on these. For hierarchical binary vectors ``input`` is the
      exact optimum of who knows the training classes (`bayes_optimum`). ``decoder``: 0 or 1;
      ceilings have one. ``value``: accuracy, or RMSE in the feature's units, with a 95 % bootstrap
      interval over inputs. ``chance``: share of the commonest outcome, or standard deviation, among
      training inputs. ``n``: inputs. The first levels of a tree (`probes.leading_levels`) have a
      row of their mean, too; its accuracy counts "none", the path has ended above this level, as an
      outcome like the others.
    """
    model, data = run.model, run.data
    pair = probes.feature_decoders(run, config)
    learned = data.batch(config.decoder_inputs)
    trained_on = data.feature_values(learned)
    chance = probes.chance(trained_on, data.features)
    ceilings: dict[str, Callable[[Tensor], Tensor]] = {}
    if isinstance(model, AttractorModel):
        ceilings["encoding"] = lambda x: model.encode(x).z0
    if not isinstance(data, HierarchicalBinaryVectors):
        ceilings["input"] = lambda x: filled(x).flatten(1)
    trained = {
        source: probes.train_decoder(
            see(learned.x), trained_on, data.features, run.seed, config.decoder_updates
        )
        for source, see in ceilings.items()
    }

    def of_split(batch: Batch) -> pd.DataFrame:
        values, times = data.feature_values(batch), resample(batch.x)
        description = model.describe(batch.x, DRAWS)
        given = {"sentence": model.embed(description.s), "state": description.z}
        answers = [(source, k, pair[k](z)) for source, z in given.items() for k in (0, 1)]
        for source, see in ceilings.items():
            answers.append((source, 0, trained[source](see(batch.x)[:, None])))
        if isinstance(data, HierarchicalBinaryVectors):
            optimum = bayes_optimum(data, batch.x[:, None], data.train_classes)
            answers.append(("input", 0, optimum))
        return pd.DataFrame([
            {"source": source, "decoder": decoder} | row
            for source, decoder, answer in answers
            for row in probes.score_rows(data, answer.score(values[:, None]).mean(1), times, chance)
        ])  # fmt: skip

    return {"summary.csv": by_split(run, config.inputs, of_split)[COLUMNS.split()]}


# -- figures ---------------------------------------------------------------------------------------


STYLES = {
    "sentence": ("a sentence", BLUE, "o"),
    "state": ("the last state", ORANGE, "s"),
    "encoding": ("the first state", GREEN, "D"),
    "input": ("the input", "black", "_"),
}


def draw(tables: dict[str, Any]) -> dict[str, Figure]:
    """The figure ``decodability`` from ``summary.csv``: accuracy, and RMSE."""
    table = tables["summary.csv"]
    look: dict[str, Any] = {"linestyle": "none"}
    handles = [
        Line2D([], [], color=colour, label=f"given {name}", **look, **_marker(marker))
        for source, (name, colour, marker) in STYLES.items()
        if (table["source"] == source).any()
    ]
    second: dict[str, Any] = {"color": BLUE, "mfc": "white", "label": "open: by a second network"}
    handles.append(Line2D([], [], **second, **look, **_marker("o")))
    handles.append(Line2D([], [], color=GREY, linestyle="--", label="without a look"))
    table = table[~table["feature"].str.startswith("mean of ")]
    return {"decodability": draw_features(table, _draw_points, handles, 3.2)}


def _draw_points(axes: Axes, part: pd.DataFrame) -> None:
    features = np.arange(part["feature"].nunique())
    groups = part.groupby(["source", "decoder"], sort=False)
    for j, ((source, decoder), rows) in enumerate(groups):
        _, colour, marker = STYLES[str(source)]
        x = features + 0.7 * ((j + 0.5) / groups.ngroups - 0.5)
        axes.vlines(x, rows["low"], rows["high"], color=colour, linewidth=1.2)
        look = {"linestyle": "none", "mfc": "white" if decoder else colour} | _marker(marker)
        axes.plot(x, rows["value"], color=colour, **look)
    chance = part.drop_duplicates("feature")["chance"]
    axes.hlines(chance, features - 0.45, features + 0.45, color=GREY, linestyle="--")


def _marker(marker: str) -> dict[str, Any]:
    size = {"markersize": 9, "markeredgewidth": 2} if marker == "_" else {"markersize": 5}
    return {"marker": marker} | size
