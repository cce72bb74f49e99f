"""The exact flow of a model whose posterior factors over latent axes."""

from __future__ import annotations

import torch
from pyro.distributions import Normal

from plot_attractors.gflownet.flows import Correction, FactoredFlow
from plot_attractors.language.factored import FactoredSentences
from plot_attractors.model.attractor import AttractorModel

__all__ = ["factored_flow"]


@torch.no_grad()
def factored_flow(
    model: AttractorModel, q: Normal, widening: float = 0.0, correction: Correction | None = None
) -> FactoredFlow:
    """`FactoredFlow` of a model, for inputs with P(z0 | x) = q (B, d).

    Raises ValueError where the posterior does not factor.
    """
    parts, posterior = model.factors(), model.posterior(q)
    if parts is None or not isinstance(posterior, FactoredSentences):
        raise ValueError(
            "the posterior does not factor: set token_axes, and no decodability and no reward_floor"
        )
    embeddings = [(axis, p.loc[:, 0]) for axis, p in model.along_axes(parts)]
    empty = model.embed(torch.zeros(model.language.width, device=model.device))
    steps, epsilon = model.steps, model.epsilon
    return FactoredFlow(posterior, embeddings, empty, epsilon, steps, widening, correction)
