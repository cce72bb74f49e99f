"""How far apart two sentence models without common tokens are: by what sentences mean, and by
translation.

A *concept* is what a sentence tells of features: for each of F categorical features the
probabilities of its m outcomes, side by side in F·m columns.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

CELLS = 4_000_000  # numbers held at a time where all concepts are compared with all


class Translation(NamedTuple):
    """``expression`` (S,): the number of the nearest one; ``residual`` (S,): how far it is."""

    expression: Tensor
    residual: Tensor


def entropy_bits(p: Tensor) -> Tensor:
    """(…) −Σ p log₂ p of distributions (…, K), in bits."""
    return -torch.xlogy(p, p).sum(-1) / torch.log(torch.tensor(2.0, dtype=p.dtype))


def jensen_shannon(p: Tensor, q: Tensor) -> Tensor:
    """(…) H((p + q)/2) − (H(p) + H(q))/2 of distributions (…, K), broadcast, in bits.

    From 0 (equal) to 1 (disjoint).

    Source: Lin (1991), "Divergence measures based on the Shannon entropy".
    """
    bits = entropy_bits((p + q) / 2) - (entropy_bits(p) + entropy_bits(q)) / 2
    return bits.clamp(min=0)  # rounding


def feature_divergence(p: Tensor, q: Tensor, features: int) -> Tensor:
    """(…, F) `jensen_shannon` of each feature of concepts (…, F·m), broadcast; bits."""
    return jensen_shannon(p.unflatten(-1, (features, -1)), q.unflatten(-1, (features, -1)))


def tree_distribution(levels: Tensor, paths: Tensor) -> Tensor:
    """(…, N) P(node) ∝ Π_level P(branch of the node at this level), over the nodes of a tree.

    Levels that are read independently do not tell which combinations exist; this is conditioned on
    the nodes that do. Where every node is excluded, those excluded by the fewest levels remain.

    Args:
        levels: (…, D·3) concepts: none (the path has ended), left, right, for each of D levels.
        paths: (N, D) −1 for none, 0 left, 1 right.
    """
    p = levels.unflatten(-1, (paths.shape[-1], 3))
    log_p = p.clamp(min=torch.finfo(levels.dtype).tiny).log()
    total = torch.zeros(*levels.shape[:-1], len(paths), dtype=levels.dtype)
    for level, branch in enumerate((paths + 1).T):
        total = total + log_p[..., level, branch]
    return total.softmax(-1)


def frequencies(index: Tensor, count: int) -> Tensor:
    """(B, count) float64, shares of the numbers 0 … count − 1 among the draws (B, N) of each of B
    inputs.
    """
    ones = torch.ones(index.shape, dtype=torch.float64)
    counts = torch.zeros(len(index), count, dtype=torch.float64).scatter_add_(1, index, ones)
    return counts / index.shape[1]


def translate(concepts: Tensor, expressions: Tensor, features: int) -> Translation:
    """For each of the concepts (S, F·m) the nearest of the expressions' (E, F·m), the first of
    those equally near.

    Near is a small sum over features of Jensen-Shannon divergences, 0 to F bits: unlike the
    divergence of joint distributions, which is 1 bit for any two different leaves of a tree, it is
    smaller for neighbours.
    """
    rows = max(1, CELLS // expressions.numel())
    parts = [
        feature_divergence(c[:, None], expressions, features).sum(-1).min(-1)
        for c in concepts.split(rows)
    ]
    return Translation(torch.cat([p.indices for p in parts]), torch.cat([p.values for p in parts]))
