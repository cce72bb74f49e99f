"""Fixed points of a noisy map, their stability and basins, and pictures of its landscape."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from scipy.cluster.hierarchy import fclusterdata
from torch import Tensor

STATES = 1024  # that the mean map takes at once: what fits into a core's cache
CELLS = 4_000_000  # entries of a table of distances held at once


def antithetic_draws(n: int, d: int) -> Tensor:
    """(n, d) float64 draws η in pairs ±η, scaled so that their mean is 0 and (1/n) Σ ηηᵀ is the
    identity exactly.

    Averages over them are exact for affine functions, and Stein's identity for linear ones. Raises
    ValueError where n is odd or below 2d.
    """
    if n % 2 or n < 2 * d:
        raise ValueError(f"{n} draws: an even number of at least 2d = {2 * d} is needed")
    half = torch.randn(n // 2, d, dtype=torch.float64)
    root = torch.linalg.cholesky(half.T @ half / len(half))
    half = torch.linalg.solve_triangular(root, half.T, upper=False).T
    return torch.cat([half, -half])


@dataclass(frozen=True)
class SmoothedMap:
    r"""F(z) = E_η[μ(z + εη)], η ~ N(0, 1): where the centre of a Gaussian cloud of states is after
    one step.

    The expectation is over fixed draws (common random numbers), so that F is a smooth function with
    no noise of its own.

    Args:
        mean: μ, states (n, d) → mean next states (n, d).
        epsilon: ε, standard deviation of the cloud.
        draws: (K, d) η, whose mean is 0 and whose second moment is the identity.
    """

    mean: Callable[[Tensor], Tensor]
    epsilon: float
    draws: Tensor

    @torch.no_grad()
    def __call__(self, z: Tensor) -> Tensor:
        """(n, d) → (n, d)."""
        rows = max(1, STATES // len(self.draws))
        return z + torch.cat([self._steps(part).mean(1) for part in z.split(rows)])

    @torch.no_grad()
    def linearize(self, z: Tensor) -> tuple[Tensor, Tensor]:
        r"""F(z) (n, d) and its Jacobian (n, d, d) by Stein's identity, ∂F/∂z = E_η[μ(z + εη) ηᵀ]/ε.

        No derivative of μ is needed, which is singular where a step of bounded size changes its
        direction.
        """
        rows = max(1, STATES // len(self.draws))
        means, jacobians = [], []
        for part in z.split(rows):
            steps = self._steps(part)
            means.append(part + steps.mean(1))
            product = torch.einsum("nki,kj->nij", steps, self.draws)
            jacobians.append(product / (len(self.draws) * self.epsilon))
        identity = torch.eye(z.shape[-1], dtype=z.dtype, device=z.device)
        return torch.cat(means), torch.cat(jacobians) + identity

    def _steps(self, z: Tensor) -> Tensor:
        """(n, K, d) μ(z + εη) − (z + εη)."""
        cloud = z[:, None] + self.epsilon * self.draws
        return self.mean(cloud.flatten(0, 1)).view_as(cloud) - cloud


class Converged(NamedTuple):
    """Last states z (n, d), and which (n,) of them have converged."""

    z: Tensor
    converged: Tensor


def fixed_point_iteration(
    f: Callable[[Tensor], Tensor], z: Tensor, tolerance: float, iterations: int
) -> Converged:
    """Iterate z ← f(z), each of n states (n, d) until ‖f(z) − z‖ < tolerance, at most so often."""
    z = z.clone()
    moving = torch.arange(len(z), device=z.device)
    for _ in range(iterations):
        if not len(moving):
            break
        new = f(z[moving])
        # NaN counts as converged here, and is sorted out below
        still = (new - z[moving]).norm(dim=-1) >= tolerance
        z[moving] = new
        moving = moving[still]
    converged = z.isfinite().all(-1)
    converged[moving] = False
    return Converged(z, converged)


def solve_fixed_points(
    linearize: Callable[[Tensor], tuple[Tensor, Tensor]],
    z: Tensor,
    tolerance: float,
    reach: float,
    iterations: int = 30,
) -> Converged:
    """Roots of F(z) − z by damped Newton steps, all starts (n, d) at once: z ← z + λ (1 − J)⁻¹
    (F(z) − z).

    λ is 1, less where the step would be longer than `reach`; it is halved while ‖F(z) − z‖ would
    not fall, and doubled up to 1 after each success. Finds fixed points of every kind, saddles too;
    they have converged where ‖F(z) − z‖ < tolerance.

    Args:
        linearize: z (n, d) → F(z) (n, d) and an approximation of ∂F/∂z (n, d, d).
    """
    z = z.clone()
    value, jacobian = linearize(z)
    residual, jacobian = value - z, jacobian.clone()
    damping = torch.ones(len(z), 1, dtype=z.dtype, device=z.device)
    identity = torch.eye(z.shape[-1], dtype=z.dtype, device=z.device)
    for _ in range(iterations):
        size = residual.norm(dim=-1)
        going = torch.nonzero((size >= tolerance) & (damping[:, 0] > 1e-3)).flatten()
        if not len(going):
            break
        equation = identity - jacobian[going], residual[going, :, None]
        step = torch.linalg.lstsq(*equation).solution[..., 0]
        step = step * (reach / step.norm(dim=-1, keepdim=True).clamp(min=1e-30)).clamp(max=1.0)
        new = z[going] + damping[going] * step
        value, slope = linearize(new)
        better = (value - new).norm(dim=-1) < size[going]
        kept = going[better]
        z[kept], residual[kept], jacobian[kept] = new[better], (value - new)[better], slope[better]
        doubled = (2 * damping[going]).clamp(max=1.0)
        damping[going] = torch.where(better[:, None], doubled, damping[going] / 2)
    return Converged(z, residual.norm(dim=-1) < tolerance)


def stability(jacobian: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalue moduli (n, d) of Jacobians (n, d, d), largest first, and the number (n,) of them
    above 1.

    A fixed point is stable where that number is 0, a saddle where some are above 1, a repeller
    where all are.
    """
    moduli = torch.linalg.eigvals(jacobian.double()).abs().sort(-1, descending=True).values
    return moduli, (moduli > 1).sum(-1)


