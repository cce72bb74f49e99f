from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from plot_attractors.measures.attractors import (
    SmoothedMap,
    antithetic_draws,
    attractors,
    binomial_interval,
    nearest,
    principal_plane,
    single_linkage,
    solve_fixed_points,
    stability,
)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


# Smoothing


@pytest.mark.parametrize(("n", "d"), [(4, 2), (64, 8), (100, 3)])
def test_draws_have_the_moments_of_the_normal_distribution(n: int, d: int) -> None:
    eta = antithetic_draws(n, d)
    assert eta.shape == (n, d)
    torch.testing.assert_close(eta.mean(0), torch.zeros(d).double(), atol=1e-14, rtol=0)
    torch.testing.assert_close(eta.T @ eta / n, torch.eye(d).double(), atol=1e-12, rtol=0)
    for other in (2 * d - 2, 2 * d + 1):  # too few, or odd
        with pytest.raises(ValueError, match=f"at least 2d = {2 * d}"):
            antithetic_draws(other, d)


def test_an_affine_map_is_its_own_smoothed_map() -> None:
    a, b, z = 0.5 * normal(3, 3), normal(3, seed=1), normal(5, 3, seed=2)
    f = SmoothedMap(lambda z: z @ a.T + b, 0.3, antithetic_draws(8, 3))
    value, slope = f.linearize(z)
    torch.testing.assert_close(value, z @ a.T + b)
    torch.testing.assert_close(f(z), value)
    torch.testing.assert_close(slope, a.expand(5, 3, 3))


def test_the_smoothed_cube_by_hand() -> None:
    # E[(z + εη)³] = z³ + 3 ε² z, with the slope 3 (z² + ε²)
    z = torch.tensor([[0.3], [-1.2]], dtype=torch.float64)
    eta = antithetic_draws(20_000, 1)
    value, slope = SmoothedMap(lambda z: z**3, 0.5, eta).linearize(z)
    torch.testing.assert_close(value, z**3 + 0.75 * z)
    torch.testing.assert_close(slope[..., 0], 3 * (z**2 + 0.25), atol=0.03, rtol=0)


# Fixed points


def test_newton_takes_no_step_longer_than_its_reach() -> None:
    far = torch.tensor([[10.0]], dtype=torch.float64)
    half = lambda z: (0.5 * z, torch.full((len(z), 1, 1), 0.5, dtype=z.dtype))  # noqa: E731
    for iterations, expected in ((3, 7.0), (11, 0.0)):
        z = solve_fixed_points(half, far, 1e-9, reach=1.0, iterations=iterations).z
        assert float(z) == pytest.approx(expected, abs=1e-9)


def test_stability_of_a_turning_map() -> None:
    turn = torch.tensor(
        [[[0.0, -0.9], [0.9, 0.0]], [[0.0, -1.1], [1.1, 0.0]], [[2.0, 0.0], [0.0, -0.5]]]
    )
    moduli, unstable = stability(turn)
    torch.testing.assert_close(moduli.float(), torch.tensor([[0.9, 0.9], [1.1, 1.1], [2.0, 0.5]]))
    assert unstable.tolist() == [0, 2, 1]


# Merging


def test_single_linkage_joins_chains() -> None:
    x = torch.tensor([[5.0, 0.0], [0.0, 0.0], [0.9, 0.0], [5.0, 0.5], [1.8, 0.0], [0.0, 3.0]])
    labels = single_linkage(x, 1.0)
    same = [[0, 3], [1, 2, 4], [5]]
    assert [labels[rows].unique().numel() for rows in same] == [1, 1, 1]
    assert labels.unique().numel() == 3
    assert [len(single_linkage(x[:n], 1.0)) for n in (0, 1)] == [0, 1]


# Shares and distances


