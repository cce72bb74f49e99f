"""Settings of data that programs have in common, a user's own and coloured sprites, and the reading
itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plot_attractors.data.dsprites import ColouredSprites, load_sprites
from plot_attractors.data.images import ImageSet, read_images
from plot_attractors.data.table import BinaryTable, read_table

__all__ = ["ImageConfig", "SpritesConfig", "TableConfig"]


@dataclass(frozen=True)
class _Columns:
    """What the columns of a table are: of inputs, or of what is known of images."""

    labels: tuple[
        str, ...
    ] = ()  # columns that are labels, not inputs; of images: features, and empty means all
    ignore: tuple[str, ...] = ()  # columns to leave out, such as names
    held_out: str = ""  # column that marks held-out rows
    held_out_fraction: float = 0.0  # or the part of the rows to hold out
    split_seed: int = 0  # which rows held_out_fraction takes

    @property
    def columns(self) -> dict[str, Any]:
        """The same as arguments of `read_table` and `read_images`."""
        return {
            "labels": self.labels,
            "ignore": self.ignore,
            "held_out": self.held_out,
            "held_out_fraction": self.held_out_fraction,
            "seed": self.split_seed,
        }


@dataclass(frozen=True)
class TableConfig(_Columns):
    """Of a program that reads a table of 0/1 columns."""

    data: Path | None = None  # path of the table, as in --data animals.csv
    constant: str = "refuse"  # columns that never vary: 'refuse' or 'drop'

    def read_table(self) -> BinaryTable:
        """The table, with every complaint that it gives rise to in one sentence (ValueError)."""
        if self.data is None:
            raise ValueError(
                "Say which table to read: --set data=animals.csv (CSV, Parquet or npz)."
            )
        return read_table(self.data, constant=self.constant, **self.columns)


@dataclass(frozen=True)
class ImageConfig(_Columns):
    """Of a program that reads images, from a folder or an array."""

    images: Path | None = None  # path of the folder, or of an npy or npz file, as in --data photos
    side: int = 32  # pixels of an image's side
    table: Path | None = None  # of what is known of the images: a CSV with a row an image
    continuous: tuple[
        str, ...
    ] = ()  # its columns that are continuous, though their numbers are whole

    def read_images(self) -> ImageSet:
        """The images, with every complaint that they give rise to in one sentence (ValueError)."""
        if self.images is None:
            raise ValueError(
                "Say which images to read: --set images=photos (a folder, or an npy or npz file)."
            )
        return read_images(
            self.images, self.table, side=self.side, continuous=self.continuous, **self.columns
        )


@dataclass(frozen=True)
class SpritesConfig:
    """Of a program that reads coloured sprites."""

    side: int = 32  # pixels of an image's side
    images: Path | None = None  # path of the original dSprites file; empty: our own renderer
    hold_out: bool = True  # keep the paper's held-out sets from training

    def read_sprites(self) -> ColouredSprites:
        """Images of sprites, drawn on the fly; a ValueError in one sentence where the file is not
        the original.
        """
        return load_sprites(self.images, side=self.side, hold_out=self.hold_out)
