"""Fixed points of a noisy map, their stability and basins, and pictures of its landscape."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.cluster.hierarchy import fclusterdata
from torch import Tensor
from torch.distributions import Distribution

STATES = 1024  # that the mean map takes at once: what fits into a core's cache
CELLS = 4_000_000  # entries of a table of distances held at once
NEIGHBOURS = 3  # of each fixed point: half way to them, others are looked for
TOLERANCE, SAME, INSIDE = 1e-5, 0.01, 0.025  # of `attractors`, shares of the spread of starts
FAR = 1e8  # further away, states are taken to diverge


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


@dataclass(frozen=True)
class FixedPoints:
    """Fixed points z (n, d), stable ones first, with the moduli (n, d) of their eigenvalues,
    largest first, and the number (n,) of moduli above 1.
    """

    z: Tensor
    moduli: Tensor
    unstable: Tensor

    @property
    def stable(self) -> Tensor:
        """(m, d) the stable ones."""
        return self.z[self.unstable == 0]

    def __getitem__(self, index: Tensor) -> FixedPoints:
        return FixedPoints(self.z[index], self.moduli[index], self.unstable[index])

    def basin(self, ends: Tensor, within: float) -> Tensor:
        """(N,) the row of the stable one that is nearest to each of ends (N, d), −1 where none is
        nearer than `within`.
        """
        near = nearest(ends, self.stable)
        return torch.where(near.distance < within, near.row, -1)


def find_fixed_points(
    linearize: Callable[[Tensor], tuple[Tensor, Tensor]],
    ends: Tensor,
    tolerance: float,
    same: float,
    reach: float,
    judge: Callable[[Tensor], tuple[Tensor, Tensor]] | None = None,
) -> FixedPoints:
    """Fixed points where states (n, d) have converged, and half way between neighbouring ones:
    there unstable ones are, not all of them.

    Args:
        linearize, tolerance, reach: as in `solve_fixed_points`.
        same: points that a chain of steps of this length joins are one.
        judge: another `linearize`, whose Jacobians tell stability.
    """

    def merged(z: Tensor) -> Tensor:
        _, first = np.unique(single_linkage(z, same).numpy(), return_index=True)
        return z[torch.from_numpy(np.sort(first))]

    def solved(z: Tensor) -> Tensor:
        end = solve_fixed_points(linearize, z, tolerance, reach)
        return end.z[end.converged]

    points = solved(merged(ends)) if len(ends) else ends
    known = merged(points)
    k = min(NEIGHBOURS, len(known) - 1)
    if k > 0:
        neighbours = torch.cdist(known, known).topk(k + 1, largest=False).indices[:, 1:]
        each = torch.arange(len(known)).repeat_interleave(k)
        pairs = torch.stack([each, neighbours.flatten()], -1).sort(-1).values.unique(dim=0)
        points = torch.cat([points, solved(known[pairs].mean(1))])
    z = merged(points)
    moduli, unstable = stability((judge or linearize)(z)[1])
    return FixedPoints(z, moduli, unstable)[unstable.argsort(stable=True)]


class Attractors(NamedTuple):
    """Fixed points of a map, stable ones first and by the size of their basins; the row (N,) of the
    stable one that each start is led to, −1 for none; and the last states (N, d).
    """

    points: FixedPoints
    basin: Tensor
    ends: Tensor

    @property
    def share(self) -> Tensor:
        """(m,) of starts that are led to each stable fixed point."""
        counts = torch.bincount(self.basin[self.basin >= 0], minlength=len(self.points.stable))
        return counts.double() / max(1, len(self.basin))


def attractors(
    f: Callable[[Tensor], Tensor | Distribution], starts: Tensor, iterations: int = 3000
) -> Attractors:
    """Fixed points and basins of any map of states: a recurrent network, E∘D of an autoencoder.

    States follow z ← f(z) until a step is shorter than 10⁻⁵ of the spread of the starts, the root
    of their summed variances. Ends are merged, refined by Newton's method, and merged again within
    0.01 of the spread; unstable fixed points are looked for half way between others. A fixed point
    is stable where all eigenvalues of the Jacobian (by autograd) are below 1 in modulus. Cycles and
    states that never settle have no basin, −1.

    Args:
        f: states (n, d) → next states (n, d), each from its own state alone; or a distribution of
            them, whose mean is followed.
        starts: (N, d), at least two that differ.
        iterations: most of them.

    Raises ValueError: starts or next states of another shape; starts that are alike.

    >>> found = attractors(lambda z: z - 0.1 * (z**3 - z), torch.linspace(-2.0, 2.0, 8)[:, None])
    >>> found.points.stable.flatten().round(decimals=3).sort().values.tolist(), found.share.tolist()
    ([-1.0, 1.0], [0.5, 0.5])

    Sources: Sussillo & Barak (2013), "Opening the black box", for recurrent networks; Fumero et al.
    (2026), "Navigating the latent space dynamics of neural models", for autoencoders.
    """
    spread = float(starts.double().var(0).sum().sqrt()) if starts.ndim == 2 else math.nan
    if not 0 < spread < math.inf:
        raise ValueError(
            "starts must be states (N, d), finite, at least two that differ, "
            f"not a tensor of shape {tuple(starts.shape)} and spread {spread:g}"
        )

    def step(z: Tensor) -> Tensor:
        out = f(z)
        new = out.mean if isinstance(out, Distribution) else out
        if new.shape != z.shape:
            raise ValueError(f"the map makes {tuple(new.shape)} of states {tuple(z.shape)}")
        far = new.norm(dim=-1, keepdim=True) > FAR * (1 + spread)
        return new.masked_fill(far, math.nan)

    def linearize(z: Tensor) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            z = z.detach().requires_grad_()
            new = step(z)
            rows = [
                torch.autograd.grad(new[:, i].sum(), z, retain_graph=True)[0]
                for i in range(z.shape[-1])
            ]
        return new.detach(), torch.stack(rows, 1)

    with torch.no_grad():
        end = fixed_point_iteration(step, starts.detach(), TOLERANCE * spread, iterations)
    settled = end.z[end.converged]
    points = find_fixed_points(linearize, settled, TOLERANCE * spread, SAME * spread, spread)
    basin = points.basin(end.z, INSIDE * spread).where(end.converged, -1)
    counts = torch.bincount(basin[basin >= 0], minlength=len(points.stable))
    order = counts.argsort(descending=True, stable=True)
    rank = torch.cat([order.argsort(), torch.tensor([-1])])
    order = torch.cat([order, torch.arange(len(order), len(points.z))])
    return Attractors(points[order], rank[basin], end.z)


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
    """Bounds of Wilson's 95 % interval of shares count/n, which it holds; NaN where n is 0."""
    p = count.double() / n if n else torch.full(count.shape, math.nan, dtype=torch.float64)
    quantile = 1.96  # of the normal distribution
    q = quantile**2
    middle = p + q / (2 * max(n, 1))
    half = quantile * (p * (1 - p) / max(n, 1) + q / (4 * max(n, 1) ** 2)).sqrt()
    scale = 1 + q / max(n, 1)
    low, high = (middle - half) / scale, (middle + half) / scale
    return low.clamp(min=0.0).minimum(p), high.clamp(max=1.0).maximum(p)  # beyond p by rounding


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


def principal_plane(points: Tensor) -> tuple[Tensor, Tensor]:
    """Mean (d,) and the two directions (d, 2) of greatest variance of points (n, d), the largest
    entry of each positive.
    """
    center = points.mean(0)
    # fewer than two points have no two directions of their own
    directions = torch.linalg.svd(points - center, full_matrices=len(points) < 2).Vh[:2].T
    largest = directions.gather(0, directions.abs().argmax(0, keepdim=True))
    return center, directions * largest.sign()
