"""Coloured sprites: the paper's modification of dSprites, from the original file or from our own
renderer.
"""

from __future__ import annotations

import copy
import hashlib
import io
import itertools
import os
import tempfile
import warnings
import zipfile
import zlib
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from plot_attractors.data.batch import Batch, check_size, check_split
from plot_attractors.data.features import Feature
from plot_attractors.data.sprites import FRAME, SHAPES, render

__all__ = [
    "COLOURS",
    "RGB",
    "ColouredSprites",
    "SpriteImages",
    "load_sprites",
    "read_dsprites",
    "render_dsprites",
]

COLOURS = ("blue", "green", "cyan", "red", "magenta", "yellow", "white")
RGB = torch.tensor([[k >> 2 & 1, k >> 1 & 1, k & 1] for k in range(1, 8)], dtype=torch.float32)
NOISE = 0.2  # σ of the half-normal noise of a colour channel

SIZES = 6  # of the original, evenly spaced from 0.5 to 1
POSITIONS = 32  # on each axis of the original, evenly spaced from 0 to 1
# The first 31 positions of an axis are drawn in proportion to these weights: four modes, eight
# positions apart.
POSITION_WEIGHTS = ((2, 3, 4, 5, 4, 3, 2, 1) * 4)[:-1]
QUARTER = 8  # positions from one mode to the next: a cell of the 4 × 4 grid
# Cells that are held out, as (column, row) from 0 on; the paper has two, without saying which.
POSITION_CELL, YELLOW_CELL = (1, 2), (2, 1)

ORIGINAL = "dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz"
EXPECTED = (
    f"expected {ORIGINAL}, with 'imgs' (N, 64, 64) uint8 of 0s and 1s, 'latents_classes' (N, 6) "
    f"int64 and "
    "'latents_values' (N, 6) float64 of colour, shape, size, orientation, x and y, every "
    "combination once and y fastest"
)
BYTES = 1 << 20  # read at once from the original, which is too large to read whole


class SpriteImages(NamedTuple):
    """White sprites, one for each combination of shape, size, x and y.

    - ``images``: (shapes, S, X, Y, side, side) uint8, from 0 (black) to 255, the shapes as in
    `SHAPES`;
    - ``sizes``: (S,), ``x``: (X,), ``y``: (Y,) float32, the values of the factors, in increasing
    order.
    """

    images: Tensor
    sizes: Tensor
    x: Tensor
    y: Tensor


