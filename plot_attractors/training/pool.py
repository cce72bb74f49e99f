"""Inputs and sentences of their posteriors that an E-step draws from."""

from __future__ import annotations

from collections.abc import Callable

import torch
from pyro.distributions import Normal
from torch import Tensor

from plot_attractors.gflownet import ReplayBuffer
from plot_attractors.model.attractor import AttractorModel, Encoding
from plot_attractors.training.sentences import SampledSentences, Sentences
from plot_attractors.training.stay import OFF_SENTENCE_STATES, OffSentence, off_sentence

__all__ = ["PERTURBED_SD", "Pool", "SentencePool"]

PERTURBED_SD = 0.3, 0.6  # least and greatest sd of perturbed starts
PAIRS = 8192  # kept
RENEW_EVERY = 16  # updates
NEW = 24  # pairs for an update
OFF_USES = 16  # and a state off all sentences: the search for the nearest sentence is slow


class Pool:
    """Pairs (x, s) with s ~ P(s | x), and states off all sentences, new in every update.

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
    def pairs(self, n: int) -> tuple[Encoding, Tensor]:
        """n inputs and a sentence each."""
        e = self.model.encode(self.inputs(n))
        return e, self.sentences.draw(e.distribution)

    def off(self, e: Encoding) -> OffSentence | None:
        """States off all sentences, with inputs e; None where there are none."""
        return off_sentence(self.model, e, self.perturbed_sd, self.sentences)


class SentencePool(Pool):
    """A pool of sampled sentences, which are kept and used several times, and renewed by and by.

    A population of candidates costs as much as a few single draws, and all of its sentences are
    draws of P(s | x): a pair costs 1/K of it, less if it is used several times.
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
        pools = (ReplayBuffer(PAIRS, weights=None, device=model.device) for _ in range(2))
        self.of_pairs, self.of_states = pools
        self.state = {"pool": self.of_pairs, "off_pool": self.of_states}

    def fill(self) -> None:
        self.of_pairs.clear()
        self.of_states.clear()
        self.add(PAIRS)

    def renew(self, position: int) -> None:
        if position % RENEW_EVERY == 0:
            self.add(RENEW_EVERY * NEW)

    @torch.no_grad()
    def add(self, n: int) -> None:
        """About n pairs more, in the place of the oldest."""
        e = self.model.encode(self.inputs(max(1, n // self.sentences.config.candidates)))
        s = self.sentences.population(e.distribution).s
        e_each = e[torch.arange(len(e.z0)).repeat(len(s))]
        q = e_each.distribution
        self.of_pairs.add(loc=q.loc, scale=q.scale, z0=e_each.z0, s=s.flatten(0, 1))
        few = OFF_SENTENCE_STATES * RENEW_EVERY // OFF_USES
        if states := off_sentence(self.model, e, self.perturbed_sd, self.sentences, few):
            self.of_states.add(s=states.z, **states._asdict())

    def pairs(self, n: int) -> tuple[Encoding, Tensor]:
        drawn = self.of_pairs.draw(n)
        return Encoding(Normal(drawn["loc"], drawn["scale"]), drawn["z0"]), drawn["s"]

    def off(self, _: Encoding) -> OffSentence | None:
        if not self.of_states:
            return None
        drawn = self.of_states.draw(OFF_SENTENCE_STATES)
        return OffSentence(drawn["z"], drawn["z_hat"], drawn["z0"])
