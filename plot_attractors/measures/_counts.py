"""Values as numbers, how often they occur together, and the plug-in information of that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse

from plot_attractors.measures._arguments import Floats, Integers

BINS = 10  # of a continuous feature


def number_values(array: Floats, kinds: Sequence[bool]) -> Integers:
    """(N, F) features as numbers from 0, all of which occur, in the order of their values.

    Continuous features (`kinds` false) with more than `BINS` values are put into quantile bins.
    """
    codes = np.empty(array.shape, dtype=np.intp)
    for k, discrete in enumerate(kinds):
        column = array[:, k]
        level, inverse = np.unique(column, return_inverse=True)
        if not discrete and len(level) > BINS:
            edges = np.quantile(column, np.arange(1, BINS) / BINS)
            binned = np.searchsorted(edges, column, side="right").astype(np.float64)
            inverse = np.unique(binned, return_inverse=True)[1]
        codes[:, k] = inverse.reshape(-1)
    return codes


def indicators(codes: Integers) -> tuple[Any, Integers]:
    """Sparse (N, levels) of 0 and 1, the levels of all columns side by side, and their columns."""
    n, m = codes.shape
    sizes = codes.max(0, initial=-1) + 1
    columns = codes + np.cumsum(sizes) - sizes
    entries = np.ones(n * m), columns.reshape(-1), np.arange(n + 1) * m
    one_hot = scipy.sparse.csr_matrix(entries, shape=(n, int(sizes.sum())))
    return one_hot, np.repeat(np.arange(m), sizes)


def _entropy(counts: Floats, block: Integers, blocks: int, n: int) -> Floats:
    """(blocks,) −Σ p log₂ p, bits, of the positive counts of each block, which add up to n."""
    p = counts / n
    return np.asarray(np.bincount(block, p * np.log2(1 / p), minlength=blocks), dtype=np.float64)


def plug_in_information(a: Integers, b: Integers) -> tuple[Floats, Floats]:
    """Plug-in I (P, F), bits, of all columns of a (N, P) with those of b (N, F), and H (F,)."""
    n, p, f = len(a), a.shape[1], b.shape[1]
    one_hot_a, block_a = indicators(a)
    one_hot_b, block_b = indicators(b)
    joint = (one_hot_a.T @ one_hot_b).tocoo()
    entropy_a = _entropy(np.asarray(one_hot_a.sum(0)).reshape(-1), block_a, p, n)
    entropy_b = _entropy(np.asarray(one_hot_b.sum(0)).reshape(-1), block_b, f, n)
    cell = block_a[joint.row] * f + block_b[joint.col]
    entropy_ab = _entropy(joint.data, cell, p * f, n).reshape(p, f)
    return np.maximum(entropy_a[:, None] + entropy_b - entropy_ab, 0.0), entropy_b
