"""Your own table of 0/1 columns: CSV or Parquet."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plot_attractors.data import BinaryTable, ColumnRoles, read_table
from plot_attractors.data.table import SAMPLE, Missing
from plot_attractors.ranges import setting

KIND = "table"  # presets of other programs may be for data of this kind


@dataclass(frozen=True)
class Config(ColumnRoles):
    path: Path | None = setting(None, "of the table, as in --data animals.csv")
    missing: Missing = setting("refuse", "missing values; ignore: no likelihood has them")


PRESETS: dict[str, dict[str, Any]] = {"full": {}}


def load(config: Config) -> BinaryTable:
    """The table; ValueError as of `read_table`, and where no file is named."""
    if config.path is None:
        raise ValueError(
            "Say which table to read: --data animals.csv (CSV or Parquet). A sample: "
            f"--data {SAMPLE} --set names=animal --set labels=class"
        )
    return read_table(config.path, missing=config.missing, **config.roles)
