"""Coloured sprites: the paper's modification of dSprites, rendered with sub-pixel coverage."""

from __future__ import annotations

import copy
import itertools
from functools import lru_cache

import torch
from torch import Tensor

from plot_attractors.data.batch import Batch, Feature, Members
from plot_attractors.data.images import Images

__all__ = ["COLOURS", "RGB", "SHAPES", "ColouredSprites", "render"]

COLOURS = ("blue", "green", "cyan", "red", "magenta", "yellow", "white")
RGB = torch.tensor([[k >> 2 & 1, k >> 1 & 1, k & 1] for k in range(1, 8)], dtype=torch.float32)
NOISE = 0.2  # σ of the half-normal noise of a colour channel

SIZES = torch.linspace(0.5, 1, 6)  # of the original
POSITIONS = torch.linspace(0, 1, 32)  # on each axis of the original
# of the first 31 positions of an axis: four modes, eight positions apart
POSITION_WEIGHTS = ((2, 3, 4, 5, 4, 3, 2, 1) * 4)[:-1]
QUARTER = 8  # positions from one mode to the next: a cell of the 4 × 4 grid
# held-out cells, as (column, row) from 0; the paper has two, without saying which
POSITION_CELL, YELLOW_CELL = (1, 2), (2, 1)

SHAPES = ("square", "ellipse", "heart")

FRAME = 64  # side of the image that all lengths are measured in, pixels
ORIGIN, SPAN = 16.0, 32.0  # a sprite's centre lies at ORIGIN + SPAN * position
HALF_WIDTH = (10.0, 12.75, 9.6)  # of a sprite of size 1, in the order of SHAPES
HALF_HEIGHT = (10.0, 7.25, 10.4)  # of the heart, the factor of its curve
DROP = 1.4  # by which the heart is raised
# vertical strips of a pixel that coverage is summed over; 0.015 off at worst, at the tip of a heart
STRIPS = 8


class ColouredSprites(Images, Members):
    """A coloured square, ellipse or heart on black, upright, at one of 4 × 4 places or near it.

    Colour, shape and size are drawn uniformly, x and y from the first 31 of 32 positions in
    proportion to 2, 3, 4, 5, 4, 3, 2, 1, 2, …, 3, 2: four modes an axis. A channel of the colour
    that is 1 becomes 1 − n, and one that is 0 becomes n, with n half-normal of σ = 0.2, cut off at
    1, anew for every channel and image: 3.2 % of all images are nearer to another colour than to
    their own. Source: the paper's section and appendix "dSprites".

    With ``hold_out``, three sets are kept from training, each a split of its own:

    - ``position``: all sprites in the second quarter of x and the third of y;
    - ``position+colour``: yellow sprites in the third quarter of x and the second of y;
    - ``position+shape``: magenta ellipses, wherever they are (the paper's name for them).

    Attributes, for N = 7 · 3 · S · 31 · 31 combinations of colour, shape, size, x and y:

    - ``rows``: (N, 5) int64, the combinations as numbers of these factors' values, y fastest;
    - ``weights``: (N,) float64, in proportion to which they are drawn, held-out ones included;
    - ``members``: for each split the numbers of its combinations, (n,) int64 in increasing order;
    - ``sizes``, ``positions``: values of the continuous factors, of x and y alike.

    >>> data = ColouredSprites(side=32)
    >>> data.batch(5, "position+shape").x.shape
    torch.Size([5, 3, 32, 32])
    """

    weights: Tensor

    features = (
        Feature("colour", COLOURS, tuple(tuple(point) for point in RGB.tolist())),
        Feature("shape", SHAPES),
        *map(Feature, ("size", "x", "y")),
    )

    def __init__(self, side: int = 32, hold_out: bool = True) -> None:
        self.input_shape, self._images = (3, side, side), rendered(side)
        places = len(POSITION_WEIGHTS)
        self.sizes, self.positions = SIZES, POSITIONS[:places]
        factors = (len(COLOURS), len(SHAPES), len(SIZES), places, places)
        self.rows = torch.cartesian_prod(*map(torch.arange, factors))
        colour, shape, _, column, row = self.rows.unbind(1)
        along = torch.tensor(POSITION_WEIGHTS, dtype=torch.float64)
        self.weights = along[column] * along[row]

        def in_cell(cell: tuple[int, int]) -> Tensor:
            return (column // QUARTER == cell[0]) & (row // QUARTER == cell[1])

        yellow, magenta = (colour == COLOURS.index(name) for name in ("yellow", "magenta"))
        masks = {"train": torch.ones(len(self.rows), dtype=torch.bool)}
        if hold_out:
            masks |= {
                "position": in_cell(POSITION_CELL),
                "position+colour": in_cell(YELLOW_CELL) & yellow,
                "position+shape": magenta & (shape == SHAPES.index("ellipse")),
            }
        for name in list(masks)[1:]:
            masks["train"] = masks["train"] & ~masks[name]
        self.members = {name: mask.nonzero().flatten() for name, mask in masks.items()}

    def exemplars(self, y: Tensor) -> Tensor:
        """(n, 3, side, side) an image from 0 to 1 of each combination y (n,), with fresh noise."""
        noise = NOISE * torch.randn(len(y), 3)  # on the processor, so that a device draws the same
        colour = RGB[self.rows[y.cpu(), 0]]
        return self._paint((colour - noise.abs().clamp(max=1)).abs(), y)

    def prototypes(self, y: Tensor) -> Tensor:
        """The same without noise."""
        return self._paint(RGB[self.rows[y.cpu(), 0]], y)

    def _paint(self, rgb: Tensor, y: Tensor) -> Tensor:
        """Sprites of the combinations y (n,) in colours (n, 3)."""
        shape, size, column, row = self.rows[y.cpu(), 1:].to(self._images.device).unbind(1)
        white = self._images[shape, size, column, row].float() / 255
        return rgb.to(white.device)[:, :, None, None] * white[:, None]

    def at(self, y: Tensor) -> Batch:
        """An image of each of these combinations (n,), with fresh noise."""
        x = self.exemplars(y)
        return Batch(x=x, y=y.to(x.device), labels=self.rows[y].to(x.device))

    def feature_values(self, batch: Batch) -> Tensor:
        """(n, 5) float32: number of the colour and shape; size, x and y as parts of the largest."""
        colour, shape, size, column, row = batch.labels.cpu().unbind(1)
        continuous = self.sizes[size], self.positions[column], self.positions[row]
        return torch.stack([colour.float(), shape.float(), *continuous], 1).to(batch.labels.device)

    def to(self, device: torch.device | str) -> ColouredSprites:
        """The same data, whose batches lie on a device."""
        moved = copy.copy(self)
        moved._images = self._images.to(device)
        return moved


@lru_cache(maxsize=2)
def rendered(side: int) -> Tensor:
    """(shapes, sizes, x, y, side, side) uint8, from 0 (black) to 255: white sprites, one for each
    combination, drawn by `render` and kept in memory.
    """
    images = torch.empty(
        len(SHAPES), len(SIZES), len(POSITIONS), len(POSITIONS), side, side, dtype=torch.uint8
    )
    x, y = torch.cartesian_prod(POSITIONS, POSITIONS).unbind(1)
    for k, j in itertools.product(range(len(SHAPES)), range(len(SIZES))):
        drawn = render(torch.full((len(x),), k), SIZES[j].expand(len(x)), x, y, side)
        images[k, j] = (255 * drawn).round().byte().view_as(images[k, j])
    return images


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
