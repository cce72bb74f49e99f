"""0/1 inputs some of whose bits are missing: NaN, which no likelihood counts."""

from __future__ import annotations

from pyro.distributions import Bernoulli
from torch import Tensor

__all__ = ["KnownBits", "filled", "number_inputs"]


class KnownBits(Bernoulli):
    """Independent bits, of which those that are missing (NaN) have probability 1.

    Example:
        >>> import torch
        >>> KnownBits(torch.tensor([0.25, 0.25])).log_prob(torch.tensor([1.0, torch.nan])).exp()
        tensor([0.2500, 1.0000])
    """

    def log_prob(self, x: Tensor) -> Tensor:
        """(…) log P(x) of each bit, nats."""
        log_p: Tensor = super().log_prob(x.nan_to_num())
        return log_p.masked_fill(x.isnan(), 0.0)


def filled(x: Tensor) -> Tensor:
    """Inputs x with ½ where a bit is missing, as networks see them."""
    return x.nan_to_num(0.5)


def number_inputs(x: Tensor) -> Tensor:
    """(n,) a number for each of the inputs x (n, …): the same where they are alike."""
    numbers: Tensor = filled(x).flatten(1).unique(dim=0, return_inverse=True)[1]
    return numbers
