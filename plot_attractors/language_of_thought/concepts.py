"""What people see of a concept: examples of it, or objects with labels, as Pyro distributions."""

from __future__ import annotations

import torch
from pyro.distributions import Categorical, TorchDistribution
from torch import Tensor

__all__ = ["examples", "labels"]


def examples(extension: Tensor, n: int, outliers: float = 0.0) -> TorchDistribution:
    r"""n objects that show a concept, drawn from it uniformly (the size principle):

    .. math:: P(o | h) = (1 - \epsilon) [o \in h] / |h| + \epsilon / O.

    Source: Tenenbaum (1999), "Bayesian modeling of human concept learning". Objects that were not
    drawn from the concept, but shown with the label "yes", are `labels`: weak sampling. A concept
    of nothing shows only outliers: the rest of its probability is of object O, which there is not.

    Args:
        extension: (…, O) bool, of which of O objects the concept is true.
        n: examples of one concept; `log_prob` is of all of them, (…, n) numbers of objects.
        outliers: ε, the share of examples that are any object.

    Returns: a distribution of batch shape (…), event shape (n,), nats.

    >>> even = torch.tensor([False, True, False, True])
    >>> examples(even, 2).log_prob(torch.tensor([1, 3])).exp()
    tensor(0.2500)
    """
    _check("outliers", outliers, extension)
    count, size = extension.shape[-1], extension.sum(-1, keepdim=True)
    shares = torch.tensor([1 - outliers, outliers / count], dtype=torch.float64).log().float()
    inside = torch.where(extension, -size.clamp(min=1).log() + shares[0], -torch.inf)
    log_p = torch.logaddexp(inside, shares[1])
    nothing = torch.where(size == 0, shares[0], -torch.inf)
    law = _Objects(logits=torch.cat([log_p, nothing], -1)[..., None, :])
    return law.expand((*extension.shape[:-1], n)).to_event(1)


def labels(extension: Tensor, noise: float = 0.0, base_rate: float = 0.5) -> TorchDistribution:
    r"""A label, 1 or 0, for each of n objects, of which a share η are guesses:

    .. math:: P(\text{yes} | o, h) = (1 - \eta) [o \in h] + \eta \, \text{base rate}.

    With a base rate of ½ this is the likelihood e^{−b · mistakes} of Goodman et al. (2008), up to a
    constant, of b = log(2/η − 1). A sequence of trials is `labels(…).base_dist.log_prob(y)`, one
    number a trial, whose `cumsum` is of all trials so far.

    Args:
        extension: (…, n) bool, whether the concept is true of each object that was shown.
        noise: η. base_rate: of a "yes" among guesses.

    Returns: a distribution of batch shape (…), event shape (n,), nats.
    """
    _check("noise", noise, extension)
    _check("base_rate", base_rate, extension)
    wrong = torch.tensor([noise * base_rate, noise * (1 - base_rate)], dtype=torch.float64)
    # by logarithms, as rare mistakes would be rounded away; (2, 2): whether it is true, no and yes
    right, guessed = torch.log1p(-wrong), wrong.log()
    table = torch.stack([torch.stack([right[0], guessed[0]]), torch.stack([guessed[1], right[1]])])
    # not checked by torch, which refuses no objects at all; `log_prob` checks what it is given
    return _Labels(logits=table.float()[extension.long()], validate_args=False).to_event(1)


class _Labels(Categorical):
    """Of numbers of as many objects as there are, and of none else, which would be broadcast."""

    none = 0  # of the last values that are no label, or no object

    def log_prob(self, value: Tensor) -> Tensor:
        n, values = self.batch_shape[-1], self.logits.shape[-1] - self.none
        inside = value.ndim > 0 and bool(((value >= 0) & (value < values)).all())
        if not inside or value.shape[-1] != n:
            raise ValueError(
                f"{n} numbers from 0 to {values - 1} were asked for, not {value.tolist()}."
            )
        result: Tensor = super().log_prob(value)
        return result


class _Objects(_Labels):
    """The last number is of no object."""

    none = 1


def _check(name: str, value: float, extension: Tensor) -> None:
    if not 0 <= value <= 1:
        raise ValueError(f"{name} is a share, from 0 to 1, not {value}.")
    if extension.dtype != torch.bool:
        raise ValueError(f"An extension is true or false of objects, not {extension.dtype}.")
