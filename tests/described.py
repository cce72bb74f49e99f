"""Models that describe inputs in known sentences, for tests of analyses."""

from __future__ import annotations

import torch
from torch import Tensor

from plot_attractors.data import HierarchicalBinaryVectors
from plot_attractors.language import Language
from plot_attractors.model.protocols import Description
from plot_attractors.runs import registry

decodability = registry.load("analyses", "decodability")
bayes_optimum = decodability.bayes_optimum


class Bags:
    """A model whose states are its sentences, for each input the bag (n, width) of `sentence`."""

    def sentence(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def describe(self, x: Tensor, draws: int = 1) -> Description:
        s = self.sentence(x)[:, None].expand(-1, draws, -1)
        return Description(self.embed(s), s)

    def embed(self, s: Tensor) -> Tensor:
        return s


class Speller(Bags):
    """One token for each branch of the likeliest path of three levels, none below its end."""

    latent, language = 6, Language((2, 2, 2))

    def __init__(self, data: HierarchicalBinaryVectors) -> None:
        self.data = data

    def sentence(self, x: Tensor) -> Tensor:
        path = bayes_optimum(self.data, x, torch.arange(len(self.data.depths))).values
        return torch.stack([path == 1, path == 2], -1).flatten(-2).float()
