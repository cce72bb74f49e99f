"""Similarity and compositionality of a corpus: measures, and how they compare with chance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, NamedTuple

import numpy as np
import pandas as pd

from plot_attractors.evaluation.corpora import Corpus
from plot_attractors.evaluation.metrics.compositionality import (
    bag_of_symbols_disentanglement,
    context_independence,
    mutual_information,
    positional_disentanglement,
    tree_reconstruction_error,
)
from plot_attractors.evaluation.metrics.shuffled import (
    Alternative,
    sampling_interval,
    shuffled_null,
)
from plot_attractors.evaluation.metrics.similarity import (
    feature_distance,
    sentence_distance,
    topographic_similarity,
)
from plot_attractors.ranges import Range, Size, check_ranges

SENTENCE = "sentence"  # stands for the whole sentence where tokens are listed
SHOWN_PAIRS, BINS = 50_000, 12  # of the figure: pairs, and columns of continuous distances
NULL = ("null_mean", "null_sd", "p_value")
Pairs = Annotated[int, Range(3, 10**6)]  # whose distances are correlated


@dataclass(frozen=True)
class Sizes:
    """How much is computed: settings of the analysis."""

    inputs: Size = 2048  # drawn from each split; one sentence of each distinct one
    max_pairs: Pairs = 100_000  # pairs of inputs whose distances are compared
    resamples: Annotated[int, Range(2, 10**6)] = 100  # bootstrap samples of an interval
    permutations: Size = 100  # languages whose sentences are shuffled over inputs
    meaning_permutations: Size = 100  # and over meanings, of which fewer pairs are compared
    meaning_pairs: Pairs = 30_000

    def __post_init__(self) -> None:
        check_ranges(self)


class Number(NamedTuple):
    """A value, and why it is NaN."""

    value: float
    reason: str


def _normalised_information(sentences: Any, meaning: Any, categorical: list[bool]) -> Number:
    """Mean of I(sentence; f) / H(f) over features f that vary."""
    found = mutual_information(sentences, meaning, categorical)
    if np.isnan(found.normalised).all():
        return Number(np.nan, found.reason)
    return Number(float(np.nanmean(found.normalised)), "")


def _relative_error(sentences: Any, meaning: Any, categorical: list[bool]) -> Number:
    found = tree_reconstruction_error(sentences, meaning, categorical)
    return Number(found.relative, found.reason)


def measures(of: Corpus, sizes: Sizes, seed: int) -> list[dict[str, Any]]:
    """Rows of ``summary.csv`` of one split, see the analysis ``similarity``."""
    by_name: dict[str, tuple[Callable[..., Any], np.ndarray]] = {
        "posdis": (positional_disentanglement, of.symbols),
        "bosdis": (bag_of_symbols_disentanglement, of.tokens),
        "context_independence": (context_independence, of.tokens),
        "mutual_information": (_normalised_information, of.sentences),
        "tree_reconstruction_error": (_relative_error, of.tokens),
    }
    rows = [_similarity("topographic_similarity", of, of.meaning, of.kinds, sizes, seed)]
    if of.tree is not None:
        rows.append(_similarity("topographic_similarity_tree", of, of.tree, None, sizes, seed))
    for name, (function, sentences) in by_name.items():
        measure = partial(function, categorical=of.kinds)
        found = measure(sentences, of.meaning)
        better: Alternative = "less" if name == "tree_reconstruction_error" else "greater"
        null = shuffled_null(
            measure, sentences, of.meaning, sizes.permutations, seed, alternative=better
        )
        low, high = sampling_interval(measure, sentences, of.meaning, sizes.resamples, seed)
        row = {"measure": name, "value": found.value, "low": low, "high": high, "n": len(sentences)}
        row |= dict(zip(NULL, null, strict=False)) | {"reason": found.reason}
        rows.append(row | _holistic(measure, sentences, of.meaning, sizes, seed, better))
    return rows


def _similarity(
    name: str, of: Corpus, meaning: np.ndarray, kinds: list[bool] | None, sizes: Sizes, seed: int
) -> dict[str, Any]:
    measure = partial(topographic_similarity, categorical=kinds)
    found = measure(
        of.tokens, meaning, max_pairs=sizes.max_pairs, seed=seed, resamples=sizes.resamples,
        permutations=sizes.permutations,
    )  # fmt: skip
    measure = partial(measure, max_pairs=sizes.meaning_pairs)
    holistic = _holistic(measure, of.tokens, meaning, sizes, seed, "greater")
    return {"measure": name} | found._asdict() | holistic


def _holistic(
    measure: Any, sentences: Any, meaning: Any, sizes: Sizes, seed: int, better: Alternative
) -> dict[str, Any]:
    null = shuffled_null(
        measure, sentences, meaning, sizes.meaning_permutations, seed,
        shuffle="meanings", alternative=better,
    )  # fmt: skip
    return {f"holistic_{key}": getattr(null, key) for key in ("mean", "sd", "p_value")}


def information(of: Corpus, permutations: int, seed: int) -> pd.DataFrame:
    """Rows of ``information.csv`` of one split, see the analysis ``similarity``."""

    def of_tokens(sentences: Any, meaning: Any) -> np.ndarray:
        return bag_of_symbols_disentanglement(sentences, meaning, of.kinds).information

    of_sentences = partial(mutual_information, categorical=of.kinds)
    whole = of_sentences(of.sentences, of.meaning)
    null = shuffled_null(of_tokens, of.tokens, of.meaning, permutations, seed)
    null_whole = shuffled_null(of_sentences, of.sentences, of.meaning, permutations, seed)
    columns = {"information": np.vstack([of_tokens(of.tokens, of.meaning), whole.value])}
    for column, a, b in zip(NULL, null, null_whole, strict=False):
        columns[column] = np.vstack([a, b])
    n = len(of.names) + 1
    table = pd.DataFrame({column: cells.T.reshape(-1) for column, cells in columns.items()})
    table.insert(1, "entropy", np.repeat(whole.entropy, n))
    table.insert(0, "token", [*of.names, SENTENCE] * len(of.features))
    table.insert(0, "feature", np.repeat([feature.name for feature in of.features], n))
    return table


def pair_counts(of: Corpus) -> pd.DataFrame:
    """Rows of ``pairs.csv`` of one split, of random pairs, see the analysis ``similarity``."""
    i, j = np.random.default_rng(0).integers(len(of.tokens), size=(2, SHOWN_PAIRS))
    i, j = i[i != j], j[i != j]
    tokens = sentence_distance(of.tokens, i, j)
    distances = {"topographic_similarity": feature_distance(of.meaning, i, j, of.kinds)}
    if of.tree is not None:
        distances["topographic_similarity_tree"] = feature_distance(of.tree, i, j)
    parts = []
    for measure, x in distances.items() if len(i) else ():  # one input makes no pairs
        width, place = 1.0, np.unique(x)
        if not all(of.kinds):
            width = max(float(np.quantile(x, 0.99)) / BINS, 1e-9)
            place = (np.unique((x / width).astype(int)) + 0.5) * width
        distance = place[np.abs(x[:, None] - place).argmin(1)]
        part = pd.DataFrame({"distance": distance, "tokens": tokens}).value_counts(sort=False)
        parts.append(part.rename("pairs").reset_index().assign(measure=measure, width=width))
    columns = ["measure", "distance", "width", "tokens", "pairs"]
    return pd.concat(parts)[columns] if parts else pd.DataFrame(columns=columns)
