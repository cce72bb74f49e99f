"""Measures of a language that need no model: of a corpus, beside chance and a spelled language."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from plot_attractors.evaluation import similarity
from plot_attractors.evaluation.corpora import Corpus, Writing, make
from plot_attractors.evaluation.metrics import description_length as lengths
from plot_attractors.evaluation.metrics._counts import BINS
from plot_attractors.evaluation.metrics.articulation import articulation
from plot_attractors.evaluation.metrics.disentanglement import dci, mutual_information_gap
from plot_attractors.evaluation.metrics.npmi import token_token_npmi, token_value_npmi
from plot_attractors.evaluation.metrics.shuffled import shuffled_null
from plot_attractors.ranges import Size, check_ranges

__all__ = ["COLUMNS", "Sizes", "code_blocks", "measure_all", "measures", "pairs", "spelled"]

COLUMNS = (
    "measure", "split", "unit", "value", "null_mean", "null_sd", "p_value", "holistic_mean",
    "holistic_sd", "holistic_p_value", "spelled", "n", "reason",
)  # fmt: skip
BITS = "bits an input"


@dataclass(frozen=True)
class Sizes:
    """How much is computed: settings of the analysis."""

    inputs: Size = 2048  # drawn from each split; one sentence of each distinct one
    permutations: Size = 20  # languages whose sentences are shuffled over inputs
    meaning_permutations: Size = 20  # and over meanings

    def __post_init__(self) -> None:
        check_ranges(self)


class Found(NamedTuple):
    """Values of several measures, and why one of them is NaN."""

    value: np.ndarray
    reason: str


class Group(NamedTuple):
    """Measures that are computed together of a corpus: names, units, and which have a test."""

    names: tuple[str, ...]
    units: tuple[str, ...]
    tested: tuple[bool, ...]  # whether a greater value is a better one
    of: Callable[[Corpus], Found]


def _length(found: lengths.DescriptionLength) -> Found:
    return Found(np.array(found[:4]), found.reason)


def _of_features(c: Corpus) -> Found:
    return _length(lengths.of_features(c.sentences, c.symbols, c.meaning, c.kinds))


def _of_vectors(c: Corpus) -> Found:
    if c.vectors is None:
        reason = "sentences stand for no vectors: a corpus file has them as meaning"
        return Found(np.full(3, np.nan), reason)
    found = _length(lengths.of_vectors(c.sentences, c.symbols, c.vectors))
    return Found(found.value[:3], found.reason)


def _dci(c: Corpus) -> Found:
    found = dci(c.symbols, c.meaning, c.kinds)
    return Found(np.array(found[:3]), found.reason)


def _one(found: Any) -> Found:
    return Found(np.array([found.value]), found.reason)


def _gap(c: Corpus) -> Found:
    return _one(mutual_information_gap(c.symbols, c.meaning, c.kinds))


def _npmi(c: Corpus) -> Found:
    return _one(token_value_npmi(c.tokens, c.meaning, c.kinds))


GROUPS = (
    Group(
        ("language_compositionality", "code_length", "code_length_given", "code_length_sentences"),
        ("", BITS, BITS, BITS), (True, False, False, False), _of_features,
    ),
    Group(
        ("language_compositionality_z0", "code_length_z0", "code_length_given_z0"),
        ("", BITS, BITS), (True, False, False), _of_vectors,
    ),
    Group(
        ("dci_disentanglement", "dci_completeness", "dci_informativeness"),
        ("", "", ""), (True, True, True), _dci,
    ),
    Group(("mutual_information_gap",), ("",), (True,), _gap),
    Group(("npmi",), ("",), (True,), _npmi),
)  # fmt: skip


def measures(of: Corpus, sizes: Sizes, seed: int = 0) -> pd.DataFrame:
    """Rows of ``summary.csv`` of one split, see the analysis ``language_measures``."""
    best = spelled(of)
    rows = [row for group in GROUPS for row in _rows(group, of, best, sizes, seed)]
    together = token_token_npmi(of.tokens)
    row = {"measure": "npmi_tokens", "value": together.value, "reason": together.reason}
    table = pd.DataFrame([*rows, row, *_articulation(of, sizes, seed)]).assign(n=len(of.symbols))
    return table.reindex(columns=[name for name in COLUMNS if name != "split"])


def _rows(group: Group, of: Corpus, best: Corpus, sizes: Sizes, seed: int) -> list[dict[str, Any]]:
    found = group.of(of)
    columns: dict[str, Any] = {"value": found.value}
    if not np.isnan(found.value).all():
        columns["spelled"] = group.of(best).value

        def measure(symbols: Any, _: Any) -> Found:
            w = of.writing
            s = w.one_hot(symbols), w.bag(symbols)
            return group.of(of._replace(sentences=s[0], tokens=s[1], symbols=symbols))

        null = shuffled_null(measure, of.symbols, of.meaning, sizes.permutations, seed)
        holistic = shuffled_null(
            measure, of.symbols, of.meaning, sizes.meaning_permutations, seed, shuffle="meanings"
        )
        for prefix, nulls in (("null_", null), ("holistic_", holistic)):
            columns |= {f"{prefix}mean": nulls.mean, f"{prefix}sd": nulls.sd}
            p = np.where(group.tested, nulls.p_value, np.nan)
            columns["p_value" if prefix == "null_" else "holistic_p_value"] = p
    rows = []
    for k, name in enumerate(group.names):
        row = {column: float(values[k]) for column, values in columns.items()}
        reason = found.reason if np.isnan(found.value[k]) else ""
        rows.append({"measure": name, "unit": group.units[k], **row, "reason": reason})
    return rows


def _articulation(of: Corpus, sizes: Sizes, seed: int) -> list[dict[str, Any]]:
    """Boundaries by Harris's scheme, beside sequences whose tokens are permuted."""
    found = articulation(of.symbols, of.writing.ordered)
    rows: list[dict[str, Any]] = [
        {"measure": "harris_boundaries", "unit": "a sentence", "value": found.value},
        {"measure": "harris_segments", "value": float(found.segments)},
    ]
    if found.reason:
        return [row | {"value": np.nan, "reason": found.reason} for row in rows]
    rng, null = np.random.default_rng(seed), []
    there = of.symbols > 0
    for _ in range(sizes.permutations):
        permuted = of.symbols.copy()
        permuted[there] = rng.permutation(of.symbols[there])
        other = articulation(permuted)
        null.append((other.value, float(other.segments)))
    for k, row in enumerate(rows):
        values = np.array(null)[:, k]
        row |= {"null_mean": values.mean(), "null_sd": values.std(), "reason": ""}
    return rows


