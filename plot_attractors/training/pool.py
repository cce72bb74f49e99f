"""Inputs with candidates of their posteriors that an E-step draws from."""

from __future__ import annotations

from collections.abc import Callable

import torch
from pyro.distributions import Normal
from torch import Tensor

from plot_attractors.gflownet import ReplayBuffer
from plot_attractors.model.attractor import AttractorModel, Encoding
from plot_attractors.training.sentences import Sentences

__all__ = ["PERTURBED_SD", "Pool"]

PERTURBED_SD = 0.3, 0.6  # least and greatest sd of perturbed starts
RENEW_EVERY = 16  # updates


class Pool:
    """Inputs with candidates s ~ P(s | x), which are kept and used several times, and renewed by
    and by. A population of candidates costs as much as a few single draws.

    Args:
        model, inputs: the model, and n → n training inputs.
        sentences: where draws of P(s | x) come from.
        perturbed_sd: least and greatest sd of perturbed starts.
    """

    def __init__(
        self,
        model: AttractorModel,
        inputs: Callable[[int], Tensor],
        sentences: Sentences,
        perturbed_sd: tuple[float, float] = PERTURBED_SD,
    ) -> None:
        self.model, self.inputs, self.sentences = model, inputs, sentences
        self.perturbed_sd = perturbed_sd
        self.kept = ReplayBuffer(sentences.supply[0], weights=None, device=model.device)

    def fill(self) -> None:
        """All anew, since the reward has changed."""
        self.kept.clear()
        self.add(self.sentences.supply[0])

    def renew(self, position: int) -> None:
        """Some anew, now and then, in the place of the oldest."""
        if position % RENEW_EVERY == 0:
            self.add(self.sentences.supply[1])

    @torch.no_grad()
    def add(self, n: int) -> None:
        """n inputs more."""
        e = self.model.encode(self.inputs(n))
        q = e.distribution
        self.kept.add(loc=q.loc, scale=q.scale, z0=e.z0, s=self.sentences.candidates(q))

    def candidates(self, n: int) -> tuple[Encoding, Tensor]:
        """n inputs with sentences (n, C, width): one of them at random is a draw of P(s | x)."""
        drawn = self.kept.draw(n)
        return Encoding(Normal(drawn["loc"], drawn["scale"]), drawn["z0"]), drawn["s"]
