"""A sweep: runs of programs, settings and seeds, which a TOML file names."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomlkit

from plot_attractors.runs import store
from plot_attractors.runs.registry import suggestion
from plot_attractors.runs.run import Plan, plan
from plot_attractors.runs.seeds import MOST, seeds
from plot_attractors.runs.settings import flatten

__all__ = ["SLURM", "Sweep", "Training", "read_sweep"]

SLURM: dict[str, str] = {
    "partition": "slurm_partition",
    "account": "slurm_account",
    "qos": "slurm_qos",
    "constraint": "slurm_constraint",
    "timeout_min": "timeout_min",
    "cpus_per_task": "cpus_per_task",
    "gpus_per_node": "gpus_per_node",
    "mem_gb": "mem_gb",
    "array_parallelism": "slurm_array_parallelism",
    "signal_delay_s": "slurm_signal_delay_s",
    "setup": "slurm_setup",
    "additional_parameters": "slurm_additional_parameters",
}
"""Keys of the table [slurm], and submitit's names of them."""

_LISTED = "programs", "data", "inference", "preset"  # text, or a list of it
_KEYS = "out", *_LISTED, "seeds", "device", "threads", "settings", "slurm"


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
    """The runs of a sweep, and what its file tells SLURM."""

    out: Path
    runs: Sequence[Training]
    slurm: Mapping[str, Any] = field(default_factory=dict)


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
    _require_known(file, table, _KEYS, "key")
    slurm, settings = (_table(file, table, name) for name in ("slurm", "settings"))
    _require_known(file, slurm, SLURM, "key of [slurm]")
    out = Path(_text(file, "out", table.get("out", f"runs/{file.stem}"))).expanduser().absolute()
    device = _text(file, "device", table.get("device", "cpu"))
    threads = table.get("threads", 1)
    if type(threads) is not int or not 1 <= threads <= 1024:
        raise ValueError(f"threads in {file} is a whole number from 1 to 1024, not {threads!r}")
    if "programs" not in table:
        raise ValueError(f'{file} names no program: give it programs = ["hbv"], say')
    listed = [_values(file, key, table) for key in _LISTED]
    grid = {key: v if isinstance(v, list) else [v] for key, v in flatten(settings).items()}
    if empty := [key for key, values in grid.items() if not values]:
        raise ValueError(f"the setting {empty[0]!r} in {file} is an empty list: give it a value")
    of_seeds = _seeds(file, table.get("seeds", "0"))
    if (count := math.prod(map(len, (*listed, *grid.values(), of_seeds)))) > MOST:
        raise ValueError(f"{file} asks for {count:,} runs, and a sweep has {MOST:,} at most")
    shown = {key for key, value in flatten(settings).items() if isinstance(value, list)}
    runs = []
    for program, data, inference, preset, *values in itertools.product(*listed, *grid.values()):
        of = dict(zip(grid, values, strict=True))
        parts = [Path(program).stem]
        parts += [Path(data).stem] if isinstance(table.get("data"), list) else []
        parts += [Path(inference).stem] if isinstance(table.get("inference"), list) else []
        parts += [preset] if isinstance(table.get("preset"), list) else []
        parts += [f"{key}={_plain(value)}" for key, value in of.items() if key in shown]
        for seed in of_seeds:
            path = out / "-".join([*parts, f"seed={seed}"])
            runs.append(Training(path, program, inference, preset, seed, of, device, threads, data))
    _check(runs)
    return Sweep(out, runs, slurm)


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
        found: dict[str, Any] = tomlkit.parse(file.read_text(encoding="utf-8")).unwrap()
    except (tomlkit.exceptions.TOMLKitError, UnicodeDecodeError) as error:
        raise ValueError(f"{file} is no TOML file: {error}") from error
    return found


def _require_known(
    file: Path, table: Mapping[str, Any], known: Sequence[str] | Mapping[str, str], what: str
) -> None:
    for key in table:
        if key not in known:
            raise ValueError(
                f"there is no {what} {key!r} ({file}): {suggestion(key, known)}There are "
                f"{', '.join(known)}"
            )


def _table(file: Path, table: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = table.get(name, {})
    if not isinstance(found, dict):
        raise ValueError(f"{name} in {file} is a table, [{name}], not {found!r}")
    return found


def _text(file: Path, key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{key} in {file} is text, not {value!r}")
    return value


def _values(file: Path, key: str, table: Mapping[str, Any]) -> list[Any]:
    if key not in table:
        return ["full" if key == "preset" else None]
    values = table[key] if isinstance(table[key], list) else [table[key]]
    if not values or not all(isinstance(value, str) for value in values):
        raise ValueError(f"{key} in {file} is text, or a list of texts, not {table[key]!r}")
    return values


def _seeds(file: Path, value: Any) -> list[int]:
    try:
        return seeds(",".join(map(str, value)) if isinstance(value, list) else str(value))
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error


def _plain(value: Any) -> str:
    """A value in the name of a directory."""
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    return re.sub(r"[^\w.,+=-]+", "_", text.lower() if isinstance(value, bool) else text)
