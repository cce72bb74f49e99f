"""Whether similar inputs get similar sentences, beside two kinds of shuffled languages."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from plot_attractors.analysis import corpora
from plot_attractors.analysis.corpora import Corpus
from plot_attractors.analysis.parts import error, write
from plot_attractors.analysis.shape import DESCRIBED
from plot_attractors.analysis.style import GREY, SPLIT_COLOURS, add_scale
from plot_attractors.measures.shuffled import shuffled_null
from plot_attractors.measures.similarity import (
    feature_distance,
    sentence_distance,
    topographic_similarity,
)
from plot_attractors.ranges import Range, Size, check_ranges
from plot_attractors.runs import Run
from plot_attractors.split_names import split_name

TITLE = "Topographic similarity"
CAPTIONS = {
    "similarity": (
        "Do similar inputs get similar sentences? Left: how many tokens two sentences differ in, "
        "by the number of features in which their inputs differ. Each column of the heat map is a "
        "distribution, solid lines are means, and dotted ones means of all pairs, where a language "
        "without information would lie. Right: ρ, the rank correlation of the two distances "
        "(topographic similarity, RSA), with 95 % intervals. A cross is ρ when sentences are "
        "shuffled over inputs, so that they tell nothing; a diamond, when they are shuffled over "
        "meanings, so that every meaning keeps sentences of its own, but without system. Only what "
        "is beyond the diamond is compositional."
    )
}
COLUMNS = (
    "measure split value low high null_mean null_sd p_value holistic_mean holistic_sd "
    "holistic_p_value n pairs reason"
)
NEEDS = DESCRIBED


# -- measures --------------------------------------------------------------------------------------


SHOWN_PAIRS, BINS = 50_000, 12  # of the figure: pairs, and columns of continuous distances
MEANING_PAIRS = 30_000  # that are compared in languages shuffled over meanings


@dataclass(frozen=True)
class Config:
    """How much is computed: settings of the analysis."""

    inputs: Size = 2048  # drawn from each split; one sentence of each distinct one
    max_pairs: Annotated[int, Range(3, 10**6)] = (  # pairs of inputs at most
        100_000  # pairs of inputs whose distances are compared
    )
    resamples: Annotated[int, Range(2, 10**6)] = 100  # bootstrap samples of an interval
    permutations: Size = 100  # languages whose sentences are shuffled over inputs
    meaning_permutations: Size = 100  # and over meanings

    def __post_init__(self) -> None:
        check_ranges(self)


def similarity(corpus: Corpus, sizes: Config, seed: int) -> dict[str, Any]:
    """The row of ``summary.csv`` of one split, see `measure`."""
    correlation = partial(topographic_similarity, categorical=corpus.kinds, seed=seed)
    estimate = correlation(
        corpus.tokens, corpus.meaning, max_pairs=sizes.max_pairs, resamples=sizes.resamples,
        permutations=sizes.permutations,
    )  # fmt: skip
    fewer = partial(correlation, max_pairs=MEANING_PAIRS)
    null = shuffled_null(
        fewer, corpus.tokens, corpus.meaning, sizes.meaning_permutations, seed, shuffle="meanings"
    )
    holistic = {f"holistic_{name}": float(value) for name, value in null._asdict().items()}
    return {"measure": "topographic_similarity"} | estimate._asdict() | holistic


def pair_counts(corpus: Corpus) -> pd.DataFrame:
    """Rows of ``pairs.csv`` of one split, of random pairs, see `measure`."""
    i, j = np.random.default_rng(0).integers(len(corpus.tokens), size=(2, SHOWN_PAIRS))
    i, j = i[i != j], j[i != j]
    if not len(i):  # one input makes no pairs
        return pd.DataFrame(columns=["distance", "width", "tokens", "pairs"])
    x = feature_distance(corpus.meaning, i, j, corpus.kinds)
    width, place = 1.0, np.unique(x)
    if not all(corpus.kinds):
        width = max(float(np.quantile(x, 0.99)) / BINS, 1e-9)
        place = (np.unique((x / width).astype(int)) + 0.5) * width
    distance = place[np.abs(x[:, None] - place).argmin(1)]
    pairs = {"distance": distance, "width": width, "tokens": sentence_distance(corpus.tokens, i, j)}
    return pd.DataFrame(pairs).value_counts(sort=False).rename("pairs").reset_index()


@torch.no_grad()
def measure(run: Run, config: Config) -> dict[str, pd.DataFrame]:
    """Tables of one sentence for each of `inputs` inputs of every split.

    Sentences are taken as sets of tokens, and their distance is the number of tokens that only one
    of them has; the distance of inputs is the number of categorical features that differ and the
    sum of the absolute differences of continuous ones (Section *Representational similarity
    analysis*).

    - ``summary.csv``: ``measure``: ``topographic_similarity``, Spearman's ρ; ``low``, ``high``:
      95 % bootstrap interval over inputs; ``null_…``, ``p_value``: Mantel's test, of languages
      whose sentences are shuffled over inputs; ``holistic_…``: shuffled over meanings; ``n``:
      distinct inputs; ``pairs``: compared; ``reason``: why the value is missing.
    - ``pairs.csv`` (split, distance, width, tokens, pairs): how many of random pairs of inputs have
      this distance (binned to `width` where features are continuous), and sentences with as many
      different tokens.
    """
    model, data = run.model, run.data
    rows, pairs = [], []
    for split in run.data.splits:
        corpus = corpora.corpus(model, data, run.data.batch(config.inputs, split))
        seed = int(torch.randint(2**31, ()))
        rows.append({"split": split} | similarity(corpus, config, seed))
        pairs.append(pair_counts(corpus).assign(split=split))
    summary = pd.DataFrame(rows, columns=COLUMNS.split())
    return {"summary.csv": summary, "pairs.csv": pd.concat(pairs)}


# -- figures ---------------------------------------------------------------------------------------


LEAST_PAIRS = 50  # of a column of the heat map
WHITE_TO_GREY = LinearSegmentedColormap.from_list("share", ["#FFFFFF", "#555555"])


def draw(tables: dict[str, Any]) -> dict[str, Figure]:
    """The figure ``similarity``, from ``summary.csv`` and ``pairs.csv``."""
    figure = Figure(figsize=(11, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[1.5, 1])
    _draw_distances(left, tables["pairs.csv"])
    summary = tables["summary.csv"]
    draw_splits(right, summary)
    right.set(xlim=(np.nanmin([0.0, *summary["low"]]), 1.05), xlabel="topographic similarity ρ")
    right.legend(loc="upper center", bbox_to_anchor=(0.4, -0.15), ncols=2)
    return {"similarity": figure}


def _draw_distances(axes: Axes, pairs: pd.DataFrame) -> None:
    """Sentence distances given feature distance, of the first split, and means of all."""
    if pairs.empty:
        write(axes, "one input only")
        return
    for index, (split, part) in enumerate(pairs.groupby("split", sort=False)):
        name, colour = split_name(str(split)), SPLIT_COLOURS.get(str(split), GREY)
        table = part.pivot(index="distance", columns="tokens", values="pairs").fillna(0)
        table = table.reindex(columns=range(part["tokens"].max() + 1), fill_value=0)
        count = table.to_numpy()
        shown = count.sum(1) >= min(LEAST_PAIRS, count.sum(1).max())
        place, count, tokens = table.index.to_numpy()[shown], count[shown], table.columns.to_numpy()
        mean = count @ tokens / count.sum(1)
        axes.plot(place, mean, color=colour, marker="o", markersize=4, label=name)
        overall = np.average(part["tokens"], weights=part["pairs"])
        axes.axhline(overall, color=colour, linestyle=":", linewidth=1.2)
        if index == 0:
            share, half = count / count.sum(1, keepdims=True), part["width"].iloc[0] / 2
            for at, heights in zip(place, share, strict=True):
                image = axes.imshow(
                    heights[:, None], cmap=WHITE_TO_GREY, vmin=0, vmax=max(share.max(), 0.1),
                    aspect="auto", origin="lower", zorder=0,
                    extent=(at - half, at + half, -0.5, len(heights) - 0.5),
                )  # fmt: skip
            axes.set_xlim(place[0] - half, place[-1] + half)
            axes.set_ylim(-0.5, np.flatnonzero(share.max(0) > 1e-3)[-1] + 0.5)
            add_scale(axes, image, f"share of pairs, {name}")
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    whole = (pairs["width"] == 1).all()  # no continuous feature
    axes.set_xlabel("features that differ" if whole else "distance of features")
    axes.set_ylabel("tokens that only one sentence has")
    axes.legend(loc="lower right")


MARKS: dict[str, tuple[str, dict[str, Any]]] = {  # of other languages
    "null_mean": ("shuffled over inputs", {"color": "black", "marker": "x"}),
    "holistic_mean": (
        "shuffled over meanings",
        {"color": "white", "marker": "D", "markeredgecolor": "black"},
    ),
}


def draw_splits(
    axes: Axes,
    rows: pd.DataFrame,
    marks: dict[str, tuple[str, dict[str, Any]]] = MARKS,
    start: float = 0.0,
) -> None:
    """A bar from `start` for each split, the first at the top, and marks of other languages."""
    axes.axvline(start, color=GREY, linewidth=0.8)
    y, value = np.arange(len(rows)), rows["value"].to_numpy(dtype=float)
    axes.set_yticks(y, [split_name(split) for split in rows["split"]])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    for column, (label, mark) in marks.items():
        axes.plot(rows[column], y, linestyle="", label=label, zorder=3, **mark)
    if np.isnan(value).all():
        write(axes, "undefined")
        return
    colours = [SPLIT_COLOURS.get(split, GREY) for split in rows["split"]]
    interval = error(rows) if "low" in rows else None
    look: dict[str, Any] = {"color": colours, "ecolor": "black", "error_kw": {"linewidth": 1}}
    axes.barh(y, value - start, left=start, xerr=interval, **look)
    for at in y[np.isnan(value)]:
        axes.text(start or 0.01, at, "undefined", va="center", fontsize=8)
