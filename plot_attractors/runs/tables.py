"""The files of an analysis: what it measured, and the figures drawn from them."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from plot_attractors.runs.store import digest

__all__ = ["draw", "read", "read_table", "write"]

CHECKSUMS = ".checksums.json"  # in the folder of an analysis: SHA-256 of every file it measured


def write(folder: Path, tables: Mapping[str, Any]) -> None:
    """Write what an analysis measured, each under its file name, by the name's ending.

    ``.csv``: a `pandas.DataFrame`; ``.npz``: a mapping of arrays; ``.nc``: anything with
    ``to_netcdf``; other endings: text, or bytes.
    """
    for name, value in tables.items():
        path = folder / name
        if path.suffix == ".csv":
            value.to_csv(path, index=False)
        elif path.suffix == ".npz":
            np.savez_compressed(path, **value)
        elif path.suffix == ".nc":
            value.to_netcdf(path, engine="h5netcdf")
        else:
            path.write_bytes(value.encode() if isinstance(value, str) else value)
    digests = {name: digest((folder / name).read_bytes()) for name in tables}
    (folder / CHECKSUMS).write_text(json.dumps(digests), encoding="utf-8")


def read_table(file: Path, **options: Any) -> pd.DataFrame:
    """The table in a file, by `pandas.read_csv`; ValueError where it is not what was written."""
    content, known = file.read_bytes(), file.with_name(CHECKSUMS)
    digests = json.loads(known.read_text(encoding="utf-8")) if known.is_file() else {}
    if file.name in digests and digest(content) != digests[file.name]:
        raise ValueError(
            f"{file} is damaged: it is not what was written, by its checksum; make the analysis "
            f"{file.parent.name} again, or, if you changed it, remove {CHECKSUMS} beside it"
        )
    return pd.DataFrame(pd.read_csv(io.BytesIO(content), **options))


def read(folder: Path) -> dict[str, Any]:
    """The tables (``.csv``) and arrays (``.npz``) in the folder of an analysis, by file name."""
    tables: dict[str, Any] = {path.name: read_table(path) for path in sorted(folder.glob("*.csv"))}
    for path in sorted(folder.glob("*.npz")):
        with np.load(path) as arrays:
            tables[path.name] = dict(arrays)
    return tables


def draw(figures: Callable[[], Mapping[str, Any]], folder: Path) -> None:
    """Write figures, made in one style whatever a user's own is, as NAME.png and NAME.svg; the same
    figure gives the same bytes, whenever it is drawn.
    """
    import matplotlib.style  # slow

    style = Path(__file__).with_name("figures.mplstyle")
    with matplotlib.style.context(["default", style]):
        for name, figure in figures().items():
            figure.savefig(folder / f"{name}.png", dpi=150)
            figure.savefig(folder / f"{name}.svg", dpi=150, metadata={"Date": None})
