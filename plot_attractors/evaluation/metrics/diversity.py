"""How varied a model's samples of one input are: differential entropy by nearest neighbours.

Source: Section *Sample diversity*.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from scipy.special import digamma
from torch import Tensor

PAIRS = 2**19  # distances held at a time, 4 MiB
GREATEST = 1e150  # squares of differences of greater numbers overflow
SUM_TOLERANCE = 1e-5  # of a block of float32 probabilities; rounding leaves about 1e-7


class Diversity(NamedTuple):
    """Entropy of the samples of each input, and its range over inputs; nats.

    - ``entropy``: (B,) float64, of each input; −∞ where its samples repeat each other;
    - ``mean``: over inputs, −∞ if it is so for any of them; ``mean_finite``: over the other inputs
      only, −∞ if there are none;
    - ``low``, ``high``: 2.5th and 97.5th percentile over inputs, −∞ where one of the two values it
      lies between is;
    - ``sigma``, ``sigma_low``, ``sigma_high``: `gaussian_sd` of ``mean``, ``low`` and ``high``;
    - ``share_negative_infinity``: of the inputs, those whose entropy is −∞;
    - ``n``: samples of each input; ``k``: which neighbour; ``dimensions``: of the density.
    """

    entropy: Tensor
    mean: float
    low: float
    high: float
    sigma: float
    sigma_low: float
    sigma_high: float
    mean_finite: float
    share_negative_infinity: float
    n: int
    k: int
    dimensions: int


def kozachenko_leonenko(samples: Tensor, k: int = 1, sizes: Sequence[int] | None = None) -> Tensor:
    """(…) differential entropy, nats, of the density that samples (…, N, d) are from, in float64.

    H = ψ(N) − ψ(k) + log V_d + (d / N) Σ_i log ε_i, with ε_i the Euclidean distance of sample i
    from its k-th nearest neighbour (itself not counted) and V_d = π^{d/2} / Γ(d/2 + 1) the volume
    of the unit ball; −∞ where an ε_i is 0, as for a distribution with atoms. Distances below about
    1e-160 count as 0.

    Sources: Kozachenko & Leonenko (1987), "Sample estimate of the entropy of a random vector"; for
    k > 1, Kraskov, Stögbauer & Grassberger (2004), "Estimating mutual information", eq. 20.

    Args:
        samples: (…, N, d) real numbers.
        k: which neighbour; a greater one has less variance and more bias.
        sizes: sizes of the blocks of columns that sum to 1. Such a block of m columns has m − 1
            dimensions, so that the entropy in all columns is −∞ and its estimates fall without end
            as N grows. H is then that of coordinates on the simplices that keep Euclidean
            distances: d = Σ max(m − 1, 1), and H is that of (p_1, …, p_{m−1}) plus ½ log m for each
            block. A block of 1 column is any number; leave out a feature of one outcome.

    Raises ValueError: k is not between 1 and N − 1, samples are not finite real numbers of the
    shape (…, N, d), or sizes do not fit them.
    """
    x = _checked(samples)
    n, columns = x.shape[-2:]
    if not 1 <= k < n:
        raise ValueError(
            f"k is {k} with {n} samples of each input; it must be at least 1 and less than their "
            "number."
        )
    if sizes is not None:
        _check_blocks(x, sizes)
    d = _dimensions(columns, sizes)
    epsilon = _neighbour_distance(x.reshape(-1, n, columns), k)
    log_volume = 0.5 * d * math.log(math.pi) - math.lgamma(0.5 * d + 1)
    entropy = float(digamma(n) - digamma(k)) + log_volume + d * epsilon.log().mean(-1)
    return entropy.reshape(x.shape[:-2])


def gaussian_sd(entropy: Tensor | float, d: int) -> Tensor:
    """(…) σ = exp(H/d − ½ log 2πe) of the isotropic Gaussian in d dimensions with entropy H (…).

    H in nats; 0 for −∞. Raises ValueError where d is less than 1.
    """
    if d < 1:
        raise ValueError(f"d is {d}; a Gaussian needs at least 1 dimension.")
    per_dimension = torch.as_tensor(entropy, dtype=torch.float64) / d
    return torch.exp(per_dimension - 0.5 * math.log(2 * math.pi * math.e))


def diversity(
    samples: Tensor, k: int = 1, sizes: Sequence[int] | None = None, reduced: bool = False
) -> Diversity:
    """Entropy of the samples (B, N, D) of each of B inputs, and its range over inputs.

    A sample has probabilities of categorical features, which are checked to sum to 1 in blocks of
    these sizes, and values of continuous ones. `reduced` takes the entropy on the simplices, as
    `kozachenko_leonenko` does with sizes, and not in all D dimensions. Raises ValueError where
    samples are not (B, N, D) with B ≥ 1, sizes are missing or do not fit, or
    `kozachenko_leonenko` cannot be computed.
    """
    if samples.ndim != 3 or len(samples) < 1:
        shape = tuple(samples.shape)
        raise ValueError(f"samples have the shape {shape}; (B, N, D) with B at least 1 is needed.")
    if reduced and sizes is None:
        raise ValueError("reduced needs the sizes of the blocks of probabilities; sizes is None.")
    if sizes is not None:
        _check_blocks(samples.detach().double(), sizes)
    blocks = sizes if reduced else None
    entropy = kozachenko_leonenko(samples, k, blocks)
    d = _dimensions(samples.shape[-1], blocks)
    finite = entropy[entropy > -math.inf]
    mean, low, high = range_of = [
        float(entropy.mean()),
        _percentile(entropy, 0.025),
        _percentile(entropy, 0.975),
    ]
    sigma = gaussian_sd(torch.tensor(range_of, dtype=torch.float64), d).tolist()
    return Diversity(
        entropy=entropy,
        mean=mean,
        low=low,
        high=high,
        sigma=sigma[0],
        sigma_low=sigma[1],
        sigma_high=sigma[2],
        mean_finite=float(finite.mean()) if len(finite) else -math.inf,
        share_negative_infinity=1 - len(finite) / len(entropy),
        n=samples.shape[1],
        k=k,
        dimensions=d,
    )


def _checked(samples: Tensor) -> Tensor:
    """Samples (…, N, d) in float64, without gradient."""
    if samples.ndim < 2 or samples.shape[-1] < 1:
        raise ValueError(
            f"samples have the shape {tuple(samples.shape)}; (…, N, d) with d at least 1 is needed."
        )
    if samples.is_complex():
        raise ValueError(f"samples are {samples.dtype}; real numbers are needed.")
    x = samples.detach().double()
    if not bool((x.abs() < GREATEST).all()):
        raise ValueError(
            f"samples hold NaN, ±∞ or numbers beyond ±{GREATEST:g}; all must be finite and less."
        )
    return x


def _check_blocks(x: Tensor, sizes: Sequence[int]) -> None:
    if x.ndim < 1 or min(sizes, default=0) < 1 or sum(sizes) != x.shape[-1]:
        raise ValueError(
            f"sizes are {list(sizes)}; they must be 1 or more and add up to the last of "
            f"{tuple(x.shape)}."
        )
    for i, block in enumerate(torch.split(x, list(sizes), -1)):
        one = (block.sum(-1) - 1).abs() <= SUM_TOLERANCE
        if block.shape[-1] > 1 and not bool(one.all() and (block >= 0).all()):
            raise ValueError(
                f"block {i} of sizes does not hold probabilities; each row must be ≥ 0 and sum to "
                f"1."
            )


def _dimensions(columns: int, sizes: Sequence[int] | None) -> int:
    return columns if sizes is None else sum(max(m - 1, 1) for m in sizes)


def _neighbour_distance(x: Tensor, k: int) -> Tensor:
    """(B, N) Euclidean distance of each sample of x (B, N, d) from the k-th nearest other one."""
    n = x.shape[1]
    rows = min(n, max(1, PAIRS // n))
    together = max(1, PAIRS // (rows * n))
    out = x.new_empty(x.shape[:2])
    for i in range(0, len(x), together):
        for j in range(0, n, rows):
            block, found = x[i : i + together], out[i : i + together, j : j + rows]
            # the way by matrix products cancels: small distances come out as 0 or as rounding
            exact: Any = {"compute_mode": "donot_use_mm_for_euclid_dist"}
            distance = torch.cdist(block[:, j : j + rows], block, **exact)
            distance.diagonal(j, -2, -1).fill_(math.inf)
            # the least alone is found faster
            nearest = (
                distance.topk(k, -1, largest=False).values if k > 1 else distance.amin(-1, True)
            )
            found[:] = nearest[..., -1]
    return out


def _percentile(values: Tensor, share: float) -> float:
    """Between the two nearest of the values in order, linearly, as ``numpy.percentile``, but
    without NaN next to −∞.
    """
    ordered = values.sort().values
    position = share * (len(ordered) - 1)
    i = int(position)
    low, high = float(ordered[i]), float(ordered[min(i + 1, len(ordered) - 1)])
    return low if i == position or low == -math.inf else low + (position - i) * (high - low)
