"""A sweep: runs of programs, settings and seeds, which a TOML file names."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tomlkit

from plot_attractors.ranges import Range
from plot_attractors.runs import store
from plot_attractors.runs.run import Plan, plan
from plot_attractors.runs.seeds import MOST, seeds
from plot_attractors.runs.settings import as_text, flatten, from_table

__all__ = ["Sweep", "Training", "read_sweep"]

_LISTED = "programs", "data", "inference", "preset"  # text, or a list of it


@dataclass(frozen=True)
class _File:
    """What a file of a sweep holds beside its table [settings]."""

    programs: tuple[str, ...] = ()
    data: tuple[str, ...] = ()
    inference: tuple[str, ...] = ()
    preset: tuple[str, ...] = ("full",)
    seeds: str = "0"
    out: str = ""
    device: str = "cpu"
    threads: Annotated[int, Range(1, 1024)] = 1


@dataclass(frozen=True)
class Training:
    """One run of a sweep: the arguments of `fit`, and the analyses that follow, with settings, of
    which figures are drawn or not.
    """

    path: Path
    program: str
    inference: str | None
    preset: str
    seed: int
    settings: Mapping[str, Any]
    device: str = "cpu"
    threads: int = 1
    data: str | None = None
    analyses: Mapping[str, Mapping[str, Any]] | None = None
    draw: bool = True

    @property
    def name(self) -> str:
        return self.path.name

    def plan(self) -> Plan:
        """What `fit` would do."""
        return plan(
            self.program, self.inference, self.preset, self.seed, self.path, self.settings,
            data=self.data,
        )  # fmt: skip


@dataclass(frozen=True)
class Sweep:
    """The runs of a sweep, in one folder."""

    out: Path
    runs: Sequence[Training]


def read_sweep(file: str | Path) -> Sweep:
    """The sweep that a file describes; a run for every program, data set,
    inference program, preset, value of each setting, and seed.

    What the file gives as a list stands in the name of a run, beside program and seed:
    ``hbv-epsilon=0.05-seed=3``. A setting that is a list itself is written in a list of lists.

    Raises ValueError for a file that cannot be read, unknown keys, what `fit` would refuse, or a
    directory that holds a run with other settings.
    """
    file = Path(file)
    table = _parsed(file)
    settings = table.pop("settings", {})
    if not isinstance(settings, dict):
        raise ValueError(f"settings in {file} is a table, [settings], not {settings!r}")
    grid = {key: v if isinstance(v, list) else [v] for key, v in flatten(settings).items()}
    if empty := [key for key, values in grid.items() if not values]:
        raise ValueError(f"the setting {empty[0]!r} in {file} is an empty list: give it a value")
    try:
        asked = from_table(_File, table | {"seeds": as_text(table.get("seeds", 0))})
        of_seeds = seeds(asked.seeds)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error
    if not asked.programs:
        raise ValueError(f'{file} names no program: give it programs = ["hbv"], say')
    out = Path(asked.out or f"runs/{file.stem}").expanduser().absolute()
    listed = [getattr(asked, key) or (None,) for key in _LISTED]
    if (count := math.prod(map(len, (*listed, *grid.values(), of_seeds)))) > MOST:
        raise ValueError(f"{file} asks for {count:,} runs, and a sweep has {MOST:,} at most")
    shown = {key for key, value in flatten(settings).items() if isinstance(value, list)}
    runs = []
    for program, data, inference, preset, *values in itertools.product(*listed, *grid.values()):
        changed = dict(zip(grid, values, strict=True))
        parts = [Path(program).stem]
        parts += [Path(data).stem] if isinstance(table.get("data"), list) else []
        parts += [Path(inference).stem] if isinstance(table.get("inference"), list) else []
        parts += [preset] if isinstance(table.get("preset"), list) else []
        named = {key: as_text(value) for key, value in changed.items() if key in shown}
        parts += [re.sub(r"[^\w.,+=-]+", "_", f"{key}={text}") for key, text in named.items()]
        for seed in of_seeds:
            path = out / "-".join([*parts, f"seed={seed}"])
            more = asked.device, asked.threads, data
            runs.append(Training(path, program, inference, preset, seed, changed, *more))
    _check(runs)
    return Sweep(out, runs)


def _check(runs: Sequence[Training]) -> None:
    """Refuse what `fit` would refuse, of all runs, before the first one starts."""
    twice = [name for name, count in Counter(run.name for run in runs).items() if count > 1]
    if twice:
        raise ValueError(f"two runs of the sweep would be {twice[0]}: leave one of them out")
    for run in runs:
        try:
            planned = run.plan()
        except ValueError as error:
            raise ValueError(f"{run.name}: {error}") from error
        if (run.path / "config.toml").is_file():
            store.require_same(run.path, planned.config)


def _parsed(file: Path) -> dict[str, Any]:
    if not file.is_file():
        raise ValueError(f"there is no file {file}")
    try:
        table: dict[str, Any] = tomlkit.parse(file.read_text(encoding="utf-8")).unwrap()
    except (tomlkit.exceptions.TOMLKitError, UnicodeDecodeError) as error:
        raise ValueError(f"{file} is no TOML file: {error}") from error
    return table
