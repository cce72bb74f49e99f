"""Whether sentences are compositional: distances and code lengths, beside shuffled languages."""

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
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter

from plot_attractors.analysis import corpora
from plot_attractors.analysis.corpora import Corpus
from plot_attractors.analysis.parts import error, write
from plot_attractors.analysis.shape import DESCRIBED
from plot_attractors.analysis.style import GREY, SPLIT_COLOURS, add_scale
from plot_attractors.measures import description_length
from plot_attractors.measures._arguments import MISSING, feature_matrix
from plot_attractors.measures.shuffled import shuffled_null
from plot_attractors.measures.similarity import (
    feature_distance,
    sentence_distance,
    topographic_similarity,
)
from plot_attractors.ranges import Range, Size
from plot_attractors.runs import Run
from plot_attractors.split_names import split_name

TITLE = "Measures of language"
CAPTIONS = {
    "language_measures": (
        "Do similar inputs get similar sentences, and do sentences make the description of what "
        "they mean shorter? Left: how many tokens two sentences differ in, by the number of "
        "features in which their inputs differ. Each column of the heat map is a distribution, "
        "solid lines are means, and dotted ones means of all pairs, where a language without "
        "information would lie. Middle: ρ, the rank correlation of the two distances (topographic "
        "similarity, RSA), with 95 % intervals. Right: how many times shorter the prequential code "
        "of features is where sentences are known, C = K(Z) / K(Z | W); 1: they tell nothing by "
        "their parts. A cross is the same when sentences are shuffled over inputs, so that they "
        "tell nothing; a diamond, when they are shuffled over meanings, so that every meaning "
        "keeps sentences of its own, but without system; a triangle, of a language that spells the "
        "features out. Only what is beyond the diamond is compositional."
    )
}
COLUMNS = (
    "split measure unit value low high null_mean null_sd p_value holistic_mean holistic_sd "
    "holistic_p_value spelled n pairs reason"
)
NEEDS = DESCRIBED


# -- measures --------------------------------------------------------------------------------------


SHOWN_PAIRS, BINS = 50_000, 12  # of the figure: pairs, and columns of continuous distances
MEANING_PAIRS = 30_000  # that are compared in languages shuffled over meanings
BITS = "bits an input"


@dataclass(frozen=True)
class Config:
    """How much is computed: settings of the analysis."""

    inputs: Size = 2048  # drawn from each split; one sentence of each distinct one
    max_pairs: Annotated[int, Range(3, 10**6)] = 100_000  # of inputs that are compared
    resamples: Annotated[int, Range(2, 10**6)] = 100  # bootstrap samples of an interval
    permutations: Size = 100  # shuffled languages of each kind whose distances are compared
    code_permutations: Size = 20  # and whose features are coded


def similarity(corpus: Corpus, config: Config, seed: int) -> dict[str, Any]:
    """The row of the topographic similarity, see `measure`."""
    correlation = partial(topographic_similarity, categorical=corpus.kinds, seed=seed)
    estimate = correlation(
        corpus.tokens, corpus.meaning, max_pairs=config.max_pairs, resamples=config.resamples,
        permutations=config.permutations,
    )  # fmt: skip
    fewer = partial(correlation, max_pairs=MEANING_PAIRS)
    null = shuffled_null(
        fewer, corpus.tokens, corpus.meaning, config.permutations, seed, shuffle="meanings"
    )
    holistic = {f"holistic_{name}": float(value) for name, value in null._asdict().items()}
    return {"measure": "topographic_similarity"} | estimate._asdict() | holistic


def code_lengths(corpus: Corpus, permutations: int) -> pd.DataFrame:
    """The rows of code lengths, see `measure`."""

    def lengths(sentences: np.ndarray) -> description_length.DescriptionLength:
        return description_length.of_features(sentences, corpus.meaning, corpus.kinds)

    def of_symbols(symbols: np.ndarray, _: Any) -> np.ndarray:
        return np.array(lengths(corpus.one_hot(symbols))[:3])

    own = lengths(corpus.sentences)
    given = of_symbols, corpus.symbols, corpus.meaning, permutations
    null, holistic = shuffled_null(*given), shuffled_null(*given, shuffle="meanings")
    table = pd.DataFrame({
        "measure": ["language_compositionality", "code_length", "code_length_given"],
        "unit": ["", BITS, BITS], "value": own[:3], "null_mean": null.mean, "null_sd": null.sd,
        "p_value": null.p_value, "holistic_mean": holistic.mean, "holistic_sd": holistic.sd,
        "holistic_p_value": holistic.p_value, "spelled": lengths(spelled(corpus))[:3],
        "n": len(corpus.symbols), "reason": own.reason,
    })  # fmt: skip
    table.loc[1:, ["p_value", "holistic_p_value"]] = np.nan  # a greater length is not better
    return table


