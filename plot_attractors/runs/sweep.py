"""A sweep: runs of programs, settings and seeds, which a TOML file names, and how far they are.

They are processes of this machine, or commands for others. The folder ``.sweep`` beside the runs
has ``NAME.log``, and ``NAME.error``, why a run failed.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import re
import shlex
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import pandas as pd
import tomlkit

from plot_attractors.ranges import Range
from plot_attractors.runs import store
from plot_attractors.runs.analyze import analyze
from plot_attractors.runs.loop import Interrupted
from plot_attractors.runs.run import Plan, fit, plan
from plot_attractors.runs.settings import as_text, flatten, from_table

__all__ = [
    "State", "Status", "Training", "command", "inapplicable", "lacking", "read_sweep", "run_here",
    "seeds", "status",
]  # fmt: skip

State = Literal["done", "running", "failed", "stopped", "not begun"]

LISTED = "programs", "data", "inference", "preset"  # text, or a list of it
INAPPLICABLE = ".inapplicable"  # in the folder analyses of a run: names of what does not apply
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


@dataclass(frozen=True)
class Training:
    """One run of a sweep: the arguments of `fit`, and the analyses that follow, with settings."""

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

    @property
    def name(self) -> str:
        return self.path.name

    def plan(self) -> Plan:
        """What `fit` would do."""
        return plan(
            self.program, self.inference, self.preset, self.seed, self.path, self.settings,
            data=self.data,
        )  # fmt: skip


class Status(NamedTuple):
    """How far a run is, by its last checkpoint."""

    run: Training
    state: State
    updates: int | None
    total: int | None
    minutes: float | None  # of training
    loss: str  # the last one, with its name
    reason: str  # why it failed


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
    runs = []
    for values in itertools.product(*choices.values(), seeds(asked.seeds)):
        *chosen, seed = values
        of = dict(zip(choices, chosen, strict=True))
        parts = [Path(of["programs"]).stem]
        parts += [Path(of[key]).stem for key in LISTED[1:] if key in shown]
        changed = {key: of[key] for key in settings}
        named = [f"{key}={as_text(value)}" for key, value in changed.items() if key in shown]
        parts += [re.sub(r"[^\w.,+=-]+", "_", text) for text in named]
        run = Training(
            out / "-".join([*parts, f"seed={seed}"]), of["programs"], of["inference"], of["preset"],
            seed, changed, asked.device, asked.threads, of["data"],
        )  # fmt: skip
        config = run.plan().config  # refuses what `fit` would refuse before the first run starts
        if (run.path / "config.toml").is_file():
            store.require_same(run.path, config)
        runs.append(run)
    return runs


def command(run: Training) -> str:
    """The shell command that fits a run, or goes on with it."""
    options = {
        "inference": run.inference, "data": run.data, "preset": run.preset, "seed": run.seed,
        "device": run.device, "threads": run.threads, "out": run.path,
    }  # fmt: skip
    given = [f"--{name}={value}" for name, value in options.items() if value is not None]
    changed = [f"--set={name}={as_text(value)}" for name, value in run.settings.items()]
    return shlex.join(["plot-attractors", "fit", run.program, *given, *changed, "--resume"])


def run_here(runs: Sequence[Training], at_once: int, tell: Callable[[], object]) -> None:
    """Run these runs on this machine, so many at once; returns once all have ended.

    `tell` is called all the time. A signal stops the runs after an update, with a checkpoint each.
    GPUs are shared out one a run, in turn.
    """
    waiting, active = deque(runs), dict[int, BaseProcess]()
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        while waiting or active:
            active = {slot: process for slot, process in active.items() if process.is_alive()}
            for slot in [slot for slot in range(at_once) if slot not in active][: len(waiting)]:
                spawn = multiprocessing.get_context("spawn")
                active[slot] = spawn.Process(target=_job, args=(waiting.popleft(), slot))
                active[slot].start()
            tell()
            time.sleep(POLL_SECONDS)
    except KeyboardInterrupt:
        for process in active.values():
            process.terminate()
        for process in active.values():
            process.join()
        raise
    finally:
        signal.signal(signal.SIGTERM, before)


def _job(run: Training, slot: int) -> None:
    """What a process does: fit a run, from its last checkpoint, and make its analyses."""
    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's is for the parent, which tells it
    error = _beside(run, "error")
    error.parent.mkdir(parents=True, exist_ok=True)
    error.unlink(missing_ok=True)
    with _beside(run, "log").open("ab") as file:
        for stream in (sys.stdout, sys.stderr):
            os.dup2(file.fileno(), stream.fileno())
    if run.device.startswith("cuda"):
        known = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
        devices = [d for d in known if d] or [*map(str, range(torch.cuda.device_count()))]
        os.environ["CUDA_VISIBLE_DEVICES"] = devices[slot % len(devices)]
    torch.set_num_threads(run.threads)
    try:
        fit(
            run.program, run.inference, data=run.data, preset=run.preset, seed=run.seed,
            out=run.path, settings=run.settings, resume=True, device=run.device,
        )  # fmt: skip
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
    if not (names := lacking(run.path, run.analyses or ())):
        return
    settings = {name: (run.analyses or {})[name] for name in names}
    made = analyze(run.path, names, settings=settings, missing=True)
    if failed := [f"{one.name} failed: {one.error}" for one in made if one.error]:
        raise ValueError("; ".join(failed))
    left = [*inapplicable(run.path), *lacking(run.path, names)]
    file = run.path / "analyses" / INAPPLICABLE
    file.parent.mkdir(exist_ok=True)
    file.write_text("\n".join(left), encoding="utf-8")


def inapplicable(path: Path) -> list[str]:
    """The analyses of a run that were found not to apply to it."""
    file = path / "analyses" / INAPPLICABLE
    return file.read_text(encoding="utf-8").split() if file.is_file() else []


def lacking(path: Path, names: Iterable[str]) -> list[str]:
    """Those of the analyses that the directory of a run does not hold, and that may apply."""
    missing = [name for name in names if not (path / "analyses" / name).is_dir()]
    left_out = inapplicable(path) if missing else ()
    return [name for name in missing if name not in left_out]


def status(runs: Sequence[Training]) -> list[Status]:
    """How far each run is."""
    return [_status(run) for run in runs]


def _status(run: Training) -> Status:
    done, file = store.progress(run.path), run.path / "metrics.csv"
    updates, total = done or (None, None)
    loss, minutes, reason = "", None, ""
    if file.is_file() and file.stat().st_size:
        last = pd.read_csv(file).iloc[-1].dropna()
        minutes = float(last["seconds"]) / 60
        loss = next((f"{n} {v:.4g}" for n, v in last.items() if str(n).endswith("loss")), "")
    state: State
    if done and done[0] >= done[1] and not lacking(run.path, run.analyses or ()):
        state = "done"
    elif store.is_locked(run.path):
        state = "running"
    elif _beside(run, "error").is_file():
        state, reason = "failed", _beside(run, "error").read_text(encoding="utf-8")
    else:
        state = "not begun" if done is None else "stopped"
    return Status(run, state, updates, total, minutes, loss, reason)
