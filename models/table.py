"""The attractor model on a user's own table of 0/1 columns: CSV, Parquet or npz."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from plot_attractors import shelves
from plot_attractors.attractor import AttractorModel
from plot_attractors.data import BinaryTable, read_table
from plot_attractors.language import pairs_to_fit

hbv = shelves.load("models", "hbv")


@dataclass(frozen=True)
class Config(hbv.ModelConfig):  # type: ignore[misc, name-defined]
    data: Path | None = None  # path of the table, as in --set data=animals.csv
    labels: tuple[str, ...] = ()  # columns that are labels, not features
    ignore: tuple[str, ...] = ()  # columns to leave out, such as names
    held_out: str = ""  # column that marks held-out rows
    held_out_fraction: float = 0.0  # or the part of the rows to hold out
    split_seed: int = 0  # which rows held_out_fraction takes
    constant: str = "refuse"  # columns that never vary: 'refuse' or 'drop'
    groups: tuple[int, ...] = ()  # sizes of exclusive groups of tokens; empty: pairs, as many as fit the table


PRESETS: dict[str, dict[str, Any]] = {"full": {}, "demo": {}, "smoke": hbv.SMALL}


def load_data(config: Config) -> BinaryTable:
    """The table, with every complaint that it gives rise to in one sentence."""
    c = config
    if c.data is None:
        raise ValueError("Say which table to read: --set data=animals.csv (CSV, Parquet or npz).")
    return read_table(
        c.data,
        c.labels,
        ignore=c.ignore,
        held_out=c.held_out,
        held_out_fraction=c.held_out_fraction,
        seed=c.split_seed,
        constant=c.constant,
    )


def build(config: Config, data: BinaryTable) -> AttractorModel:
    """The same model as for hierarchical binary vectors, the language sized to fit when `groups` is empty."""
    groups = config.groups or pairs_to_fit(data.distinct)
    model: AttractorModel = hbv.build(replace(config, groups=groups), data)
    return model
