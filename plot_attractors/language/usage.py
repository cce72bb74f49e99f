"""Which sentences and tokens are in use."""

from __future__ import annotations

import torch
from torch import Tensor

from plot_attractors.language.language import Language

__all__ = ["USAGE_INPUTS", "in_use_threshold", "usage"]

USAGE_INPUTS = 4096  # on which it is counted what is in use


def usage(language: Language, s: Tensor) -> dict[str, float]:
    """Sentences in use among the samples s (n, width), and tokens of these."""
    different, times = s.unique(dim=0, return_counts=True)
    used = different[times / len(s) > in_use_threshold(language.count)]
    tokens = language.bag(used).sum(0) if len(used) else torch.zeros(1)
    return {"sentences_in_use": float(len(used)), "tokens_in_use": float((tokens > 0).sum())}


def in_use_threshold(sentences: int) -> float:
    """The share of probability from which a sentence is in use: a tenth of an equal share."""
    return 0.1 / sentences
