"""How diverse can sentences of coloured sprites be whose features are decoded as well as the
targets ask? python benchmarks/diversity_ceiling.py

Diversity is the entropy of what a decoder makes of the sentences of one input: three coordinates of
the colour Σ_c p_c RGB_c, three probabilities of shapes, size, x and y. Let the decoder be
calibrated, so that its greatest probability is its accuracy a in the mean. What it gives to all
that is wrong is then E[1 − Σ_c p_c²] ≤ m = 1 − a² in the mean. The two wrong shapes have this mean
together, and so 2 + 2 log(m / 2) nats or less, as coordinates of the simplex ½ log 3 more. A
coordinate of the colour lies on one side of the right one, and no further from it than all that is
given to wrong ones: the three have 3 + 3 log(m / 3) + log 6 or less, of the density ∝ exp(−(3 / m)
max_i δ_i) of their distances δ. A number with the root mean squared error r has ½ log(2πe r²) or
less. All bounds are concave, so that it does not help to be sure of some inputs only. In nine
dimensions the entropy is −∞, for shapes sum to 1; the table has what `diversity` estimates of the
distribution that reaches the bounds, from N samples and the k-th neighbour.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from shared import header, row
from torch import Tensor

from plot_attractors.evaluation.metrics.diversity import diversity

INPUTS, SAMPLES = 400, 256
ESTIMATES = ((16, 10), (256, 1))  # N, k


class Decoded(NamedTuple):
    """Accuracy of colour and shape, root mean squared error of size and of x and y."""

    name: str
    colour: float
    shape: float
    size: float
    place: float


CASES = (
    Decoded("targets: size and place as the VQ-VAE", 0.95, 0.95, 0.095, 0.035),
    Decoded("attractors, medians of seeds 20 to 22", 0.955, 0.993, 0.038, 0.033),
    Decoded("colour and shape wrong in one of ten", 0.90, 0.90, 0.095, 0.035),
)


def wrong(accuracy: float) -> float:
    """Most that a calibrated decoder gives to all that is wrong, in the mean."""
    return 1 - accuracy**2


def bound(of: Decoded) -> float:
    """Most nats in the eight dimensions that can vary."""
    colour = 3 + 3 * math.log(wrong(of.colour) / 3) + math.log(6)
    shape = 2 + 2 * math.log(wrong(of.shape) / 2) + 0.5 * math.log(3)
    numbers = [0.5 * math.log(2 * math.pi * math.e * r**2) for r in (of.size, of.place, of.place)]
    return colour + shape + sum(numbers)


def best(of: Decoded) -> Tensor:
    """(INPUTS, SAMPLES, 9) predictions of the distribution that reaches the bound."""
    many = (INPUTS, SAMPLES)
    furthest = wrong(of.colour) / 3 * torch.distributions.Gamma(3.0, 1.0).sample((*many, 1))
    which = torch.nn.functional.one_hot(torch.randint(3, many), 3)
    colour = furthest * torch.maximum(torch.rand(*many, 3), which)
    others = wrong(of.shape) / 2 * torch.distributions.Exponential(1.0).sample((*many, 2))
    numbers = torch.randn(*many, 3) * torch.tensor([of.size, of.place, of.place])
    return torch.cat([colour, 1 - others.sum(-1, keepdim=True), others, numbers], -1)


def main() -> None:
    torch.manual_seed(0)
    names = [f"nine, N = {n}, k = {k}" for n, k in ESTIMATES]
    header("decoded", *Decoded._fields[1:], "eight dimensions, at most", *names)
    for of in CASES:
        points = best(of)
        found = [diversity(points[:, :n], k).mean for n, k in ESTIMATES]
        row(of.name, *(f"{value:.3g}" for value in (*of[1:], bound(of), *found)))


if __name__ == "__main__":
    main()
