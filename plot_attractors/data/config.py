"""Settings of data that programs have in common, and the reading itself."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plot_attractors.data.dsprites import ColouredSprites, load_sprites
from plot_attractors.data.images import ImageSet, read_images
from plot_attractors.data.table import BinaryTable, Missing, read_table
from plot_attractors.data.vectors import Vectors, read_vectors
from plot_attractors.ranges import Seed, Share, Side

SAMPLE = Path(__file__).parent / "animals.csv"  # 163 animals, written for this project

__all__ = ["ImageConfig", "SpritesConfig", "TableConfig", "VectorConfig"]


@dataclass(frozen=True)
class _Columns:
    """What the columns of a table are: of inputs, or of what is known of images."""

    # columns that are labels, not inputs; of images: features, and empty means all
    labels: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()  # columns to leave out
    held_out: str = ""  # column that marks held-out rows
    held_out_fraction: Share = 0.0  # or the part of the rows to hold out
    split_seed: Seed = 0  # which rows held_out_fraction takes

    def inert(self) -> dict[str, str]:
        """Settings that have no effect beside the others, and why."""
        return {} if self.held_out_fraction else {"split_seed": "held_out_fraction is 0"}

    @property
    def columns(self) -> dict[str, Any]:
        """The same as arguments of `read_table` and `read_images`."""
        names = ("labels", "ignore", "held_out", "held_out_fraction")
        return {name: getattr(self, name) for name in names} | {"seed": self.split_seed}


@dataclass(frozen=True)
class TableConfig(_Columns):
    """Of a program that reads a table of 0/1 columns."""

    data: Path | None = None  # path of the table, as in --data animals.csv
    names: str = ""  # column that names the rows, such as the animal
    one_hot: tuple[str, ...] = ()  # columns that become a 0/1 column for each of their values
    at_least: tuple[str, ...] = ()  # columns of numbers that become one for each threshold
    missing: Missing = "refuse"  # missing values, or to leave them out of every likelihood: ignore

    def read_table(self) -> BinaryTable:
        """The table; ValueError as of `read_table`, and where no file is named."""
        if self.data is None:
            raise ValueError(
                "Say which table to read: --set data=animals.csv (CSV, Parquet, npz). A sample: "
                f"--set data={SAMPLE} --set names=animal --set labels=class --set at_least=legs"
            )
        own = {name: getattr(self, name) for name in ("names", "one_hot", "at_least", "missing")}
        return read_table(self.data, **own, **self.columns)


@dataclass(frozen=True)
class ImageConfig(_Columns):
    """Of a program that reads images, from a folder or an array."""

    images: Path | None = None  # path of the folder, or of an npy or npz file, as in --data photos
    side: Side = 32  # pixels of an image's side
    table: Path | None = None  # of what is known of the images: a CSV with a row an image
    # columns of the table that are continuous, though their numbers are whole
    continuous: tuple[str, ...] = ()

    def read_images(self) -> ImageSet:
        """The images; ValueError as of `read_images`, and where no file is named."""
        if self.images is None:
            raise ValueError("Say which images to read: --set images=photos (folder, npy or npz).")
        more = {"continuous": self.continuous, **self.columns}
        return read_images(self.images, self.table, side=self.side, **more)


@dataclass(frozen=True)
class VectorConfig(_Columns):
    """Of a program that reads real-valued vectors."""

    vectors: Path | None = None  # path of the npy, npz, CSV or Parquet file, as in --data
    table: Path | None = None  # of what is known of the vectors: a CSV with a row a vector
    names: str = ""  # column that names the rows
    # columns of labels that are continuous, though their numbers are whole
    continuous: tuple[str, ...] = ()

    def read_vectors(self) -> Vectors:
        """The vectors; ValueError as of `read_vectors`, and where no file is named."""
        if self.vectors is None:
            raise ValueError("Say which vectors to read: --data embeddings.npz (npy, CSV, ...).")
        own = {name: getattr(self, name) for name in ("names", "continuous")}
        return read_vectors(self.vectors, self.table, **own, **self.columns)


@dataclass(frozen=True)
class SpritesConfig:
    """Of a program that reads coloured sprites."""

    side: Side = 32  # pixels of an image's side
    hold_out: bool = True  # keep the paper's held-out sets from training

    def read_sprites(self) -> ColouredSprites:
        """Images of sprites, drawn on the fly; ValueError as of `load_sprites`."""
        return load_sprites(side=self.side, hold_out=self.hold_out)
