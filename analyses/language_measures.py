"""Description lengths of a language, and its corpus as a table."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from plot_attractors.analysis import corpora
from plot_attractors.analysis.corpora import Corpus, Writing, make
from plot_attractors.analysis.shape import DESCRIBED
from plot_attractors.measures import description_length
from plot_attractors.measures._arguments import MISSING, feature_matrix
from plot_attractors.measures.shuffled import shuffled_null
from plot_attractors.ranges import Size, check_ranges
from plot_attractors.runs import Run, registry

similarity = registry.load("analyses", "similarity")

TITLE = "Description length"
CAPTIONS = {
    "language_measures": (
        "Do sentences make the description of what they mean shorter? How many times shorter the "
        "prequential code of features is where sentences are known: compositionality of the "
        "language system, C = K(Z) / K(Z | W). 1: they tell nothing by their parts. A cross is "
        "the same measure when sentences are shuffled over inputs; a diamond, when they are "
        "shuffled over meanings, so that every meaning keeps sentences of its own, but without "
        "system; a triangle, of a language that spells the features out."
    )
}
NEEDS = DESCRIBED


# -- measures --------------------------------------------------------------------------------------


COLUMNS = (
    "measure", "split", "unit", "value", "null_mean", "null_sd", "p_value", "holistic_mean",
    "holistic_sd", "holistic_p_value", "spelled", "n", "reason",
)  # fmt: skip
BITS = "bits an input"


@dataclass(frozen=True)
class Config:
    """How much is computed: settings of the analysis."""

    inputs: Size = 2048  # drawn from each split; one sentence of each distinct one
    permutations: Size = 20  # languages whose sentences are shuffled over inputs
    meaning_permutations: Size = 20  # permutations of meanings

    def __post_init__(self) -> None:
        check_ranges(self)


MEASURES = {  # and their units
    "language_compositionality": "",
    "code_length": BITS,
    "code_length_given": BITS,
}
TESTED = np.array([True, False, False])


def _evaluate(corpus: Corpus) -> tuple[np.ndarray, list[str]]:
    """The values of all measures, and why they are NaN."""
    lengths = description_length.of_features(corpus.sentences, corpus.meaning, corpus.kinds)
    return np.array(lengths[:3]), [lengths.reason] * 3


def statistics(corpus: Corpus) -> pd.DataFrame:
    """Rows of what can be counted without meanings; entropies in bits, of all tokens together.

    Source: Boldt & Mortensen (2024), "ELCC: the emergent language corpus collection".
    """
    rows = corpora.tokens(corpus)
    tokens = Counter(token for row in rows for token in row)
    values = [
        ("sentences", "", len(rows)),
        ("distinct_sentences", "", len(set(map(tuple, rows)))),
        ("distinct_tokens", "", len(tokens)),
        ("tokens_per_sentence", "", tokens.total() / max(1, len(rows))),
        ("token_entropy", "bits", entropy(tokens)),
    ]
    if corpus.writing.ordered:
        pairs = Counter(pair for row in rows for pair in pairwise(row))
        first = Counter(token for row in rows for token in row[:-1])
        values.append(("next_token_entropy", "bits", entropy(pairs) - entropy(first)))
    return pd.DataFrame(values, columns=["measure", "unit", "value"]).assign(n=len(rows), reason="")


def entropy(counts: Counter[Any]) -> float:
    """Bits."""
    p = np.array(list(counts.values())) / max(1, counts.total())
    return float(-(p * np.log2(p)).sum())


def measures(corpus: Corpus, sizes: Config, seed: int = 0) -> pd.DataFrame:
    """Rows of ``summary.csv`` of one split, see `measure`."""

    def shuffled(symbols: Any, _: Any) -> np.ndarray:
        sentences = corpus.writing.one_hot(symbols)
        tokens = corpus.writing.bag(symbols)
        other = corpus._replace(sentences=sentences, symbols=symbols, tokens=tokens)
        return _evaluate(other)[0]

    value, reason = _evaluate(corpus)
    given = shuffled, corpus.symbols, corpus.meaning
    null = shuffled_null(*given, sizes.permutations, seed)
    holistic = shuffled_null(*given, sizes.meaning_permutations, seed, shuffle="meanings")
    columns = {
        "null_mean": null.mean, "null_sd": null.sd,
        "p_value": np.where(TESTED, null.p_value, np.nan),
        "holistic_mean": holistic.mean, "holistic_sd": holistic.sd,
        "holistic_p_value": np.where(TESTED, holistic.p_value, np.nan),
        "spelled": _evaluate(spelled(corpus))[0],
    }  # fmt: skip
    table = pd.DataFrame({"measure": list(MEASURES), "unit": MEASURES.values(), "value": value})
    for name, column in columns.items():
        table[name] = np.where(np.isnan(value), np.nan, column)
    return table.assign(n=len(corpus.symbols), reason=reason)


def spelled(corpus: Corpus) -> Corpus:
    """A corpus of the same inputs that spells out their features, a group of tokens each; nothing
    for "no value". Numbers are spelled by their bin of ten.
    """
    meaning, kinds = feature_matrix(corpus.meaning, corpus.kinds)
    has_gaps = np.array(kinds, dtype=bool) & (meaning == MISSING).any(0)  # whose number is 0
    codes = description_length.number_values(meaning, kinds) + ~has_gaps
    sizes = codes.max(0, initial=1)
    names = tuple(f"{f.name} {j}" for f, size in zip(corpus.features, sizes, strict=True)
                  for j in range(size))  # fmt: skip
    writing = Writing(names, tuple(sizes.tolist()), False, len(sizes))
    return make(writing, codes, corpus.meaning, corpus.features)


def measure_all(corpus: Corpus, sizes: Config, seed: int = 0) -> pd.DataFrame:
    """`measures`, the topographic similarity, and `statistics`, of one split; without features the
    last alone.
    """
    if not corpus.features:
        return statistics(corpus)
    others = similarity.Config(
        resamples=2,
        permutations=sizes.permutations,
        meaning_permutations=sizes.meaning_permutations,
    )
    row = pd.DataFrame([similarity.similarity(corpus, others, seed)])
    return pd.concat([measures(corpus, sizes, seed), row, statistics(corpus)])


@torch.no_grad()
def measure(run: Run, config: Config) -> dict[str, Any]:
    """Tables of one sentence for each of `inputs` inputs of every split.

    - ``summary.csv``: ``measure``: ``language_compositionality``, and the code lengths of features
      ``code_length`` K(Z) / N and ``code_length_given`` K(Z | W) / N, bits an input. ``null_…``:
      of languages whose sentences are shuffled over inputs; ``holistic_…``: over meanings;
      ``p_value``: that shuffled ones are as great; ``spelled``: of the language that spells the
      features out, a ceiling; ``n``: distinct inputs; ``reason``: why the value is missing.
    - ``corpus.csv``: the sentences, see `plot_attractors.analysis.corpora.read_corpus`;
      ``plot-attractors measure`` computes the same from it.
    """
    model, data = run.model, run.data
    splits = {
        split: corpora.corpus(model, data, run.data.batch(config.inputs, split))
        for split in run.data.splits
    }
    table = pd.concat(
        [measures(corpus, config).assign(split=split) for split, corpus in splits.items()]
    )
    return {
        "summary.csv": table[list(COLUMNS)],
        "corpus.csv": corpora.to_table(splits),
    }


# -- figures ---------------------------------------------------------------------------------------


MARKS: dict[str, tuple[str, dict[str, Any]]] = similarity.MARKS | {
    "spelled": (
        "features spelled out",
        {"color": "white", "marker": "^", "markeredgecolor": "black"},
    )
}


def draw(tables: dict[str, Any]) -> dict[str, Figure]:
    """The figure ``language_measures``, from ``summary.csv``."""
    figure = Figure(figsize=(6, 3.6), layout="constrained")
    axes, summary = figure.subplots(), tables["summary.csv"]
    compositionality = summary[summary["measure"] == "language_compositionality"]
    similarity.draw_splits(axes, compositionality, MARKS, start=1.0)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set(title="Compositionality C = K(Z) / K(Z | W)", xlabel="C, times shorter (logarithmic)")
    marks = [Line2D([], [], linestyle="", label=label, **look) for label, look in MARKS.values()]
    figure.legend(handles=marks, loc="outside upper center", ncols=len(marks))
    return {"language_measures": figure}
