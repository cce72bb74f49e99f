"""Corpora: inputs of a split, one sentence of each, and what is known of what it means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from plot_attractors.analysis.sampling import first_rows
from plot_attractors.data import Batch, Feature, Labelled
from plot_attractors.measures.similarity import tree_nodes
from plot_attractors.model.attractor import AttractorModel
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
    - ``tree``: (N, nodes) of ordered features, the nodes on the path;
    - ``writing``: how sentences are written; ``hierarchical``: whether features are ordered;
    - ``vectors``: (N, d) what sentences stand for, the latent states z0 of attractor models.
    """

    sentences: np.ndarray
    tokens: np.ndarray
    symbols: np.ndarray
    meaning: np.ndarray
    tree: np.ndarray | None
    features: tuple[Feature, ...]
    writing: Writing
    hierarchical: bool
    vectors: np.ndarray | None

    @property
    def names(self) -> list[str]:
        """Of tokens."""
        return list(self.writing.names)

    @property
    def kinds(self) -> list[bool]:
        """Which of the features are categorical."""
        return [feature.categorical for feature in self.features]


def make(
    writing: Writing,
    symbols: np.ndarray,
    meaning: np.ndarray,
    features: Sequence[Feature],
    hierarchical: bool = False,
    vectors: np.ndarray | None = None,
) -> Corpus:
    """A corpus of symbols (N, P) and values of features (N, F), NaN where there is none.

    Inputs of which a number is missing are left out: they have no distance.
    """
    features = tuple(features)
    numbers = [k for k, feature in enumerate(features) if not feature.categorical]
    known = np.isfinite(meaning[:, numbers]).all(1)
    symbols, meaning = symbols[known], meaning[known]
    tree = tree_nodes(meaning) if hierarchical and not numbers else None
    return Corpus(
        writing.one_hot(symbols), writing.bag(symbols), symbols, meaning, tree, features, writing,
        hierarchical, None if vectors is None else vectors[known],
    )  # fmt: skip


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
    z0 = model.encode(batch.x).z0.numpy() if isinstance(model, AttractorModel) else None
    return make(
        Writing(names, tuple(language.groups), language.ordered, language.longest),
        torch.stack(symbols, -1).numpy(), meaning, features, data.ordered, z0,
    )  # fmt: skip
