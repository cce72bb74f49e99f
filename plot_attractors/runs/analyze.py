"""Analyses: programs that turn a run into tables and figures in its folder ``analyses``."""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch

from plot_attractors.runs import Run, pretrained, registry
from plot_attractors.runs.settings import from_table

__all__ = ["AnalysisResult", "analyze", "draw_figures", "read_tables", "unmet"]

Settings = Mapping[str, Any]

logger = logging.getLogger("plot_attractors")


class AnalysisResult(NamedTuple):
    """Outcome of one analysis program: its folder, and the error that stopped it, if any."""

    name: str
    out: Path
    seconds: float
    error: Exception | None


def analyze(
    run: str | Path | Run,
    names: str | Path | Iterable[str | Path] | None = None,
    *,
    settings: Mapping[str, Settings] | None = None,
    missing: bool = False,
    on_result: Callable[[AnalysisResult], None] | None = None,
) -> list[AnalysisResult]:
    """Run analysis programs on a run, each into ``analyses/<name>``.

    Each starts from the seed after the run's, so that its result does not depend on the others. One
    that fails leaves its earlier results and the other analyses alone. An analysis program may
    define ``NEEDS``, see `plot_attractors.analysis.shape`; where a run lacks it, the analysis is
    left out, which the log says, or refused if it was named. Those of a model of the
    package go to a copy of it, ``./pretrained-NAME``.

    Args:
        names: analysis programs, by name or by path, each made once; by default all that apply.
        settings: overrides of the fields of an analysis' Config, by the name of the analysis.
        missing: only those that apply and that the run does not have yet.
        on_result: called after each.

    Raises ValueError where the run is not fitted, or a name or a setting is unknown.
    """
    run = run if isinstance(run, Run) else Run(run)
    _ = run.position  # refuses a directory that holds no fitted run
    names = [names] if isinstance(names, str | Path) else list(names or ())
    files = (registry.find("analyses", name) for name in names or registry.names("analyses"))
    programs = {file: registry.load("analyses", file) for file in files}
    by_name, changed = [file.stem for file in programs], settings or {}
    if unknown := [name for name in changed if name not in by_name]:
        raise ValueError(
            f"there are settings of {unknown[0]!r}, which is not made: "
            f"{registry.suggestion(unknown[0], by_name)}These are {', '.join(by_name)}"
        )
    configs = {f: from_table(of.Config, changed.get(f.stem, {})) for f, of in programs.items()}
    if (path := pretrained.writable(run.path)) != run.path:
        run = Run(path)
    results = []
    for file, program in programs.items():
        if missing and (run.path / "analyses" / file.stem).is_dir():
            continue
        if (missing or not names) and (lacked := unmet(program, run)):
            logger.info("left out: %s needs %s", file.stem, lacked)
            continue
        results.append(_analyze(run, file, program, configs[file]))
        if on_result is not None:
            on_result(results[-1])
    return results


def unmet(program: ModuleType, run: Run, named: bool = False) -> str:
    """What a run lacks of an analysis program's ``NEEDS``, in words, or that it must be `named`;
    empty where it can be made.
    """
    if hasattr(program, "NAMED_ONLY") and not named:
        return str(program.NAMED_ONLY)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        met = not hasattr(program, "NEEDS") or program.NEEDS.met(run)
    return "" if met else str(program.NEEDS.words)


def _analyze(run: Run, file: Path, program: ModuleType, config: Any) -> AnalysisResult:
    """One analysis program on a run."""
    out = run.path / "analyses" / file.stem
    temporary = out.with_name(f".{file.stem}.tmp")
    begun = time.monotonic()
    error: Exception | None = None
    try:
        if lacked := unmet(program, run, named=True):
            raise ValueError(f"{file.stem} needs {lacked}: leave it out")
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(run.seed + 1)
            write_tables(temporary, program.measure(run, config))
            shutil.rmtree(out, ignore_errors=True)
            temporary.rename(out)
            if hasattr(program, "draw"):  # a figure that fails loses no table
                draw_figures(lambda: program.draw(read_tables(out)), out)
    except Exception as caught:
        shutil.rmtree(temporary, ignore_errors=True)
        error = caught
    return AnalysisResult(file.stem, out, time.monotonic() - begun, error)


def write_tables(folder: Path, tables: Mapping[str, Any]) -> None:
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


def read_tables(folder: Path) -> dict[str, Any]:
    """The tables (``.csv``) and arrays (``.npz``) in the folder of an analysis, by file name."""
    tables: dict[str, Any] = {path.name: pd.read_csv(path) for path in sorted(folder.glob("*.csv"))}
    for path in sorted(folder.glob("*.npz")):
        with np.load(path) as arrays:
            tables[path.name] = dict(arrays)
    return tables


def draw_figures(figures: Callable[[], Mapping[str, Any]], folder: Path) -> None:
    """Write figures, made in one style whatever a user's own is, as NAME.png, NAME.svg and
    NAME.pdf; the same figure gives the same bytes, whenever it is drawn.
    """
    import matplotlib.style  # slow

    style = Path(__file__).with_name("figures.mplstyle")
    with matplotlib.style.context(["default", style]):
        for name, figure in figures().items():
            figure.savefig(folder / f"{name}.png", dpi=150)
            figure.savefig(folder / f"{name}.svg", dpi=150, metadata={"Date": None})
            figure.savefig(folder / f"{name}.pdf", dpi=150, metadata={"CreationDate": None})
