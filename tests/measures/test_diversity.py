"""Entropy estimates against known entropies, the estimator's own expected value, and a loop over
pairs.
"""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
import torch
from scipy.special import digamma
from scipy.stats import beta, chi2, ncx2, qmc
from torch import Tensor

from plot_attractors.measures.diversity import (
    FLOOR,
    Diversity,
    diversity,
    gaussian_sd,
)

DIMENSIONS = [1, 2, 5, 10, 20]


def kozachenko_leonenko(samples: Tensor, k: int = 1) -> Tensor:
    """(…) of samples (…, N, d)."""
    inputs = samples.reshape(-1, *samples.shape[-2:])
    return diversity(inputs, k).entropy.reshape(samples.shape[:-2])


def normal(*shape: int) -> Tensor:
    # float32 draws would repeat each other in one dimension
    return torch.randn(*shape, dtype=torch.float64)


def expected_for_gaussian(n: int, d: int, k: int) -> float:
    """Mean of the estimator over sets of n standard normal samples, its bias included, to about
    0.002.

    The share of the distribution within ε_i of sample i is Beta(k, n − k), whatever the sample; the
    squared distance of another sample from one at x is noncentral χ² with d degrees of freedom and
    noncentrality |x|², and |x|² is χ²_d.
    """
    u = qmc.Sobol(2, seed=0).random(2**11)
    squared = ncx2.ppf(beta.ppf(u[:, 1], k, n - k), d, chi2.ppf(u[:, 0], d))
    log_volume = d / 2 * math.log(math.pi) - math.lgamma(d / 2 + 1)
    return float(digamma(n) - digamma(k) + log_volume + d / 2 * np.log(squared).mean())


def standard_error(n: int, log_density_variance: float) -> float:
    """Of one estimate from n samples at any k, roughly.

    Var log p(x) / n for the samples, ψ′(1) / n = 1.65 / n for the distances, and about half as much
    again because neighbours share distances.
    """
    return math.sqrt((log_density_variance + 2.5) / n)


def by_loop(samples: Tensor, k: int) -> Tensor:
    n, d = samples.shape
    points = samples.tolist()
    epsilon = []
    for i, a in enumerate(points):
        others = [b for j, b in enumerate(points) if j != i]
        distances = sorted(
            math.sqrt(sum((s - t) ** 2 for s, t in zip(a, b, strict=True))) for b in others
        )
        epsilon.append(distances[k - 1])
    log_volume = 0.5 * d * math.log(math.pi) - math.lgamma(0.5 * d + 1)
    return (
        float(digamma(n) - digamma(k))
        + log_volume
        + d * torch.tensor(epsilon, dtype=torch.float64).log().mean()
    )


# Kozachenko-Leonenko


@pytest.mark.parametrize("k", [1, 3, 10])
@pytest.mark.parametrize("d", DIMENSIONS)
def test_gaussians_have_the_expected_estimate_bias_included(d: int, k: int) -> None:
    # log p of a Gaussian has the variance d/2; five standard errors of the mean of two estimates,
    # and the quadrature.
    result = kozachenko_leonenko(normal(2, 2000, d), k)
    tolerance = 5 * standard_error(2 * 2000, d / 2) + 0.002
    assert float(result.mean()) == pytest.approx(expected_for_gaussian(2000, d, k), abs=tolerance)


@pytest.mark.parametrize("k", [1, 2, 5, 11])
def test_agrees_to_the_bit_with_a_loop_over_pairs(k: int) -> None:
    # Eighths: their squares and sums are exact, so that the order of summation cannot matter.
    samples = torch.stack([torch.randperm(12 * 3).reshape(12, 3).double() / 8 for _ in range(5)])
    assert torch.equal(
        kozachenko_leonenko(samples, k), torch.stack([by_loop(s, k) for s in samples])
    )


def test_float32_samples_are_computed_in_float64_and_left_as_they_are() -> None:
    samples = (1000 + normal(2, 100, 5)).float().requires_grad_()
    before = samples.detach().clone()
    result = kozachenko_leonenko(samples)
    assert result.dtype == torch.float64
    assert not result.requires_grad
    assert torch.equal(result, kozachenko_leonenko(before.double()))
    assert torch.equal(samples.detach(), before)


