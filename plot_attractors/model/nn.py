"""Networks: perceptrons, networks of images, random Fourier features, and features of time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from plot_attractors.model.bits import filled

__all__ = [
    "MLP",
    "Fourier",
    "FourierFeatures",
    "ImageEncoder",
    "ImageGenerator",
    "MaskedLinear",
    "VectorEncoder",
    "encoding_network",
    "time_features",
]


class MLP(nn.Sequential):
    """Multilayer perceptron with `layers` linear layers: inputs → units → … → outputs (Section
    *Experiments*: three).

    Example:
        >>> MLP(8, 2, units=16)(torch.zeros(5, 8)).shape
        torch.Size([5, 2])
    """

    def __init__(self, inputs: int, outputs: int, units: int = 256, layers: int = 3) -> None:
        sizes = [inputs, *[units] * (layers - 1), outputs]
        parts: list[nn.Module] = []
        for a, b in pairwise(sizes):
            parts += [nn.Linear(a, b), nn.SiLU()]
        super().__init__(*parts[:-1])


class VectorEncoder(MLP):
    """A perceptron of inputs, whose missing bits it sees as ½."""

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = super().forward(filled(x))
        return out


class MaskedLinear(nn.Linear):
    """Linear layer whose weights are 0 wherever `mask` (outputs, inputs) is 0; at first every input
    has one output, in turn.

    Example:
        >>> MaskedLinear(3, 2).mask
        tensor([[1., 0., 1.],
                [0., 1., 0.]])
    """

    mask: Tensor

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs)
        self.register_buffer(
            "mask", (torch.arange(outputs)[:, None] == torch.arange(inputs) % outputs).float()
        )

    @property
    def axes(self) -> Tensor:
        """(inputs,) the output of each input."""
        return self.mask.argmax(0)

    @property
    def unused(self) -> Tensor:
        """(k,) the outputs that no input has."""
        return (self.mask.sum(1) == 0).nonzero()[:, 0]

    @torch.no_grad()
    def place(self, inputs: Tensor, outputs: Tensor) -> None:
        """Each of some inputs (n,) tells one output (n,) from now on, with weight 0 at first."""
        self.mask[:, inputs] = self.weight[:, inputs] = 0.0
        self.mask[outputs, inputs] = 1.0

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self.weight * self.mask, self.bias)


SMALLEST = 4  # side of the last feature maps
CHANNELS = (32, 64, 64, 64, 64)  # of the feature maps, from half of the image's side on
# images that networks see at a time where no gradient is asked for: feature maps of 4,096 take 5 GB
TOGETHER = 512
GRID_SPREAD = (
    2.0  # standard deviation of the weights of a place's coordinates, which run from −1 to 1
)


def _halvings(side: int) -> int:
    """How often a side is halved until it is 4."""
    n = max(side // SMALLEST, 1).bit_length() - 1
    if not 1 <= n <= len(CHANNELS) or side != SMALLEST * 2**n:
        raise ValueError(
            f"networks of images need a side of 8, 16, 32, 64 or 128 pixels, not {side}"
        )
    return n


def _few_together(network: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """network(x), for `TOGETHER` rows at a time where no gradient is asked for."""
    if torch.is_grad_enabled() or len(x) <= TOGETHER:
        return network(x)
    return torch.cat([network(rows) for rows in x.split(TOGETHER)])


class ImageEncoder(nn.Sequential):
    """Images (n, channels, side, side) → (n, outputs): convolutions that halve the side until it is
    4, and two layers.

    Raises ValueError when the side is none of 8, 16, 32, 64, 128.

    Example:
        >>> ImageEncoder((3, 32, 32), 10, units=64)(torch.zeros(5, 3, 32, 32)).shape
        torch.Size([5, 10])
    """

    def __init__(self, shape: Sequence[int], outputs: int, units: int = 256) -> None:
        channels = [shape[0], *CHANNELS[: _halvings(shape[-1])]]
        parts: list[nn.Module] = []
        for a, b in pairwise(channels):
            parts += [nn.Conv2d(a, b, 4, stride=2, padding=1), nn.SiLU()]
        parts += [
            nn.Flatten(),
            nn.Linear(channels[-1] * SMALLEST**2, units),
            nn.SiLU(),
            nn.Linear(units, outputs),
        ]
        super().__init__(*parts)

    def forward(self, x: Tensor) -> Tensor:
        return _few_together(super().forward, x)


class ImageGenerator(nn.Module):
    """States (…, inputs) → images (…, channels, side, side), unbounded: a spatial broadcast
    decoder.

    Each place of a grid sees the state and its own two coordinates, through the same perceptron of
    `layers` layers, and transposed convolutions double the grid, of 4, 8 or 16 places a side, until
    it is the image. A sprite that moves is then a shift along one direction of the state; with
    transposed convolutions alone the encoder bends position into four or five dimensions and mixes
    it with everything else. Source: Watters et al. (2019), "Spatial broadcast decoder".

    Example:
        >>> ImageGenerator(10, (3, 32, 32))(torch.zeros(2, 5, 10)).shape
        torch.Size([2, 5, 3, 32, 32])
    """

    grid: Tensor

    def __init__(self, inputs: int, shape: Sequence[int], units: int = 64, layers: int = 3) -> None:
        super().__init__()
        side = SMALLEST * 2 ** min(_halvings(shape[-1]) - 1, 2)
        doublings = (shape[-1] // side).bit_length() - 1
        axis = torch.linspace(-1, 1, side)
        self.register_buffer(
            "grid", torch.stack(torch.meshgrid(axis, axis, indexing="ij"), -1), persistent=False
        )
        self.state, self.place = nn.Linear(inputs, units), nn.Linear(2, units)
        nn.init.normal_(self.place.weight, std=GRID_SPREAD)
        parts: list[nn.Module] = []
        for _ in range(layers - 1):
            parts += [nn.SiLU(), nn.Linear(units, units)]
        self.places = nn.Sequential(*parts)
        channels = [units, *[CHANNELS[0]] * (doublings - 1), shape[0]]
        self.growth = nn.Sequential()
        for a, b in pairwise(channels):
            self.growth.extend([nn.SiLU(), nn.ConvTranspose2d(a, b, 4, stride=2, padding=1)])

    def forward(self, z: Tensor) -> Tensor:
        return _few_together(self._grow, z.flatten(0, -2)).unflatten(0, z.shape[:-1])

    def _grow(self, z: Tensor) -> Tensor:
        h = self.state(z)[:, None, None] + self.place(self.grid)  # (n, side, side, units)
        images: Tensor = self.growth(self.places(h).movedim(-1, 1))
        return images


def encoding_network(
    shape: Sequence[int], outputs: int, units: int = 256, layers: int = 3
) -> nn.Module:
    """What sees an input: `VectorEncoder` for shape (bits,), and `ImageEncoder` for images."""
    return (
        VectorEncoder(shape[0], outputs, units, layers)
        if len(shape) == 1
        else ImageEncoder(shape, outputs, units)
    )


class FourierFeatures(nn.Module):
    """[z, √2 cos(Wz + b)] with fixed W ~ N(0, scale²), b ~ U(0, 2π): (…, d) → (…, d + features).

    They let a small field hold many attractors: told to move to the nearest of 400 embeddings, a
    ReLU network of 256 units keeps 18 % of the states there over 100 noisy steps, with the
    features up to 82 %. With `axes`, every feature sees one latent axis, and all axes have as
    many: where embeddings are sums along axes, what holds along one holds wherever the others are.
    """

    frequencies: Tensor
    phases: Tensor

    def __init__(self, inputs: int, features: int, scale: float, axes: bool = False) -> None:
        super().__init__()
        self.outputs = inputs + features
        frequencies = scale * torch.randn(inputs, features)
        if axes:
            frequencies *= torch.arange(inputs)[:, None] == torch.arange(features) % inputs
        self.register_buffer("frequencies", frequencies)
        self.register_buffer("phases", 2 * math.pi * torch.rand(features))

    def forward(self, z: Tensor) -> Tensor:
        return torch.cat([z, math.sqrt(2) * torch.cos(z @ self.frequencies + self.phases)], -1)


@dataclass(frozen=True)
class Fourier:
    """What random Fourier features a network has; none by default. See `FourierFeatures`."""

    features: int = 0
    scale: float = 3.0
    axes: bool = False

    def of(self, inputs: int) -> nn.Module:
        """A new module of them for states of so many dimensions."""
        if not self.features:
            return nn.Identity()
        return FourierFeatures(inputs, self.features, self.scale, self.axes)


def time_features(t: Tensor, steps: int) -> Tensor:
    """(…, 1) time in steps → (…, 7): u = t/T, and sin(πku), cos(πku) for k = 1, 2, 3."""
    u = t / steps
    k = math.pi * torch.arange(1, 4, device=t.device, dtype=u.dtype)
    return torch.cat([u, torch.sin(k * u), torch.cos(k * u)], -1)
