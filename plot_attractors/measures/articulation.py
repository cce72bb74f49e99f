"""Harris's articulation scheme: boundaries inside of sequences where what follows is uncertain."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from plot_attractors.measures._arguments import Floats, Integers

THRESHOLD = 0.25  # bits
UNORDERED = "sentences are bags of words, which have no order and so no boundaries"


class Articulation(NamedTuple):
    """Boundaries by rises of branching entropy.

    - ``value``: boundaries a sentence, mean; from 0 to the longest sentence's tokens − 1;
    - ``boundaries``: (N, L − 1) bool, whether one stands before the second, third … token;
    - ``segments``: how many different pieces the boundaries leave;
    - ``entropy``: (L − 1,) mean branching entropy after 1, 2, … tokens, bits, over places;
    - ``reason``: why ``value`` is NaN, otherwise "".
    """

    value: float
    boundaries: NDArray[np.bool_]
    segments: int
    entropy: Floats
    reason: str


def articulation(
    sequences: ArrayLike, ordered: bool = True, threshold: float = THRESHOLD
) -> Articulation:
    """Where the entropy of the next token rises, by Harris's scheme.

    The branching entropy of a piece u is h(u) = −Σ_x P(x | u) log₂ P(x | u), over tokens x that
    follow it inside of a sentence, anywhere in the corpus. A boundary stands after u x where
    h(u x) − h(u) > threshold, for any piece that starts anywhere: inside of a word the next token
    is more and more certain, and after it no longer.

    Floor 0: of sequences whose tokens tell nothing of the next, h does not rise but by chance (few
    sentences leave long pieces that are seen once, with h = 0). A language of words has a boundary
    after each. That boundaries are found does not say that they are of words: compare with
    sequences whose tokens have been permuted, as the analysis does, and see whether pieces are
    fewer.

    Args:
        sequences: (N, L) whole numbers, tokens from 1, and 0 after the end.
        ordered: whether tokens have an order. Of bags of words the result is NaN.
        threshold: bits.

    Sources: Harris (1955), "From phoneme to morpheme"; Tanaka-Ishii (2005), "Entropy as an
    indicator of context boundaries"; Ueda, Ishii & Miyao (2023), "On the word boundaries of
    emergent languages based on Harris's articulation scheme".
    """
    s = np.asarray(sequences, dtype=np.intp)
    n, longest = s.shape
    places = max(longest - 1, 0)
    boundaries = np.zeros((n, places), dtype=bool)
    entropies = np.full(places, np.nan)
    reason = "" if ordered else UNORDERED
    if not reason and (n == 0 or places == 0 or not s[:, 1:].any()):
        reason = "no sentence has two tokens"
    if reason:
        return Articulation(math.nan, boundaries, 0, entropies, reason)
    piece: Integers = s  # (N, starts) a number for the piece of `width` tokens from each start
    before: Floats | None = None
    for width in range(1, longest):
        starts = longest - width
        piece, follows = piece[:, :starts], s[:, width:]
        inside = follows > 0
        h = np.full((n, starts), np.nan)
        if inside.any():
            h[inside] = _branching_entropy(piece[inside], follows[inside])
            entropies[width - 1] = h[inside].mean()
        if before is not None:
            boundaries[:, width - 1 :] |= inside & (h - before[:, :starts] > threshold)
        before = h
        pair = np.stack([piece, follows], -1).reshape(-1, 2)
        piece = np.unique(pair, axis=0, return_inverse=True)[1].reshape(n, starts)
    return Articulation(
        float(boundaries.sum(1).mean()), boundaries, _segments(s, boundaries), entropies, ""
    )


def _branching_entropy(piece: Integers, token: Integers) -> Floats:
    """(n,) the entropy, bits, of the tokens (n,) that follow the same piece (n,) as here."""
    _, row = np.unique(piece, return_inverse=True)
    pairs, count = np.unique(np.stack([row, token], -1), axis=0, return_counts=True)
    p = count / np.bincount(row)[pairs[:, 0]]
    h = np.asarray(np.bincount(pairs[:, 0], -p * np.log2(p)), dtype=np.float64)
    return np.maximum(h[row], 0.0)


def _segments(s: Integers, boundaries: NDArray[np.bool_]) -> int:
    """How many different pieces there are between boundaries and ends."""
    n, longest = s.shape
    first = np.concatenate([np.ones((n, 1), dtype=bool), boundaries], 1).reshape(-1)
    flat = s.reshape(-1)
    start = np.flatnonzero(first & (flat > 0))
    number, at = np.cumsum(first) - 1, np.arange(n * longest)
    begun = np.flatnonzero(first)[number]
    rows = np.zeros((n * longest, longest), dtype=np.intp)
    rows[begun, at - begun] = flat  # each piece in the row of its first token
    return len(np.unique(rows[start], axis=0))
