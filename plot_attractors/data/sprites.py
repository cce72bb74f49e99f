"""Squares, ellipses and hearts as pixels: a batched renderer with sub-pixel coverage."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["SHAPES", "render"]

SHAPES = ("square", "ellipse", "heart")

FRAME = 64  # side of the image that all lengths are measured in, pixels
ORIGIN, SPAN = 16.0, 32.0  # a sprite's centre lies at ORIGIN + SPAN * position
HALF_WIDTH = (10.0, 12.75, 9.6)  # of a sprite of size 1, in the order of SHAPES
HALF_HEIGHT = (10.0, 7.25, 10.4)  # of the heart, the factor of its curve
DROP = 1.4  # by which the heart is raised
# vertical strips of a pixel that coverage is summed over; 0.015 off at worst, at the tip of a heart
STRIPS = 8


def render(shape: Tensor, size: Tensor, x: Tensor, y: Tensor, side: int = FRAME) -> Tensor:
    r"""White sprites on black, (n, side, side) float32 from 0 to 1: rows go down, columns right.

    - ``shape``: (n,) int64, the number of one of `SHAPES`; ``size``: (n,) s, originally 0.5 to 1;
    - ``x``, ``y``: (n,) position, originally from 0 (left, top) to 1 (right, bottom);
    - ``side``: in pixels.

    Each pixel is the part of it that the sprite covers. All shapes are upright. In pixels of a
    64 × 64 image, y down, about (16 + 32 x, 16 + 32 y):

    - square of side 20 s;
    - ellipse of semi-axes (12.75 s, 7.25 s);
    - heart :math:`9.6\,s\,\sin^3 t,\;
      -s\,[10.4\,(13\cos t - 5\cos 2t - 2\cos 3t - \cos 4t)/16 + 1.4]`.

    On each vertical line a shape covers one interval with known ends, so coverage is exact along a
    line, and summed over 8 lines a pixel. Source: the data set dSprites at orientation 0.

    >>> square = torch.tensor([0]), torch.tensor([0.5]), torch.tensor([0.5]), torch.tensor([0.5])
    >>> float(render(*square).sum()), float(render(*square, side=32).sum())
    (100.0, 25.0)
    """
    scale = (size * (side / FRAME))[:, None]  # pixels a unit of the shape
    across = (ORIGIN + SPAN * x)[:, None] * (side / FRAME)
    down = (ORIGIN + SPAN * y)[:, None] * (side / FRAME)
    half = torch.tensor(HALF_WIDTH, device=shape.device)[shape][:, None] * scale
    pixel = torch.arange(side, device=shape.device, dtype=torch.float32)

    def ends(columns: Tensor) -> tuple[Tensor, Tensor]:
        """Top and bottom (n, 1, side) of the shape on vertical lines at columns (n, side)."""
        middle, height = _profile(shape, (columns - across) / scale)
        middle = down + scale * middle
        return (middle - scale * height)[:, None], (middle + scale * height)[:, None]

    row = pixel[:, None]
    # The part of a pixel's column that the shape reaches, cut into strips of equal width.
    left = torch.maximum(pixel, across - half)
    width = (torch.minimum(pixel + 1, across + half) - left).clamp(min=0) / STRIPS
    image = torch.zeros(len(shape), side, side, device=shape.device)
    for k in range(STRIPS):
        top, bottom = ends(left + (k + 0.5) * width)
        covered = (bottom - row).clamp_(0, 1).sub_((top - row).clamp_(0, 1))
        image.addcmul_(covered, width[:, None])
    return image


def _profile(shape: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Middle and half of the interval, y down, that shapes (n,) cover on lines x (n, w)."""
    kind = shape[:, None]
    widths = torch.tensor(HALF_WIDTH, device=x.device)[kind]
    ratio = (x.abs() / widths).clamp(max=1)
    # Ellipse: the ratio is cos t. Heart: it is sin³ t, and both ends have the same sin t and ± c =
    # cos t; so even terms of the curve are the middle, odd ones, 13 c − 2 (4 c³ − 3 c), half of it.
    c = (1 - torch.where(kind == 2, ratio.pow(2 / 3), ratio.square())).clamp(min=0).sqrt()
    square_of_c = c.square()
    even = -5 * (2 * square_of_c - 1) - (8 * square_of_c.square() - 8 * square_of_c + 1)
    odd = c * (19 - 8 * square_of_c)
    factor = HALF_HEIGHT[2] / 16
    middle = torch.where(kind == 2, -(factor * even + DROP), 0.0)
    curved = torch.where(kind == 1, HALF_HEIGHT[1] * c, factor * odd)
    return middle, torch.where(kind == 0, HALF_HEIGHT[0], curved)
