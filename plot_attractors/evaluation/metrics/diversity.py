"""How varied a model's samples of one input are: differential entropy by nearest neighbours
(*Sample diversity*).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

import torch
from scipy.special import digamma
from torch import Tensor

__all__ = [
    "Diversity",
    "Ties",
    "diversity",
    "gaussian_sd",
    "isometric_coordinates",
    "kozachenko_leonenko",
]

Ties = Literal["negative_infinity", "jitter", "drop"]

PAIRS = (
    2**19
)  # distances held at a time, 4 MiB: all pairs of 500 inputs with 500 samples would be 1 GB
GREATEST = 1e150  # squares of differences of greater numbers overflow
SUM_TOLERANCE = 1e-5  # of a block of float32 probabilities; rounding leaves about 1e-7


class Diversity(NamedTuple):
    """Entropy of the samples of each input, and its range over inputs; nats.

    - ``entropy``: (B,) float64, of each input; −∞ where its samples repeat each other;
    - ``mean``: over inputs, −∞ if it is so for any of them; ``mean_finite``: over the other inputs
      only, −∞ if there are none;
    - ``low``, ``high``: 2.5th and 97.5th percentile over inputs, −∞ where one of the two values it
    lies between is;
    - ``sigma``, ``sigma_low``, ``sigma_high``: `gaussian_sd` of ``mean``, ``low`` and ``high``, 0
    for −∞;
    - ``share_negative_infinity``: of the inputs, those whose entropy is −∞;
    - ``n``: samples of each input, before duplicates were dropped; ``k``: which neighbour;
    - ``dimensions``: of the density, less than the number of columns where simplices were reduced.
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


def kozachenko_leonenko(
    samples: Tensor,
    k: int = 1,
    ties: Ties = "negative_infinity",
    jitter: float = 1e-8,
    seed: int = 0,
    sizes: Sequence[int] | None = None,
) -> Tensor:
    """(…) differential entropy, nats, of the density that samples (…, N, d) were drawn from, in
    float64.

    H = ψ(N) − ψ(k) + log V_d + (d / N) Σ_i log ε_i, with ε_i the Euclidean distance of sample i
    from its k-th nearest neighbour (itself not counted) and V_d = π^{d/2} / Γ(d/2 + 1) the volume
    of the unit ball. Needs memory for the samples and a fixed number of distances; distances below
    about 1e-160 count as 0.

    Sources: Kozachenko & Leonenko (1987), "Sample estimate of the entropy of a random vector"; for
    k > 1, Kraskov,
    Stögbauer & Grassberger (2004), "Estimating mutual information", eq. 20.

    Args:
        samples: (…, N, d) real numbers.
        k: which neighbour; a greater one has less variance and more bias.
        ties: what an ε_i of 0 does. "negative_infinity": H = −∞, as for a law with atoms. "jitter":
            Gaussian noise is added to all samples of such an input, and to no other input. "drop":
            H is that of the distinct samples, N being their number, and −∞ when there are fewer
            than k + 1; this changes every input with duplicates.
        jitter: standard deviation of the noise, relative to the root mean square over dimensions of
            the samples' standard deviation; 1e-8 is below the resolution of float32 predictions, so
            that it moves ties only. Samples that are all equal have no spread, and keep −∞. H of
            samples with ties depends on it.
        seed: of the noise.
        sizes: sizes of the blocks of columns that sum to 1, as in `isometric_coordinates`; H is
            then that of these coordinates, d being their number. The ε_i, which they leave as they
            are, are taken from the probabilities themselves: differences of saturated ones, such as
            1e-20, are lost in coordinates near 1.

    Raises:
        ValueError: k is not between 1 and N − 1, samples are not finite real numbers of the shape
            (…, N, d), or an option is not among those above.
    """
    x = _checked(samples)
    n, columns = x.shape[-2:]
    if not 1 <= k < n:
        raise ValueError(
            f"k is {k} with {n} samples of each input; it must be at least 1 and less than their "
            f"number."
        )
    if ties not in get_args(Ties):
        raise ValueError(
            f"ties is {ties!r}; it must be one of {', '.join(map(repr, get_args(Ties)))}."
        )
    if not 0 < jitter < math.inf:
        raise ValueError(f"jitter is {jitter}; it must be a finite number above 0.")
    if sizes is not None:
        _check_blocks(x, sizes)
    d = _dimensions(columns, sizes)
    batch, x = x.shape[:-2], x.reshape(-1, n, columns)
    epsilon = _neighbour_distance(x, k)
    entropy = _entropy(epsilon, k, d)
    if ties == "jitter":
        tied = (epsilon == 0).any(-1)
        if bool(tied.any()):
            noisy = _with_noise(x[tied], jitter, seed, [1] * columns if sizes is None else sizes)
            entropy[tied] = _entropy(_neighbour_distance(noisy, k), k, d)
    elif ties == "drop":
        for i, of_one in enumerate(x):
            distinct = of_one.unique(dim=0)
            if len(distinct) <= k:
                entropy[i] = -math.inf
            elif len(distinct) < n:
                entropy[i] = _entropy(_neighbour_distance(distinct[None], k), k, d)[0]
    return entropy.reshape(batch)


