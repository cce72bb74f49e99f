"""The data that a baseline is trained on: hierarchical binary vectors, coloured sprites, or a user's own table or
images.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from plot_attractors.data import (
    BinaryTable,
    ColouredSprites,
    HierarchicalBinaryVectors,
    ImageSet,
    load_sprites,
    read_images,
    read_table,
)
from plot_attractors.language import pairs_to_fit

__all__ = ["Data", "DataConfig", "load_data", "pairs"]

Data = HierarchicalBinaryVectors | ColouredSprites | ImageSet | BinaryTable


@dataclass(frozen=True)
class DataConfig:
    """Settings of the data, named as those of the programs ``hbv``, ``dsprites``, ``images`` and ``table``."""

    data: Literal["hbv", "dsprites", "images"] | Path = "hbv"  # of the paper, images of your own, or a table's path
    # hierarchical binary vectors
    depth: int = 6  # D, generations of the tree
    bits: int = 128  # N, bits of a vector
    hold_out_seed: int = 0  # which prototypes are held out
    # coloured sprites, and images
    side: int = 32  # pixels of an image's side
    images: Path | None = None  # path of the original dSprites file; empty: our own renderer; or path of the images
    table: Path | None = None  # of what is known of the images: a CSV with a row an image
    continuous: tuple[str, ...] = ()  # its columns that are continuous, though their numbers are whole
    # the paper's data sets
    hold_out: bool = True  # keep the paper's held-out sets from training
    # a table, of inputs or of what is known of images
    labels: tuple[str, ...] = ()  # columns that are labels, not inputs; of images, empty: all
    ignore: tuple[str, ...] = ()  # columns to leave out, such as names
    held_out: str = ""  # column that marks held-out rows
    held_out_fraction: float = 0.0  # or the part of the rows to hold out
    split_seed: int = 0  # which rows held_out_fraction takes
    constant: str = "refuse"  # columns that never vary: 'refuse' or 'drop'


def load_data(config: DataConfig) -> Data:
    """The tree or the sprites, whose inputs are drawn on the fly, the images, or the table that `data` names."""
    c = config
    if c.data == "hbv":
        return HierarchicalBinaryVectors(c.depth, c.bits, c.hold_out, c.hold_out_seed)
    if c.data == "dsprites":
        return load_sprites(c.images, side=c.side, hold_out=c.hold_out)
    split: dict[str, Any] = {
        "held_out": c.held_out,
        "held_out_fraction": c.held_out_fraction,
        "seed": c.split_seed,
    }
    if c.data == "images":
        if c.images is None:
            raise ValueError("Say which images to read: --set images=photos (a folder, or an npy or npz file).")
        shown: dict[str, Any] = {"side": c.side, "labels": c.labels, "continuous": c.continuous, "ignore": c.ignore}
        return read_images(c.images, c.table, **shown, **split)
    return read_table(c.data, c.labels, ignore=c.ignore, constant=c.constant, **split)


def pairs(data: HierarchicalBinaryVectors | BinaryTable) -> tuple[int, ...]:
    """Exclusive pairs of tokens: one a level of a tree (Section *Hierarchical binary vectors*), or to fit a table."""
    return (2,) * data.depth if isinstance(data, HierarchicalBinaryVectors) else pairs_to_fit(data.distinct)
