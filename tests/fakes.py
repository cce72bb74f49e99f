"""Inputs and models of a known kind, for tests of analyses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from plot_attractors.data import Batch, Feature, HierarchicalBinaryVectors
from plot_attractors.language import Language
from plot_attractors.model.protocols import Description
from plot_attractors.runs import registry


class Things:
    """Inputs that a function of their number draws; their features are the first columns."""

    label_names, ordered = (), False

    def __init__(
        self,
        features: tuple[Feature, ...],
        draw: Callable[[int], Tensor],
        splits: tuple[str, ...] = ("train",),
    ) -> None:
        self.features, self.draw, self.splits = features, draw, splits
        self.bits = draw(1).shape[1]

    def batch(self, n: int, split: str = "train") -> Batch:
        return Batch(self.draw(n), torch.arange(n), torch.arange(n)[:, None])

    def feature_values(self, batch: Batch) -> Tensor:
        return batch.x[:, : len(self.features)]


class Bags:
    """A model whose states are its sentences, for each input that of a function (n, width)."""

    def __init__(self, language: Language, sentence: Callable[[Tensor], Tensor]) -> None:
        self.language, self.sentence, self.latent = language, sentence, language.width

    def describe(self, x: Tensor, draws: int = 1) -> Description:
        s = self.sentence(x)[:, None].expand(-1, draws, -1)
        return Description(self.embed(s), s)

    def embed(self, s: Tensor) -> Tensor:
        return s


def speller(data: HierarchicalBinaryVectors) -> Bags:
    """One token for each branch of the likeliest path of three levels, none below its end."""
    decodability: Any = registry.load("analyses", "decodability")

    def sentence(x: Tensor) -> Tensor:
        path = decodability.bayes_optimum(data, x, torch.arange(len(data.depths))).values
        return torch.stack([path == 1, path == 2], -1).flatten(-2).float()

    return Bags(Language((2, 2, 2)), sentence)
