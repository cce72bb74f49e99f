"""A user's own images: a folder of files or one array, with what is known of them from a table."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from plot_attractors.data.batch import Batch, check_size, check_split, draw
from plot_attractors.data.features import Feature
from plot_attractors.data.table import (
    check_named_once,
    coded_column,
    column_names,
    drawn_rows,
    read_columns,
    row_counting,
    split_column,
    suggestion,
)

__all__ = ["ImageSet", "read_images"]

FILES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff")
ARRAYS = (".npy", ".npz")
FILE, FOLDER = "file", "folder"  # column that names an image; feature that its subfolder is


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Images with features, some of which may be held out.

    - ``name``: of the folder or file, for messages and titles;
    - ``images``: (N, channels, side, side) uint8, from 0 to 255, one channel or three;
    - ``values``: (N, F) float32, as of `feature_values`; ``features``: the F features;
    - ``held_out``: (N,) bool, the images that are kept from training.
    """

    name: str
    images: Tensor
    values: Tensor
    features: tuple[Feature, ...]
    held_out: Tensor

    @property
    def input_shape(self) -> tuple[int, int, int]:
        """``(channels, side, side)``."""
        channels, height, width = self.images.shape[1:]
        return channels, height, width

    @property
    def label_names(self) -> tuple[str, ...]:
        """Names of the features."""
        return tuple(feature.name for feature in self.features)

    @property
    def ordered(self) -> bool:
        """Features have no order."""
        return False

    @cached_property
    def members(self) -> dict[str, Tensor]:
        """For each split the numbers of its images, (n,) int64."""
        rows = {"train": ~self.held_out, "held_out": self.held_out}
        return {name: mask.nonzero().flatten() for name, mask in rows.items() if mask.any()}

    @property
    def splits(self) -> tuple[str, ...]:
        """``("train", "held_out")``, or ``("train",)`` where nothing is held out."""
        return tuple(self.members)

    @cached_property
    def _labels(self) -> Tensor:
        """(N, F) int64: numbers of the values of a feature, in increasing order, -1 where they are
        missing.
        """
        ranks = [pd.factorize(column, sort=True)[0] for column in self.values.numpy().T]
        return (
            torch.from_numpy(np.stack(ranks, 1))
            if ranks
            else torch.empty(len(self.images), 0, dtype=torch.int64)
        )

    def batch(self, n: int, split: str = "train") -> Batch:
        """n images drawn uniformly with replacement from the split; ``y`` is the image's number,
        from 0.

        Raises ValueError when the split is unknown or n is no positive whole number.
        """
        check_size(n)
        y = draw(check_split(split, self.members), n)
        return Batch(x=self.images[y].float() / 255, y=y, labels=self._labels[y])

    def feature_values(self, batch: Batch) -> Tensor:
        """(n, F) float32: the number of the outcome of a categorical feature, the value of a
        continuous one, NaN where it is missing.
        """
        return self.values[batch.y.cpu()].to(batch.y.device)


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
) -> ImageSet:
    """Read images from a folder, with those in its subfolders, or from an array in an npy or npz
    file.

    Images are cropped to their middle square and brought to ``side`` pixels a side; they stay grey
    where all of a folder are. Names that start with a dot are passed over. Files have 1, 8 or 16
    bits a channel, and what is transparent is shown on black. An array is (N, height, width), (N,
    height, width, channels) or (N, channels, height, width), of uint8 from 0 to 255, of bool, or of
    floating point numbers from 0 to 1; an npz file holds it as ``images``, or as its only array of
    three or four dimensions.

    What is known of the images comes from ``table``, a CSV, TSV or Parquet file with a row an
    image: of those in a
    folder its column ``file`` gives the name, as ``cats/1.png``, while the rows of an array are in
    its order. Its other columns are the features, or those named in ``labels`` only. A column is
    continuous where it holds numbers that are not whole, or is named in ``continuous``, else
    categorical; a missing entry stays missing. Without a table, the subfolder of an image is its
    one feature, ``folder``. ``ignore``, ``held_out``, ``held_out_fraction`` and ``seed`` are as of
    `read_table`.

    Raises ValueError, in one sentence that names the file, row or column, when something cannot be
    read, does not fit together, or a split would be empty.

    Example:
        >>> import numpy as np, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> np.save(f"{folder}/digits.npy", np.random.rand(10, 28, 28))
        >>> read_images(f"{folder}/digits.npy", side=16).batch(4).x.shape
        torch.Size([4, 1, 16, 16])
    """
    path = Path(path)
    if isinstance(side, bool) or not isinstance(side, int) or not 8 <= side <= 128:
        raise ValueError(
            f"the side of an image must be a whole number from 8 to 128 pixels, not {side!r}"
        )
    if held_out and held_out_fraction:
        raise ValueError("give either a held_out column or a held_out_fraction, not both")
    if path.is_dir():
        names, images = _read_folder(path, side)
    elif path.suffix.lower() in ARRAYS:
        names, images = [], _read_array(path, side)
    elif path.exists():
        raise ValueError(
            f"{path.name} is neither a folder of images nor an array in {' or '.join(ARRAYS)}"
        )
    else:
        raise ValueError(
            f"there is no {str(path)!r}: give the path of a folder of images, or of an npy or npz "
            f"file"
        )
    if len(images) < 2 or (images == images[0]).all():
        what = "one image" if len(images) < 2 else "one image again and again"
        raise ValueError(f"{path.name} holds {what}: at least two different ones are needed")
    if table is None:
        if labels or continuous or ignore or held_out:
            raise ValueError(
                "labels, continuous, ignore and held_out name columns of a table: say which file, "
                "as table"
            )
        frame = _folders(names) if names else pd.DataFrame(index=range(len(images)))
    else:
        frame = _rows_of(Path(table), names, len(images), path.name)
    source = path if table is None else Path(table)
    values, features = _features(
        frame,
        source.name,
        column_names(labels),
        column_names(continuous),
        column_names(ignore),
        held_out,
    )
    kept = (
        split_column(frame[held_out], source)
        if held_out
        else drawn_rows(len(images), held_out_fraction, seed)
    )
    return ImageSet(path.name, images, values, features, kept)