def gaussian_sd(entropy: Tensor | float, d: int) -> Tensor:
    """(…) σ = exp(H/d − ½ log 2πe) of the isotropic Gaussian in d dimensions with entropy H (…),
    nats; 0 for −∞.

    Raises:
        ValueError: d is less than 1.
    """
    if d < 1:
        raise ValueError(f"d is {d}; a Gaussian needs at least 1 dimension.")
    return torch.exp(
        torch.as_tensor(entropy, dtype=torch.float64) / d - 0.5 * math.log(2 * math.pi * math.e)
    )


def isometric_coordinates(predictions: Tensor, sizes: Sequence[int]) -> Tensor:
    """(…, d) orthonormal coordinates of predictions (…, D) whose blocks of probabilities lie on
    simplices, in float64.

    The density of m probabilities that sum to 1 lives on m − 1 dimensions, so that their entropy in
    all m is −∞, and estimates of it fall without end as N grows. A block of m ≥ 2 columns gives its
    m − 1 Helmert contrasts,

    z_j = √(j / (j + 1)) ((p_1 + … + p_j) / j − p_{j+1}), j = 1, …, m − 1,

    which keep Euclidean distances on the simplex; a block of 1 column, a continuous feature, is
    kept as it is. The entropy of z is that of (p_1, …, p_{m−1}) plus ½ log m for each block. These
    are contrasts of probabilities, not of their logarithms (the isometric log-ratio).

    Source: Lancaster (1965), "The Helmert matrices".

    Args:
        predictions: (…, D) with D = Σ sizes.
        sizes: number of columns of each block, in order; 1 for a continuous feature. Leave out a
            categorical feature of one outcome: its probability is always 1, which is no dimension.

    Raises:
        ValueError: sizes do not add up to D or one is less than 1, or a block of 2 columns or more
            holds negative numbers or does not sum to 1.
    """
    x = predictions.detach().double()
    _check_blocks(x, sizes)
    parts = []
    for block in torch.split(x, list(sizes), -1):
        m = block.shape[-1]
        if m > 1:
            j = torch.arange(1, m, dtype=x.dtype, device=x.device)
            # sums of each row on its own, no matrix product: equal samples must keep exactly equal
            # coordinates
            block = (j / (j + 1)).sqrt() * (block.cumsum(-1)[..., :-1] / j - block[..., 1:])
        parts.append(block)
    return torch.cat(parts, -1)


