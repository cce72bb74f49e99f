"""Corpora: inputs of a split, one sentence of each, and what is known of what it means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch

from plot_attractors.analysis.sampling import first_rows
from plot_attractors.data import Batch, Feature, Labelled
from plot_attractors.model.bits import number_inputs
from plot_attractors.model.protocols import SentenceModel

NO_VALUE = "none"  # the outcome, in ordered features, of a level that the path does not reach


@dataclass(frozen=True)
class Writing:
    """How sentences are written down: as symbols, one a group of tokens or a position.

    - ``names``: of tokens; ``groups``: sizes of groups, of which a sentence has one token at most;
    - ``ordered``: sequences, whose symbols are tokens at positions; ``longest``: most tokens.

    >>> bags = Writing(("A", "B", "C"), (2, 1))
    >>> bags.one_hot(np.array([[2, 0]])).tolist()  # B
    [[0.0, 1.0, 0.0]]
    """

    names: tuple[str, ...]
    groups: tuple[int, ...]
    ordered: bool = False
    longest: int = 0

    def one_hot(self, symbols: np.ndarray) -> np.ndarray:
        """(N, width) 0 and 1, one column a token, or a token at a position, of symbols (N, P)."""
        sizes = (len(self.names),) * symbols.shape[1] if self.ordered else self.groups
        parts = [symbols[:, [k]] == np.arange(1, size + 1) for k, size in enumerate(sizes)] or [
            np.zeros((len(symbols), 0))
        ]
        return np.concatenate(parts, 1).astype(np.float32)

    def bag(self, symbols: np.ndarray) -> np.ndarray:
        """(N, tokens) 0 and 1, which tokens occur."""
        one_hot = self.one_hot(symbols)
        if not self.ordered:
            return one_hot
        of_positions = one_hot.reshape(len(symbols), symbols.shape[1], len(self.names))
        return of_positions.max(1, initial=0)


class Corpus(NamedTuple):
    """N inputs of a split and one sentence of each.

    - ``sentences``: (N, width) as the language writes them; ``tokens``: (N, tokens) which occur;
    - ``symbols``: (N, positions) which token stands at each position, from 1, or 0 for none; where
      tokens have no order, their exclusive groups take the place of positions;
    - ``meaning``: (N, F) with NaN for "no value"; ``features``: the F of them;
    - ``writing``: how sentences are written.
    """

    sentences: np.ndarray
    tokens: np.ndarray
    symbols: np.ndarray
    meaning: np.ndarray
    features: tuple[Feature, ...]
    writing: Writing

    @property
    def kinds(self) -> list[bool]:
        """Which of the features are categorical."""
        return [feature.categorical for feature in self.features]


def make(
    writing: Writing, symbols: np.ndarray, meaning: np.ndarray, features: Sequence[Feature]
) -> Corpus:
    """A corpus of symbols (N, P) and values of features (N, F), NaN where there is none.

    Inputs of which a number is missing are left out: they have no distance.
    """
    features = tuple(features)
    numbers = [k for k, feature in enumerate(features) if not feature.categorical]
    known = np.isfinite(meaning[:, numbers]).all(1)
    symbols, meaning = symbols[known], meaning[known]
    one_hot, bag = writing.one_hot(symbols), writing.bag(symbols)
    return Corpus(one_hot, bag, symbols, meaning, features, writing)


def corpus(model: SentenceModel, data: Labelled, batch: Batch) -> Corpus:
    """One sentence of each distinct input of the batch: copies are not compared with each other."""
    first = first_rows(number_inputs(batch.x))
    batch = Batch(*(part[first] for part in batch))
    language, features = model.language, data.features
    sentences = model.describe(batch.x).s[:, 0]
    meaning = data.feature_values(batch).numpy().astype(float)
    if data.ordered:
        for k, feature in enumerate(features):
            if NO_VALUE in feature.outcomes:
                meaning[meaning[:, k] == feature.outcomes.index(NO_VALUE), k] = np.nan
    if language.ordered:
        positions = list(sentences.unflatten(-1, (language.longest, language.tokens)).unbind(1))
    else:
        positions = list(language.bag(sentences).split(list(language.groups), -1))
    symbols = [(one * torch.arange(1, one.shape[-1] + 1)).sum(-1).long() for one in positions]
    names = tuple(language.token_name(k) for k in range(language.tokens))
    writing = Writing(names, tuple(language.groups), language.ordered, language.longest)
    return make(writing, torch.stack(symbols, -1).numpy(), meaning, features)


# -- as a table, a row a sentence ------------------------------------------------------------------

SENTENCE, SPLIT, NO_TOKEN = "sentence", "split", "-"


def to_table(splits: Mapping[str, Corpus]) -> pd.DataFrame:
    """Columns ``split``; ``sentence``, the token of each group or position, ``-`` for none; the
    features.
    """
    return pd.concat([_rows(one).assign(**{SPLIT: split}) for split, one in splits.items()])


def _rows(corpus: Corpus) -> pd.DataFrame:
    columns: dict[str, Any] = {SENTENCE: [" ".join(row) for row in _places(corpus)]}
    for feature, values in zip(corpus.features, corpus.meaning.T, strict=True):
        outcomes = np.array([*feature.outcomes, None], dtype=object)
        at = np.where(np.isnan(values), -1, values).astype(int)
        columns[feature.name] = outcomes[at] if feature.categorical else values
    return pd.DataFrame(columns)


def _places(corpus: Corpus) -> np.ndarray:
    """(N, P) names of the tokens at each place, ``-`` for none."""
    names = np.array([NO_TOKEN, *corpus.writing.names], dtype=object)
    sizes = np.array(
        (0,) * corpus.symbols.shape[1] if corpus.writing.ordered else corpus.writing.groups
    )
    return names[np.where(corpus.symbols > 0, corpus.symbols + np.cumsum(sizes) - sizes, 0)]


def read_corpus(file: str | Path, bags: bool = False) -> dict[str, Corpus]:
    """The corpora of a table (CSV) with a row a sentence, by split.

    ``sentence`` has names of tokens with spaces between, ``-`` where a place is empty. Where no
    token stands at two places, places are exclusive groups of tokens; otherwise sentences are
    sequences; with `bags` the order of tokens counts for nothing. ``split`` may be left out. Every
    other column is a feature: a number where a value has a fraction, else categorical. Empty cells
    have no value.

    Raises ValueError: no such table, or no sentences.
    """
    path = Path(file)
    try:
        table = pd.read_csv(path, dtype=str, keep_default_na=False, encoding="utf-8-sig")
    except (UnicodeDecodeError, pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ValueError(f"{path} cannot be read as a table (CSV): {reason}") from None
    if SENTENCE not in table.columns or table.empty:
        raise ValueError(
            f"{path} has no column 'sentence' with rows: write tokens with spaces between, as in "
            "'b a d'"
        )
    if states := [name for name in table.columns if name.startswith("z0_")]:
        raise ValueError(
            f"{path} has latent states of a run in {states[0]} to {states[-1]}, which are no "
            "features: remove these columns"
        )
    writing, symbols = _symbols([row.split() for row in table[SENTENCE]], bags)
    read = [_feature(n, table[n]) for n in table.columns if n not in (SENTENCE, SPLIT)]
    meaning = np.array([values for _, values in read]).reshape(len(read), len(table)).T
    split = table[SPLIT] if SPLIT in table.columns else pd.Series("train", table.index)
    features = [feature for feature, _ in read]
    corpora = {}
    for name in split.unique():
        rows = (split == name).to_numpy()
        corpora[str(name)] = make(writing, symbols[rows], meaning[rows], features)
    return corpora


def _symbols(rows: Sequence[Sequence[str]], bags: bool) -> tuple[Writing, np.ndarray]:
    """How tokens at places are written, and (N, P) which stands where, 0 for none."""
    longest = max(1, *map(len, rows))
    places = [sorted({row[k] for row in rows if len(row) > k} - {NO_TOKEN}, key=natural)
              for k in range(longest)]  # fmt: skip
    names = sorted({name for place in places for name in place}, key=natural)
    if bags:
        symbols = np.array([[name in row for name in names] for row in rows], dtype=np.intp)
        return Writing(tuple(names), (1,) * len(names), longest=longest), symbols
    apart = sum(map(len, places)) == len(names)  # no token stands at two places
    alphabets = [place for place in places if place] if apart else [names] * longest
    kept = [k for k, place in enumerate(places) if place or not apart]
    symbols = np.zeros((len(rows), len(alphabets)), dtype=np.intp)
    for j, (k, alphabet) in enumerate(zip(kept, alphabets, strict=True)):
        number = {name: i + 1 for i, name in enumerate(alphabet)}
        symbols[:, j] = [number.get(row[k], 0) if len(row) > k else 0 for row in rows]
    if apart:
        listed = tuple(name for alphabet in alphabets for name in alphabet)
        return Writing(listed, tuple(map(len, alphabets)), longest=len(alphabets)), symbols
    return Writing(tuple(names), (1,) * len(names), True, longest), symbols


def _feature(name: str, column: pd.Series) -> tuple[Feature, np.ndarray]:
    """A feature by its values, and these (N,), NaN where there is none."""
    numbers, known = pd.to_numeric(column, errors="coerce"), column != ""
    if known.any() and numbers[known].notna().all() and (numbers[known] % 1 != 0).any():
        return Feature(name), numbers.to_numpy(float)
    outcomes = sorted(column[known].unique(), key=natural) or ["?"]
    number = {outcome: float(k) for k, outcome in enumerate(outcomes)}
    return Feature(name, tuple(outcomes)), column.map(number).to_numpy(float)


def natural(name: str) -> tuple[bool, float, str]:
    """Numbers by their size, then names."""
    return (False, int(name), name) if name.isdecimal() else (True, 0, name)
