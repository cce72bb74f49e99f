"""Measures of the exact posterior of a grammar."""

from __future__ import annotations

import torch
from torch import Tensor

from plot_attractors.language import in_use_threshold
from plot_attractors.language_of_thought.model import GrammarModel

__all__ = ["in_use", "measure"]


@torch.no_grad()
def measure(model: GrammarModel, x: Tensor) -> dict[str, float]:
    """Mean log P(x) and mean entropy of the exact posterior of inputs x (B, bits), in nats."""
    exact = model.posterior(x)
    means = {"log_evidence": exact.log_evidence.mean(), "posterior_entropy": exact.entropy.mean()}
    return {name: float(mean) for name, mean in means.items()}


@torch.no_grad()
def in_use(model: GrammarModel, x: Tensor) -> dict[str, float]:
    """Sentences and tokens in use by the exact posterior of inputs x (B, bits)."""
    marginal = model.posterior(x).log_p.exp().mean(0)
    used = marginal > in_use_threshold(len(marginal))
    return {
        "sentences_in_use": float(used.sum()),
        "tokens_in_use": float((model.sentences[used].sum(0) > 0).sum()),
    }
