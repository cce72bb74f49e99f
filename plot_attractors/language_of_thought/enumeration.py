"""Exact posteriors over listed expressions, for a batch of inputs at once."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["Posterior", "log_likelihood", "posterior"]


class Posterior(NamedTuple):
    """Of B inputs over E expressions: ``log_p`` (B, E), ``log_evidence`` (B,) log P(x), in nats."""

    log_p: Tensor
    log_evidence: Tensor


def log_likelihood(log_objects: Tensor, extension: Tensor, size_principle: bool = True) -> Tensor:
    r"""log P(x | expression) where x shows one of the objects of which the expression is true.

    With the size principle (Tenenbaum 1999), examples are drawn uniformly from the concept,

    .. math:: P(x | h) = \frac{1}{|h|} \sum_{o \in h} P(x | o);

    without it from the whole world of O objects: 1/O in the place of 1/|h|.

    Args:
        log_objects: (…, O) log P(x | o) in nats.
        extension: (E, O) bool, which objects each expression is true of.

    Returns:
        (…, E) float64; −inf where an expression is true of nothing.
    """
    top = log_objects.double().amax(-1, keepdim=True)
    weights = (log_objects.double() - top).exp()
    member = extension.double()
    size = member.sum(-1) if size_principle else torch.full_like(member[:, 0], member.shape[-1])
    inside = (weights @ member.T).log() + top
    # an extension far from the best object has underflowed: again, from its own best
    lost = torch.isinf(inside)
    if bool(lost.any()):
        *rows, column = lost.nonzero(as_tuple=True)
        own = torch.where(extension[column], log_objects.double()[tuple(rows)], -torch.inf)
        inside = inside.index_put((*rows, column), own.logsumexp(-1))
    return inside - size.clamp(min=1).log()


def posterior(log_prior: Tensor, log_likelihood: Tensor) -> Posterior:
    """Bayes' rule, from log P(expression) (E,) and log P(x | expression) (…, E)."""
    joint = log_prior + log_likelihood
    log_evidence = joint.logsumexp(-1)
    return Posterior(joint - log_evidence[..., None], log_evidence)
