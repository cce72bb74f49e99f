"""Exact posteriors over listed expressions, for a batch of inputs at once."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["Posterior", "log_likelihood", "posterior"]


class Posterior(NamedTuple):
    """Of B inputs over E expressions: ``log_p`` (B, E) normalised, ``log_evidence`` (B,) log P(x),
    in nats.
    """

    log_p: Tensor
    log_evidence: Tensor


def log_likelihood(log_objects: Tensor, extension: Tensor, size_principle: bool = True) -> Tensor:
    r"""log P(x | expression) where x shows one of the objects of which the expression is true.

    With the size principle (Tenenbaum 1999: examples are drawn from the concept), each of them
    alike,

    .. math:: P(x | h) = \frac{1}{|h|} \sum_{o \in h} P(x | o);

    without it, objects come from the whole world of O and are found to fit: 1/O in the place of
    1/|h|.

    Args:
        log_objects: (…, O) log P(x | o) in nats.
        extension: (E, O) bool, which objects each expression is true of.
        size_principle: as above.

    Returns:
        (…, E) float64; −inf where an expression is true of nothing.
    """
    top = log_objects.double().amax(-1, keepdim=True)
    weights = (
        log_objects.double() - top
    ).exp()  # at least e^−745: exact enough beside what it is added to
    member = extension.double()
    share = (
        member.sum(-1)
        if size_principle
        else torch.full((len(member),), float(member.shape[-1])).double()
    )
    inside = (weights @ member.T).log() + top
    # an extension far from the best object: the sum has underflowed, so it is taken again from its
    # own best
    lost = torch.isinf(inside)
    if bool(lost.any()):
        *rows, column = lost.nonzero(as_tuple=True)
        far = torch.where(
            extension[column], log_objects.double()[tuple(rows)], -torch.inf
        ).logsumexp(-1)
        inside = inside.index_put((*rows, column), far)
    return inside - share.clamp(min=1).log()


def posterior(log_prior: Tensor, log_likelihood: Tensor) -> Posterior:
    """Bayes' rule: log P(expression | x) from log P(expression) (E,) and log P(x | expression) (…,
    E).
    """
    joint = log_prior + log_likelihood
    log_evidence = joint.logsumexp(-1)
    return Posterior(joint - log_evidence[..., None], log_evidence)
