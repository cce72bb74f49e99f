"""Tokens and concepts matched one to one: a translation, and how much of sentences it covers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment

from plot_attractors.measures._arguments import Floats, Integers


class Matching(NamedTuple):
    """The share of sentences and meanings that a translation covers, 0 to 1; the tokens and the
    concepts (K,) that it matches; and in how many inputs both stand together (K,).

    ``reason``: why ``value`` is NaN, otherwise "".
    """

    value: float
    tokens: Integers
    concepts: Integers
    together: Floats
    reason: str


def concept_best_matching(
    tokens: ArrayLike, concepts: ArrayLike, lengths: ArrayLike | None = None
) -> Matching:
    r"""The one-to-one matching M of tokens and concepts that stand together most often:

    .. math:: \mathrm{CBM} = \max_M \frac{\sum_{(v, c) \in M} n_{vc}}{\sum_i \max(|s_i|, |m_i|)},

    with the number of inputs :math:`n_{vc}` whose sentence has token v and whose meaning has
    concept c. 1 where every concept has a token of its own, which stands for nothing else;
    synonyms, homonyms and tokens without a meaning make it smaller. Tokens may match no concept.

    Args:
        tokens: (N, V) 0 or 1, which tokens are in a sentence.
        concepts: (N, C) 0 or 1, which values of features an input has.
        lengths: (N,) tokens of a sentence, repeated ones counted; None: different ones.

    Source: Carmeli, Belinkov & Meir (2024), "Concept-best-matching: evaluating compositionality in
    emergent communication".

    >>> concept_best_matching([[1, 0], [0, 1]], [[0, 1], [1, 0]]).value
    1.0
    """
    s, m = np.asarray(tokens, float), np.asarray(concepts, float)
    together = s.T @ m
    length = s.sum(1) if lengths is None else np.asarray(lengths, float)
    most = float(np.maximum(length, m.sum(1)).sum())
    rows, columns = linear_sum_assignment(together, maximize=True)
    kept = together[rows, columns] > 0
    rows, columns = rows[kept], columns[kept]
    counts = together[rows, columns]
    if not most:
        return Matching(np.nan, rows, columns, counts, "sentences and meanings are empty")
    return Matching(float(counts.sum()) / most, rows, columns, counts, "")