def diversity(
    samples: Tensor,
    k: int = 1,
    sizes: Sequence[int] | None = None,
    reduced: bool = False,
    ties: Ties = "negative_infinity",
    jitter: float = 1e-8,
    seed: int = 0,
) -> Diversity:
    """Entropy of the samples (B, N, D) of each of B inputs by `kozachenko_leonenko`, and its range
    over inputs.

    Args:
        samples: (B, N, D) feature predictions: probabilities of categorical features, values of
        continuous ones.
        k: which neighbour.
        sizes: sizes of the blocks of probabilities, as in `isometric_coordinates`, which are
        checked to sum to 1.
        reduced: take the entropy on the simplices, in d = Σ max(m − 1, 1) dimensions, and not in
        all D.
        ties, jitter, seed: as in `kozachenko_leonenko`.

    Raises:
        ValueError: samples are not (B, N, D) with B ≥ 1, sizes are missing where they are needed or
            do not fit, or `kozachenko_leonenko` cannot be computed.
    """
    if samples.ndim != 3 or len(samples) < 1:
        raise ValueError(
            f"samples have the shape {tuple(samples.shape)}; (B, N, D) with B at least 1 is needed."
        )
    if reduced and sizes is None:
        raise ValueError(
            "reduced needs the sizes of the blocks of probabilities, and sizes is None."
        )
    if sizes is not None:
        _check_blocks(samples.detach().double(), sizes)
    blocks = sizes if reduced else None
    entropy = kozachenko_leonenko(samples, k, ties, jitter, seed, blocks)
    d = _dimensions(samples.shape[-1], blocks)
    finite = entropy[entropy > -math.inf]
    mean, low, high = (
        float(entropy.mean()),
        _percentile(entropy, 0.025),
        _percentile(entropy, 0.975),
    )
    return Diversity(
        entropy=entropy,
        mean=mean,
        low=low,
        high=high,
        sigma=float(gaussian_sd(mean, d)),
        sigma_low=float(gaussian_sd(low, d)),
        sigma_high=float(gaussian_sd(high, d)),
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
            distance = torch.cdist(
                block[:, j : j + rows], block, compute_mode="donot_use_mm_for_euclid_dist"
            )
            distance.diagonal(j, -2, -1).fill_(math.inf)
            found[:] = (
                distance.amin(-1) if k == 1 else distance.topk(k, -1, largest=False).values[..., -1]
            )
    return out


def _entropy(epsilon: Tensor, k: int, d: int) -> Tensor:
    """(B,) the Kozachenko-Leonenko formula for distances ε (B, N)."""
    log_volume = 0.5 * d * math.log(math.pi) - math.lgamma(0.5 * d + 1)
    return float(digamma(epsilon.shape[-1]) - digamma(k)) + log_volume + d * epsilon.log().mean(-1)


def _with_noise(x: Tensor, relative_sd: float, seed: int, sizes: Sequence[int]) -> Tensor:
    """Samples (B, N, D) with Gaussian noise that leaves the sums of blocks of two and more columns
    as they are.
    """
    x = (
        x - x[:, :1]
    )  # far from 0, noise this small would be rounded away; equal samples become 0 exactly
    noise = torch.randn(x.shape, dtype=x.dtype, generator=torch.Generator().manual_seed(seed)).to(
        x.device
    )
    parts = [
        b - b.mean(-1, keepdim=True) if b.shape[-1] > 1 else b
        for b in torch.split(noise, list(sizes), -1)
    ]
    total = (x - x.mean(-2, keepdim=True)).square().sum((-2, -1), keepdim=True)
    spread = (total / (x.shape[-2] * _dimensions(x.shape[-1], sizes))).sqrt()
    return x + relative_sd * spread * torch.cat(parts, -1)


def _percentile(values: Tensor, share: float) -> float:
    """Between the two nearest of the values in order, linearly, as ``numpy.percentile``, but
    without NaN next to −∞.
    """
    ordered = values.sort().values
    position = share * (len(ordered) - 1)
    i = int(position)
    low, high = float(ordered[i]), float(ordered[min(i + 1, len(ordered) - 1)])
    return low if i == position or low == -math.inf else low + (position - i) * (high - low)
