"""A user's own images: a folder of files or one array, with what is known of them from a table."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from PIL import Image, ImageOps
from torch import Tensor

from plot_attractors.data.batch import Batch, split_rows
from plot_attractors.data.checks import check_whole, read_array, reading
from plot_attractors.data.columns import MISSING, Columns, check_roles, column_names, listed
from plot_attractors.data.digests import digest
from plot_attractors.data.featured import Featured, features_of, rows_of
from plot_attractors.data.features import Feature

__all__ = ["ImageSet", "read_images"]

logger = logging.getLogger(__name__)

FILES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff")
ARRAYS = (".npy", ".npz")
DARK = 1 / 8  # of white: images are never so dark, all of them, but numbers on another scale are
SOME = 4096  # images whose mean a decoder starts with
FOLDER = "folder"  # feature that the subfolder of an image is


@dataclass(frozen=True, eq=False)
class ImageSet(Featured):
    """Images with features, some of which may be held out.

    - ``images``: (N, channels, side, side) uint8, from 0 to 255, one channel or three;
    - ``values``: (N, F) float32, as of `feature_values`; ``features``: the F features;
    - ``members``: for each split the numbers of its images, (n,) int64;
    - ``source``: SHA-256 of the images before they were brought to their size;
    - ``row_names``: the files of a folder, or none; ``name``: of the folder or file.
    """

    images: Tensor
    values: Tensor
    features: tuple[Feature, ...]
    members: dict[str, Tensor]
    source: str = ""
    row_names: tuple[str, ...] = ()
    name: str = ""

    pairs = 0  # of tokens that exclude each other: any stand together

    def loaded_parts(self) -> dict[str, Any]:
        """What was loaded, by the names by which a difference is told (`data.digests`)."""
        labels = self.features, self.values.numpy()
        return {"images": self.source or self.images, "labels": labels, "splits": self.members}

    @property
    def input_shape(self) -> tuple[int, ...]:
        """``(channels, side, side)``."""
        return tuple(self.images.shape[1:])

    @property
    def inputs(self) -> str:  # type: ignore[override]
        """What they are, in words."""
        channels, side, _ = self.input_shape
        return f"{'grey' if channels == 1 else 'coloured'} images of {side} × {side} pixels"

    @property
    def mean_pixels(self) -> Tensor:
        """(channels,) of at most 4,096 training images, evenly spread, from 0 to 1."""
        rows = self.members["train"]
        some = self.images[rows[:: -(-len(rows) // SOME)]].float() / 255
        return some.mean((0, 2, 3))

    def at(self, y: Tensor) -> Batch:
        """The images of these numbers (n,), from 0, float32 from 0 to 1."""
        return Batch(x=self.images[y].float() / 255, y=y, labels=self.labels[y])

    def as_inputs(self, values: Any) -> Tensor:
        """(n, channels, side, side) float32 from 0 to 1 of an array as of `read_images`."""
        return array_like(values, self.input_shape)

    def read(self, path: Path, names: str = "") -> tuple[Tensor, tuple[str, ...]]:
        """The images of a file, or of a folder and their names, in the shape of these."""
        return read_like(path, self.input_shape)


def read_images(
    path: str | Path,
    table: str | Path | None = None,
    *,
    side: int = 32,
    labels: str | Sequence[str] = (),
    continuous: str | Sequence[str] = (),
    ignore: str | Sequence[str] = (),
    held_out: str = "",
    held_out_fraction: float = 0.0,
    seed: int = 0,
    missing_values: str | Sequence[str] = MISSING,
) -> ImageSet:
    """Read images from a folder and its subfolders, or from an array (npy or npz).

    Images are cropped to their middle square and brought to ``side`` pixels a side; they stay grey
    where all of a folder are. Files have 1, 8 or 16 bits a channel; what is transparent is shown on
    black; names that start with a dot are passed over. An array is (N, height, width[, channels])
    or (N, channels, height, width), of uint8, of bool, of floating point numbers from 0 to 1, or of
    other numbers from 0 to 255, which the log says; in an npz file it is ``images``, or the only
    one of three or four dimensions.

    ``table`` is a CSV, TSV or Parquet file with a row an image. For a folder its column ``file``
    names the image, as ``cats/1.png``; the rows of an array are in its order. Other columns are
    features, or only those in ``labels``. A column is continuous where it holds numbers that are
    not whole, or ``continuous`` names it, else categorical. Without a table, the subfolder of an
    image is its one feature, ``folder``. Other arguments as of `read_table`.

    Raises ValueError, naming the file, row or column, where something cannot be read or does not
    fit together, or a split would be empty.
    """
    path = Path(path)
    check_whole("the side of an image, in pixels,", side, 8, 128)
    label_names, ignored = column_names(labels), column_names(ignore)
    measured = column_names(continuous)
    named = tuple(dict.fromkeys((*label_names, *measured)))
    others = (*ignored, *([held_out] if held_out else []))
    check_roles((*named, *others), held_out, held_out_fraction)
    names, (images, source) = (
        _read_folder(path, side) if path.is_dir() else ([], _read_array(path, side))
    )
    if len(images) < 2 or (images == images[0]).all():
        what = "one image" if len(images) < 2 else "one image again and again"
        raise ValueError(f"{path.name} holds {what}: at least two different ones are needed")
    if table is not None:
        columns = rows_of(Path(table), names, len(images), path.name, "images", missing_values)
    elif named or others:
        raise ValueError("labels, continuous, ignore and held_out need a table: say which file")
    else:
        columns = Columns(_folders(names, len(images)), path)
    columns.require((*named, *others))
    rest = [name for name in columns.frame.columns if name not in others]
    chosen = label_names or tuple(columns.without_numbering(rest))
    kept = tuple(dict.fromkeys((*chosen, *measured)))
    features, values = features_of(columns, kept, measured)
    members = split_rows(columns.held_out(held_out, held_out_fraction, seed))
    return ImageSet(images, values, features, members, source, tuple(names), path.name)


def read_like(path: Path, shape: tuple[int, ...]) -> tuple[Tensor, tuple[str, ...]]:
    """The image of a file, or those of a folder, as inputs (n, *shape), and their names."""
    if path.is_dir():
        names, (images, _) = _read_folder(path, shape[-1])
    else:
        pixels, light = _read_file(path)
        _refuse_dark(*light, path.name)
        names, images = [path.name], _sized(pixels, shape[-1])
    return _like(images, shape), tuple(names)


def array_like(values: Any, shape: tuple[int, ...]) -> Tensor:
    """An array of images as inputs (n, *shape)."""
    return _like(_pixels(np.asarray(values), "the array"), shape)


def _like(images: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Images (n, channels, height, width), uint8 or from 0 to 1, as inputs (n, *shape): grey ones
    are grey in colour, too; ValueError where colour would be lost.
    """
    channels, side = shape[0], shape[-1]
    if images.shape[1] > channels:
        raise ValueError("this model knows grey images alone, and these have colours: convert them")
    return _sized(images, side).expand(-1, channels, -1, -1).float() / 255


