"""Bands that a whole empirical distribution function stays in, by simulation of its theory.

Source: Säilynoja, Bürkner & Vehtari (2022), "Graphical test for discrete uniformity and its
applications in goodness-of-fit evaluation and multiple sample comparison".
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

Counts = NDArray[np.integer]
Floats = NDArray[np.float64]


def tail_probabilities(n: int, theory: Floats) -> Floats:
    """(n + 1, K) min(P(N ≤ j), P(N ≥ j)) of N ~ Binomial(n, theory_k), the number of n draws at or
    below point k, for every number j; theory (K,) is the distribution function there.
    """
    j = np.arange(n + 1)[:, None]
    return np.asarray(np.minimum(binom.cdf(j, n, theory), binom.sf(j - 1, n, theory)))


def least_tail(below: Counts, tails: Floats) -> Floats:
    """(…) the least tail probability over the points, of numbers (…, K) at or below them."""
    return tails[below, np.arange(tails.shape[1])].min(-1)


def simultaneous_band(tail: float, tails: Floats) -> tuple[Counts, Counts]:
    """(K,) the least and the greatest number whose tail probability is at least `tail`.

    A sample lies within at all points at once exactly where its `least_tail` is at least `tail`.
    """
    inside = tails >= tail
    return inside.argmax(0), len(tails) - 1 - inside[::-1].argmax(0)
