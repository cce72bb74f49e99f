"""Whether sentences built one token for one feature are understood like sampled ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from torch import Tensor

from plot_attractors.analysis import probes
from plot_attractors.analysis.parts import draw_features
from plot_attractors.analysis.probes import Prediction
from plot_attractors.analysis.shape import DESCRIBED, by_split
from plot_attractors.analysis.style import BLUE, GREY, ORANGE
from plot_attractors.data import Batch, Channels, Labelled
from plot_attractors.measures import composition
from plot_attractors.measures.bootstrap import Estimate, resample
from plot_attractors.measures.composition import Embedding
from plot_attractors.model.protocols import SentenceModel
from plot_attractors.ranges import Count, Size, setting
from plot_attractors.runs import Run

TITLE = "Feature-wise composition"
CAPTIONS = {
    "composition": (
        "Is the language compositional? A sentence can be composed: for one feature of the input "
        "after the other, in a tree from the first branch down, the token is added from which a "
        "decoder best understands all features so far. Bars: how well another decoder, trained "
        "apart, names each feature from sampled sentences (blue) and composed ones (orange); "
        "vertical lines: 95 % intervals over inputs. Composed sentences do as well as sampled ones "
        "where the language has a token for each outcome of a feature that can be put after the "
        "tokens for the features before. Grey crosses: sentences composed in the same language "
        "after sentences of equal length have exchanged their meanings (range over several "
        "exchanges), what composing reaches where tokens mean nothing by themselves; a "
        "compositional language is far above. Dashed: a guess without a look. For features that "
        "are numbers the root mean squared error is drawn: lower is better."
    ),
}


@dataclass(frozen=True)
class Config(probes.DecoderTraining):
    """Sample sizes, beside those of `probes.DecoderTraining`."""

    inputs: Size = setting(2000, "of each split")
    draws: Size = setting(2, "sampled sentences of each")
    orders: Size = setting(4, "random orders of features without one, a combination")
    shuffles: Count = setting(20, "languages with exchanged meanings")


NEEDS = DESCRIBED


# -- measures --------------------------------------------------------------------------------------


MOST_SENTENCES = 10_000  # of a language that is shuffled
ENDED = "none"  # outcome of a tree's levels below an input's own


def prediction_of_channels(channels: Channels, prediction: Prediction) -> Prediction:
    """P(channel) = Σ P(colour) over the colours that have it."""
    if not any(channels.apart):
        return prediction
    outputs, constants = [], []
    for k, (part, apart, places) in enumerate(
        zip(prediction.split, channels.apart, channels.places, strict=True)
    ):
        constants += [k] * (3 if apart else 1)
        for place in places.T if apart else ():
            channel = [part[..., place == value].logsumexp(-1) for value in (0, 1)]
            outputs.append(torch.stack(channel, -1))
        outputs += [] if apart else [part]
    return Prediction(
        channels.features,
        torch.cat(outputs, -1),
        prediction.centre[constants],
        prediction.scale[constants],
    )


def _is_tree(data: Labelled) -> bool:
    ends = all(f.outcomes[:1] == (ENDED,) for f in data.features)
    return ends and probes.leading_levels(data) > 0


def _compose(
    model: SentenceModel,
    data: Labelled,
    pair: probes.Pair,
    values: Tensor,
    sampled: Tensor,
    config: Config,
) -> tuple[dict[str, Tensor], Tensor]:
    """For inputs with values (n, F), and sentences (n, draws, width) sampled for them: for each
    source (n, F) mean scores of its sentences, and (shuffles, F) mean scores in shuffled languages.
    """
    composer, judge = pair
    language, features, channels = model.language, data.features, Channels(data.features)
    described = torch.arange(probes.leading_levels(data) or len(features))
    meant = torch.full_like(values, torch.nan)
    meant[:, described] = values[:, described]
    distinct, row = composition.combinations(meant)
    given = channels.values(distinct)
    if _is_tree(data):
        given = torch.where(given > 0, given, torch.nan)
    if data.ordered:
        order = described.expand(len(distinct), 1, -1)
    else:
        order = torch.rand(len(distinct), config.orders, len(channels.features)).argsort(-1)

    def listener(z: Tensor) -> Prediction:
        return prediction_of_channels(channels, composer(z))

    def judged(embed: Embedding, sentences: Tensor, truth: Tensor) -> Tensor:
        """Scores (k, F) of sentences (k, draws, width) for feature values (k, F)."""
        return judge(embed(sentences)).score(truth[:, None]).mean(1)

    each, every = given.repeat_interleave(order.shape[1], 0), order.flatten(0, 1)
    composed = composition.compose(language, model.embed, listener, each, every)
    results = {"sampled": judged(model.embed, sampled, meant)}
    sentences = composed.unflatten(0, (len(distinct), -1))
    results["composed"] = judged(model.embed, sentences, distinct)[row]
    scores = []
    if language.count <= MOST_SENTENCES and language.min_length <= 1:
        for _ in range(config.shuffles):
            embed = composition.shuffled(language, model.embed)
            control = composition.compose(language, embed, listener, given, order[:, 0])
            score = judged(embed, control[:, None], distinct)
            scores.append(score[row].double().nanmean(0))
    return results, torch.stack(scores) if scores else torch.empty(0, len(features))


def _summarise(
    data: Labelled, scores: dict[str, Tensor], shuffles: Tensor, times: Tensor, chance: Tensor
) -> pd.DataFrame:
    """The rows of summary.csv of one split."""
    parts = {k: probes.score_rows(data, score, times, chance) for k, score in scores.items()}
    if len(shuffles):
        mean = shuffles[:, : probes.leading_levels(data)].mean(1, keepdim=True)
        known = (~scores["sampled"].isnan()).sum(0)
        of_shuffles = _range(shuffles), _range(mean), chance, known
        parts["shuffled"] = probes.feature_rows(data, *of_shuffles)
    rows = [
        row | {"source": source} for source, listed in parts.items() for row in listed if row["n"]
    ]
    names = ["feature", "kind", "source", "value", "low", "high", "chance", "n"]
    return pd.DataFrame(rows, columns=names)


def _range(values: Tensor) -> Estimate:
    """Mean and 2.5th and 97.5th percentile of values (shuffles, K)."""
    low, high = values.quantile(torch.tensor([0.025, 0.975], dtype=values.dtype), 0)
    return Estimate(values.mean(0), low, high)


@torch.no_grad()
def measure(run: Run, config: Config) -> dict[str, pd.DataFrame]:
    """Sentences composed by `measures.composition.compose` with the first of the run's decoders,
    scored with the second (Section *Feature-wise composition*).

    Each feature takes one token as long as one may be added: in a tree the branches taken, from the
    root down, to the fourth level; elsewhere all features, in `orders` random orders. A colour is
    described by its channels R, G and B apart, so that a sprite has the paper's seven features; it
    is scored as one, as in the analysis ``decodability``. A tree's levels below an input's own take
    no token; their "none" is scored like other outcomes.

    - ``summary.csv`` (split, feature, kind, source, value, low, high, chance, n): accuracy,
      or RMSE in the feature's units, of the second decoder, given sentences ``sampled`` by the
      model; ``composed``; ``shuffled``, composed in languages of `measures.composition.shuffled`
      (mean, 2.5th and 97.5th percentile over these). 95 % bootstrap intervals over inputs, which
      share few combinations of features: they do not tell how other combinations would fare. Chance
      as in ``decodability``. A tree has a row of its levels' mean.

    shuffled is left out where sentences are too many, or shorter ones are not allowed.
    """
    model, data = run.model, run.data
    pair = probes.feature_decoders(run, config)
    known = data.batch(config.decoder_inputs)
    chance = probes.chance(data.feature_values(known), data.features)

    def of_split(batch: Batch) -> pd.DataFrame:
        sampled = model.describe(batch.x, config.draws).s
        times = resample(batch.x)
        scores, shuffles = _compose(model, data, pair, data.feature_values(batch), sampled, config)
        return _summarise(data, scores, shuffles, times, chance)

    return {"summary.csv": by_split(run, config.inputs, of_split)}


# -- figures ---------------------------------------------------------------------------------------


BARS = {"sampled": (-0.28, BLUE), "composed": (0.0, ORANGE)}
GUESS: dict[str, Any] = {"color": "black", "linestyle": "--", "linewidth": 1}


def draw(tables: dict[str, Any]) -> dict[str, Figure]:
    """The figure ``composition`` from ``summary.csv``: accuracy and RMSE of each source."""
    table = tables["summary.csv"]
    handles: list[Any] = [
        Patch(color=colour, label=f"{source} sentence") for source, (_, colour) in BARS.items()
    ]
    if (table["source"] == "shuffled").any():
        control = "composed, meanings exchanged"
        handles.append(Line2D([], [], color=GREY, marker="x", linestyle="-", label=control))
    handles.append(Line2D([], [], label="without a look", **GUESS))
    return {"composition": draw_features(table, _draw_bars, handles, 2.9)}


def _draw_bars(axes: Axes, part: pd.DataFrame) -> None:
    x = np.arange(part["feature"].nunique())
    sources = {str(source): rows for source, rows in part.groupby("source")}
    for source, (shift, colour) in BARS.items():
        rows = sources[source]
        axes.bar(x + shift, rows["value"], width=0.26, color=colour)
        axes.vlines(x + shift, rows["low"], rows["high"], color="black", linewidth=1)
    if "shuffled" in sources:
        rows = sources["shuffled"]
        axes.vlines(x + 0.23, rows["low"], rows["high"], color=GREY, linewidth=1.5)
        axes.plot(x + 0.23, rows["value"], color=GREY, marker="x", linestyle="none")
    axes.hlines(sources["sampled"]["chance"], x - 0.45, x + 0.4, **GUESS)
