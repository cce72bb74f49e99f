"""Corpora: inputs of a split, one sentence of each, and what is known of what it means."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from plot_attractors.analysis.sampling import first_rows
from plot_attractors.data import Batch, Feature, Labelled
from plot_attractors.model.bits import number_inputs
from plot_attractors.model.protocols import SentenceModel

NO_VALUE = "none"  # the outcome, in ordered features, of a level that the path does not reach


class Corpus(NamedTuple):
    """N inputs of a split and one sentence of each.

    - ``symbols``: (N, positions) which token stands at each position, from 1, or 0 for none; where
      tokens have no order, their exclusive groups take the place of positions;
    - ``sizes``: how many tokens may stand at each position; ``ordered``: they are the same ones;
    - ``meaning``: (N, F) with NaN for "no value"; ``features``: the F of them.
    """

    symbols: np.ndarray
    sizes: tuple[int, ...]
    ordered: bool
    meaning: np.ndarray
    features: tuple[Feature, ...]

    def one_hot(self, symbols: np.ndarray) -> np.ndarray:
        """(N, width) 0 and 1, one column a token, or a token at a position, of symbols (N, P).

        >>> bags = Corpus(np.array([[2, 0]]), (2, 1), False, np.zeros((1, 0)), ())
        >>> bags.one_hot(bags.symbols).tolist()
        [[0.0, 1.0, 0.0]]
        """
        parts = [symbols[:, [k]] == np.arange(1, n + 1) for k, n in enumerate(self.sizes)]
        return np.concatenate(parts, 1).astype(np.float32)

    @property
    def sentences(self) -> np.ndarray:
        """(N, width) as the language writes them."""
        return self.one_hot(self.symbols)

    @property
    def tokens(self) -> np.ndarray:
        """(N, tokens) 0 and 1, which tokens occur."""
        if not self.ordered:
            return self.sentences
        at_positions = self.sentences.reshape(*self.symbols.shape, -1)
        return np.asarray(at_positions.max(1))

    @property
    def kinds(self) -> list[bool]:
        """Which of the features are categorical."""
        return [feature.categorical for feature in self.features]


def corpus(model: SentenceModel, data: Labelled, batch: Batch) -> Corpus:
    """One sentence of each distinct input of the batch: copies are not compared with each other.

    Inputs of which a number is missing are left out: they have no distance.
    """
    first = first_rows(number_inputs(batch.x))
    batch = Batch(*(part[first] for part in batch))
    language, features = model.language, tuple(data.features)
    sentences = model.describe(batch.x).s[:, 0]
    meaning = data.feature_values(batch).numpy().astype(float)
    if data.ordered:
        for k, feature in enumerate(features):
            if NO_VALUE in feature.outcomes:
                meaning[meaning[:, k] == feature.outcomes.index(NO_VALUE), k] = np.nan
    if language.ordered:
        sizes = (language.tokens,) * language.longest
    else:
        sizes, sentences = tuple(language.groups), language.bag(sentences)
    positions = sentences.split(list(sizes), -1)
    symbols = [(one * torch.arange(1, one.shape[-1] + 1)).sum(-1).long() for one in positions]
    numbers = [k for k, feature in enumerate(features) if not feature.categorical]
    known = np.isfinite(meaning[:, numbers]).all(1)
    table = torch.stack(symbols, -1).numpy()[known]
    return Corpus(table, sizes, language.ordered, meaning[known], features)
