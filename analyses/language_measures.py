"""Whether similar inputs get similar sentences, beside shuffled languages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure

from plot_attractors.analysis.parts import error
from plot_attractors.analysis.sampling import first_rows
from plot_attractors.analysis.shape import DESCRIBED, by_split, panels
from plot_attractors.analysis.style import GREY, SPLIT_COLOURS
from plot_attractors.data import Batch, Labelled
from plot_attractors.measures.similarity import holistic_null, topographic_similarity
from plot_attractors.model.bits import number_inputs
from plot_attractors.model.protocols import SentenceModel
from plot_attractors.ranges import Range, Size, setting
from plot_attractors.runs import Run
from plot_attractors.split_names import split_name

TITLE = "Measures of language"
CAPTIONS = {
    "language_measures": (
        "Do similar inputs get similar sentences? ρ is the rank correlation of how many features "
        "of two inputs differ and how many tokens of their sentences (topographic similarity, "
        "RSA), with 95 % intervals. A cross is the same when sentences are shuffled over inputs, "
        "so that they tell nothing; a diamond, when they are shuffled over meanings, so that every "
        "meaning keeps sentences of its own, but without system. Only what is beyond the diamond "
        "is compositional."
    )
}
COLUMNS = (
    "split measure value low high null_mean null_sd p_value holistic_mean holistic_sd "
    "holistic_p_value n pairs reason"
)
NEEDS = DESCRIBED


# -- measures --------------------------------------------------------------------------------------


NO_VALUE = "none"  # the outcome, in ordered features, of a level that the path does not reach
MEANING_PAIRS = 30_000  # that are compared in languages shuffled over meanings


@dataclass(frozen=True)
class Config:
    """How much is computed: settings of the analysis."""

    inputs: Size = setting(2048, "drawn from each split; one sentence of each distinct one")
    max_pairs: Annotated[int, Range(3, 10**6)] = setting(100_000, "of inputs that are compared")
    resamples: Annotated[int, Range(2, 10**6)] = setting(100, "bootstrap samples of an interval")
    permutations: Size = setting(100, "shuffled languages of each kind")


class Corpus(NamedTuple):
    """N inputs of a split and one sentence of each.

    - ``tokens``: (N, tokens) 0 and 1, which of them occur in the sentence;
    - ``meaning``: (N, F) features, NaN for "no value"; ``categorical``: (F,) which of them are.
    """

    tokens: np.ndarray
    meaning: np.ndarray
    categorical: list[bool]


def corpus(model: SentenceModel, data: Labelled, batch: Batch) -> Corpus:
    """One sentence of each distinct input of the batch: copies are not compared with each other.

    Inputs of which a number is missing are left out: they have no distance.
    """
    first = first_rows(number_inputs(batch.x))
    batch = Batch(*(part[first] for part in batch))
    tokens = model.describe(batch.x).s[:, 0] > 0
    meaning = data.feature_values(batch).numpy().astype(float)
    if data.ordered:
        for k, feature in enumerate(data.features):
            if NO_VALUE in feature.outcomes:
                meaning[meaning[:, k] == feature.outcomes.index(NO_VALUE), k] = np.nan
    categorical = [feature.categorical for feature in data.features]
    known = np.isfinite(meaning[:, np.invert(categorical)]).all(1)
    return Corpus(tokens.numpy()[known], meaning[known], categorical)


def similarity(corpus: Corpus, config: Config, seed: int) -> pd.DataFrame:
    """The row of ``summary.csv`` of one split, see `measure`."""
    sizes: dict[str, Any] = {"seed": seed, "permutations": config.permutations}
    estimate = topographic_similarity(
        *corpus, **sizes, max_pairs=config.max_pairs, resamples=config.resamples
    )
    null = holistic_null(*corpus, **sizes, max_pairs=MEANING_PAIRS)
    holistic = {f"holistic_{name}": value for name, value in null._asdict().items()}
    row = {"measure": "topographic_similarity"} | estimate._asdict() | holistic
    return pd.DataFrame([row])


@torch.no_grad()
def measure(run: Run, config: Config) -> dict[str, pd.DataFrame]:
    """Measures of one sentence for each of `inputs` inputs of every split.

    ``summary.csv`` has the ``topographic_similarity``: Spearman's ρ of the distances of sentences
    and of inputs, with a 95 % bootstrap interval over inputs (Section *Representational similarity
    analysis*). ``null_…``, ``p_value``: of languages whose sentences are shuffled over inputs
    (Mantel's test); ``holistic_…``: shuffled over meanings; ``n``: distinct inputs; ``pairs``:
    compared; ``reason``: why the value is missing.
    """

    def of_split(batch: Batch) -> pd.DataFrame:
        sampled = corpus(run.model, run.data, batch)
        return similarity(sampled, config, int(torch.randint(2**31, ())))

    return {"summary.csv": by_split(run, config.inputs, of_split)[COLUMNS.split()]}


# -- figures ---------------------------------------------------------------------------------------


MARKS: dict[str, tuple[str, dict[str, Any]]] = {  # of other languages
    "null_mean": ("shuffled over inputs", {"color": "black", "marker": "x"}),
    "holistic_mean": (
        "shuffled over meanings",
        {"color": "white", "marker": "D", "markeredgecolor": "black"},
    ),
}


def draw(tables: dict[str, Any]) -> dict[str, Figure]:
    """The figure ``language_measures``, from ``summary.csv``: a bar for each split, the first at
    the top, and marks of other languages.
    """
    figure, (axes,) = panels(1, columns=1)
    rows = tables["summary.csv"]
    axes.axvline(0, color=GREY, linewidth=0.8)
    y, value = np.arange(len(rows)), rows["value"].to_numpy(dtype=float)
    axes.set_yticks(y, [split_name(split) for split in rows["split"]])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    least = np.nanmin([0.0, *rows["low"]])
    axes.set(xlim=(least, 1.05), xlabel="topographic similarity ρ")
    for column, (label, mark) in MARKS.items():
        axes.plot(rows[column], y, linestyle="", label=label, zorder=3, **mark)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=2)
    colours = [SPLIT_COLOURS.get(split, GREY) for split in rows["split"]]
    look: dict[str, Any] = {"color": colours, "ecolor": "black", "error_kw": {"linewidth": 1}}
    if not np.isnan(value).all():
        axes.barh(y, value, xerr=error(rows), **look)
    for at in y[np.isnan(value)]:
        axes.text(0.01, at, "undefined", va="center", fontsize=8)
    return {"language_measures": figure}
