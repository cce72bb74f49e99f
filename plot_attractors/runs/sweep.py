"""A sweep: runs of programs, settings and seeds, which a TOML file names, and how far they are.

They are processes of this machine. The folder ``.sweep`` beside the runs has ``NAME.log``, and
``NAME.error``, why a run failed.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import re
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import tomlkit

from plot_attractors.ranges import Range
from plot_attractors.runs import store
from plot_attractors.runs.analyze import analyze
from plot_attractors.runs.loop import Interrupted
from plot_attractors.runs.run import Plan, fit, plan
from plot_attractors.runs.settings import as_text, flatten, from_table

__all__ = ["State", "Status", "Training", "lacking", "read_sweep", "run_here", "seeds"]

State = Literal["done", "running", "failed", "stopped", "not begun"]

LISTED = "programs", "data", "inference", "preset"  # text, or a list of it
INAPPLICABLE = ".inapplicable"  # in the folder of a run: names of analyses that do not apply
POLL_SECONDS = 0.2


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
    threads: Annotated[int, Range(1, 1024)] = 1


class Status(NamedTuple):
    """How far a run is, by its last checkpoint."""

    run: Training
    state: State
    updates: int
    total: int | None  # of the schedule, once there is a checkpoint
    reason: str  # why it failed

    @property
    def trained(self) -> bool:
        return self.updates == self.total


@dataclass(frozen=True)
class Training:
    """One run of a sweep: its directory, what `fit` is given, and the analyses that follow, with
    their settings.
    """

    path: Path
    arguments: Mapping[str, Any]  # of `fit`: program, data, inference, preset, seed and settings
    device: str = "cpu"
    threads: int = 1
    analyses: Mapping[str, Mapping[str, Any]] | None = None

    @property
    def name(self) -> str:
        return self.path.name

    def plan(self) -> Plan:
        """What `fit` would do."""
        return plan(**self.arguments, out=self.path)

    def status(self) -> Status:
        """How far the run is."""
        updates, total = store.progress(self.path) or (0, None)
        state: State = "not begun" if total is None else "stopped"
        reason = ""
        if updates == total and not lacking(self):
            state = "done"
        elif store.is_locked(self.path):
            state = "running"
        elif (error := _beside(self, "error")).is_file():
            state, reason = "failed", error.read_text(encoding="utf-8")
        return Status(self, state, updates, total, reason)


def seeds(text: str) -> list[int]:
    """The seeds that a text names, each once, in its order.

    >>> seeds("0-4"), seeds("7, 0-2")
    ([0, 1, 2, 3, 4], [7, 0, 1, 2])
    """
    numbers = list[int]()
    for part in text.split(","):
        first, _, last = part.partition("-")
        numbers += range(int(first), int(last or first) + 1)
    if not numbers:
        raise ValueError(f"{text!r} names no seeds, as 0-4 or 0,2,7-9 do")
    return list(dict.fromkeys(numbers))


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
        run = Training(path, arguments, asked.device, asked.threads)
        config = run.plan().config  # refuses what `fit` would refuse before the first run starts
        if (run.path / "config.toml").is_file():
            store.require_same(run.path, config)
        runs.append(run)
    return runs


def run_here(runs: Sequence[Training], at_once: int, tell: Callable[[], object]) -> None:
    """Run these runs on this machine, so many at once; returns once all have ended.

    `tell` is called all the time. A signal stops the runs after an update, with a checkpoint each.
    """
    spawn = multiprocessing.get_context("spawn")
    waiting = deque(spawn.Process(target=_job, args=(run,)) for run in runs)
    active: list[Any] = []
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        while waiting or active:
            active = [process for process in active if process.is_alive()]
            while waiting and len(active) < at_once:
                active.append(waiting.popleft())
                active[-1].start()
            tell()
            time.sleep(POLL_SECONDS)
    except KeyboardInterrupt:
        for process in active:
            process.terminate()
        for process in active:
            process.join()
        raise
    finally:
        signal.signal(signal.SIGTERM, before)


def _job(run: Training) -> None:
    """What a process does: fit a run, from its last checkpoint, and make its analyses."""
    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's is for the parent, which tells it
    error = _beside(run, "error")
    error.parent.mkdir(parents=True, exist_ok=True)
    error.unlink(missing_ok=True)
    with _beside(run, "log").open("ab") as file:
        for stream in (sys.stdout, sys.stderr):
            os.dup2(file.fileno(), stream.fileno())
    torch.set_num_threads(run.threads)
    try:
        fit(**run.arguments, out=run.path, resume=True, device=run.device)
        with store.lock(run.path):
            _analyze(run)
    except Interrupted:
        pass
    except Exception as raised:
        error.write_text(f"{type(raised).__name__}: {' '.join(str(raised).split())}", "utf-8")
        raise


def _beside(run: Training, ending: str) -> Path:
    return run.path.parent / ".sweep" / f"{run.name}.{ending}"


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
