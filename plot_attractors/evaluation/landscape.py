"""Maps of the landscape of latent states: free energy, mean steps and basins in a plane."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from plot_attractors.evaluation.basins import NEAR, Basins
from plot_attractors.evaluation.metrics.attractors import (
    free_energy,
    kernel_regression,
    principal_plane,
)

LEAST_SUPPORT = 3  # states that an average step needs


def landscape(
    basins: Basins, visited: Tensor, pixels: int, arrows: int, cut_pixels: int
) -> dict[str, np.ndarray]:
    """What the figure shows of the plane of two principal components, and of a plane cut
    through three stable fixed points, where there are so many.

    Names begin with the plane's: ``…_window`` (2, 2) its corners; ``…_energy`` (n, n) −log F,
    nats; ``…_flow`` (m, m, 2) mean steps, NaN where few of the states `visited` (N, d) tell
    them; ``…_embeddings``, ``…_stable`` and ``…_unstable`` (k, 2); ``cut_basins`` (m, m).
    """
    sentences, epsilon = basins.sentences, basins.model.epsilon
    weights = sentences.probability / sentences.probability.sum()
    view = View.principal(sentences.embedding, basins.unit)
    spots = view.project(sentences.embedding)
    found = _points(basins, "plane", view, math.inf)
    energy = free_energy(view.grid(pixels), spots, weights, epsilon)
    found["plane_energy"] = energy.view(pixels, pixels).numpy()
    steps = (basins.f.mean(visited) - visited) @ view.axes
    bandwidth = 0.7 * float(view.high[0] - view.low[0]) / (arrows - 1)
    at, origins = view.grid(arrows), view.project(visited)
    flow, support = kernel_regression(at, origins, steps, bandwidth)
    flow[support < LEAST_SUPPORT] = math.nan
    found["plane_flow"] = flow.view(arrows, arrows, 2).numpy()

    cut = View.through(basins.points.stable, basins.unit)
    if cut is not None:
        found |= _points(basins, "cut", cut, NEAR * basins.unit)
        at = cut.lift(cut.grid(pixels // 2))
        energy = free_energy(at, sentences.embedding, weights, epsilon)
        found["cut_energy"] = energy.view(pixels // 2, pixels // 2).numpy()
        z = cut.lift(cut.grid(cut_pixels))
        flow, basin = (basins.f(z) - z) @ cut.axes, basins.basin(basins.iterate(z).z)
        found["cut_flow"] = flow.view(cut_pixels, cut_pixels, 2).numpy()
        found["cut_basins"] = basin.view(cut_pixels, cut_pixels).numpy()
    return found


def _points(basins: Basins, name: str, view: View, reach: float) -> dict[str, np.ndarray]:
    """Places (k, 2) in the window of a plane of points no further than `reach` from it."""
    found = {f"{name}_window": torch.stack([view.low, view.high]).numpy()}
    points = {
        "embeddings": basins.sentences.embedding,
        "stable": basins.points.stable,
        "unstable": basins.points.z[basins.points.unstable > 0],
    }
    for kind, z in points.items():
        u = view.project(z[view.distance(z) <= reach])
        inside = ((u >= view.low) & (u <= view.high)).all(-1)
        found[f"{name}_{kind}"] = u[inside].numpy()
    return found


class View(NamedTuple):
    """A plane: a point (d,) in it, two orthonormal directions (d, 2), and the corners (2,) of the
    window that is shown of it.
    """

    origin: Tensor
    axes: Tensor
    low: Tensor
    high: Tensor

    @classmethod
    def principal(cls, points: Tensor, unit: float) -> View:
        """The plane of greatest variance of points (n, d)."""
        center, directions = principal_plane(points)
        window = square_window((points - center) @ directions, 0.08, 2 * unit)
        return cls(center, directions, *window)

    @classmethod
    def through(cls, points: Tensor, unit: float) -> View | None:
        """The plane through the first of points (n, d) and those two of its nearest five that span
        the fullest triangle; None for fewer than three points.
        """
        if len(points) < 3:
            return None
        first = points[0]
        sides = points[(points - first).norm(dim=-1).argsort()[1:6]] - first
        i, j = torch.triu_indices(len(sides), len(sides), 1)
        along = torch.nn.functional.normalize(sides[i], dim=-1)
        across = sides[j] - (sides[j] * along).sum(-1, keepdim=True) * along
        lengths = [part.norm(dim=-1) for part in (sides[i], sides[j], sides[i] - sides[j])]
        area = across.norm(dim=-1) * sides[i].norm(dim=-1)
        best = int((area / torch.stack(lengths).amax(0) ** 2).argmax())
        second = torch.nn.functional.normalize(across[best], dim=-1)
        axes = torch.stack([along[best], second], -1)
        corners = torch.stack([torch.zeros(2), sides[i][best] @ axes, sides[j][best] @ axes])
        return cls(first, axes, *square_window(corners, 0.9, unit / 2))

    def project(self, z: Tensor) -> Tensor:
        """(…, d) → (…, 2)."""
        return (z - self.origin) @ self.axes

    def lift(self, u: Tensor) -> Tensor:
        """(…, 2) → (…, d), the points of the plane itself."""
        return self.origin + u @ self.axes.T

    def distance(self, z: Tensor) -> Tensor:
        """(…) from the plane."""
        return (z - self.lift(self.project(z))).norm(dim=-1)

    def grid(self, n: int) -> Tensor:
        """(n · n, 2) points of a grid in the window, row by row."""
        sides = zip(self.low.tolist(), self.high.tolist(), strict=True)
        x, y = (torch.linspace(low, high, n) for low, high in sides)
        return torch.stack(torch.meshgrid(x, y, indexing="xy"), -1).flatten(0, 1)


def square_window(u: Tensor, margin: float, least: float) -> tuple[Tensor, Tensor]:
    """Corners of a square that holds points u (n, 2) and a margin, a share of its side, which is at
    least 2 · `least` without the margin.
    """
    middle = (u.amax(0) + u.amin(0)) / 2
    half = max(float((u.amax(0) - u.amin(0)).max()) / 2, least) * (1 + margin)
    return middle - half, middle + half