# Ties


def test_samples_that_nearly_repeat_are_no_ties() -> None:
    # Distances of 2^−50 next to numbers of about 1, in more samples than where torch.cdist takes
    # matrix products
    samples = normal(100, 4).sign() + 2.0**-50 * torch.randperm(400).reshape(100, 4)
    assert bool(kozachenko_leonenko(samples).isfinite())


# Standard deviation of equal entropy


@pytest.mark.parametrize("d", DIMENSIONS)
@pytest.mark.parametrize("sd", [1e-3, 1.0, 40.0])
def test_the_entropy_of_a_gaussian_gives_back_its_standard_deviation(d: int, sd: float) -> None:
    entropy = torch.distributions.Normal(0.0, torch.tensor(sd, dtype=torch.float64)).entropy() * d
    assert float(gaussian_sd(entropy, d)) == pytest.approx(sd, rel=1e-12)


# Over inputs


def test_diversity_summarises_the_entropies_of_the_inputs() -> None:
    scale = torch.linspace(0.5, 4.0, 60, dtype=torch.float64)
    samples = scale[:, None, None] * normal(60, 200, 3)
    result = diversity(samples, k=3)
    assert isinstance(result, Diversity)
    low, high = np.percentile(result.entropy.numpy(), [2.5, 97.5])
    assert result.low == pytest.approx(low, abs=1e-12)
    assert result.high == pytest.approx(high, abs=1e-12)
    assert result.mean == pytest.approx(float(result.entropy.mean()))
    # the mean of log a over inputs is the logarithm of σ; three dimensions at 200 samples, bias
    # below 0.1 nats
    assert result.sigma == pytest.approx(math.exp(float(scale.log().mean())), rel=0.05)
    assert (result.n, result.k, result.dimensions) == (200, 3, 3)
    assert result.share_negative_infinity == 0


def test_inputs_at_negative_infinity_make_no_nan_and_no_warning() -> None:
    samples = normal(20, 30, 2)
    samples[:5, 0] = samples[:5, 1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = diversity(samples)
    assert result.mean == result.low == -math.inf
    assert result.sigma == 0.0
    assert result.share_negative_infinity == 0.25
    low, high = np.percentile(
        np.concatenate([np.full(5, -1e6), result.entropy[5:].numpy()]), [2.5, 97.5]
    )
    assert low == -1e6
    assert result.high == pytest.approx(high)


def test_ties_are_floored() -> None:
    samples = normal(3, 20, 2)
    samples[0, 5:] = samples[0, 4]  # five points, one of them sixteen times
    samples[1] = samples[1, 0]  # one point
    result = diversity(samples)
    assert result.mean == -math.inf
    near = torch.cdist(samples[0, :5], samples[0, :5]).fill_diagonal_(math.inf).amin(-1)
    epsilon = torch.cat([near[:4], torch.full((16,), FLOOR, dtype=torch.float64)])
    log_volume = math.log(math.pi)
    constant = float(digamma(20) - digamma(1)) + log_volume
    first = constant + 2 * float(epsilon.log().mean())
    second, third = constant + 2 * math.log(FLOOR), float(result.entropy[2])
    assert result.floored == pytest.approx((first + second + third) / 3)
    without = diversity(samples[2:])
    assert without.floored == without.mean


def test_a_percentile_between_a_number_and_negative_infinity_is_negative_infinity() -> None:
    samples = normal(2, 30, 2)
    samples[0, 0] = samples[0, 1]
    result = diversity(samples)
    assert (result.low, result.high) == (-math.inf, -math.inf)


@pytest.mark.parametrize(("samples", "k"), [(5, 5), (5, 0), (1, 1)])
def test_there_must_be_so_many_neighbours(samples: int, k: int) -> None:
    with pytest.raises(ValueError, match=f"k is {k} with {samples} samples"):
        kozachenko_leonenko(torch.randn(samples, 2), k)
