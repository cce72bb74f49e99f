"""Whether sentences built one token for one feature are understood like sampled ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd
import torch

from plot_attractors.evaluation import composition, probes
from plot_attractors.plots.composition import draw, draw_tokens
from plot_attractors.ranges import Count, Size
from plot_attractors.runs import Run

TITLE = "Feature-wise composition"
CAPTIONS = {
    "composition": (
        "Is the language compositional? A sentence can be composed: for one feature of the input "
        "after the other, in a tree from the first branch down, the token is added from which a "
        "decoder best understands all features so far. Bars: how well another decoder, trained "
        "apart, names each feature from sampled sentences (red) and from composed ones (blue); "
        "vertical lines: 95 % intervals over inputs. Composed sentences do as well as sampled ones "
        "where the language has a token for each outcome of a feature that can be put after the "
        "tokens for the features before. Grey crosses: sentences composed in the same language "
        "after sentences of equal length have exchanged their meanings (range over several "
        "exchanges), what composing reaches where tokens mean nothing by themselves; a "
        "compositional language is far above. Black: of all sentences, the one that the first "
        "decoder understands best. Dashed: a guess without a look. For features that are numbers "
        "the root mean squared error is drawn: lower is better."
    ),
    "tokens": (
        "Which tokens were added. Left, for a tree: at every branch the token that was added for "
        "it, in the colour of its group of tokens that exclude each other; squares with a red edge "
        "were held out of training. If a token meant “left at the third branch” everywhere, all "
        "left branches of a row would have one letter. Right: for each outcome of each feature, "
        "the share of contexts (what has been described before; their number is in brackets) in "
        "which each token was added for it; – is none. Where a token means an outcome, a row has "
        "one black field."
    ),
}


@dataclass(frozen=True)
class Config(probes.Training):
    """Sample sizes, beside those of `probes.Training`."""

    inputs: Size = 2000  # of each split
    draws: Size = 2  # sampled sentences of each
    orders: Size = 4  # random orders of features without an order, for each combination of them
    shuffles: Count = 20  # languages with exchanged meanings


applies = probes.is_described


@torch.no_grad()
def measure(run: Run, config: Config) -> dict[str, pd.DataFrame]:
    """Sentences composed by `metrics.composition.compose` with the first of the run's two decoders,
    scored with the second (Section *Feature-wise composition*).

    Each feature takes one token as long as one may be added: in a tree the branches taken, from the
    root down, to the fourth level; elsewhere all features, in `orders` random orders. A colour is
    described by its channels R, G and B apart, so that a sprite has the paper's seven features; it
    is scored as one, as in the analysis ``decodability``. A tree's levels below an input's own take
    no token; their "none" is scored like other outcomes.

    - ``summary.csv`` (split, feature, kind, source, value, low, high, chance, loss, n): accuracy,
      or RMSE in the feature's units, of the second decoder, given sentences ``sampled`` by the
      model; ``composed``; ``best``, of all sentences the one with the least joint loss for the
      first decoder; ``shuffled``, composed in languages of `metrics.composition.shuffled` (mean,
      2.5th and 97.5th percentile over these, without a loss). 95 % bootstrap intervals over
      inputs, which share few combinations of features: they do not tell how other combinations
      would fare. Chance and loss as in ``decodability``. A tree has a row of its levels' mean.
    - ``sentences.csv`` (split, features, order, composed, tokens, loss_1, …, sampled, share, n): of
      every combination of features and order the composed sentence, its tokens as they were added
      (– for none), the joint loss after each, and the commonest sampled sentence with its share.
    - ``added.csv`` (split, feature, outcome, token, contexts): in how many contexts each token was
      added for an outcome (`token_counts`). ``branches.csv`` (path, token, group, held_out): of
      every branch of a tree.

    best and shuffled are left out where sentences are too many, or shorter ones are not allowed.
    """
    sizes = config.inputs, config.draws, config.orders, config.shuffles
    return composition.measure(run, *sizes, config)


def plot(tables: dict[str, Any]) -> dict[str, Any]:
    """The figures ``composition``, and ``tokens`` where a feature is categorical."""
    figures = {"composition": draw(tables["summary.csv"])}
    if len(tables["added.csv"]):
        figures["tokens"] = draw_tokens(tables["added.csv"], tables.get("branches.csv"))
    return figures
