"""The data that a baseline is trained on: hierarchical binary vectors, coloured sprites, or a user's own table."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from plot_attractors.data import BinaryTable, ColouredSprites, HierarchicalBinaryVectors, load_sprites, read_table
from plot_attractors.language import pairs_to_fit

__all__ = ["Data", "DataConfig", "load_data", "pairs"]

Data = HierarchicalBinaryVectors | ColouredSprites | BinaryTable


@dataclass(frozen=True)
class DataConfig:
    """Settings of the data, named as those of the programs ``hbv``, ``dsprites`` and ``table``."""

    data: Literal["hbv", "dsprites"] | Path = "hbv"  # of the paper, or the path of a table of 0/1 columns
    # hierarchical binary vectors
    depth: int = 6  # D, generations of the tree
    bits: int = 128  # N, bits of a vector
    hold_out_seed: int = 0  # which prototypes are held out
    # coloured sprites
    side: int = 32  # pixels of an image's side
    images: Path | None = None  # path of the original dSprites file; empty: our own renderer
    # both
    hold_out: bool = True  # keep the paper's held-out sets from training
    # a table
    labels: tuple[str, ...] = ()  # columns that are labels, not features
    ignore: tuple[str, ...] = ()  # columns to leave out, such as names
    held_out: str = ""  # column that marks held-out rows
    held_out_fraction: float = 0.0  # or the part of the rows to hold out
    split_seed: int = 0  # which rows held_out_fraction takes
    constant: str = "refuse"  # columns that never vary: 'refuse' or 'drop'


def load_data(config: DataConfig) -> Data:
    """The tree or the sprites, whose inputs are drawn on the fly, or the table that `data` names."""
    c = config
    if c.data == "hbv":
        return HierarchicalBinaryVectors(c.depth, c.bits, c.hold_out, c.hold_out_seed)
    if c.data == "dsprites":
        return load_sprites(c.images, side=c.side, hold_out=c.hold_out)
    return read_table(
        c.data,
        c.labels,
        ignore=c.ignore,
        held_out=c.held_out,
        held_out_fraction=c.held_out_fraction,
        seed=c.split_seed,
        constant=c.constant,
    )


def pairs(data: HierarchicalBinaryVectors | BinaryTable) -> tuple[int, ...]:
    """Exclusive pairs of tokens: one a level of a tree (Section *Hierarchical binary vectors*), or to fit a table."""
    return (2,) * data.depth if isinstance(data, HierarchicalBinaryVectors) else pairs_to_fit(data.distinct)
