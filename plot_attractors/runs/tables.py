"""The files of an analysis: what it measured, and the figures drawn from them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd

__all__ = ["draw", "read", "write"]


def write(folder: Path, tables: Mapping[str, Any]) -> None:
    """Write what an analysis measured, each under its file name, by the name's ending.

    ``.csv``: a `pandas.DataFrame`; ``.npz``: a mapping of arrays; ``.nc``: anything with
    ``to_netcdf``; other endings: text, or bytes. Raises ValueError for a value of another kind.
    """
    for name, value in tables.items():
        path = folder / name
        if path.suffix == ".csv" and isinstance(value, pd.DataFrame):
            value.to_csv(path, index=False)
        elif path.suffix == ".npz" and isinstance(value, Mapping):
            np.savez_compressed(path, **value)
        elif path.suffix == ".nc" and hasattr(value, "to_netcdf"):
            value.to_netcdf(path, engine="h5netcdf")
        elif isinstance(value, str):
            path.write_text(value, encoding="utf-8")
        elif isinstance(value, bytes):
            path.write_bytes(value)
        else:
            raise ValueError(f"an analysis cannot keep a {type(value).__name__} as {name}")


def read(folder: Path) -> dict[str, Any]:
    """The tables (``.csv``) and arrays (``.npz``) in the folder of an analysis, by file name."""
    tables: dict[str, Any] = {path.name: pd.read_csv(path) for path in sorted(folder.glob("*.csv"))}
    for path in sorted(folder.glob("*.npz")):
        with np.load(path) as arrays:
            tables[path.name] = dict(arrays)
    return tables


def draw(program: ModuleType, folder: Path) -> None:
    """Draw the figures of an analysis program from the tables in its folder, without the model.

    ``plot(tables)`` gives figures by file name without an ending, each written as PNG and SVG.
    """
    from plot_attractors.plots.style import save, style

    with style():
        for name, figure in program.plot(read(folder)).items():
            save(figure, folder / name)
