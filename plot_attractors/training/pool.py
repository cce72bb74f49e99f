"""Inputs with candidates of their posteriors that an E-step draws from."""

from __future__ import annotations

from collections.abc import Callable

import torch
from pyro.distributions import Normal
from torch import Tensor

from plot_attractors.gflownet import ReplayBuffer
from plot_attractors.model.attractor import AttractorModel, Encoding
from plot_attractors.training.sentences import ExactSentences, SampledSentences, Sentences

__all__ = ["PERTURBED_SD", "Pool", "SentencePool"]

PERTURBED_SD = 0.3, 0.6  # least and greatest sd of perturbed starts
PAIRS = 32_768  # of an input and a candidate, kept
CANDIDATES = 16  # of an input, where they are exact draws
RENEW_EVERY = 16  # updates
NEW = 96, 24  # pairs for an update, of a policy and annealed


class Pool:
    """Inputs with candidates s ~ P(s | x), new in every update.

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
        self.state = dict[str, ReplayBuffer]()  # what must survive a stop

    def fill(self) -> None:
        """All anew, since the reward has changed."""

    def renew(self, position: int) -> None:
        """Some anew, now and then."""

    @torch.no_grad()
    def candidates(self, n: int) -> tuple[Encoding, Tensor]:
        """n inputs with (n, C, width) sentences, of which any is a draw of P(s | x)."""
        e = self.model.encode(self.inputs(n))
        assert isinstance(self.sentences, ExactSentences)
        return e, self.sentences.draws(e.distribution, CANDIDATES).transpose(0, 1)


class SentencePool(Pool):
    """A pool of sampled sentences, which are kept and used several times, and renewed by and by.

    A population of candidates costs as much as a few single draws, and all of its sentences are
    draws of P(s | x).
    """

    sentences: SampledSentences

    def __init__(
        self,
        model: AttractorModel,
        inputs: Callable[[int], Tensor],
        sentences: SampledSentences,
        perturbed_sd: tuple[float, float] = PERTURBED_SD,
    ) -> None:
        super().__init__(model, inputs, sentences, perturbed_sd)
        inputs_kept = max(1, PAIRS // sentences.config.candidates)
        self.of_inputs = ReplayBuffer(inputs_kept, weights=None, device=model.device)
        self.state = {"pool": self.of_inputs}

    def fill(self) -> None:
        self.of_inputs.clear()
        self.add(PAIRS)

    def renew(self, position: int) -> None:
        if position % RENEW_EVERY == 0:
            self.add(RENEW_EVERY * NEW[self.sentences.config.temperatures > 1])

    @torch.no_grad()
    def add(self, n: int) -> None:
        """About n pairs more, in the place of the oldest."""
        e = self.model.encode(self.inputs(max(1, n // self.sentences.config.candidates)))
        s = self.sentences.population(e.distribution).s.transpose(0, 1)
        q = e.distribution
        self.of_inputs.add(loc=q.loc, scale=q.scale, z0=e.z0, s=s)

    def candidates(self, n: int) -> tuple[Encoding, Tensor]:
        drawn = self.of_inputs.draw(n)
        s = drawn["s"]
        order = torch.rand(s.shape[:2], device=s.device).argsort(1)  # the first is any of them
        s = s.gather(1, order[..., None].expand_as(s))
        return Encoding(Normal(drawn["loc"], drawn["scale"]), drawn["z0"]), s