def single_linkage(points: Tensor, tolerance: float) -> Tensor:
    """(n,) labels: points (n, d) that a chain of steps ≤ tolerance joins are one.

    >>> single_linkage(torch.tensor([[0.0], [5.0], [1.0], [2.0]]), 1.0).tolist()
    [1, 2, 1, 1]
    """
    if len(points) < 2:
        return torch.ones(len(points), dtype=torch.long)
    x = points.double().cpu().numpy()
    return torch.from_numpy(fclusterdata(x, tolerance, "distance", method="single"))


def binomial_interval(count: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """Bounds of Wilson's 95 % interval of shares count/n; NaN where n is 0."""
    p = count.double() / n if n else torch.full(count.shape, math.nan, dtype=torch.float64)
    quantile = 1.96  # of the normal distribution
    q = quantile**2
    middle = p + q / (2 * max(n, 1))
    half = quantile * (p * (1 - p) / max(n, 1) + q / (4 * max(n, 1) ** 2)).sqrt()
    scale = 1 + q / max(n, 1)
    return ((middle - half) / scale).clamp(min=0.0), ((middle + half) / scale).clamp(max=1.0)


class Near(NamedTuple):
    """Distances (n,) to the nearest of some points, and its row (n,); ∞ and −1 for none."""

    distance: Tensor
    row: Tensor


def nearest(z: Tensor, to: Tensor) -> Near:
    """The nearest of points (m, d) to each of z (n, d), by Euclidean distance; the first of equals.

    Not by matrix products, which round away small distances.
    """
    if not len(to):
        return Near(z.new_full((len(z),), math.inf), torch.full((len(z),), -1, device=z.device))
    exact: Any = {"compute_mode": "donot_use_mm_for_euclid_dist"}
    rows = z.split(max(1, CELLS // len(to)))
    results = [torch.cdist(part, to, **exact).min(-1) for part in rows]
    return Near(*(torch.cat(parts) for parts in zip(*results, strict=True)))


def last_change(index: Tensor) -> Tensor:
    """(n,) the last time at which an integer of index (T + 1, n) differs from the one before; 0
    where it never does.

    >>> last_change(torch.tensor([[1, 1], [2, 1], [2, 1]]))
    tensor([1, 0])
    """
    times = torch.arange(len(index), device=index.device)[1:, None]
    return torch.where(index[1:] != index[:-1], times, 0).amax(0)


def arrival(distance: Tensor, radius: float) -> Tensor:
    """(n,) the first time from which distances (T + 1, n) are at most a radius up to T; T + 1 where
    that at T is not.

    >>> arrival(torch.tensor([[2.0, 2.0], [0.5, 0.5], [0.4, 3.0]]), 1.0)
    tensor([1, 3])
    """
    times = torch.arange(len(distance), device=distance.device)[:, None]
    return torch.where(distance > radius, times + 1, 0).amax(0)


def free_energy(at: Tensor, centers: Tensor, weights: Tensor, sd: float) -> Tensor:
    """(n,) −log Σ_s w_s N(u; c_s, sd² 1), nats, at points u (n, k) of a mixture with centres (S,
    k), weights (S,).

    In fewer dimensions than the mixture has, and with projected centres, this is the free energy
    −log of the marginal density exactly: an isotropic Gaussian stays one under projection onto
    orthonormal directions.
    """
    out = []
    for part in at.split(max(1, CELLS // len(centers))):
        square = torch.cdist(part, centers, compute_mode="donot_use_mm_for_euclid_dist").square()
        out.append(-(weights.log() - 0.5 * square / sd**2).logsumexp(-1))
    return torch.cat(out) + 0.5 * at.shape[-1] * math.log(2 * math.pi * sd**2)


class Regression(NamedTuple):
    """Estimates (n, m) of E[value | u], and how many points (n,), weighted, each rests on."""

    value: Tensor
    support: Tensor


def kernel_regression(at: Tensor, points: Tensor, values: Tensor, bandwidth: float) -> Regression:
    """Nadaraya-Watson estimate at u (n, k) of E[value | u] from points (N, k) with values (N, m),
    Gaussian kernel.

    `support` is Σ exp(−‖u − point‖²/2h²), about the number of points within the bandwidth h; where
    it is 0, value is NaN.
    """
    estimates, support = [], []
    for part in at.split(max(1, CELLS // len(points))):
        square = torch.cdist(part, points, compute_mode="donot_use_mm_for_euclid_dist").square()
        weight = (-0.5 * square / bandwidth**2).exp()
        support.append(weight.sum(-1))
        estimates.append(weight @ values / support[-1][:, None])
    return Regression(torch.cat(estimates), torch.cat(support))


def principal_plane(points: Tensor) -> tuple[Tensor, Tensor]:
    """Mean (d,) and the two directions (d, 2) of greatest variance of points (n, d), the largest
    entry of each positive.
    """
    center = points.mean(0)
    # fewer than two points have no two directions of their own
    directions = torch.linalg.svd(points - center, full_matrices=len(points) < 2).Vh[:2].T
    largest = directions.gather(0, directions.abs().argmax(0, keepdim=True))
    return center, directions * largest.sign()
