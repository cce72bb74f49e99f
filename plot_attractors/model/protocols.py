"""What models that describe inputs in sentences have in common, so that analyses of language serve
them all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

from pyro.distributions import Bernoulli
from torch import Tensor

from plot_attractors.language import Language

__all__ = ["Description", "Reconstructs", "SentenceModel", "decodes_sentences"]


class Description(NamedTuple):
    """Sentences drawn for B inputs, `draws` for each, and the states that they were read from.

    - ``z``: (B, draws, d) z_T of the attractor model, the quantised vector of a VQ-VAE, the
      listener's reading;
    - ``s``: (B, draws, width) the sentences, as the language's 0/1 vectors.
    """

    z: Tensor
    s: Tensor


@runtime_checkable
class SentenceModel(Protocol):
    """A model that says sentences of inputs."""

    language: Language
    latent: int

    def describe(self, x: Tensor, draws: int = 1) -> Description:
        """`draws` sentences for each of the inputs x (B, …), by torch's global random number
        generator.
        """

    def embed(self, s: Tensor) -> Tensor:
        """(…, d) ẑ_s of sentences s (…, width)."""


@runtime_checkable
class Reconstructs(Protocol):
    """A model that says which inputs a state stands for, before and after it is discretised."""

    @property
    def decoder(self) -> Callable[[Tensor], Bernoulli]:
        """(…, d) the states that sentences are read from → P(x | z)."""

    def reconstruct(self, x: Tensor) -> Bernoulli:
        """P(x | state) of the continuous states of the inputs x (B, bits), by a trained
        reconstruction model.
        """


def decodes_sentences(model: object) -> bool:
    """Whether a model has sentences, and decodes inputs from states."""
    return isinstance(model, SentenceModel) and isinstance(model, Reconstructs)
