"""A sweep: runs of programs, settings and seeds, which a TOML file names, and how far they are.

Processes that are given the same sweep share its runs out by their locks.
"""

from __future__ import annotations

import itertools
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import tomlkit

from plot_attractors.runs import store
from plot_attractors.runs.analyze import analyze
from plot_attractors.runs.loop import Progress
from plot_attractors.runs.run import Plan, fit, plan
from plot_attractors.runs.settings import as_text, flatten, from_table

__all__ = ["State", "Training", "lacking", "read_sweep", "seeds", "train"]

logger = logging.getLogger("plot_attractors")

State = Literal["done", "running", "stopped", "not begun"]

LISTED = "programs", "data", "inference", "preset"  # text, or a list of it
INAPPLICABLE = ".inapplicable"  # in the folder of a run: names of analyses that do not apply


@dataclass(frozen=True)
class _File:
    """What a file of a sweep holds beside its table [settings]."""

    programs: tuple[str, ...]
    data: tuple[str, ...] = ()
    inference: tuple[str, ...] = ()
    preset: tuple[str, ...] = ("full",)
    seeds: str = "0"
    out: str = ""
    device: str = "cpu"


@dataclass(frozen=True)
class Training:
    """One run of a sweep: its directory, what `fit` is given, and the analyses that follow, with
    their settings.
    """

    path: Path
    arguments: Mapping[str, Any]  # of `fit`: program, data, inference, preset, seed and settings
    device: str = "cpu"
    analyses: Mapping[str, Mapping[str, Any]] | None = None

    @property
    def name(self) -> str:
        return self.path.name

    def plan(self) -> Plan:
        """What `fit` would do."""
        return plan(**self.arguments, out=self.path)

    @property
    def trained(self) -> bool:
        updates, total = store.progress(self.path) or (0, None)
        return updates == total

    @property
    def state(self) -> State:
        if self.trained and not lacking(self):
            return "done"
        if store.is_locked(self.path):
            return "running"
        return "stopped" if store.progress(self.path) else "not begun"


def seeds(text: str) -> list[int]:
    """The seeds that a text names.

    >>> seeds("0-2, 7")
    [0, 1, 2, 7]
    """
    ends = ([*map(int, part.split("-"))] for part in text.split(","))
    return [seed for end in ends for seed in range(end[0], end[-1] + 1)]


def read_sweep(file: str | Path) -> list[Training]:
    """The runs that a file describes: for every program, data set, inference program, preset, value
    of each setting, and seed.

    What the file gives as a list stands in the name of a run, beside program and seed:
    ``hbv-epsilon=0.05-seed=3``. A setting that is a list itself is written in a list of lists.

    Raises ValueError for unknown keys, what `fit` would refuse, or a directory that holds a run
    with other settings.
    """
    table = tomlkit.parse(Path(file).read_text(encoding="utf-8")).unwrap()
    settings = flatten(table.pop("settings", {}))
    asked = from_table(_File, table | {"seeds": as_text(table.get("seeds", 0))})
    out = Path(asked.out or f"runs/{Path(file).stem}").expanduser().absolute()
    shown = {key for key, value in (table | settings).items() if isinstance(value, list)}
    choices: dict[str, Any] = {key: getattr(asked, key) or (None,) for key in LISTED}
    choices |= {key: v if isinstance(v, list) else [v] for key, v in settings.items()}
    choices["seed"] = seeds(asked.seeds)
    runs = []
    for values in itertools.product(*choices.values()):
        of = dict(zip(choices, values, strict=True))
        changed = {key: of[key] for key in settings}
        named = [Path(of[key]).stem for key in LISTED if key == "programs" or key in shown]
        named += [f"{key}={as_text(changed[key])}" for key in changed if key in shown]
        name = "-".join(re.sub(r"[^\w.,+=-]+", "_", text) for text in named)
        arguments = {key: of[key] for key in ("data", "inference", "preset", "seed")}
        arguments |= {"program": of["programs"], "settings": changed}
        path = out / f"{name}-seed={of['seed']}"
        run = Training(path, arguments, asked.device)
        config = run.plan().config  # refuses what `fit` would refuse before the first run starts
        if (run.path / "config.toml").is_file():
            store.require_same(run.path, config)
        runs.append(run)
    return runs


def train(
    runs: Sequence[Training], on_progress: Callable[[Progress], None] | None = None
) -> dict[str, str]:
    """Fit and analyse runs, one after the other, on one thread; those that failed, and why.

    What is done is left alone, as is what another process has begun: several that are given the
    same runs share them out. A signal stops after an update, with a checkpoint (`Interrupted`).
    """
    import torch

    failed = dict[str, str]()
    for run in runs:
        if run.state in ("done", "running"):
            continue
        logger.info("%s", run.name)
        torch.set_num_threads(1)  # numbers depend on it
        try:
            fit(
                **run.arguments, out=run.path, resume=True, device=run.device,
                on_progress=on_progress,
            )  # fmt: skip
            with store.lock(run.path):
                _analyze(run)
        except Exception as error:
            if not store.is_locked(run.path):  # another process was first
                failed[run.name] = f"{type(error).__name__}: {' '.join(str(error).split())}"
                logger.error("%s failed: %s", run.name, failed[run.name])
    return failed


def _analyze(run: Training) -> None:
    """The analyses that a run lacks; ValueError where one fails."""
    settings = {name: (run.analyses or {})[name] for name in lacking(run)}
    if settings:
        made = analyze(run.path, settings, settings=settings, missing=True)
        if failed := [f"{one.name} failed: {one.error}" for one in made if one.error]:
            raise ValueError("; ".join(failed))
        store.write(run.path / INAPPLICABLE, "\n".join(_absent(run)).encode())


def _absent(run: Training) -> list[str]:
    return [name for name in run.analyses or () if not (run.path / "analyses" / name).is_dir()]


def lacking(run: Training) -> list[str]:
    """The analyses that a run has not, and that may apply to it."""
    file = run.path / INAPPLICABLE
    known = file.read_text(encoding="utf-8").split() if file.is_file() else []
    return [name for name in _absent(run) if name not in known]
