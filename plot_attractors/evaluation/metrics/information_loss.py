"""The distribution of information lost by discretisation, and its divergence from Geometric(½).

Source: Section *Sample diversity*.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy.stats import binom, geom
from torch import Tensor


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

    - ``mean``: of d, bits, negative values included;
    - ``p``: 1 / (1 + mean of d given d ≥ 0), the maximum-likelihood parameter of a geometric
      distribution on 0, 1, 2, …;
    - ``kl``: D_KL(f ‖ Geometric(½)) in nats of the distribution f of d given d ≥ 0, plug-in;
      ``fit`` + ``shift`` to rounding;
    - ``fit``: D_KL(f ‖ Geometric(p)); ``shift``: D_KL(Geometric(p) ‖ Geometric(½));
    - ``p_zero``, ``p_negative``: P(d = 0), P(d < 0);
    - ``bias``: (K − 1) / 2n for K values of d ≥ 0 that occur among n, the mean error of the plug-in
      ``kl`` were all draws independent; draws for one input are not, so the error is greater.
    """

    mean: Tensor
    p: Tensor
    kl: Tensor
    fit: Tensor
    shift: Tensor
    p_zero: Tensor
    p_negative: Tensor
    bias: Tensor


def correct_bits(logits: Tensor, x: Tensor) -> Tensor:
    """(…) how many bits of x (…, N) the decoder predicts right: 1 where its logit is above 0."""
    return ((logits > 0) == (x > 0.5)).sum(-1)


def geometric(k: Tensor, p: Tensor | float = 0.5) -> Tensor:
    """P(k) = p (1 − p)^k for whole numbers k ≥ 0, and 0 below."""
    p = torch.as_tensor(p, dtype=torch.float64)
    k = k.double()
    return torch.where(k >= 0, p * (1 - p) ** k.clamp(min=0), 0.0)


def geometric_kl(p: Tensor, q: Tensor | float = 0.5) -> Tensor:
    """(…) D_KL(Geometric(p) ‖ Geometric(q)), nats, of p (…):

    log(p/q) + (1 − p)/p · log((1 − p)/(1 − q)).
    """
    p, q = torch.as_tensor(p, dtype=torch.float64), torch.as_tensor(q, dtype=torch.float64)
    return torch.log(p / q) + (torch.xlogy(1 - p, 1 - p) - (1 - p) * torch.log(1 - q)) / p


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
    total = kept.sum(-1)
    f = kept / total[..., None]
    mean = (f * k).sum(-1)
    p = 1 / (1 + mean)
    entropy = -torch.xlogy(f, f).sum(-1)
    return InformationLoss(
        mean=(counts * values.double()).sum(-1) / n,
        p=p,
        kl=-entropy + (mean + 1) * math.log(2),
        fit=-entropy - (torch.log(p) + torch.xlogy(mean, 1 - p)),
        shift=geometric_kl(p),
        p_zero=counts[..., values == 0].sum(-1) / n,
        p_negative=counts[..., ~here].sum(-1) / n,
        bias=((kept > 0).sum(-1) - 1) / (2 * total),
    )


def bootstrap_interval(
    values: Tensor, counts: Tensor, resamples: int = 2000, level: float = 0.95
) -> tuple[InformationLoss, InformationLoss]:
    """Percentile interval (low, high) of every statistic of all inputs, by resampling inputs.

    Takes values (M,) of d, and counts (B, M) of each input.

    Draws for one input are alike, so resampling draws would give intervals that are too narrow.
    Uses torch's global generator.
    """
    b = len(counts)
    chosen = torch.randint(b, (resamples, b))
    weight = torch.zeros(resamples, b, dtype=torch.float64)
    weight.scatter_add_(1, chosen, torch.ones(resamples, b, dtype=torch.float64))
    statistics = information_loss(values, weight @ counts.double())
    tails = torch.tensor([(1 - level) / 2, (1 + level) / 2], dtype=torch.float64)
    bounds = [field.nanquantile(tails) for field in statistics]
    return InformationLoss(*(b[0] for b in bounds)), InformationLoss(*(b[1] for b in bounds))


def ecdf_difference(
    d: NDArray[np.integer], shown: int = 12, level: float = 0.94, resamples: int = 1000
) -> pd.DataFrame:
    """The distribution function of independent losses minus that of Geometric(½), given d ≥ 0.

    Columns d = 0 … shown, difference, low, high: a sample from Geometric(½) of the same size stays
    between low and high at all of these d at once with probability `level`, by simulation with a
    fixed seed. No rows where no d ≥ 0.

    Source: Säilynoja, Bürkner & Vehtari (2022), "Graphical test for discrete uniformity and its
    applications in goodness-of-fit evaluation and multiple sample comparison".
    """
    d = d[d >= 0]
    if not (n := d.size):
        return pd.DataFrame(columns=["d", "difference", "low", "high"])
    k = np.arange(shown + 1)
    theory = geom(0.5, loc=-1).cdf(k)
    simulated = geom(0.5, loc=-1).rvs((resamples, n), random_state=0)
    below = np.stack([(simulated <= value).sum(1) for value in k], 1)
    tails = np.minimum(binom.cdf(below, n, theory), binom.sf(below - 1, n, theory)).min(1)
    tail = np.quantile(tails, 1 - level)  # of a single d, so that all d together have the level
    return pd.DataFrame(
        {
            "d": k,
            "difference": (d.ravel()[:, None] <= k).mean(0) - theory,
            "low": binom.ppf(tail, n, theory) / n - theory,
            "high": binom.isf(tail, n, theory) / n - theory,
        }
    )