def _read_folder(folder: Path, side: int) -> tuple[list[str], tuple[Tensor, str]]:
    """Names of the images below a folder, in order; the images (N, channels, side, side), and their
    SHA-256 as they are in the files.
    """

    def hidden(file: Path) -> bool:  # as ._cat.png, which other systems leave behind
        return any(part.startswith(".") for part in file.relative_to(folder).parts)

    files = [file for file in sorted(folder.rglob("*")) if file.suffix.lower() in FILES]
    files = [file for file in files if not hidden(file) and not file.is_dir()]
    links = [file for file in files if file.is_symlink()]
    if dead := [file for file in links if not file.exists()]:
        raise ValueError(f"{dead[0]} is a link to a file that is not there: mend or remove it")
    held = {file.resolve() for file in files if file not in links} if links else set[Path]()
    if twice := [file.name for file in links if file.resolve() in held]:
        logger.warning(
            "%d images of %s are links to others of the folder, and count twice: %s",
            len(twice), folder.name, listed(twice),
        )  # fmt: skip
    if not files:
        raise ValueError(
            f"{folder.name} holds no images: files that end in {', '.join(FILES)} are looked for"
        )
    images, sources, brightest = [], [], (0.0, 255)
    for file in files:
        pixels, light = _read_file(file)
        sources.append(digest(pixels).sha256)
        brightest = max(brightest, light)
        images.append(_sized(pixels, side))
    _refuse_dark(*brightest, folder.name)
    channels = max(image.shape[1] for image in images)
    names = [file.relative_to(folder).as_posix() for file in files]
    together = torch.cat([image.expand(-1, channels, -1, -1) for image in images])
    return names, (together, digest(sources).sha256)


