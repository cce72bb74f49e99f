"""The files of an analysis: what it measured, and the figures drawn from them."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd

from plot_attractors.runs.store import digest

__all__ = ["draw", "read", "read_table", "write"]

CHECKSUMS = ".checksums.json"  # in the folder of an analysis: SHA-256 of every file it measured


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
    digests = {name: digest((folder / name).read_bytes()) for name in tables}
    (folder / CHECKSUMS).write_text(json.dumps(digests), encoding="utf-8")


def read_table(file: Path, **options: Any) -> pd.DataFrame:
    """The table in a file, by `pandas.read_csv`; ValueError where it is not what was written."""
    table: pd.DataFrame = pd.read_csv(io.BytesIO(_checked(file)), **options)
    return table


def _checked(file: Path) -> bytes:
    """What a file holds; a file that a program wrote itself has no checksum."""
    content, known = file.read_bytes(), file.with_name(CHECKSUMS)
    digests = json.loads(known.read_text(encoding="utf-8")) if known.is_file() else {}
    if file.name in digests and digest(content) != digests[file.name]:
        raise ValueError(
            f"{file} is damaged: it is not what was written, by its checksum; make the analysis "
            f"{file.parent.name} again, or, if you changed it, remove {CHECKSUMS} beside it"
        )
    return content


def read(folder: Path) -> dict[str, Any]:
    """The tables (``.csv``) and arrays (``.npz``) in the folder of an analysis, by file name;
    ValueError as of `read_table`.
    """
    tables: dict[str, Any] = {path.name: read_table(path) for path in sorted(folder.glob("*.csv"))}
    for path in sorted(folder.glob("*.npz")):
        with np.load(io.BytesIO(_checked(path))) as arrays:
            tables[path.name] = dict(arrays)
    return tables


def draw(program: ModuleType, folder: Path) -> None:
    """Draw the figures of an analysis program from the tables in its folder, without the model.

    ``draw(tables)`` gives figures by file name without an ending, each written as PNG and SVG.
    """
    from plot_attractors.analysis.style import save, style

    with style():
        for name, figure in program.draw(read(folder)).items():
            save(figure, folder / name)
