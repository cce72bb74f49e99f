"""How varied a model's samples of one input are: differential entropy by nearest neighbours.

Source: Section *Sample diversity*.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from scipy.special import digamma
from torch import Tensor

FLOOR = 2.0**-23  # of distances: the resolution of float32, in which predictions are computed


class Diversity(NamedTuple):
    """Entropy of the samples of each input, and its range over inputs; nats.

    - ``entropy``: (B,) float64, of each input; −∞ where its samples repeat each other;
    - ``mean``: over inputs, −∞ if it is so for any of them;
    - ``low``, ``high``: 2.5th and 97.5th percentile over inputs, −∞ where one of the two values it
      lies between is;
    - ``sigma``: `gaussian_sd` of ``mean``;
    - ``share_negative_infinity``: of the inputs, those whose entropy is −∞;
    - ``floored``: the mean with no distance below `FLOOR`, so that models with few states, whose
      samples repeat each other, can be compared;
    - ``n``: samples of each input; ``k``: which neighbour; ``dimensions``: of the density.
    """

    entropy: Tensor
    mean: float
    low: float
    high: float
    sigma: float
    share_negative_infinity: float
    floored: float
    n: int
    k: int
    dimensions: int


def _distances(samples: Tensor, k: int) -> Tensor:
    """(B, N) Euclidean distances ε_i of samples (B, N, d) from their k-th nearest neighbour."""
    n = samples.shape[1]
    if not 1 <= k < n:
        raise ValueError(
            f"k is {k} with {n} samples of each input; it must be at least 1 and less than their "
            "number."
        )
    # the way by matrix products cancels: small distances come out as 0 or as rounding
    exact: Any = {"compute_mode": "donot_use_mm_for_euclid_dist"}
    distances = (torch.cdist(points, points, **exact) for points in samples.detach().double())
    return torch.stack([d.kthvalue(k + 1).values for d in distances])  # 0 is the sample itself


def kozachenko_leonenko(epsilon: Tensor, d: int, k: int) -> Tensor:
    """(…) differential entropy, nats, of a density in d dimensions, from the distances ε (…, N) of
    N samples from their k-th nearest neighbours (the sample itself not counted).

    H = ψ(N) − ψ(k) + log V_d + (d / N) Σ_i log ε_i, with V_d = π^{d/2} / Γ(d/2 + 1) the volume of
    the unit ball; −∞ where an ε_i is 0, as for a distribution with atoms.

    Sources: Kozachenko & Leonenko (1987), "Sample estimate of the entropy of a random vector"; for
    k > 1, Kraskov, Stögbauer & Grassberger (2004), "Estimating mutual information", eq. 20.

    A greater k has less variance and more bias. Probabilities that sum to 1 fill fewer dimensions
    than d, so that their entropy is −∞, and estimates fall without end as N grows.
    """
    log_volume = 0.5 * d * math.log(math.pi) - math.lgamma(0.5 * d + 1)
    constant = float(digamma(epsilon.shape[-1]) - digamma(k)) + log_volume
    return constant + d * epsilon.log().mean(-1)


def gaussian_sd(entropy: Tensor | float, d: int) -> Tensor:
    """(…) σ = exp(H/d − ½ log 2πe) of the isotropic Gaussian in d dimensions with entropy H (…).

    H in nats; 0 for −∞.
    """
    per_dimension = torch.as_tensor(entropy, dtype=torch.float64) / d
    return torch.exp(per_dimension - 0.5 * math.log(2 * math.pi * math.e))


def diversity(samples: Tensor, k: int = 1) -> Diversity:
    """Entropy of the samples (B, N, D) of each of B inputs, and its range over inputs.

    Raises ValueError where k is not between 1 and N − 1.
    """
    _, n, d = samples.shape
    epsilon = _distances(samples, k)
    entropy = kozachenko_leonenko(epsilon, d, k)
    mean, tied = float(entropy.mean()), entropy == -math.inf
    return Diversity(
        entropy=entropy,
        mean=mean,
        low=_percentile(entropy, 0.025),
        high=_percentile(entropy, 0.975),
        sigma=float(gaussian_sd(mean, d)),
        share_negative_infinity=float(tied.double().mean()),
        floored=float(kozachenko_leonenko(epsilon.clamp(min=FLOOR), d, k).mean()),
        n=n,
        k=k,
        dimensions=d,
    )


def _percentile(values: Tensor, share: float) -> float:
    """Between the two nearest of the values in order, linearly, as ``numpy.percentile``, but
    without NaN next to −∞.
    """
    ordered = values.sort().values
    position = share * (len(ordered) - 1)
    i = int(position)
    low, high = float(ordered[i]), float(ordered[min(i + 1, len(ordered) - 1)])
    return low if i == position or low == -math.inf else low + (position - i) * (high - low)
