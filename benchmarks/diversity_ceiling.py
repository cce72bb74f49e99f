"""How diverse can sentences of coloured sprites be whose features are decoded as well as the targets ask?

    python benchmarks/diversity_ceiling.py

Diversity is the entropy of what a decoder makes of the sentences of one input: three coordinates of the colour Σ_c p_c
RGB_c, three probabilities of shapes, size, x and y. Let the decoder be calibrated, so that it gives what is right a_c
(colour) and a_s (shape) in the mean, the accuracies, and let r be the root mean squared error of a number. A coordinate
of the colour then lies on one side of the right one, 1 − a_c or less from it in the mean, and has 1 + log(1 − a_c) nats
or less; the two wrong shapes have a mean of 1 − a_s together, and 2 + 2 log((1 − a_s) / 2) or less, ½ log 3 more as
coordinates of the simplex; a number has ½ log(2πe r²) or less. Exponential and Gaussian laws reach these bounds, and
other accuracies of single inputs do not help, since the bounds are concave. In nine dimensions the entropy is −∞ in
truth, for shapes sum to 1; the table has what `diversity` estimates of this law from N samples and the k-th neighbour.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from plot_attractors.metrics.diversity import diversity

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
    Decoded("attractors", 0.95, 0.99, 0.034, 0.033),
    Decoded("colour and shape wrong in one of five", 0.80, 0.80, 0.095, 0.035),
)


def bound(of: Decoded) -> float:
    """Most nats in the eight dimensions that can vary."""
    numbers = sum(0.5 * math.log(2 * math.pi * math.e * r**2) for r in (of.size, of.place, of.place))
    shapes = 2 + 2 * math.log((1 - of.shape) / 2) + 0.5 * math.log(3)
    return 3 + 3 * math.log(1 - of.colour) + shapes + numbers


def best(of: Decoded) -> Tensor:
    """(INPUTS, SAMPLES, 9) predictions of the law that reaches the bound."""
    exponential = torch.distributions.Exponential(1.0)
    colour = (1 - of.colour) * exponential.sample((INPUTS, SAMPLES, 3))
    wrong = (1 - of.shape) / 2 * exponential.sample((INPUTS, SAMPLES, 2))
    numbers = torch.randn(INPUTS, SAMPLES, 3) * torch.tensor([of.size, of.place, of.place])
    return torch.cat([colour, 1 - wrong.sum(-1, keepdim=True), wrong, numbers], -1)


def main() -> None:
    torch.manual_seed(0)
    names = [f"nine, N = {n}, k = {k}" for n, k in ESTIMATES]
    print("| decoded | colour | shape | size | place | eight dimensions, at most |", " | ".join(names), "|")
    print("|:--|" + "--:|" * (5 + len(names)))
    for of in CASES:
        points = best(of)
        found = [diversity(points[:, :n], k).mean for n, k in ESTIMATES]
        print(f"| {of.name} |", " | ".join(f"{value:.3g}" for value in (*of[1:], bound(of), *found)), "|")


if __name__ == "__main__":
    main()
