"""What sentences and expressions tell a listener, so that they compare without a common alphabet.

A *concept* is what a sentence tells of the features of a tree's nodes; an answer is a mixture of
concepts.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from plot_attractors.data import Batch, HierarchicalBinaryVectors
from plot_attractors.language_of_thought.model import GrammarModel
from plot_attractors.measures.divergence import (
    feature_divergence,
    frequencies,
    translate,
    tree_distribution,
)

__all__ = [
    "Baseline", "Bayes", "Concepts", "Translated", "all_classes", "answer",
    "listen", "mixture", "node_features", "read", "translate_sentences",
]  # fmt: skip

ROWS = 1024  # inputs whose posterior is held at once


class Concepts(NamedTuple):
    """What E sentences tell: ``levels`` (E, D·3) of each level alone, ``nodes`` (E, N) of nodes."""

    levels: Tensor
    nodes: Tensor


class Baseline(NamedTuple):
    """A grammar, and of its E expressions:

    - ``names``: the branches from the root, · where open;
    - ``concepts``: what a listener concludes who has heard it;
    - ``heard``: (E,) of how many inputs the listener has heard it, on average.
    """

    name: str
    model: GrammarModel
    names: list[str]
    concepts: Concepts
    heard: Tensor

    def posterior(self, x: Tensor) -> Tensor:
        """(n, E) P(expression | x) of inputs x (n, bits), float64."""
        p: Tensor = self.model.posterior(x).log_p.exp()
        return p


class Bayes(NamedTuple):
    """A grammar's answers for n inputs.

    - ``distribution``: (n, E) exact; ``drawn``: (n, E) shares of draws.
    """

    distribution: Tensor
    drawn: Tensor


class Translated(NamedTuple):
    """S sentences in a grammar's expressions, each (S,).

    ``expression`` is the nearest one, ``residual`` its distance, Σ_level JS, bits; ``scrambled`` is
    that of sentences with permuted levels, ``dealt`` that to another sentence's translation.
    """

    expression: Tensor
    residual: Tensor
    scrambled: Tensor
    dealt: Tensor


def all_classes(data: HierarchicalBinaryVectors, known: Batch) -> Batch:
    """As many inputs as `known`, most of them from there, with every class equally likely."""
    n = round(len(known.y) * len(data.held_out_classes) / len(data.depths))
    new = data.batch(max(1, n), "held_out")
    parts = [torch.cat([a[len(new.y) :], b]) for a, b in zip(known, new, strict=True)]
    return Batch(*parts)


def listen(
    name: str, model: GrammarModel, heard: Batch, data: HierarchicalBinaryVectors
) -> Baseline:
    """A grammar over the levels of a tree, and what its expressions tell a listener.

    The listener has heard expressions of the inputs `heard`.
    """
    # the grammar's objects are the nodes of the tree, or the last of them, its leaves
    true = torch.zeros(len(model.extension), len(data.depths), dtype=torch.float64)
    true[:, -model.extension.shape[-1] :] = model.extension.double()
    count = true.sum(-1, keepdim=True)
    left, right = (true @ (data.paths == side).double() == count for side in (0, 1))
    branches = torch.where(left == right, -1, right.long())  # both where it is true of nothing
    names = ["".join("·LR"[branch + 1] for branch in row) for row in branches.tolist()]
    baseline = Baseline(name, model, names, Concepts(true, true), count[:, 0])
    classes = one_hot(heard.y, len(data.depths)).double()
    times = torch.zeros_like(true)
    for x, seen in zip(heard.x.split(ROWS), classes.split(ROWS), strict=True):
        times += baseline.posterior(x).T @ seen
    weight = times.sum(-1)
    levels = times / weight.clamp(min=1e-300)[:, None] @ node_features(data)
    return baseline._replace(concepts=read(levels, data), heard=weight)


def node_features(data: HierarchicalBinaryVectors) -> Tensor:
    """(N, D·3) float64, the features of every node as certain predictions."""
    return one_hot(data.paths + 1, 3).flatten(1).double()


def read(levels: Tensor, data: HierarchicalBinaryVectors) -> Concepts:
    """Concepts of which each level is known on its own."""
    return Concepts(levels, tree_distribution(levels, data.paths))


def answer(baseline: Baseline, x: Tensor, draws: int) -> Bayes:
    """The grammar's exact answers for inputs x (n, bits), and draws by torch's global generator."""
    exact = torch.cat([baseline.posterior(part) for part in x.split(ROWS)])
    index = exact.multinomial(draws, replacement=True)
    return Bayes(exact, frequencies(index, exact.shape[1]))


def mixture(table: Tensor, index: Tensor) -> Tensor:
    """(n, K) means over draws of the rows (S, K) that they are."""
    total = torch.zeros(len(index), table.shape[1], dtype=table.dtype)
    for draw in index.T:
        total += table[draw]
    return total / index.shape[1]


def translate_sentences(learned: Concepts, baseline: Baseline, depth: int) -> Translated:
    """Every sentence to the nearest expression that has been heard, and the two nulls."""
    known = (baseline.heard >= 1).nonzero()[:, 0]
    expressions = baseline.concepts.levels[known]
    levels = learned.levels.unflatten(-1, (depth, 3))
    order = torch.rand(len(levels), depth).argsort(0)  # every level's own
    scrambled = levels.gather(0, order[..., None].expand(-1, -1, 3)).flatten(1)
    translation = translate(learned.levels, expressions, depth)
    dealt = expressions[translation.expression[torch.randperm(len(levels))]]
    return Translated(
        known[translation.expression],
        translation.residual,
        translate(scrambled, expressions, depth).residual,
        feature_divergence(learned.levels, dealt, depth).sum(-1),
    )
