"""Attractor models that are small and fast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from pyro.distributions import Normal
from torch import Tensor, nn

from plot_attractors.language import Language
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.model.memory import Bridge, Memory
from plot_attractors.model.networks import (
    Discretizer,
    Dynamics,
    InputEncoder,
    SentenceEncoder,
    input_decoder,
)


class KnownEncoder(nn.Module):
    """P(z0 | x) = N(x, sd²): inputs are their mean states."""

    def __init__(self, sd: float | Sequence[float]) -> None:
        super().__init__()
        self.sd = torch.tensor(sd)

    def forward(self, x: Tensor) -> Normal:
        return Normal(x, self.sd.expand_as(x))


def build_model(
    latent: int = 3,
    axes: bool = True,
    sd: float | Sequence[float] | None = None,
    shape: tuple[int, ...] | None = None,
    kind: type[AttractorModel] = AttractorModel,
    steps: int = 6,
    language: Language | None = None,
    amplitude: float = 0.0,
    epsilon: float = 0.05,
    **options: Any,
) -> AttractorModel:
    """A model of six tokens, at most two in a sentence, with a `KnownEncoder` where sd is given,
    and memory of an amplitude.
    """
    shape = shape or ((8,) if sd is None else (latent,))
    language = language or Language((1,) * 6, min_length=0, max_length=2)
    memory = Memory(latent, amplitude, epsilon)
    forward = Dynamics(latent, steps, memory=memory.size, units=16)
    sentence_encoder = SentenceEncoder(language, latent, axes)
    return kind(
        language,
        encoder=InputEncoder(shape, latent, 16) if sd is None else KnownEncoder(sd),
        decoder=input_decoder(latent, shape, 16),
        sentence_encoder=sentence_encoder,
        forward_dynamics=forward,
        backward_dynamics=Bridge(latent, steps, epsilon, forward),
        discretizer=Discretizer(language, latent, units=16),
        steps=steps,
        epsilon=epsilon,
        memory=memory,
        **options,
    )
