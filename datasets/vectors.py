"""Your own real-valued vectors, as embeddings: npy, CSV or Parquet."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plot_attractors.data import ColumnRoles, Vectors, read_vectors
from plot_attractors.ranges import setting

KIND = "vectors"  # presets of other programs may be for data of this kind


@dataclass(frozen=True)
class Config(ColumnRoles):
    path: Path | None = setting(None, "of the file, as in --data embeddings.npy")
    table: Path | None = setting(None, "of what is known of the vectors: a CSV with a row a vector")


PRESETS: dict[str, dict[str, Any]] = {"full": {}}


def load(config: Config) -> Vectors:
    """The vectors; ValueError as of `read_vectors`, and where no file is named."""
    c = config
    if c.path is None:
        raise ValueError("Say which vectors to read: --data embeddings.npy (or CSV, ...).")
    return read_vectors(c.path, c.table, **c.roles)