class ColouredSprites:
    """A coloured square, ellipse or heart on black, upright, at one of four by four places or near
    it.

    Colour, shape and size are drawn uniformly, x and y from the first 31 of 32 positions in
    proportion to 2, 3, 4, 5, 4, 3, 2, 1, 2, …, 3, 2: four modes an axis. A channel of the colour
    that is 1 becomes 1 − n, and one that is 0 becomes n, with n half-normal of σ = 0.2, cut off at
    1, anew for every channel and image. Source: the paper's section and appendix "dSprites".

    With ``hold_out``, three sets are kept from training, each a split of its own:

    - ``position``: all sprites in one of the 16 cells, that of the second quarter of x and the
    third of y;
    - ``position+colour``: yellow sprites in another cell, the third quarter of x and the second of
    y;
    - ``position+shape``: magenta ellipses, wherever they are. The paper's name for it; it holds out
    no position.

    A magenta ellipse in the cell of ``position`` belongs to both splits; none shares a combination
    with training.

    Attributes, for N = 7 · 3 · S · 31 · 31 combinations of colour, shape, size, x and y:

    - ``rows``: (N, 5) int64, the combinations as numbers of the values of these factors, y fastest;
    - ``weights``: (N,) float64, in proportion to which they are drawn, before any are held out;
    - ``members``: for each split the numbers of its combinations, (n,) int64 in increasing order;
    - ``sizes``, ``positions_x``, ``positions_y``: values of the continuous factors; ``side``:
      pixels of a side; ``input_shape``: ``(3, side, side)``;
    - ``splits``: ``("train", "position", "position+colour", "position+shape")``, or ``("train",)``;
    - ``label_names``: ``("colour", "shape", "size", "x", "y")``; ``features``: the same, colour and
    shape categorical.

    The noise hides some colours: 3.2 % of all images are nearer to another colour than to their
    own.

    Raises ValueError when the images are not of three shapes and 32 positions on each axis.

    >>> data = load_sprites(side=32)
    >>> data.batch(5, "position+shape").x.shape
    torch.Size([5, 3, 32, 32])
    """

    def __init__(self, source: SpriteImages, hold_out: bool = True) -> None:
        shapes, sizes, x, y, self.side = source.images.shape[:5]
        if (shapes, x, y) != (len(SHAPES), POSITIONS, POSITIONS):
            raise ValueError(
                f"coloured sprites need {len(SHAPES)} shapes and {POSITIONS} positions on each "
                f"axis, "
                f"not {shapes} shapes and {x} by {y} positions"
            )
        places = len(POSITION_WEIGHTS)
        self.sizes = source.sizes
        self.positions_x, self.positions_y = source.x[:places], source.y[:places]
        self._images = source.images
        self.rows = torch.cartesian_prod(
            *map(torch.arange, (len(COLOURS), shapes, sizes, places, places))
        )
        colour, shape, _, column, row = self.rows.unbind(1)
        along = torch.tensor(POSITION_WEIGHTS, dtype=torch.float64)
        self.weights = along[column] * along[row]

        def in_cell(cell: tuple[int, int]) -> Tensor:
            return (column // QUARTER == cell[0]) & (row // QUARTER == cell[1])

        held_out: dict[str, Tensor] = {}
        if hold_out:
            held_out["position"] = in_cell(POSITION_CELL)
            held_out["position+colour"] = in_cell(YELLOW_CELL) & (colour == COLOURS.index("yellow"))
            held_out["position+shape"] = (colour == COLOURS.index("magenta")) & (
                shape == SHAPES.index("ellipse")
            )
        train = torch.ones(len(self.rows), dtype=torch.bool)
        for mask in held_out.values():
            train &= ~mask
        assert not any(bool((mask & train).any()) for mask in held_out.values())
        self.members = {
            name: mask.nonzero().flatten() for name, mask in {"train": train, **held_out}.items()
        }
        self._weights = {name: self.weights[members] for name, members in self.members.items()}

        self.splits = tuple(self.members)
        self.input_shape = (3, self.side, self.side)
        self.label_names = ("colour", "shape", "size", "x", "y")
        outcomes = {"colour": COLOURS, "shape": SHAPES}
        rgb = {"colour": tuple(tuple(place) for place in RGB.tolist())}
        self.features = tuple(
            Feature(f, outcomes.get(f, ()), rgb.get(f, ())) for f in self.label_names
        )
        self.ordered = False

    def exemplars(self, y: Tensor) -> Tensor:
        """One image, (n, 3, side, side) float32 from 0 to 1, for each of the combinations y (n,),
        with fresh noise.
        """
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

    def batch(self, n: int, split: str = "train") -> Batch:
        """n images of combinations drawn from the split; ``y`` is the number of the combination, a
        row of `rows`.

        Raises ValueError when the split is unknown or n is no positive whole number.
        """
        check_size(n)
        members = check_split(split, self.members)
        y = members[torch.multinomial(self._weights[split], n, replacement=True)]
        x = self.exemplars(y)
        return Batch(x=x, y=y.to(x.device), labels=self.rows[y].to(x.device))

    def feature_values(self, batch: Batch) -> Tensor:
        """(n, 5) float32: number of the colour and of the shape; size from 0.5 to 1, x and y from 0
        to 30/31.
        """
        colour, shape, size, column, row = batch.labels.cpu().unbind(1)
        continuous = self.sizes[size], self.positions_x[column], self.positions_y[row]
        return torch.stack([colour.float(), shape.float(), *continuous], 1).to(batch.labels.device)

    def to(self, device: torch.device | str) -> ColouredSprites:
        """The same data, whose batches lie on a device."""
        moved = copy.copy(self)
        moved._images = self._images.to(device)
        return moved


def load_sprites(
    path: str | Path | None = None, *, side: int = 32, smooth: bool = True, hold_out: bool = True
) -> ColouredSprites:
    """Coloured sprites of the original file at ``path``, or of our renderer without one.

    See `read_dsprites`, `render_dsprites` (which ``smooth`` is for) and `ColouredSprites` for what
    they do and refuse.
    """
    if path is None:
        return ColouredSprites(render_dsprites(side, smooth), hold_out)
    source = read_dsprites(path, side)
    try:
        return ColouredSprites(source, hold_out)
    except ValueError as error:
        raise ValueError(f"{str(path)!r} is not of the paper's sprites: {error}") from None


def render_dsprites(side: int = 32, smooth: bool = True) -> SpriteImages:
    """The original's 18,432 upright sprites, drawn by `plot_attractors.data.sprites.render` and
    kept in memory.

    For a side of 32 they take 19 MB and a second, so that nothing is written to disk; for 64, four
    times as much. Raises ValueError when ``side`` is not a whole number from 8 to 128.
    """
    if isinstance(side, bool) or not isinstance(side, int) or not 8 <= side <= 128:
        raise ValueError(
            f"the side of an image must be a whole number from 8 to 128 pixels, not {side!r}"
        )
    return _rendered(side, smooth)


@lru_cache(maxsize=2)
def _rendered(side: int, smooth: bool) -> SpriteImages:
    sizes, along = torch.linspace(0.5, 1, SIZES), torch.linspace(0, 1, POSITIONS)
    images = torch.empty(len(SHAPES), SIZES, POSITIONS, POSITIONS, side, side, dtype=torch.uint8)
    x, y = torch.cartesian_prod(along, along).unbind(1)
    for k, j in itertools.product(range(len(SHAPES)), range(SIZES)):
        drawn = render(torch.full((len(x),), k), sizes[j].expand(len(x)), x, y, side, smooth)
        images[k, j] = (255 * drawn).round().byte().view(POSITIONS, POSITIONS, side, side)
    return SpriteImages(images, sizes, along, along)


# The original file.


class _Packed(NamedTuple):
    """The original at orientation 0: images (shapes, S, X, Y, 64, 8) uint8 of eight pixels each,
    and factor values.
    """

    images: np.ndarray[Any, Any]
    sizes: np.ndarray[Any, Any]
    x: np.ndarray[Any, Any]
    y: np.ndarray[Any, Any]


def read_dsprites(path: str | Path, side: int = 32) -> SpriteImages:
    """The upright sprites (orientation 0) of the original dSprites file, or of one of its format.

    A file of the format may have any number of sizes, orientations and positions. Where ``side`` is
    below 64, pixels are means of squares of the original's. The file is read in a stream, once:
    what is needed of it, 9 MB, is then kept in the user's cache folder (``$XDG_CACHE_HOME`` or
    ``~/.cache``, in ``plot-attractors``) under the file's SHA-256. A cache that is damaged is made
    anew, and one that cannot be written is done without, with a warning.

    Raises ValueError, in one sentence that names the file and what was expected, when it is
    missing, truncated or another file; and when ``side`` is not 64, 32, 16 or 8.
    """
    if isinstance(side, bool) or side not in (64, 32, 16, 8):
        raise ValueError(
            f"the side of images from the original file must be 64, 32, 16 or 8 pixels, not "
            f"{side!r}"
        )
    path = Path(path)
    if not path.is_file():
        what = "is not a file" if path.exists() else "does not exist"
        raise ValueError(
            f"{str(path)!r} {what}: give the path of {ORIGINAL}, or none to have sprites drawn"
        )
    try:
        packed = _read_through_cache(path)
    except _UNREADABLE as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ValueError(
            f"{str(path)!r} cannot be read as dSprites ({reason}): {EXPECTED}"
        ) from error
    step = FRAME // side
    images = torch.empty(*packed.images.shape[:4], side, side, dtype=torch.uint8)
    for shape, size in np.ndindex(*packed.images.shape[:2]):
        pixels = np.unpackbits(packed.images[shape, size], axis=-1)
        sums = pixels.reshape(*pixels.shape[:2], side, step, side, step).sum(
            (-3, -1), dtype=np.uint16
        )
        images[shape, size] = torch.from_numpy(np.rint(sums * (255 / step**2)).astype(np.uint8))
    return SpriteImages(images, *(torch.from_numpy(part.astype(np.float32)) for part in packed[1:]))


# What zipfile, zlib and NumPy raise for damaged or foreign files; ValueError includes our own
# reasons.
_UNREADABLE = (
    ValueError,
    OSError,
    EOFError,
    zlib.error,
    zipfile.BadZipFile,
    NotImplementedError,
    RuntimeError,
)


def _read_through_cache(path: Path) -> _Packed:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    cache = _cache_folder() / f"dsprites-{digest}"
    payload = _load_cache(cache)
    if payload is None:
        packed = _read_original(path)
        buffer = io.BytesIO()
        np.savez(buffer, **packed._asdict())
        try:
            _save_cache(cache, buffer.getvalue())
        except OSError as error:
            warnings.warn(
                f"{path.name} will be read again next time, as {cache} cannot be written: {error}",
                stacklevel=3,
            )
        return packed
    with np.load(io.BytesIO(payload), allow_pickle=False) as arrays:
        return _Packed(*(arrays[name] for name in _Packed._fields))


def _read_original(path: Path) -> _Packed:
    with zipfile.ZipFile(path) as archive:
        missing = [
            key
            for key in ("imgs", "latents_classes", "latents_values")
            if f"{key}.npy" not in archive.namelist()
        ]
        if missing:
            raise ValueError(f"it has no {' and no '.join(map(repr, missing))}")
        classes = _read_array(archive, "latents_classes", np.dtype(np.int64))
        values = _read_array(archive, "latents_values", np.dtype(np.float64))
        counts, (_, _, sizes, _, x, y) = _check_factors(classes, values)
        del classes, values
        with archive.open("imgs.npy") as stream:
            shape = _read_header(stream, "imgs", np.dtype(np.uint8))
            if shape != (expected := (int(np.prod(counts)), FRAME, FRAME)):
                raise ValueError(
                    f"'imgs' has the shape {shape}, where {expected} belongs to its latents"
                )
            images = _read_upright(stream, counts)
    return _Packed(images, sizes, x, y)


def _read_header(stream: IO[bytes], key: str, dtype: np.dtype[Any]) -> tuple[int, ...]:
    """The shape of the array whose data comes next in the stream."""
    version = np.lib.format.read_magic(stream)
    if version == (1, 0):
        shape, fortran, found = np.lib.format.read_array_header_1_0(stream)
    else:
        shape, fortran, found = np.lib.format.read_array_header_2_0(stream)
    if found != dtype:
        raise ValueError(f"'{key}' holds {found}, not {dtype}")
    if fortran:
        raise ValueError(f"'{key}' is stored in Fortran's order, not in C's")
    return shape


def _read_array(archive: zipfile.ZipFile, key: str, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """The latents (N, 6) of a name."""
    with archive.open(f"{key}.npy") as stream:
        shape = _read_header(stream, key, dtype)
        if len(shape) != 2 or shape[0] < 1 or shape[1] != 6:
            raise ValueError(f"'{key}' has the shape {shape}, not (N, 6)")
        data = stream.read()
    if len(data) != shape[0] * 6 * dtype.itemsize:
        raise EOFError(f"'{key}' ends too early")
    return np.frombuffer(data, dtype).reshape(shape)


def _check_factors(
    classes: np.ndarray[Any, Any], values: np.ndarray[Any, Any]
) -> tuple[tuple[int, ...], list[np.ndarray[Any, Any]]]:
    """How many values each of the six factors has, and which; the rows must be all combinations, y
    fastest.
    """
    if len(classes) != len(values):
        raise ValueError(
            f"'latents_classes' has {len(classes)} rows and 'latents_values' {len(values)}"
        )
    counts = tuple(int(count) for count in classes.max(0) + 1)
    if min(counts) < 1 or np.prod(counts, dtype=float) != len(classes):
        raise ValueError(
            "the rows of 'latents_classes' are not every combination of the factors once"
        )
    of_factor = []
    stride = len(classes)
    for column, (count, name) in enumerate(
        zip(counts, ("colour", "shape", "size", "orientation", "x", "y"), strict=True)
    ):
        stride //= count
        if not np.array_equal(classes[:, column], np.arange(len(classes)) // stride % count):
            raise ValueError(
                f"the rows of 'latents_classes' are not in order: {name} is not where it belongs"
            )
        found = values[: count * stride : stride, column]
        if (
            not np.array_equal(values[:, column], found[classes[:, column]])
            or not (np.diff(found) > 0).all()
        ):
            raise ValueError(f"'latents_values' of {name} do not increase with its class")
        of_factor.append(found.copy())
    colour, shape, size, orientation, x, y = of_factor
    if len(colour) != 1 or shape.tolist() != [1, 2, 3] or orientation[0] != 0 or size[0] <= 0:
        raise ValueError(
            "the factors are not one colour, the shapes 1, 2 and 3, positive sizes, and "
            "orientations from 0"
        )
    if min(x[0], y[0]) < 0 or max(x[-1], y[-1]) > 1:
        raise ValueError("positions are not between 0 and 1")
    return counts, of_factor


def _read_upright(stream: IO[bytes], counts: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """(shapes, S, X, Y, 64, 8) uint8: the first orientation of every shape and size, eight pixels a
    byte.
    """
    _, shapes, sizes, orientations, x, y = counts
    images = np.empty((shapes, sizes, x, y, FRAME, FRAME // 8), dtype=np.uint8)
    block = x * y * FRAME**2  # bytes of one orientation
    for shape, size in np.ndindex(shapes, sizes):
        pixels = np.frombuffer(_read_exactly(stream, block), np.uint8)
        if pixels.max() > 1:
            raise ValueError(f"'imgs' holds {pixels.max()}, where only 0 and 1 can stand")
        images[shape, size] = np.packbits(pixels.reshape(x, y, FRAME, FRAME), axis=-1)
        left = block * (orientations - 1)
        while left:  # read, not skipped, since the checksum of the archive is over all bytes
            left -= len(_read_exactly(stream, min(left, BYTES)))
    if stream.read(1):
        raise ValueError("'imgs' goes on after its last image")
    return images


def _read_exactly(stream: IO[bytes], count: int) -> bytes:
    data = stream.read(count)
    if len(data) < count:
        raise EOFError("'imgs' ends too early")
    return data


# The cache: a file is the SHA-256 of what follows it.


def _cache_folder() -> Path:
    root = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(root) if os.path.isabs(root) else Path.home() / ".cache") / "plot-attractors"


def _load_cache(path: Path) -> bytes | None:
    """What was saved, or None where nothing was, or it is damaged."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    digest, payload = data[:32], data[32:]
    return payload if hashlib.sha256(payload).digest() == digest else None


def _save_cache(path: Path, payload: bytes) -> None:
    """Save under a passing name in the same folder, then rename: whoever looks finds all of it or
    nothing.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f"{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(hashlib.sha256(payload).digest())
            file.write(payload)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:  # an interruption, too
        os.unlink(name)
        raise
