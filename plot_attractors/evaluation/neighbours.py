"""Correlation of features between the embeddings of sentences that share a basin."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from plot_attractors.data import Feature
from plot_attractors.evaluation.metrics.bootstrap import resample

LEAST = 20  # different sentences that a correlation needs


class Correlation(NamedTuple):
    """Pearson r with its 95 % interval, r of random pairs, r within columns, and the line of best
    fit of ẑ_n's prediction on ẑ_s's; why what is NaN is so.
    """

    r: float = math.nan
    r_low: float = math.nan
    r_high: float = math.nan
    r_random: float = math.nan
    r_within: float = math.nan
    slope: float = math.nan
    intercept: float = math.nan
    reason: str = ""


class Pairs(NamedTuple):
    """n pairs of embeddings: numbers (n,) of the sentences s, predictions (n, k) of each feature at
    ẑ_s and at ẑ_n.
    """

    start: Tensor
    original: tuple[Tensor, ...]
    other: tuple[Tensor, ...]

    @property
    def sentences(self) -> int:
        """How many different sentences s there are."""
        return len(self.start.unique())

    def correlations(self) -> list[Correlation]:
        """One for each feature, with a bootstrap over sentences."""
        enough = self.sentences >= LEAST
        times = resample(self.start[:, None]) if enough else torch.ones(1, len(self.start))
        features = zip(self.original, self.other, strict=True)
        return [correlate(a, b, self.start, times) for a, b in features]

    def arrays(self, features: Sequence[Feature], most: int) -> dict[str, np.ndarray]:
        """The first pairs: predictions (n, D) of all features side by side, the feature, outcome
        and own colour of each column, the latter two empty where there is none.
        """
        columns = [
            (f.name, outcome, f.colours[k] if f.colours else "")
            for f in features
            for k, outcome in enumerate(f.outcomes or ("",))
        ]
        names = zip(("feature", "outcome", "colour"), zip(*columns, strict=True), strict=True)
        parts = {"original": self.original, "other": self.other}
        return {name: np.array(texts) for name, texts in names} | {
            name: torch.cat(part, -1)[:most].numpy() for name, part in parts.items()
        }


def correlate(original: Tensor, other: Tensor, start: Tensor, times: Tensor) -> Correlation:
    """Pearson r over all n pairs and all k columns of predictions (n, k) at ẑ_s and at ẑ_n.

    The line is of least squares. The interval is from a bootstrap over the sentences s, `start`
    (n,), since pairs of one are not independent: `times` (resamples, n), their
    `plot_attractors.evaluation.metrics.bootstrap.resample`, says how often each pair counts.
    Columns are pooled, so r is above 0 already where the columns' means differ: `r_random` is the
    mean of r over all n! ways to pair the same n predictions anew, 0 for a single column.
    `r_within` is r of predictions less their column's mean, NaN, with the reason, where nothing is
    left; it equals r for a single column.

    Fewer than `LEAST` different sentences, or predictions that are all alike: NaN, with the reason.
    """
    n, sentences = len(original), len(start.unique())
    if sentences < LEAST:
        found = f"{n} pairs of {sentences} different sentences"
        return Correlation(reason=f"{found}: a correlation needs {LEAST} sentences")
    a, b = original.double(), other.double()
    ones = torch.ones(1, n, dtype=torch.float64)
    once = _moments(a, b, ones)
    if min(float(once.var_a), float(once.var_b)) < 1e-12:
        return Correlation(reason="the decoder predicts the same of all sentences")
    within = _moments(a - a.mean(0), b - b.mean(0), ones)
    left = min(float(within.var_a), float(within.var_b)) >= 1e-12
    of_means = ((a.mean(0) - a.mean()) * (b.mean(0) - b.mean())).mean()
    bounds = torch.tensor([0.025, 0.975], dtype=torch.float64)
    low, high = _moments(a, b, times.double()).r.nanquantile(bounds)
    slope = once.cov / once.var_a
    return Correlation(
        r=float(once.r),
        r_low=float(low),
        r_high=float(high),
        r_random=float(of_means / (once.var_a * once.var_b).sqrt()),
        r_within=float(within.r) if left else math.nan,
        slope=float(slope),
        intercept=float(b.mean() - slope * a.mean()),
        reason="" if left else "no r_within: every outcome is as probable at all embeddings",
    )


class _Moments(NamedTuple):
    """(resamples,) variances and covariance."""

    var_a: Tensor
    var_b: Tensor
    cov: Tensor

    @property
    def r(self) -> Tensor:
        return self.cov / (self.var_a * self.var_b).sqrt()


def _moments(a: Tensor, b: Tensor, times: Tensor) -> _Moments:
    """Those of a and b (n, k), pooled over columns, with weights (resamples, n)."""
    a, b = a - a.mean(), b - b.mean()
    weight = times / times.sum(-1, keepdim=True)
    mean_a, mean_b = weight @ a.mean(-1), weight @ b.mean(-1)
    return _Moments(
        weight @ a.square().mean(-1) - mean_a**2,
        weight @ b.square().mean(-1) - mean_b**2,
        weight @ (a * b).mean(-1) - mean_a * mean_b,
    )
