"""Your own images: a folder of files, or an array."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plot_attractors.data import ColumnRoles, ImageSet, read_images
from plot_attractors.ranges import Side, setting

KIND = "images"  # presets of other programs may be for data of this kind


@dataclass(frozen=True)
class Config(ColumnRoles):
    path: Path | None = setting(None, "of the folder, or of an npy file, as in --data photos")
    side: Side = setting(32, "pixels of an image's side")
    table: Path | None = setting(None, "of what is known of the images: a CSV with a row an image")


PRESETS: dict[str, dict[str, Any]] = {"full": {}, "smoke": {"side": 16}}


def load(config: Config) -> ImageSet:
    """The images; ValueError as of `read_images`, and where no file is named."""
    c = config
    if c.path is None:
        raise ValueError("Say which images to read: --data photos (folder or npy).")
    return read_images(c.path, c.table, side=c.side, **c.roles)
