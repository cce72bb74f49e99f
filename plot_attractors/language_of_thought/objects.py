"""What expressions are true of: the objects of a world, and the inputs that show them."""

from __future__ import annotations

import weakref

import torch
from torch import Tensor, nn

from plot_attractors.baselines import SpriteRecogniser
from plot_attractors.data import ColouredSprites
from plot_attractors.data.sprites import NOISE, RGB

__all__ = ["BitObjects", "Objects", "SpriteObjects"]


class BitObjects(nn.Module):
    """Objects that show 0/1 vectors, their bits independent with probabilities (O, bits)."""

    probabilities: Tensor

    def __init__(self, probabilities: Tensor) -> None:
        super().__init__()
        self.register_buffer("probabilities", probabilities, persistent=False)

    def __len__(self) -> int:
        return len(self.probabilities)

    def log_prob(self, x: Tensor) -> Tensor:
        """(…, O) Σ_k log P(x_k | object) over the bits that are known, nats."""
        known = (~x.isnan()).to(x)
        log_no = torch.log1p(-self.probabilities)
        return x.nan_to_num() @ torch.logit(self.probabilities).T + known @ log_no.T


class SpriteObjects(nn.Module):
    r"""Kinds of coloured sprites; colours are seen through noise, all else as it is.

    With the colour v found in an image, and a half-normal distance of each channel from 0 or 1,

    .. math:: \log P(x | \text{object}) = -\sum_c (v_c - \text{rgb}_c)^2 / 2\sigma^2,

    and 50 nats less where shape, size or cell are not those of the sprite most alike the image.

    `sizes` kinds of sizes are told apart, as even parts of the data's sizes.
    """

    MISTAKEN = 50.0

    kinds: Tensor
    factors: Tensor

    def __init__(self, data: ColouredSprites, sizes: int = 3) -> None:
        super().__init__()
        self._last: tuple[weakref.ref[Tensor], Tensor] | None = None
        self.recognise = SpriteRecogniser(data)
        colours, shapes, most, *cells = self.recognise.sizes
        if not 1 <= sizes <= most:
            raise ValueError(f"kinds of sizes are 1 to {most}, not {sizes}")
        self.outcomes = (colours, shapes, sizes, *cells)
        kinds = torch.cartesian_prod(*map(torch.arange, self.outcomes))
        factors = self.recognise.factors.clone()
        factors[:, 1] = factors[:, 1] * sizes // most
        for name, part in (("kinds", kinds), ("factors", factors)):
            self.register_buffer(name, part, persistent=False)

    def __len__(self) -> int:
        return len(self.kinds)

    def log_prob(self, x: Tensor) -> Tensor:
        if self._last is not None and self._last[0]() is x:  # chains ask again at every step
            return self._last[1]
        prototype, rgb = self.recognise.match(x.flatten(0, -4))
        colour = -(rgb[:, None] - RGB.to(rgb)).square().sum(-1) / (2 * NOISE**2)
        same = (self.kinds[:, 1:] == self.factors[prototype][:, None]).all(-1)
        log_p = colour[:, self.kinds[:, 0]] - self.MISTAKEN * (~same).to(colour)
        log_p = log_p.unflatten(0, x.shape[:-3])
        self._last = weakref.ref(x), log_p
        return log_p


Objects = BitObjects | SpriteObjects
"""O objects, all alike before an input is seen."""