def spelled(of: Corpus) -> Corpus:
    """A corpus of the same inputs that spells out their features, a group of tokens each; nothing
    for "no value". Numbers are spelled by their bin of ten.
    """
    codes = np.zeros(of.meaning.shape, dtype=np.intp)
    for k, categorical in enumerate(of.kinds):
        column = of.meaning[:, k]
        known = np.isfinite(column)
        values = column[known]
        if not categorical and len(np.unique(values)) > BINS:
            edges = np.quantile(values, np.arange(1, BINS) / BINS)
            values = np.searchsorted(edges, values, side="right")
        if known.any():
            codes[known, k] = np.unique(values, return_inverse=True)[1] + 1
    sizes = codes.max(0, initial=1)
    names = tuple(f"{f.name} {j}" for f, size in zip(of.features, sizes, strict=True)
                  for j in range(size))  # fmt: skip
    writing = Writing(names, tuple(sizes.tolist()), False, len(sizes))
    return make(writing, codes, of.meaning, of.features, of.hierarchical, of.vectors)


def pairs(of: Corpus) -> pd.DataFrame:
    """Rows of ``npmi.csv`` of one split: (token, feature, value, npmi); values of a number that has
    more than ten are the numbers of its bins, from 0.
    """
    found = token_value_npmi(of.tokens, of.meaning, of.kinds)
    features = [of.features[k] for k in found.feature]
    binned = [len(np.unique(column)) > BINS for column in of.meaning.T]
    values = [
        f.outcomes[int(level)] if f.categorical else f"{'bin ' if binned[k] else ''}{level:.4g}"
        for k, f, level in zip(found.feature, features, found.level, strict=True)
    ]
    columns = {
        "token": np.repeat(of.names, len(values)),
        "feature": [f.name for f in features] * len(of.names),
        "value": values * len(of.names),
        "npmi": found.pairs.reshape(-1),
    }
    return pd.DataFrame(columns)


def code_blocks(of: Corpus) -> pd.DataFrame:
    """Rows of ``code_lengths.csv`` of one split: (represented, source, seen, inputs, bits)."""
    best = spelled(of)
    parts = []
    for represented, blocks in (("features", _feature_blocks), ("z0", _vector_blocks)):
        own = blocks(of)
        of_best = blocks(best)
        for source, table, column in (
            ("without sentences", own, 2), ("sentences", own, 3), ("spelled", of_best, 3),
        ):  # fmt: skip
            columns = {"seen": table[:, 0], "inputs": table[:, 1], "bits": table[:, column]}
            part = pd.DataFrame(columns).astype({"seen": int, "inputs": int})
            part.insert(0, "source", source)
            part.insert(0, "represented", represented)
            parts.append(part)
    return pd.concat(parts)


def _feature_blocks(c: Corpus) -> np.ndarray:
    return lengths.of_features(c.sentences, c.symbols, c.meaning, c.kinds).blocks


def _vector_blocks(c: Corpus) -> np.ndarray:
    if c.vectors is None:
        return np.empty((0, 4))
    return lengths.of_vectors(c.sentences, c.symbols, c.vectors).blocks


def measure_all(of: Corpus, sizes: Sizes, seed: int = 0) -> pd.DataFrame:
    """`measures`, and those of the analysis ``similarity``, of one split."""
    permutations = {
        "permutations": sizes.permutations, "meaning_permutations": sizes.meaning_permutations
    }  # fmt: skip
    others = pd.DataFrame(
        similarity.measures(of, similarity.Sizes(resamples=2, **permutations), seed)
    )
    rows = pd.concat([measures(of, sizes, seed), others])
    return rows.reindex(columns=[name for name in COLUMNS if name != "split"])
