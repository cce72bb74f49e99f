"""Entropy estimates against known entropies, the estimator's own expected value, and a loop over
pairs.
"""

from __future__ import annotations

import importlib
import math
import warnings

import numpy as np
import pytest
import torch
from scipy.special import digamma
from scipy.stats import beta, chi2, ncx2, qmc
from torch import Tensor

from plot_attractors.evaluation.metrics.diversity import (
    Diversity,
    diversity,
    gaussian_sd,
    kozachenko_leonenko,
)

DIMENSIONS = [1, 2, 5, 10, 20]


def normal(*shape: int) -> Tensor:
    return torch.randn(
        *shape, dtype=torch.float64
    )  # float32 draws would repeat each other in one dimension


def uniform(*shape: int) -> Tensor:
    return torch.rand(*shape, dtype=torch.float64)


def gaussian_entropy(d: int, log_det: float = 0.0) -> float:
    return 0.5 * d * math.log(2 * math.pi * math.e) + 0.5 * log_det


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
    found = kozachenko_leonenko(normal(2, 2000, d), k)
    tolerance = 5 * standard_error(2 * 2000, d / 2) + 0.002
    assert float(found.mean()) == pytest.approx(expected_for_gaussian(2000, d, k), abs=tolerance)


@pytest.mark.parametrize("d", DIMENSIONS)
def test_uniform_samples_of_a_cube(d: int) -> None:
    # log p is constant. Balls that stick out of the cube make the estimate too high: for each
    # dimension by at most the share 2 ε of samples within ε of a face (ε in sides, at most 1 in
    # all) times log 2 for the half outside.
    n, side = 3000, 3.0
    error = float(kozachenko_leonenko(side * uniform(n, d) - 1)) - d * math.log(side)
    epsilon = math.exp((math.lgamma(d / 2 + 1) - d / 2 * math.log(math.pi) - math.log(n)) / d)
    bias = d * math.log(2) * min(2 * epsilon, 1)
    noise = 4 * standard_error(n, 0.0)
    assert -noise < error < bias + noise


def test_two_samples_by_hand() -> None:
    # ψ(2) − ψ(1) = 1, V_1 = 2, V_2 = π
    assert float(kozachenko_leonenko(torch.tensor([[0.0], [3.0]]))) == pytest.approx(
        1 + math.log(2 * 3)
    )
    assert float(kozachenko_leonenko(torch.tensor([[0.0, 0.0], [3.0, 4.0]]))) == pytest.approx(
        1 + math.log(math.pi) + 2 * math.log(5)
    )


@pytest.mark.parametrize("k", [1, 2, 5, 11])
def test_agrees_to_the_bit_with_a_loop_over_pairs(k: int) -> None:
    # Eighths: their squares and sums are exact, so that the order of summation cannot matter.
    samples = torch.stack([torch.randperm(12 * 3).reshape(12, 3).double() / 8 for _ in range(5)])
    assert torch.equal(
        kozachenko_leonenko(samples, k), torch.stack([by_loop(s, k) for s in samples])
    )


