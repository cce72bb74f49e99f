"""Whether sentences are compositional: distances and code lengths, beside shuffled languages."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from plot_attractors.analysis import corpora
from plot_attractors.analysis.corpora import Corpus
from plot_attractors.analysis.parts import error, write
from plot_attractors.analysis.shape import DESCRIBED, by_split, panels
from plot_attractors.analysis.style import GREY, SPLIT_COLOURS
from plot_attractors.data import Batch
from plot_attractors.measures import description_length
from plot_attractors.measures.shuffled import MISSING, feature_matrix, shuffled_null
from plot_attractors.measures.similarity import topographic_similarity
from plot_attractors.ranges import Range, Size, setting
from plot_attractors.runs import Run
from plot_attractors.split_names import split_name

TITLE = "Measures of language"
CAPTIONS = {
    "language_measures": (
        "Do similar inputs get similar sentences, and do sentences make the description of what "
        "they mean shorter? Left: ρ, the rank correlation of how many features of two inputs "
        "differ and how many tokens of their sentences (topographic similarity, RSA), with 95 % "
        "intervals. Right: how many times shorter the prequential code of features is where "
        "sentences are known, C = K(Z) / K(Z | W); 1: they tell nothing by their parts. A cross is "
        "the same when sentences are shuffled over inputs, so that they tell nothing; a diamond, "
        "when they are shuffled over meanings, so that every meaning keeps sentences of its own, "
        "but without system; a triangle, of a language that spells the features out. Only what is "
        "beyond the diamond is compositional."
    )
}
COLUMNS = (
    "split measure unit value low high null_mean null_sd p_value holistic_mean holistic_sd "
    "holistic_p_value spelled n pairs reason"
)
NEEDS = DESCRIBED


# -- measures --------------------------------------------------------------------------------------


MEANING_PAIRS = 30_000  # that are compared in languages shuffled over meanings
BITS = "bits an input"


@dataclass(frozen=True)
class Config:
    """How much is computed: settings of the analysis."""

    inputs: Size = setting(2048, "drawn from each split; one sentence of each distinct one")
    max_pairs: Annotated[int, Range(3, 10**6)] = setting(100_000, "of inputs that are compared")
    resamples: Annotated[int, Range(2, 10**6)] = setting(100, "bootstrap samples of an interval")
    permutations: Size = setting(100, "shuffled languages of each kind, with distances")
    code_permutations: Size = setting(20, "and whose features are coded")


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


@torch.no_grad()
def measure(run: Run, config: Config) -> dict[str, pd.DataFrame]:
    """Measures of one sentence for each of `inputs` inputs of every split.

    ``summary.csv`` has by ``measure``: ``topographic_similarity``, Spearman's ρ of the distances of
    sentences and of inputs, with a 95 % bootstrap interval over inputs (Section *Representational
    similarity analysis*); ``language_compositionality``, and the code lengths of features
    ``code_length`` K(Z) / N and ``code_length_given`` K(Z | W) / N, bits an input. ``null_…``,
    ``p_value``: of languages whose sentences are shuffled over inputs (Mantel's test);
    ``holistic_…``: shuffled over meanings; ``spelled``: of the language that spells the features
    out, a ceiling; ``n``: distinct inputs; ``pairs``: compared; ``reason``: why the value is
    missing.
    """

    def of_split(batch: Batch) -> pd.DataFrame:
        corpus = corpora.corpus(run.model, run.data, batch)
        return measures(corpus, config, int(torch.randint(2**31, ())))

    return {"summary.csv": by_split(run, config.inputs, of_split)[COLUMNS.split()]}


# -- figures ---------------------------------------------------------------------------------------


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
    """The figure ``language_measures``, from ``summary.csv``."""
    figure, (left, right) = panels(2)
    rows = dict(list(tables["summary.csv"].groupby("measure")))
    similarity = rows["topographic_similarity"]
    _draw_splits(left, similarity)
    least = np.nanmin([0.0, *similarity["low"]])
    left.set(xlim=(least, 1.05), xlabel="topographic similarity ρ")
    _draw_splits(right, rows["language_compositionality"], start=1.0)
    right.set_xscale("log")
    right.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    right.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    right.xaxis.set_minor_formatter(NullFormatter())
    right.set_xlabel("compositionality C (logarithmic)")
    figure.legend(*right.get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return {"language_measures": figure}


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
