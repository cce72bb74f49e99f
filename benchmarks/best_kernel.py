"""How close to its target can any kernel come that sees neither the input nor the time? A toy in
two dimensions: python benchmarks/best_kernel.py [SEEDS]

Sentences are points ẑ_s in the square [−1, 1]², inputs are points z0, and the target is π(s | x) ∝
exp(−‖z0 − ẑ_s‖²/2τ²). The dynamics kick z0 to z_1 ~ N(m(z0), Σ(z0)), the only step that knows the
input, and then run a Markov chain that knows only where it is. All that matters of the chain is the
probability h(s | z_1) that it ends at ẑ_s, 1 within 3ε of ẑ_s: q(s | x) = ∫ N(z_1; m, Σ) h(s | z_1)
dz_1. On a grid the mean total variation of q from π is convex in h, so its least value over all
chains is found by descent.

Compared with it: the chain that goes to the nearest ẑ, and the one that maximum likelihood on
bridge trajectories teaches, h(s | z_1) = Q(s | z_1), the kick a Gaussian of the moments of Q(z_1 |
x).
"""

from __future__ import annotations

import statistics
import sys

import torch
from shared import header, row
from torch import Tensor

SENTENCES, INPUTS, GRID, EPSILON, TAU, UPDATES = 25, 150, 64, 0.04, 0.35, 600


def gaussian(points: Tensor, mean: Tensor, sd: Tensor) -> Tensor:
    """(n, G) N(points (G, 2); mean (n, 2), sd (n, 2)), normalised over the grid."""
    return (-0.5 * (((points - mean[:, None]) / sd[:, None]) ** 2).sum(-1)).softmax(-1)


def total_variation(kick: Tensor, h: Tensor, target: Tensor) -> Tensor:
    return 0.5 * (kick @ h - target).abs().sum(-1).mean()


def best_chain(kick: Tensor, start: Tensor, held: Tensor, target: Tensor) -> float:
    """The least mean total variation over all h (G, S) that stay at `start` where `held` (G,)."""
    logits = start.clamp(min=1e-4).log().requires_grad_()
    optimizer = torch.optim.Adam([logits], lr=0.05)
    least = float("inf")
    for k in range(UPDATES):
        optimizer.param_groups[0]["lr"] = 0.05 * (1 - k / UPDATES)
        loss = total_variation(kick, torch.where(held[:, None], start, logits.softmax(-1)), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        least = min(least, float(loss.detach()))
    return least


def study(seed: int, first: float, noise: float) -> tuple[float, float, float]:
    """Mean total variation of the best chain, maximum likelihood's, the nearest embedding's."""
    generator = torch.Generator().manual_seed(seed)
    z_hat = 2 * torch.rand(SENTENCES, 2, generator=generator) - 1
    z0 = 2 * torch.rand(INPUTS, 2, generator=generator) - 1
    side = torch.linspace(-1.6, 1.6, GRID)
    points = torch.cartesian_prod(side, side)
    target = (-torch.cdist(z0, z_hat).square() / (2 * TAU**2)).softmax(-1)  # (B, S)
    # Q(z_1 | x, s) = N(z0 + first (ẑ_s − z0), noise²): its moments given x, and h = Q(s | z_1)
    mean = target @ z_hat
    variance = target @ z_hat.square() - mean.square()
    kick = gaussian(points, z0 + first * (mean - z0), (first**2 * variance + noise**2).sqrt())
    joint = torch.zeros(len(points), SENTENCES)
    for s in range(SENTENCES):
        to = gaussian(points, z0 + first * (z_hat[s] - z0), torch.full_like(z0, noise))
        joint[:, s] = target[:, s] @ to
    distance, nearest = torch.cdist(points, z_hat).min(-1)
    at_nearest = torch.nn.functional.one_hot(nearest, SENTENCES).float()
    held, joint = distance < 3 * EPSILON, joint + 1e-12
    likely = torch.where(held[:, None], at_nearest, joint / joint.sum(-1, keepdim=True))
    others = [float(total_variation(kick, h, target)) for h in (likely, at_nearest)]
    return best_chain(kick, likely, held, target), others[0], others[1]


def main(seeds: int = 3) -> None:
    header("first", "noise", "best chain", "maximum likelihood", "nearest embedding")
    for first in (0.4, 0.6, 0.8, 1.0):
        for noise in (0.06, 0.12, 0.2):
            results = zip(*(study(seed, first, noise) for seed in range(seeds)), strict=True)
            cells = [f"{statistics.mean(c):.3f} ± {statistics.pstdev(c):.3f}" for c in results]
            row(first, noise, *cells)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(*(int(n) for n in sys.argv[1:]))
