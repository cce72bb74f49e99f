"""A user's own images: a folder of files or one array, with what is known of them from a table."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from PIL import Image, ImageOps
from torch import Tensor

from plot_attractors.data.checks import read_array, reading
from plot_attractors.data.columns import Columns
from plot_attractors.data.table import ColumnRoles, Featured, rows_of

__all__ = ["ImageSet", "Images", "read_images"]

FILES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff")
DARK = 1 / 8  # of white: images are never so dark, all of them, but numbers on another scale are
SOME = 4096  # images whose mean a decoder starts with
FOLDER = "folder"  # feature that the subfolder of an image is


class Images:
    """Inputs that are images, of grey or of three colours: what a user gives is brought to them."""

    input_shape: Any  # (channels, side, side)
    pairs = 0  # of tokens that exclude each other: any stand together

    def as_inputs(self, values: Any) -> Tensor:
        """(n, channels, side, side) float32 from 0 to 1 of an array as of `read_images`."""
        return self._like(_pixels(np.asarray(values), "the array"))

    def read(self, path: Path, names: str = "") -> tuple[Tensor, tuple[str, ...]]:
        """The images of a file, or of a folder and their names, in the shape of these."""
        if path.is_dir():
            found, images = _read_folder(path, self.input_shape[-1])
            return self._like(images), tuple(found)
        pixels = _read_file(path)
        _refuse_dark(pixels.max() / 255, path.name)
        return self._like(pixels), (path.name,)

    def _like(self, images: Tensor) -> Tensor:
        """Images (n, channels, height, width), uint8 or from 0 to 1, as inputs: grey ones are grey
        in colour, too; ValueError where colour would be lost.
        """
        channels, side, _ = self.input_shape
        if images.shape[1] > channels:
            raise ValueError("this model knows grey images alone, and these have colours")
        return _sized(images, side).expand(-1, channels, -1, -1).float() / 255


@dataclass(frozen=True, eq=False)
class ImageSet(Images, Featured):
    """Images with features, some of which may be held out.

    - ``images``: (N, channels, side, side) uint8, from 0 to 255, one channel or three.
    """

    images: Tensor

    def loaded_parts(self) -> dict[str, Any]:
        return super().loaded_parts() | {"images": self.images}

    @property
    def input_shape(self) -> tuple[int, ...]:
        """``(channels, side, side)``."""
        return tuple(self.images.shape[1:])

    @property
    def mean_pixels(self) -> Tensor:
        """(channels,) of at most 4,096 training images, evenly spread, from 0 to 1."""
        rows = self.members["train"]
        some = self.images[rows[:: -(-len(rows) // SOME)]].float() / 255
        return some.mean((0, 2, 3))

    def rows(self, y: Tensor) -> Tensor:
        """(n, channels, side, side) float32 from 0 to 1, the images of these numbers (n,)."""
        return self.images[y].float() / 255


def read_images(
    path: str | Path,
    table: str | Path | None = None,
    *,
    side: int = 32,
    **roles: Any,
) -> ImageSet:
    """Read images from a folder and its subfolders, or from an array (npy).

    Images are cropped to their middle square and brought to ``side`` pixels a side; they stay grey
    where all of a folder are. Files have 1 or 8 bits a channel; what is transparent is shown on
    black; names that start with a dot are passed over. An array is (N, height, width[, channels])
    or (N, channels, height, width), of uint8, of bool, or of floating point numbers from 0 to 1.

    ``table`` is a CSV, TSV or Parquet file with a row an image. For a folder its column ``file``
    names the image, as ``cats/1.png``; the rows of an array are in its order. Other columns are
    features, or only those in ``labels``; ``roles``: see `ColumnRoles`. Without a table, the
    subfolder of an image is its one feature, ``folder``.

    Raises ValueError, naming the file, row or column, where something cannot be read or does not
    fit together, or a split would be empty.
    """
    path, given = Path(path), ColumnRoles(**roles)
    if path.is_dir():
        names, images = _read_folder(path, side)
    else:
        names, images = [], _sized(_pixels(read_array(path), path.name), side)
    if (images == images[:1]).all():
        raise ValueError(f"{path.name} holds one image: at least two different ones are needed")
    if table is not None:
        columns = rows_of(Path(table), names, len(images), path.name, given.names)
    elif given.named:
        raise ValueError(f"{given.named[0]!r} is a column of a table: say which file")
    else:
        folders = [name.rpartition("/")[0] for name in names]
        known = {FOLDER: folders} if len(set(folders)) > 1 else {}
        columns = Columns(pd.DataFrame(known, index=range(len(images))), path)
    features, values = given.features(columns, beside=True)
    rows = tuple(names) or columns.texts(given.names)
    return ImageSet(path.name, rows, values, features, given.members(columns), images)


def _read_folder(folder: Path, side: int) -> tuple[list[str], Tensor]:
    """Names of the images below a folder, in order, and the images (N, channels, side, side)."""
    found = [file for file in sorted(folder.rglob("*")) if file.suffix.lower() in FILES]
    # names with a dot, as ._cat.png, are what other systems leave behind
    files = {file.relative_to(folder).as_posix(): file for file in found if file.is_file()}
    files = {name: file for name, file in files.items() if not f"/{name}".count("/.")}
    if not files:
        raise ValueError(
            f"{folder.name} holds no images: files that end in {', '.join(FILES)} are looked for"
        )
    images, brightest = list[Tensor](), torch.zeros(())
    for file in files.values():
        pixels = _read_file(file)
        brightest = torch.maximum(brightest, pixels.max() / 255)
        images.append(_sized(pixels, side))
    _refuse_dark(brightest, folder.name)
    channels = max(image.shape[1] for image in images)
    return [*files], torch.cat([image.expand(-1, channels, -1, -1) for image in images])


def _read_file(file: Path) -> Tensor:
    """(1, channels, height, width) uint8 of an image, grey or RGB; what is transparent is black."""
    with reading(file, "an image with pixels of 1 or 8 bits"), Image.open(file) as opened:
        if opened.mode.startswith(("I", "F")):
            raise ValueError("its pixels have no known range")
        grey = opened.mode in ("1", "L", "LA", "La")
        image: Image.Image = ImageOps.exif_transpose(opened)
        if image.has_transparency_data:
            shown = image.convert("RGBA")
            image = Image.alpha_composite(Image.new("RGBA", shown.size, "black"), shown)
        pixels = torch.from_numpy(np.array(image.convert("L" if grey else "RGB")))
    return pixels[None, None] if grey else pixels.movedim(-1, 0)[None]


def _refuse_dark(brightest: Tensor, name: str) -> None:
    """ValueError where the brightest pixel, a part of white, is so dark that pixels must be on
    another scale, as masks of 0 and 1 are.
    """
    if 0 < brightest < DARK:
        raise ValueError(
            f"the brightest pixel of {name} is {float(brightest):.3g} of white: multiply the "
            "numbers, so that images are not next to black"
        )


def _sized(x: Tensor, side: int) -> Tensor:
    """The middle squares of images (n, channels, height, width), brought to `side`, uint8."""
    scale = 255 if x.dtype == torch.uint8 else 1
    square = min(x.shape[-2:])
    top, left = ((n - square) // 2 for n in x.shape[-2:])
    x = x[..., top : top + square, left : left + square]
    if square == side and scale == 255:
        return x.contiguous()
    mode: dict[str, Any] = {"mode": "area"}
    if side > square:
        mode = {"mode": "bilinear", "antialias": True}
    resize = torch.nn.functional.interpolate
    parts = [resize(part.float() / scale, side, **mode) for part in x.split(1024)]
    return torch.cat([(255 * part).round().byte() for part in parts])


def _pixels(loaded: Any, name: str) -> Tensor:
    """(N, channels, height, width) of an array of images, of any of the shapes of `read_images`."""
    images = loaded
    if loaded.ndim == 3 and loaded.shape[-1] not in (1, 3):  # else channels of one image
        images = loaded[:, None]
    elif loaded.ndim == 4 and loaded.shape[-1] in (1, 3):
        images = np.moveaxis(loaded, -1, 1)
    if images.ndim != 4 or images.shape[1] not in (1, 3) or not images.size:
        raise ValueError(
            f"{name} has the shape {loaded.shape}: images are (N, height, width), or have one "
            "channel or three besides, as the second or the last dimension"
        )
    whole = images.dtype == np.uint8
    low, high = images.min(), images.max()
    if not whole and (images.dtype.kind not in "bf" or not (low >= 0 and high <= 1)):
        raise ValueError(
            f"{name} holds {images.dtype} from {low:.3g} to {high:.3g}: pixels are uint8 from 0 to "
            "255, bool, or floating point from 0 to 1"
        )
    x = torch.from_numpy(images)
    _refuse_dark(x.max() / (255 if whole else 1), name)
    return x