def _read_folder(folder: Path, side: int) -> tuple[list[str], Tensor]:
    """Names of the images below a folder, in order, and the images (N, channels, side, side)."""
    files = sorted(
        file
        for file in folder.rglob("*")
        if file.suffix.lower() in FILES and file.is_file() and not _hidden(file.relative_to(folder))
    )
    if not files:
        raise ValueError(
            f"{folder.name} holds no images: files that end in {', '.join(FILES)} are looked for"
        )
    images = []
    for file in files:
        try:
            with Image.open(file) as image:
                pixels = torch.from_numpy(np.array(_plain(ImageOps.exif_transpose(image))))
        except (
            UnidentifiedImageError,
            OSError,
            SyntaxError,
            Image.DecompressionBombError,
        ) as error:
            raise ValueError(
                f"{str(file)!r} cannot be read as an image with pixels of 1, 8 or 16 bits: repair, "
                f"convert or remove it"
            ) from error
        images.append(
            _sized(pixels.movedim(-1, 0)[None] if pixels.dim() == 3 else pixels[None, None], side)
        )
    channels = max(image.shape[1] for image in images)
    names = [file.relative_to(folder).as_posix() for file in files]
    return names, torch.cat([image.expand(-1, channels, -1, -1) for image in images])


def _hidden(name: Path) -> bool:
    return any(
        part.startswith(".") for part in name.parts
    )  # as ._cat.png, which other systems leave behind


def _sized(x: Tensor, side: int) -> Tensor:
    """The middle squares of images (n, channels, height, width), uint8 or from 0 to 1, as (n,
    channels, side, side) uint8: means over what a pixel covers, or linear between pixels where
    there are fewer of them.
    """
    scale = 255 if x.dtype == torch.uint8 else 1
    square = min(x.shape[-2:])
    top, left = ((n - square) // 2 for n in x.shape[-2:])
    x = x[..., top : top + square, left : left + square]
    if square == side and scale == 255:
        return x.contiguous()
    mode: dict[str, Any] = (
        {"mode": "area"} if side <= square else {"mode": "bilinear", "antialias": True}
    )
    parts = [
        torch.nn.functional.interpolate(part.float() / scale, side, **mode)
        for part in x.split(1024)
    ]
    return torch.cat([(255 * part).round().byte() for part in parts])


def _plain(image: Image.Image) -> Image.Image:
    """An image of any mode as grey or RGB, from 0 to 255: 16 bits are scaled, what is transparent
    is black.
    """
    if image.mode.startswith("I;16"):
        return Image.fromarray((np.asarray(image) / 257).round().astype(np.uint8))
    if image.mode in ("I", "F"):
        raise OSError("its pixels have no known range")
    grey = image.mode in ("1", "L", "LA", "La")
    if image.has_transparency_data:
        shown = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", shown.size, "black"), shown)
    return image.convert("L" if grey else "RGB")


def _read_array(path: Path, side: int) -> Tensor:
    """The images of an array, (N, channels, side, side) uint8."""
    try:
        loaded: Any = np.load(path, allow_pickle=False)
        if path.suffix.lower() == ".npz":
            with loaded as file:
                found = [key for key in file.files if key == "images"] or [
                    key for key in file.files if _dimensions(file, key) in (3, 4)
                ]
                if len(found) != 1:
                    raise ValueError(
                        f"it has {len(found)} arrays of three or four dimensions: call the one "
                        f"'images'"
                    )
                loaded = file[found[0]]
        loaded = loaded.astype(loaded.dtype.newbyteorder("="), copy=False)
        if loaded.dtype.kind not in "buif" or loaded.dtype.itemsize > 8:
            raise ValueError(f"it holds {loaded.dtype}, which are no pixels")
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"{str(path)!r} cannot be read as an array of images: {str(error).splitlines()[0]}"
        ) from error
    shape, name = tuple(loaded.shape), path.name
    if loaded.ndim == 3 and shape[-1] not in (1, 3):  # that would be one image with channels
        x = torch.from_numpy(loaded)[:, None]
    elif loaded.ndim == 4 and shape[-1] in (1, 3):
        x = torch.from_numpy(loaded).movedim(-1, 1)
    elif loaded.ndim == 4 and shape[1] in (1, 3):
        x = torch.from_numpy(loaded)
    else:
        raise ValueError(
            f"{name} has the shape {shape}: images are (N, height, width), or have one channel or "
            f"three besides, as "
            "the second or the last dimension"
        )
    if not x.numel():
        raise ValueError(f"{name} has the shape {shape}: it holds no pixels")
    if x.is_floating_point():
        if not bool(((x >= 0) & (x <= 1)).all()):
            raise ValueError(
                f"{name} holds numbers from {x.min():.3g} to {x.max():.3g}: pixels that are not "
                f"whole go from 0 to 1"
            )
    elif x.dtype not in (torch.uint8, torch.bool):
        raise ValueError(
            f"{name} holds {loaded.dtype}: pixels are uint8 from 0 to 255, bool, or floating point "
            f"from 0 to 1"
        )
    return _sized(x, side)