def test_binomial_intervals_by_hand() -> None:
    # Wilson for 0 of 10: the upper bound is q/(n + q), q = 1.96²
    low, high = binomial_interval(torch.tensor([0, 5, 10]), 10)
    assert float(high[0]) == pytest.approx(3.8416 / 13.8416)
    assert float(low[1] + high[1]) == pytest.approx(1.0)
    assert float(low[2]) == pytest.approx(10 / 13.8416)
    assert all(bound.isnan().all() for bound in binomial_interval(torch.tensor([0]), 0))
    for n in range(1, 1000):  # none and all of n, where rounding would leave the share out
        low, high = binomial_interval(torch.tensor([0, n]), n)
        assert (low[0], high[1]) == (0, 1)


def test_the_nearest_point_is_found_exactly_and_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    to = torch.tensor([[1000.0, 0.0], [1000.0, 1e-3], [0.0, 0.0]])
    z = torch.tensor([[1000.0, 2e-4], [1000.0, 9e-4], [3.0, 4.0]]).repeat(20, 1)
    monkeypatch.setattr("plot_attractors.measures.attractors.CELLS", 12)
    result = nearest(z, to)
    torch.testing.assert_close(result.distance, torch.tensor([2e-4, 1e-4, 5.0]).repeat(20))
    assert result.row.tolist() == [0, 1, 2] * 20
    nothing = nearest(z, to[:0])
    assert (nothing.distance == math.inf).all()
    assert (nothing.row == -1).all()


@pytest.mark.parametrize("n", [1, 200])
def test_the_principal_plane_holds_the_directions_of_greatest_variance(n: int) -> None:
    points = normal(n, 4) * torch.tensor([0.1, 3.0, 0.2, 1.0]) + 5
    center, directions = principal_plane(points)
    torch.testing.assert_close(center, points.mean(0))
    torch.testing.assert_close(directions.T @ directions, torch.eye(2).double())
    if n > 1:
        assert directions[[1, 3], [0, 1]].tolist() == pytest.approx([1, 1], abs=0.05)


# Attractors of any map


def wells(z: Tensor) -> Tensor:
    """The double well in each of two directions: 4 stable points, 4 saddles, a repeller at 0."""
    return z - 0.1 * (z**3 - z)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("noise", [None, 0.3])
def test_attractors_of_a_map_with_known_ones(dtype: torch.dtype, noise: float | None) -> None:
    starts = (1.5 * normal(1000, 2)).clamp(-3, 3).to(dtype)
    f = wells if noise is None else lambda z: torch.distributions.Normal(wells(z), noise)
    result = attractors(f, starts)
    points = result.points
    assert points.unstable.tolist() == [0] * 4 + [1] * 4 + [2]
    grid = torch.tensor([-1.0, 1.0], dtype=dtype)
    near = nearest(torch.cartesian_prod(grid, grid), points.stable)
    assert float(near.distance.max()) < 1e-4
    torch.testing.assert_close(points.z[8], torch.zeros(2, dtype=dtype), atol=1e-4, rtol=0)
    torch.testing.assert_close(points.moduli[0], torch.full((2,), 0.8).double(), atol=1e-3, rtol=0)
    torch.testing.assert_close(points.moduli[8], torch.full((2,), 1.1).double(), atol=1e-3, rtol=0)
    torch.testing.assert_close(points.stable[result.basin].sign(), starts.sign())
    assert result.share.tolist() == sorted(result.share.tolist(), reverse=True)
    assert float(result.share.sum()) == pytest.approx(1)


def test_cycles_and_maps_without_attractors_have_no_basin() -> None:
    starts = normal(50, 2)
    turn = torch.tensor([[0.0, -1.0], [1.0, 0.0]]).double()
    around = attractors(lambda z: torch.nn.functional.normalize(z, dim=-1) @ turn, starts, 100)
    away = attractors(lambda z: torch.distributions.Normal(z**3, 1.0), 3 * starts.sign() + starts)
    for result in (around, away):
        assert (result.basin == -1).all()
        assert result.share.sum() == 0
        assert result.points.stable.shape == (0, 2)


def test_what_is_no_map_of_states_is_refused() -> None:
    with pytest.raises(ValueError, match="two that differ"):
        attractors(wells, torch.ones(5, 2))
    with pytest.raises(ValueError, match=r"makes \(5, 1\) of states \(5, 2\)"):
        attractors(lambda z: z[:, :1], normal(5, 2))
