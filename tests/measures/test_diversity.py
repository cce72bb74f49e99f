"""Entropy estimates against known entropies and the estimator's own expected value."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
import torch
from scipy.special import digamma
from scipy.stats import beta, chi2, ncx2, qmc
from torch import Tensor

from plot_attractors.measures.diversity import FLOOR, diversity, gaussian_sd


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


# Kozachenko-Leonenko


@pytest.mark.parametrize(("d", "k"), [(1, 1), (1, 10), (3, 3), (20, 1), (20, 10)])
def test_gaussians_have_the_expected_estimate_bias_included(d: int, k: int) -> None:
    # log p of a Gaussian has the variance d/2; five standard errors of the mean of two estimates,
    # and the quadrature.
    result = diversity(normal(2, 2000, d), k).entropy
    tolerance = 5 * standard_error(2 * 2000, d / 2) + 0.002
    assert float(result.mean()) == pytest.approx(expected_for_gaussian(2000, d, k), abs=tolerance)


# Ties


def test_samples_that_nearly_repeat_are_no_ties() -> None:
    # Distances of 2^−50 next to numbers of about 1, in more samples than where torch.cdist takes
    # matrix products
    samples = normal(100, 4).sign() + 2.0**-50 * torch.randperm(400).reshape(100, 4)
    assert bool(diversity(samples[None]).entropy.isfinite())


def test_the_entropy_of_a_gaussian_gives_back_its_standard_deviation() -> None:
    entropy = 5 * torch.distributions.Normal(0.0, torch.tensor(40.0).double()).entropy()
    assert float(gaussian_sd(entropy, 5)) == pytest.approx(40, rel=1e-12)


# Over inputs


def test_diversity_summarises_the_entropies_of_the_inputs() -> None:
    scale = torch.linspace(0.5, 4.0, 60, dtype=torch.float64)
    samples = scale[:, None, None] * normal(60, 200, 3)
    result = diversity(samples, k=3)
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


@pytest.mark.parametrize("k", [5, 0])
def test_there_must_be_so_many_neighbours(k: int) -> None:
    with pytest.raises(ValueError, match=f"k is {k} with 5 samples"):
        diversity(torch.randn(1, 5, 2), k)
