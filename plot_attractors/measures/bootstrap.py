"""Means over inputs with bootstrap intervals, where some inputs are copies of each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from plot_attractors.data import Feature
from plot_attractors.model.bits import number_inputs

RESAMPLES = 1000


class Estimate(NamedTuple):
    """Means over inputs and their 95 % bootstrap intervals, each (K,)."""

    value: Tensor
    low: Tensor
    high: Tensor


def resample(x: Tensor) -> Tensor:
    """(RESAMPLES, n) float64: how often each input of x (n, …) counts in bootstrap samples.

    Distinct inputs are resampled: copies of an input, as small tables give, add no certainty.
    Uses torch's global random number generator.
    """
    group = number_inputs(x)
    groups = int(group.max()) + 1
    chosen = torch.randint(groups, (RESAMPLES, groups))
    times = torch.zeros(RESAMPLES, groups, dtype=torch.float64)
    times.scatter_add_(1, chosen, torch.ones(RESAMPLES, groups, dtype=torch.float64))
    return times[:, group]


def bootstrap(scores: Tensor, times: Tensor) -> Estimate:
    """Means of scores (n, K) over n inputs, and percentile intervals from times (resamples, n).

    `times` is of `resample`. Scores of NaN are left out; a column of nothing else has mean NaN.
    """
    known = ~scores.isnan()
    total, count = times @ scores.double().nan_to_num(), times @ known.double()
    low, high = (total / count).nanquantile(torch.tensor([0.025, 0.975], dtype=torch.float64), 0)
    return Estimate(scores.double().nanmean(0), low, high)


def root(estimate: Estimate, features: Sequence[Feature]) -> Estimate:
    """Estimates (F,) of `Prediction.score`, with the root of mean squared errors (RMSE)."""
    categorical = torch.tensor([f.categorical for f in features])
    return Estimate(*(torch.where(categorical, part, part.sqrt()) for part in estimate))