def spelled(corpus: Corpus) -> np.ndarray:
    """Sentences (N, tokens) of a language that spells the features out, a group of tokens each;
    nothing for "no value". Numbers are spelled by their bin of ten.
    """
    meaning, kinds = feature_matrix(corpus.meaning, corpus.kinds)
    has_gaps = np.array(kinds, dtype=bool) & (meaning == MISSING).any(0)
    codes = description_length.number_values(meaning, kinds)  # of a gap 0
    parts = [np.empty((len(meaning), 0))]
    for column, gap in zip(codes.T, has_gaps, strict=True):
        parts.append(np.eye(column.max(initial=0) + 1)[column][:, int(gap) :])
    return np.concatenate(parts, 1)


def measures(corpus: Corpus, config: Config, seed: int = 0) -> pd.DataFrame:
    """Rows of ``summary.csv`` of one split, see `measure`."""
    of_pairs = pd.DataFrame([similarity(corpus, config, seed)])
    return pd.concat([of_pairs, code_lengths(corpus, config.code_permutations)])


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

    - ``summary.csv``, ``measure``: ``topographic_similarity``, Spearman's ρ of the distances of
      sentences and of inputs, with a 95 % bootstrap interval over inputs (Section *Representational
      similarity analysis*); ``language_compositionality``, and the code lengths of features
      ``code_length`` K(Z) / N and ``code_length_given`` K(Z | W) / N, bits an input. ``null_…``,
      ``p_value``: of languages whose sentences are shuffled over inputs (Mantel's test);
      ``holistic_…``: shuffled over meanings; ``spelled``: of the language that spells the features
      out, a ceiling; ``n``: distinct inputs; ``pairs``: compared; ``reason``: why the value is
      missing.
    - ``pairs.csv`` (split, distance, width, tokens, pairs): how many of random pairs of inputs have
      this distance (binned to `width` where features are continuous), and sentences with as many
      different tokens.
    """
    rows, pairs = [], []
    for split in run.data.splits:
        batch = run.data.batch(config.inputs, split)
        corpus = corpora.corpus(run.model, run.data, batch)
        rows.append(measures(corpus, config, int(torch.randint(2**31, ()))).assign(split=split))
        pairs.append(pair_counts(corpus).assign(split=split))
    return {
        "summary.csv": pd.concat(rows)[COLUMNS.split()],
        "pairs.csv": pd.concat(pairs)[["split", "distance", "width", "tokens", "pairs"]],
    }


# -- figures ---------------------------------------------------------------------------------------


LEAST_PAIRS = 50  # of a column of the heat map
WHITE_TO_GREY = LinearSegmentedColormap.from_list("share", ["#FFFFFF", "#555555"])
MARKS: dict[str, tuple[str, dict[str, Any]]] = {  # of other languages
    "null_mean": ("shuffled over inputs", {"color": "black", "marker": "x"}),
    "holistic_mean": (
        "shuffled over meanings",
        {"color": "white", "marker": "D", "markeredgecolor": "black"},
    ),
    "spelled": (
        "features spelled out",
        {"color": "white", "marker": "^", "markeredgecolor": "black"},
    ),
}


def draw(tables: dict[str, Any]) -> dict[str, Figure]:
    """The figure ``language_measures``, from ``summary.csv`` and ``pairs.csv``."""
    figure = Figure(figsize=(14, 4.4), layout="constrained")
    left, middle, right = figure.subplots(1, 3, width_ratios=[1.5, 1, 1])
    _draw_distances(left, tables["pairs.csv"])
    rows = dict(list(tables["summary.csv"].groupby("measure")))
    similarity = rows["topographic_similarity"]
    _draw_splits(middle, similarity)
    least = np.nanmin([0.0, *similarity["low"]])
    middle.set(xlim=(least, 1.05), xlabel="topographic similarity ρ")
    _draw_splits(right, rows["language_compositionality"], start=1.0)
    right.set_xscale("log")
    right.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    right.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    right.xaxis.set_minor_formatter(NullFormatter())
    right.set_xlabel("compositionality C (logarithmic)")
    figure.legend(*right.get_legend_handles_labels(), loc="outside upper right", ncols=3)
    return {"language_measures": figure}


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


def _draw_splits(axes: Axes, rows: pd.DataFrame, start: float = 0.0) -> None:
    """A bar from `start` for each split, the first at the top, and marks of other languages."""
    axes.axvline(start, color=GREY, linewidth=0.8)
    y, value = np.arange(len(rows)), rows["value"].to_numpy(dtype=float)
    axes.set_yticks(y, [split_name(split) for split in rows["split"]])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    for column, (label, mark) in MARKS.items():
        axes.plot(rows[column], y, linestyle="", label=label, zorder=3, **mark)
    if np.isnan(value).all():
        write(axes, "undefined")
        return
    colours = [SPLIT_COLOURS.get(split, GREY) for split in rows["split"]]
    look: dict[str, Any] = {"color": colours, "ecolor": "black", "error_kw": {"linewidth": 1}}
    axes.barh(y, value - start, left=start, xerr=error(rows), **look)
    for at in y[np.isnan(value)]:
        axes.text(start or 0.01, at, "undefined", va="center", fontsize=8)