def _dimensions(arrays: Any, key: str) -> int:
    """Of one of an npz file's arrays; 0 for what is no array of numbers, such as a pickled
    dictionary.
    """
    try:
        return int(arrays[key].ndim)
    except ValueError:
        return 0


def _folders(names: list[str]) -> pd.DataFrame:
    """The subfolder of every image, where they lie in several."""
    folders = [name.rpartition("/")[0] for name in names]
    return (
        pd.DataFrame({FOLDER: folders})
        if len(set(folders)) > 1
        else pd.DataFrame(index=range(len(names)))
    )


def _rows_of(table: Path, names: list[str], count: int, images: str) -> pd.DataFrame:
    """The table's rows in the order of the images."""
    frame = read_columns(table)
    if not names:
        if len(frame) != count:
            raise ValueError(
                f"{table.name} has {len(frame)} rows and {images} {count} images: each needs one "
                f"row"
            )
        return frame.drop(columns=FILE, errors="ignore")
    if FILE not in frame.columns:
        raise ValueError(
            f"{table.name} has no column {FILE!r}, which says what image in {images} a row is about"
        )
    if (blank := frame[FILE].isna()).any():
        raise ValueError(
            f"row {int(blank.argmax()) + 1} of {table.name} ({row_counting(table)}) names no "
            f"{FILE}: each row is about "
            "one image"
        )
    listed = frame[FILE].astype(str).str.replace("\\", "/").str.removeprefix("./")
    if listed.duplicated().any():
        raise ValueError(
            f"{table.name} has more than one row for {listed[listed.duplicated()].iloc[0]!r}: each "
            f"image needs one"
        )
    if missing := sorted(set(names) - set(listed)):
        raise ValueError(
            f"{table.name} has no row for {missing[0]!r}{suggestion(missing[0], list(listed))}"
        )
    if unknown := sorted(set(listed) - set(names)):
        raise ValueError(f"{table.name} has a row for {unknown[0]!r}, which is not in {images}")
    return frame.set_index(listed).loc[names].drop(columns=FILE).reset_index(drop=True)


def _features(
    frame: pd.DataFrame,
    where: str,
    labels: tuple[str, ...],
    continuous: tuple[str, ...],
    ignore: tuple[str, ...],
    held_out: str,
) -> tuple[Tensor, tuple[Feature, ...]]:
    """(N, F) values and the F features of the columns."""
    roles = (*ignore, *([held_out] if held_out else []))
    for name in (*labels, *continuous, *roles):
        if name not in frame.columns:
            raise ValueError(
                f"{where} has no column {name!r}{suggestion(name, list(frame.columns))}"
            )
    check_named_once((*dict.fromkeys((*labels, *continuous)), *roles))
    chosen = labels or tuple(name for name in frame.columns if name not in roles)
    values, features = [], []
    for name in dict.fromkeys((*chosen, *continuous)):
        column = frame[name]
        numbers = pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_bool_dtype(
            column.dtype
        )
        if column.isna().all():
            raise ValueError(f"column {name!r} of {where} is empty: leave it out with ignore")
        if name in continuous and not numbers:
            raise ValueError(
                f"column {name!r} of {where} is named as continuous, but holds "
                f"{column.dropna().iloc[0]!r}"
            )
        if numbers and np.isinf(column.dropna().to_numpy(float)).any():
            raise ValueError(
                f"column {name!r} of {where} holds infinity: numbers are finite, or missing"
            )
        if name in continuous or (numbers and (column.dropna() % 1 != 0).any()):
            values.append(column.to_numpy(np.float32, na_value=np.nan))
            features.append(Feature(name))
        else:
            codes, outcomes = coded_column(column, where)
            values.append(np.where(codes < 0, np.nan, codes).astype(np.float32))
            features.append(Feature(name, outcomes))
    stacked = np.stack(values, 1) if values else np.empty((len(frame), 0), np.float32)
    return torch.from_numpy(stacked), tuple(features)
