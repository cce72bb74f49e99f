"""The original dSprites file: its upright sprites, read in a stream and kept in a cache."""

from __future__ import annotations

import hashlib
import os
import tempfile
import warnings
import zipfile
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from plot_attractors.data.checks import reading
from plot_attractors.data.sprites import FRAME

__all__ = ["SpriteImages", "read_dsprites"]

ORIGINAL = "dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz"
EXPECTED = (
    f": expected {ORIGINAL}, with 'imgs' (N, 64, 64) uint8 of 0s and 1s, 'latents_classes' (N, 6) "
    "int64 and 'latents_values' (N, 6) float64 of colour, shape, size, orientation, x and y, every "
    "combination once and y fastest"
)
BYTES = 1 << 20  # read at once from the original, which is too large to read whole


class SpriteImages(NamedTuple):
    """White sprites, one for each combination of shape, size, x and y.

    - ``images``: (shapes, S, X, Y, side, side) uint8, from 0 (black) to 255;
    - ``sizes``: (S,), ``x``: (X,), ``y``: (Y,) float32, values of the factors, in increasing order.
    """

    images: Tensor
    sizes: Tensor
    x: Tensor
    y: Tensor


def read_dsprites(path: str | Path, side: int = 32) -> SpriteImages:
    """The upright sprites (orientation 0) of the original dSprites file, or of one of its format.

    A file of the format may have any number of sizes, orientations and positions. Where ``side`` is
    below 64, pixels are means of squares of the original's. The file is read in a stream, once:
    what is needed of it, 9 MB, is kept in the user's cache folder (``$XDG_CACHE_HOME`` or
    ``~/.cache``, in ``plot-attractors``) under the file's SHA-256.

    Raises ValueError where the file is missing, truncated or another one, or ``side`` is not 64,
    32, 16 or 8.
    """
    if isinstance(side, bool) or side not in (64, 32, 16, 8):
        raise ValueError(f"the side of an image must be 64, 32, 16 or 8 pixels, not {side!r}")
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"there is no file {str(path)!r}: give the path of {ORIGINAL}, or none")
    with reading(path, "dSprites", EXPECTED):
        arrays = _read_through_cache(path)
    packed, step = arrays["images"], FRAME // side
    images = torch.empty(*packed.shape[:4], side, side, dtype=torch.uint8)
    for shape, size in np.ndindex(*packed.shape[:2]):
        pixels = np.unpackbits(packed[shape, size], axis=-1)
        squares = pixels.reshape(*pixels.shape[:2], side, step, side, step)
        means = squares.sum((-3, -1), dtype=np.uint16) * (255 / step**2)
        images[shape, size] = torch.from_numpy(np.rint(means).astype(np.uint8))
    return SpriteImages(images, *(torch.from_numpy(arrays[k]).float() for k in ("sizes", "x", "y")))


def _read_through_cache(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """Arrays of `_read_original`; the cache is an npz file, whose checksums tell damage."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    root = os.environ.get("XDG_CACHE_HOME", "")
    folder = (Path(root) if os.path.isabs(root) else Path.home() / ".cache") / "plot-attractors"
    cache = folder / f"dsprites-{digest}.npz"
    try:
        with reading(cache, "npz"), np.load(cache, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in ("images", "sizes", "x", "y")}
    except ValueError:  # nothing there, or damaged
        found = _read_original(path)
    try:  # under another name, then renamed: who looks finds all of it or nothing
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as part:
            np.savez(Path(part) / "part.npz", **found)  # type: ignore[arg-type]
            os.replace(Path(part) / "part.npz", cache)
    except OSError as error:
        warnings.warn(
            f"{path.name} will be read again next time, as {cache} cannot be written: {error}",
            stacklevel=4,
        )
    return found


def _read_original(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """``images`` (shapes, S, X, Y, 64, 8) uint8, eight pixels a byte; ``sizes``, ``x``, ``y``."""
    with zipfile.ZipFile(path) as archive:
        keys = ("imgs", "latents_classes", "latents_values")
        if missing := [key for key in keys if f"{key}.npy" not in archive.namelist()]:
            raise ValueError(f"it has no {' and no '.join(map(repr, missing))}")
        latents = []
        for key, dtype in (("latents_classes", "int64"), ("latents_values", "float64")):
            with archive.open(f"{key}.npy") as stream:
                array = np.lib.format.read_array(stream, allow_pickle=False)
            if array.dtype != dtype or array.ndim != 2 or array.shape[1] != 6 or not len(array):
                raise ValueError(f"'{key}' is {array.dtype} {array.shape}, not {dtype} (N, 6)")
            latents.append(array)
        counts, (_, _, sizes, _, x, y) = _check_factors(*latents)
        with archive.open("imgs.npy") as stream:
            major, _ = np.lib.format.read_magic(stream)
            read_header = getattr(np.lib.format, f"read_array_header_{major}_0")
            shape, fortran, dtype = read_header(stream)
            expected = (int(np.prod(counts)), FRAME, FRAME)
            if shape != expected or fortran or dtype != np.uint8:
                order = " in Fortran's order" if fortran else ""
                raise ValueError(f"'imgs' is {dtype} {shape}{order}, not uint8 {expected}")
            return {"images": _read_upright(stream, counts), "sizes": sizes, "x": x, "y": y}


def _check_factors(
    classes: np.ndarray[Any, Any], values: np.ndarray[Any, Any]
) -> tuple[tuple[int, ...], list[np.ndarray[Any, Any]]]:
    """How many values each of the six factors has, and which.

    Raises ValueError where the rows are not all combinations, y fastest.
    """
    if len(classes) != len(values):
        raise ValueError(f"there are {len(classes)} rows of classes, {len(values)} of values")
    counts = tuple(int(count) for count in classes.max(0) + 1)
    expected = np.empty(0)
    if np.prod(counts, dtype=float) == len(classes):
        expected = np.stack(np.unravel_index(np.arange(len(classes)), counts), 1)
    if not np.array_equal(classes, expected):
        raise ValueError("'latents_classes' are not every combination once, y fastest")
    factors = []
    for k, name in enumerate(("colour", "shape", "size", "orientation", "x", "y")):
        found = values[np.unique(classes[:, k], return_index=True)[1], k]
        increasing = bool((np.diff(found) > 0).all())
        if not increasing or not np.array_equal(values[:, k], found[classes[:, k]]):
            raise ValueError(f"'latents_values' of {name} do not increase with its class")
        factors.append(found)
    colour, shape, size, orientation, x, y = factors
    if len(colour) != 1 or shape.tolist() != [1, 2, 3] or orientation[0] != 0 or size[0] <= 0:
        raise ValueError(
            "the factors are not one colour, the shapes 1, 2 and 3, positive sizes and orientations"
        )
    if min(x[0], y[0]) < 0 or max(x[-1], y[-1]) > 1:
        raise ValueError("positions are not between 0 and 1")
    return counts, factors


def _read_upright(stream: IO[bytes], counts: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """(shapes, S, X, Y, 64, 8) uint8: the first orientation of every shape and size."""
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
