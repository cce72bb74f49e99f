"""Networks: multilayer perceptrons, random Fourier features, and features of time."""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import Tensor, nn

__all__ = ["MLP", "FourierFeatures", "time_features"]


class MLP(nn.Sequential):
    """Multilayer perceptron with `layers` linear layers: inputs → units → … → outputs (Section *Experiments*: three).

    Example:
        >>> MLP(8, 2, units=16)(torch.zeros(5, 8)).shape
        torch.Size([5, 2])
    """

    def __init__(self, inputs: int, outputs: int, units: int = 256, layers: int = 3) -> None:
        if layers < 1:
            raise ValueError(f"layers must be at least 1, not {layers}.")
        sizes = [inputs, *[units] * (layers - 1), outputs]
        parts: list[nn.Module] = []
        for a, b in pairwise(sizes):
            parts += [nn.Linear(a, b), nn.SiLU()]
        super().__init__(*parts[:-1])


class FourierFeatures(nn.Module):
    """[z, √2 cos(Wz + b)] with fixed W ~ N(0, scale²), b ~ U(0, 2π): what lets a small field hold many attractors.

    Without them a ReLU network of 256 units told to move to the nearest of 400 embeddings keeps 18 % of the states at
    home over 100 noisy steps; with them up to 82 %. (…, inputs) → (…, inputs + features).
    """

    frequencies: Tensor
    phases: Tensor

    def __init__(self, inputs: int, features: int, scale: float) -> None:
        super().__init__()
        self.outputs = inputs + features
        self.register_buffer("frequencies", scale * torch.randn(inputs, features))
        self.register_buffer("phases", 2 * math.pi * torch.rand(features))

    def forward(self, z: Tensor) -> Tensor:
        return torch.cat([z, math.sqrt(2) * torch.cos(z @ self.frequencies + self.phases)], -1)


def time_features(t: Tensor, steps: int, harmonics: int = 3) -> Tensor:
    """(…, 1) time in steps → (…, 1 + 2·harmonics): u = t/T, sin(πku), cos(πku)."""
    u = (t / steps).clamp(max=1 + 1 / steps)  # T + 1 is the first backward step's; longer runs stay in the last phase
    k = math.pi * torch.arange(1, harmonics + 1, device=t.device, dtype=u.dtype)
    return torch.cat([u, torch.sin(k * u), torch.cos(k * u)], -1)