@pytest.mark.parametrize("pairs", [1, 100, 2500, 6000, 10**9])
def test_the_size_of_a_block_of_distances_does_not_matter(
    pairs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples = normal(5, 50, 4)
    expected = kozachenko_leonenko(samples, 2)
    monkeypatch.setattr(
        importlib.import_module("plot_attractors.evaluation.metrics.diversity"), "PAIRS", pairs
    )
    assert torch.equal(kozachenko_leonenko(samples, 2), expected)


@pytest.mark.parametrize("d", [1, 3, 20])
@pytest.mark.parametrize("scale", [2.0**-40, 0.3, 1e9])
def test_scaling_adds_its_logarithm_for_every_dimension(d: int, scale: float) -> None:
    samples = normal(3, 60, d)
    expected = kozachenko_leonenko(samples, 2) + d * math.log(scale)
    torch.testing.assert_close(
        kozachenko_leonenko(scale * samples, 2), expected, atol=1e-10, rtol=0
    )


def test_moving_all_samples_changes_nothing_however_far() -> None:
    # Multiples of 2^−30 near 2^20 are exact, but squares of such numbers, as in matrix products,
    # are not.
    samples = torch.randperm(2**16)[: 200 * 3].reshape(200, 3).double() * 2.0**-30
    assert torch.equal(kozachenko_leonenko(samples), kozachenko_leonenko(samples + 2.0**20))


def test_rotating_and_reordering_change_nothing() -> None:
    samples = normal(300, 6) * torch.arange(1, 7)
    rotation = torch.linalg.qr(normal(6, 6)).Q
    expected = kozachenko_leonenko(samples, 3)
    torch.testing.assert_close(
        kozachenko_leonenko(samples @ rotation, 3), expected, atol=1e-10, rtol=0
    )
    shuffled = samples[torch.randperm(300)]
    torch.testing.assert_close(kozachenko_leonenko(shuffled, 3), expected, atol=1e-12, rtol=0)


def test_float32_samples_are_computed_in_float64() -> None:
    samples = (1000 + normal(2, 100, 5)).float()
    found = kozachenko_leonenko(samples)
    assert found.dtype == torch.float64
    assert torch.equal(found, kozachenko_leonenko(samples.double()))


def test_no_gradient_is_kept_and_the_samples_are_left_as_they_are() -> None:
    samples = normal(20, 2).requires_grad_()
    before = samples.detach().clone()
    assert not kozachenko_leonenko(samples).requires_grad
    assert torch.equal(samples.detach(), before)


# Ties


def test_a_repeated_sample_makes_the_entropy_of_its_input_negative_infinity() -> None:
    samples = normal(3, 30, 4)
    samples[1, 7] = samples[1, 20]
    found = kozachenko_leonenko(samples)
    assert found.isinf().tolist() == [False, True, False]
    assert float(found[1]) == -math.inf
    assert bool(
        kozachenko_leonenko(samples, k=2).isfinite().all()
    )  # the second neighbour is elsewhere


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


def test_no_entropy_at_all_is_no_deviation() -> None:
    found = gaussian_sd(torch.tensor([[-math.inf], [gaussian_entropy(3)]]), 3)
    assert found.shape == (2, 1)
    assert float(found[0]) == 0.0
    assert float(found[1]) == pytest.approx(1.0, rel=1e-6)
    with pytest.raises(ValueError, match="at least 1 dimension"):
        gaussian_sd(0.0, 0)


# Simplices


def test_uniform_on_a_triangle_has_the_logarithm_of_its_area() -> None:
    # The triangle of three outcomes has sides of √2. In the usual coordinates (p_1, p_2) its area
    # is ½.
    area = math.sqrt(3) / 4 * 2
    usual = float(torch.distributions.Dirichlet(torch.ones(3, dtype=torch.float64)).entropy())
    assert usual + 0.5 * math.log(3) == pytest.approx(math.log(area))
    samples = torch.distributions.Dirichlet(torch.ones(3, dtype=torch.float64)).sample((4000,))
    # edges: ε = √(area / 4000 π) = 0.008 along a perimeter of 4.2, 0.04 of the area, where balls
    # lose at most half
    tolerance = 0.04 * math.log(2) + 4 * standard_error(4000, 0.0)
    assert float(kozachenko_leonenko(samples, sizes=[3])) == pytest.approx(
        math.log(area), abs=tolerance
    )


def test_on_the_simplex_the_estimate_stays_and_in_all_columns_it_falls_without_end() -> None:
    # log ε falls as log N / (m − 1): m − 1 times this makes up for the log N of ψ(N), m times
    # leaves −log N / (m − 1). The variance of log p is below m / 2 for these parameters, and biases
    # are below 0.1 from 250 samples on.
    known = torch.distributions.Dirichlet(torch.tensor([3.0, 5.0, 4.0, 6.0], dtype=torch.float64))
    true = float(known.entropy()) + 0.5 * math.log(4)
    found = {}
    for n in (250, 2000):
        samples = known.sample((4, n))
        on_simplex = float(kozachenko_leonenko(samples, sizes=[4]).mean())
        assert on_simplex == pytest.approx(true, abs=0.1 + 4 * standard_error(4 * n, 2.0))
        found[n] = float(kozachenko_leonenko(samples).mean())
    assert found[2000] - found[250] == pytest.approx(-math.log(2000 / 250) / 3, abs=0.2)


def test_simplices_and_continuous_columns_together() -> None:
    # Independent features: their entropies add up. Five dimensions in all, biases as of
    # five-dimensional Gaussians.
    first, second = (
        torch.distributions.Dirichlet(torch.tensor(a).double())
        for a in ([4.0, 6.0, 5.0], [7.0, 5.0])
    )
    scale = 0.1
    samples = torch.cat(
        [first.sample((4, 2000)), scale * normal(4, 2000, 2), second.sample((4, 2000))], -1
    )
    true = float(first.entropy() + second.entropy()) + 0.5 * math.log(3) + 0.5 * math.log(2)
    true += gaussian_entropy(2) + 2 * math.log(scale)
    found = diversity(samples, sizes=(3, 1, 1, 2), reduced=True)
    assert found.dimensions == 5
    assert found.mean == pytest.approx(true, abs=0.1 + 4 * standard_error(8000, 2.5))


def test_saturated_probabilities_are_told_apart() -> None:
    # 1 − 2e-20 is 1 in float64; the two other columns are what is left of the density, to ½ log m.
    small = uniform(1000, 2)
    samples = torch.cat([torch.ones(1000, 1, dtype=torch.float64), 1e-20 * small], -1)
    expected = float(kozachenko_leonenko(small)) + 2 * math.log(1e-20)
    assert float(kozachenko_leonenko(samples, sizes=[3])) == pytest.approx(expected, abs=1e-9)


# Over inputs


def test_diversity_summarises_the_entropies_of_the_inputs() -> None:
    scale = torch.linspace(0.5, 4.0, 60, dtype=torch.float64)
    samples = scale[:, None, None] * normal(60, 200, 3)
    found = diversity(samples, k=3)
    assert isinstance(found, Diversity)
    assert torch.equal(found.entropy, kozachenko_leonenko(samples, 3))
    low, high = np.percentile(found.entropy.numpy(), [2.5, 97.5])
    assert found.low == pytest.approx(low, abs=1e-12)
    assert found.high == pytest.approx(high, abs=1e-12)
    assert found.mean == found.mean_finite == pytest.approx(float(found.entropy.mean()))
    # the mean of log a over inputs is the logarithm of σ; three dimensions at 200 samples, bias
    # below 0.1 nats
    assert found.sigma == pytest.approx(math.exp(float(scale.log().mean())), rel=0.05)
    assert found.sigma_low == pytest.approx(float(gaussian_sd(low, 3)))
    assert found.sigma_high == pytest.approx(float(gaussian_sd(high, 3)))
    assert found.sigma_low < found.sigma < found.sigma_high
    assert (found.n, found.k, found.dimensions, found.share_negative_infinity) == (200, 3, 3, 0.0)


def test_inputs_at_negative_infinity_make_no_nan_and_no_warning() -> None:
    samples = normal(20, 30, 2)
    samples[:5, 0] = samples[:5, 1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = diversity(samples)
    assert found.mean == found.low == -math.inf
    assert found.sigma == found.sigma_low == 0.0
    assert found.share_negative_infinity == 0.25
    assert found.mean_finite == pytest.approx(float(found.entropy[5:].mean()))
    low, high = np.percentile(
        np.concatenate([np.full(5, -1e6), found.entropy[5:].numpy()]), [2.5, 97.5]
    )
    assert low == -1e6
    assert found.high == pytest.approx(high)
    assert found.sigma_high == pytest.approx(float(gaussian_sd(high, 2)))


def test_a_percentile_between_a_number_and_negative_infinity_is_negative_infinity() -> None:
    samples = normal(2, 30, 2)
    samples[0, 0] = samples[0, 1]
    found = diversity(samples)
    assert (found.low, found.high, found.sigma_high) == (-math.inf, -math.inf, 0.0)


def test_a_model_with_a_code_for_every_input_has_no_diversity() -> None:
    found = diversity(normal(6, 1, 4).expand(-1, 50, -1))
    assert found.entropy.tolist() == [-math.inf] * 6
    assert (found.mean, found.mean_finite, found.low, found.high) == (-math.inf,) * 4
    assert (found.sigma, found.sigma_low, found.sigma_high) == (0.0, 0.0, 0.0)
    assert found.share_negative_infinity == 1.0


# Errors


@pytest.mark.parametrize(
    ("samples", "options", "message"),
    [
        (torch.zeros(5), {}, "shape"),
        (torch.zeros(5, 0), {}, "d at least 1"),
        (torch.randn(5, 2), {"k": 5}, "k is 5 with 5 samples"),
        (torch.randn(5, 2), {"k": 0}, "k is 0"),
        (torch.randn(1, 2), {}, "k is 1 with 1 samples"),
        (torch.tensor([[0.0], [math.nan], [1.0]]), {}, "finite"),
        (torch.tensor([[0.0], [math.inf], [1.0]]), {}, "finite"),
        (torch.tensor([[0.0], [1e200], [1.0]], dtype=torch.float64), {}, "finite"),
        (torch.randn(5, 2, dtype=torch.complex64), {}, "real"),
        (torch.randn(5, 2), {"sizes": [3]}, "sizes are"),
        (torch.rand(5, 2) / 2, {"sizes": [2]}, "block 0"),
    ],
)
def test_bad_samples_and_options_are_refused(samples: Tensor, options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kozachenko_leonenko(samples, **options)


@pytest.mark.parametrize("sizes", [[], [2], [2, 2], [3, 0], [4, -1]])
def test_sizes_must_add_up_to_the_columns(sizes: list[int]) -> None:
    with pytest.raises(ValueError, match="sizes are"):
        kozachenko_leonenko(torch.full((5, 3), 1 / 3), sizes=sizes)


@pytest.mark.parametrize("block", [[0.5, 0.4], [1.2, -0.2], [0.5, 0.5001]])
def test_blocks_must_hold_probabilities(block: list[float]) -> None:
    good = torch.tensor([[9.0, 0.5, 0.5]]).expand(4, -1).clone()
    kozachenko_leonenko(good, sizes=[1, 2])
    good[2, 1:] = torch.tensor(block)
    with pytest.raises(ValueError, match="block 1"):
        kozachenko_leonenko(good, sizes=[1, 2])
    with pytest.raises(ValueError, match="block 1"):
        diversity(good[None], sizes=[1, 2])


def test_diversity_needs_inputs_and_the_sizes_that_it_reduces_by() -> None:
    with pytest.raises(ValueError, match=r"\(B, N, D\)"):
        diversity(torch.randn(10, 3))
    with pytest.raises(ValueError, match="B at least 1"):
        diversity(torch.randn(0, 10, 3))
    with pytest.raises(ValueError, match="sizes is None"):
        diversity(torch.randn(2, 10, 3), reduced=True)
