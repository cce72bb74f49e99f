"""The data that a baseline is trained on: hierarchical binary vectors, or a user's own table."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from plot_attractors.data import BinaryTable, HierarchicalBinaryVectors, read_table

__all__ = ["DataConfig", "load_data"]


@dataclass(frozen=True)
class DataConfig:
    """Settings of the data, named as those of the programs ``hbv`` and ``table``."""

    data: Literal["hbv"] | Path = "hbv"  # hierarchical binary vectors, or the path of a table of 0/1 columns
    # hierarchical binary vectors
    depth: int = 6  # D, generations of the tree
    bits: int = 128  # N, bits of a vector
    hold_out: bool = True  # hold out one prototype a generation from the third on, with its descendants
    hold_out_seed: int = 0  # which ones
    # a table
    labels: tuple[str, ...] = ()  # columns that are labels, not features
    ignore: tuple[str, ...] = ()  # columns to leave out, such as names
    held_out: str = ""  # column that marks held-out rows
    held_out_fraction: float = 0.0  # or the part of the rows to hold out
    split_seed: int = 0  # which rows held_out_fraction takes
    constant: str = "refuse"  # columns that never vary: 'refuse' or 'drop'


def load_data(config: DataConfig) -> HierarchicalBinaryVectors | BinaryTable:
    """The tree, whose exemplars are drawn on the fly, or the table that `data` names."""
    c = config
    if c.data == "hbv":
        return HierarchicalBinaryVectors(c.depth, c.bits, c.hold_out, c.hold_out_seed)
    return read_table(
        c.data,
        c.labels,
        ignore=c.ignore,
        held_out=c.held_out,
        held_out_fraction=c.held_out_fraction,
        seed=c.split_seed,
        constant=c.constant,
    )
