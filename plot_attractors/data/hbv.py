"""Hierarchical binary vectors: noisy exemplars of the nodes of a binary tree of prototypes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from plot_attractors.data.batch import Batch, Feature, Members, split_rows
from plot_attractors.data.checks import as_bits

__all__ = ["HierarchicalBinaryVectors"]

FIRST_HELD_OUT_GENERATION = 3  # of which one prototype is held out, as of every later one


class HierarchicalBinaryVectors(Members):
    r"""Exemplars of the nodes of a binary tree, drawn on the fly.

    The root is all 1s; the two children of a node inherit the left and the right half of its 1s,
    down to ``depth``. Every node but the root is a class, numbered generation by generation from
    left to right. Bits of an exemplar of a node at depth d' are independent, with Eq.
    *bit_probability*:

    .. math:: P(\text{bit}_k = 1) = \frac{2^{1 + d_k}}{1 + 2^{1 + d'}},

    where d_k is the depth of the nearest node on the way from this one (included) up to the root
    whose prototype has a 1 at k. Source: section and appendix "Hierarchical binary vectors (HBV)".

    With ``hold_out``, one prototype of each generation from the third on is held out with all its
    descendants; none is chosen below another. ``hold_out_seed`` chooses them, without touching the
    global random number generator.

    Attributes, for N = 2^(depth+1) − 2 classes:

    - ``depths``: (N,) int64, 1 to ``depth``; ``parents``: (N,) int64, −1 for the root;
    - ``prototypes``: (N, bits) float32, 0 or 1; ``probabilities``: (N, bits) float32;
    - ``paths``: (N, depth) int64, the branch of each generation: 0 left, 1 right, −1 none;
    - ``class_names``: the path of each class in letters, such as ``"LRR"``;
    - ``held_out_prototypes``: the chosen nodes, one a generation; ``held_out_classes``: these and
      their descendants; ``train_classes``: all others (int64 each, in increasing order);
    - ``features``: ``"branch1"``, …, each "none", "left" or "right", in the order of the path.

    Raises ValueError where ``depth`` is below 1, or ``bits`` is no positive multiple of 2^depth.

    >>> data = HierarchicalBinaryVectors(depth=2, bits=4)
    >>> data.class_names
    ('L', 'R', 'LL', 'LR', 'RL', 'RR')
    >>> data.prototypes[3].tolist(), data.paths[1].tolist()
    ([0.0, 1.0, 0.0, 0.0], [1, -1])
    >>> data.batch(5).x.shape
    torch.Size([5, 4])
    """

    def __init__(
        self, depth: int = 6, bits: int = 128, hold_out: bool = True, hold_out_seed: int = 0
    ) -> None:
        if depth < 1 or bits < 1 or bits % 2**depth:
            raise ValueError(f"bits must be a multiple of 2^depth, not {bits} at depth {depth}")
        self.depth, self.bits, self.input_shape = depth, bits, (bits,)
        self.pairs = depth  # left and right of each generation
        generations = range(1, depth + 1)
        self.depths = torch.cat([torch.full((2**d,), d) for d in generations])
        # place of a node in its generation; shifted right by j, that of its ancestor j levels up
        places = torch.cat([torch.arange(2**d) for d in generations])
        self.parents = torch.where(self.depths > 1, 2 ** (self.depths - 1) - 2 + places // 2, -1)

        # the node of generation d whose prototype has a 1 at bit k is at place k // (bits / 2^d)
        bit = torch.arange(bits)
        shared = torch.zeros(len(places), bits, dtype=torch.int64)  # d_k
        paths = torch.full((len(places), depth), -1)
        for d in generations:
            ancestor = torch.where(self.depths >= d, places >> (self.depths - d).clamp(min=0), -1)
            shared += ancestor[:, None] == bit // (bits >> d)
            paths[:, d - 1] = torch.where(ancestor >= 0, ancestor & 1, -1)
        self.paths = paths
        self.prototypes = (shared == self.depths[:, None]).float()
        self.probabilities = 2.0 ** (1 + shared) / (1 + 2.0 ** (1 + self.depths[:, None]))
        self.class_names = tuple(
            "".join("LR"[b] for b in path if b >= 0) for path in paths.tolist()
        )

        held_out = torch.zeros(len(places), dtype=torch.bool)
        chosen: list[int] = []
        if hold_out:
            generator = torch.Generator().manual_seed(hold_out_seed)
            for d in range(FIRST_HELD_OUT_GENERATION, depth + 1):
                candidates = torch.nonzero((self.depths == d) & ~held_out).flatten()
                node = candidates[torch.randint(len(candidates), (), generator=generator)]
                chosen.append(int(node))
                below = self.depths >= d
                held_out |= below & (places >> (self.depths - d).clamp(min=0) == places[node])
        self.held_out_prototypes = torch.tensor(chosen, dtype=torch.int64)
        self.members = split_rows(held_out)
        self.train_classes = self.members["train"]
        self.held_out_classes = held_out.nonzero().flatten()
        branches = ("none", "left", "right")
        self.features = tuple(Feature(f"branch{d}", branches) for d in generations)
        self.ordered = True  # a branch is taken after those above it

    def exemplars(self, classes: Tensor) -> Tensor:
        """(…, bits) float32, one exemplar of each of the classes (…)."""
        return torch.bernoulli(self.probabilities[classes])

    def as_inputs(self, values: Any) -> Tensor:
        """(n, bits) float32 of rows of 0 and 1 (n, bits)."""
        return as_bits(values, self.bits)

    def at(self, y: Tensor) -> Batch:
        """An exemplar of each of these classes (n,)."""
        return Batch(x=self.exemplars(y), y=y, labels=self.paths[y])

    def feature_values(self, batch: Batch) -> Tensor:
        """(n, depth) float32: 0 where the path has ended, 1 left, 2 right."""
        return (batch.labels + 1).float()