def _read_file(file: Path) -> tuple[Tensor, tuple[float, int]]:
    """(1, channels, height, width) uint8; the brightest pixel as a part of white, and white."""
    what = "an image with pixels of 1, 8 or 16 bits"
    with reading(file, what, ": repair, convert or remove it"), Image.open(file) as image:
        pixels = torch.from_numpy(np.array(_plain(ImageOps.exif_transpose(image))))
        deep = image.mode.startswith("I;16")
        brightest = np.asarray(image).max() / 65535 if deep else int(pixels.max()) / 255
    pixels = pixels.movedim(-1, 0)[None] if pixels.dim() == 3 else pixels[None, None]
    return pixels, (float(brightest), 65535 if deep else 255)


def _refuse_dark(brightest: float, white: int, name: str) -> None:
    """ValueError where the brightest pixel, a part of white, is so dark that pixels must be on
    another scale, as masks of 0 and 1 are.
    """
    if 0 < brightest < DARK:
        raise ValueError(
            f"the brightest pixel of {name} is {brightest * white:.3g}, where white is {white}: "
            "multiply the numbers, so that images are not next to black"
        )


def _plain(image: Image.Image) -> Image.Image:
    """An image of any mode as grey or RGB; 16 bits are scaled, what is transparent is black."""
    if image.mode.startswith("I;16"):
        return Image.fromarray((np.asarray(image) / 257).round().astype(np.uint8))
    if image.mode in ("I", "F"):
        raise ValueError("its pixels have no known range")
    grey = image.mode in ("1", "L", "LA", "La")
    if image.has_transparency_data:
        shown = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", shown.size, "black"), shown)
    return image.convert("L" if grey else "RGB")


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


def _read_array(path: Path, side: int) -> tuple[Tensor, str]:
    """The images (N, channels, side, side) of a file, and their SHA-256 as they are there."""
    if path.exists() and path.suffix.lower() not in ARRAYS:
        raise ValueError(
            f"{path.name} is neither a folder of images nor an array in {' or '.join(ARRAYS)}"
        )
    loaded = read_array(path, "images", "images", (3, 4))
    loaded = loaded.astype(loaded.dtype.newbyteorder("="), copy=False)
    return _sized(_pixels(loaded, path.name), side), digest(loaded).sha256


def _pixels(loaded: Any, name: str) -> Tensor:
    """(N, channels, height, width) of an array of images, of any of the shapes of `read_images`."""
    shape = tuple(loaded.shape)
    if not loaded.size:
        raise ValueError(f"{name} has the shape {shape}: it holds no pixels")
    if loaded.dtype not in (np.uint8, np.bool_):
        low, high = loaded.min(), loaded.max()
        if not (low >= 0 and high <= 255):
            raise ValueError(
                f"{name} holds numbers from {low:.3g} to {high:.3g}: pixels are from 0 to 255, or "
                "from 0 to 1"
            )
        if high > 1 or loaded.dtype.kind != "f":
            logger.warning("%s holds %s, taken as pixels from 0 to 255", name, loaded.dtype)
            loaded = loaded.round().astype(np.uint8)
    x = torch.from_numpy(loaded)
    if loaded.ndim == 3 and shape[-1] not in (1, 3):  # that would be one image with channels
        x = x[:, None]
    elif loaded.ndim == 4 and shape[-1] in (1, 3):
        x = x.movedim(-1, 1)
    elif loaded.ndim != 4 or shape[1] not in (1, 3):
        raise ValueError(
            f"{name} has the shape {shape}: images are (N, height, width), or have one channel or "
            "three besides, as the second or the last dimension"
        )
    white = 255 if x.dtype == torch.uint8 else 1
    _refuse_dark(float(x.max()) / white, white, name)
    return x


def _folders(names: list[str], count: int) -> pd.DataFrame:
    """The subfolder of every image, where they lie in several."""
    folders = [name.rpartition("/")[0] for name in names]
    columns = {FOLDER: folders} if len(set(folders)) > 1 else {}
    return pd.DataFrame(columns, index=range(count))
