"""The distribution of information lost by discretisation, and its divergence from Geometric(½).

Source: Section *Sample diversity*.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

RESAMPLES, COVERAGE = 2000, 0.95  # of an interval


class Counts(NamedTuple):
    """How often each input loses how much: values (M,) of d in order, counts (B, M) float64."""

    values: Tensor
    counts: Tensor

    @property
    def total(self) -> Tensor:
        """(M,) counts over all inputs."""
        return self.counts.sum(0)


class InformationLoss(NamedTuple):
    """Statistics of a distribution of d = c0 − cT; fields have the leading shape (…) of the counts.

    A law with mass on d < 0 is infinitely far from Geometric(½) in KL, so there are two readings:

    - ``mean``: of d, bits, negative values included;
    - ``p``: 1 / (1 + mean of d given d ≥ 0), the maximum-likelihood parameter of a geometric
      distribution on 0, 1, 2, …;
    - ``kl``: D_KL(f ‖ Geometric(½)) in nats of the distribution f of d given d ≥ 0, plug-in;
    - ``p_clamped``, ``kl_clamped``: the same of max(d, 0), which keeps all draws;
    - ``tv_geometric``: ½ Σ_d |f(d) − Geometric(½)(d)| of all d, which is at least P(d < 0);
    - ``p_zero``, ``p_negative``: P(d = 0), P(d < 0).
    """

    mean: Tensor
    p: Tensor
    kl: Tensor
    p_clamped: Tensor
    kl_clamped: Tensor
    tv_geometric: Tensor
    p_zero: Tensor
    p_negative: Tensor


def correct_bits(logits: Tensor, x: Tensor) -> Tensor:
    """(…) how many bits of x (…, N) the decoder predicts right: 1 where its logit is above 0; of
    those that are known.
    """
    return (((logits > 0) == (x > 0.5)) & ~x.isnan()).sum(-1)


def geometric(k: Tensor) -> Tensor:
    """P(k) = ½^(k + 1) of Geometric(½) for whole numbers k ≥ 0, and 0 below."""
    return torch.where(k >= 0, 0.5 ** (k.double() + 1), 0.0)


def tabulate(d: Tensor) -> Counts:
    """Counts of whole numbers d (B, draws), from the least to the greatest without gaps, and 0."""
    d = d.long()
    low, high = min(int(d.min()), 0), max(int(d.max()), 0)
    counts = torch.zeros(len(d), high - low + 1, dtype=torch.float64)
    counts.scatter_add_(1, d - low, torch.ones_like(d, dtype=torch.float64))
    return Counts(torch.arange(low, high + 1), counts)


def information_loss(values: Tensor, counts: Tensor) -> InformationLoss:
    """Statistics of counts (…, M) of the values (M,) of d; NaN where no d ≥ 0 was counted."""
    counts = counts.double()
    n = counts.sum(-1)
    here = values >= 0
    k, kept = values[here].double(), counts[..., here]
    clamped = kept + torch.where(k == 0, counts[..., ~here].sum(-1, keepdim=True), 0.0)
    p, kl = _geometric_fit(k, kept)
    p_clamped, kl_clamped = _geometric_fit(k, clamped)
    mean = (counts * values.double()).sum(-1) / n
    theory = geometric(values)
    beyond = 1 - theory.sum()  # of values greater than any here
    difference = (counts / n[..., None] - theory).abs().sum(-1) + beyond
    return InformationLoss(
        mean=mean,
        p=p,
        kl=kl,
        p_clamped=p_clamped,
        kl_clamped=kl_clamped,
        tv_geometric=0.5 * difference,
        p_zero=counts[..., values == 0].sum(-1) / n,
        p_negative=counts[..., ~here].sum(-1) / n,
    )


def _geometric_fit(k: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """p and D_KL(f ‖ Geometric(½)) of counts (…, M) of k ≥ 0."""
    f = counts / counts.sum(-1, keepdim=True)
    mean = (f * k).sum(-1)
    return 1 / (1 + mean), torch.xlogy(f, f).sum(-1) + (mean + 1) * math.log(2)


def bootstrap_interval(values: Tensor, counts: Tensor) -> tuple[InformationLoss, InformationLoss]:
    """Percentile interval (low, high) of every statistic of all inputs, by resampling inputs.

    Takes values (M,) of d, and counts (B, M) of each input.

    Draws for one input are alike, so resampling draws would give intervals that are too narrow.
    Uses torch's global generator.
    """
    b = len(counts)
    chosen = torch.randint(b, (RESAMPLES, b))
    weight = torch.zeros(RESAMPLES, b, dtype=torch.float64)
    weight.scatter_add_(1, chosen, torch.ones(RESAMPLES, b, dtype=torch.float64))
    statistics = information_loss(values, weight @ counts.double())
    tails = torch.tensor([(1 - COVERAGE) / 2, (1 + COVERAGE) / 2], dtype=torch.float64)
    bounds = [field.nanquantile(tails) for field in statistics]
    return InformationLoss(*(b[0] for b in bounds)), InformationLoss(*(b[1] for b in bounds))
