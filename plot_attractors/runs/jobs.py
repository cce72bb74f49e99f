"""The runs of a sweep as processes of this machine, and how far they are.

The folder ``.sweep`` beside the runs has the logs, and ``NAME.error``, why a run failed.
"""

from __future__ import annotations

import multiprocessing
import os
import shlex
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Literal, NamedTuple

import pandas as pd

from plot_attractors.runs import store
from plot_attractors.runs.analyze import analyze
from plot_attractors.runs.loop import Interrupted
from plot_attractors.runs.run import fit
from plot_attractors.runs.settings import as_text
from plot_attractors.runs.sweep import Training

__all__ = ["State", "Status", "command", "inapplicable", "lacking", "run_here", "status"]

State = Literal["done", "running", "failed", "stopped", "not begun"]

INAPPLICABLE = ".inapplicable"  # in the folder analyses of a run: names of what does not apply
POLL_SECONDS = 0.2
STOP_SECONDS = 1.0  # between two requests to stop


class Status(NamedTuple):
    """How far a run is: updates by its checkpoint, or its metrics where these are newer."""

    run: Training
    state: State
    updates: int | None
    total: int | None
    minutes: float | None  # of training
    loss: str  # the last one, with its name
    reason: str  # why it failed


def job(run: Training) -> None:
    """Fit a run, from its last checkpoint, make its analyses, and leave word of what went wrong."""
    import torch

    _error(run).unlink(missing_ok=True)
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
    except Exception as error:
        text = " ".join(str(error).split()) or type(error).__name__
        ours = isinstance(error, ValueError | OSError | FloatingPointError | MemoryError)
        store.write(_error(run), (text if ours else f"{type(error).__name__}: {text}").encode())
        raise


def command(run: Training) -> str:
    """The shell command that fits a run, or goes on with it."""
    options = {
        "inference": run.inference, "data": run.data, "preset": run.preset, "seed": run.seed,
        "device": run.device, "threads": run.threads, "out": run.path,
    }  # fmt: skip
    given = [f"--{name}={value}" for name, value in options.items() if value is not None]
    changed = [f"--set={name}={as_text(value)}" for name, value in run.settings.items()]
    return shlex.join(["plot-attractors", "fit", run.program, *given, *changed, "--resume"])


def _analyze(run: Training) -> None:
    """The analyses that a run lacks; ValueError where one fails."""
    asked = run.analyses or {}
    if not (names := lacking(run.path, asked)):
        return
    settings = {name: asked[name] for name in names}
    made = analyze(run.path, names, settings=settings, missing=True, draw=run.draw)
    if failed := [f"{one.name} failed: {one.error}" for one in made if one.error]:
        raise ValueError("; ".join(failed))
    if left := lacking(run.path, names):
        text = "\n".join([*inapplicable(run.path), *left])
        store.write(run.path / "analyses" / INAPPLICABLE, text.encode())


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
    done, metrics = store.progress(run.path), _metrics(run.path)
    updates, total = done or (None, None)
    trained = done is not None and done[0] >= done[1]
    loss, minutes = "", None
    if len(metrics):
        last = metrics.iloc[-1].dropna()
        updates = max(updates or 0, int(last["step"]))
        minutes = float(last["seconds"]) / 60
        name = next((name for name in last.index if str(name).endswith("loss")), None)
        loss = "" if name is None else f"{name} {last[name]:.4g}"
    reason = ""
    state: State
    if trained and not lacking(run.path, run.analyses or ()):
        state = "done"
    elif store.is_locked(run.path):
        state = "running"
    elif _error(run).is_file():
        state, reason = "failed", _error(run).read_text(encoding="utf-8")
    else:
        state = "not begun" if done is None else "stopped"
    return Status(run, state, updates, total, minutes, loss, reason)


def run_here(runs: Sequence[Training], at_once: int, tell: Callable[[], object]) -> None:
    """Run these runs of a sweep on this machine, so many at once; returns once all have ended.

    `tell` is called all the time. A signal stops the runs after an update, with a checkpoint each.
    GPUs are shared out one a run, in turn.
    """
    waiting, active = deque(runs), dict[int, tuple[Training, BaseProcess]]()
    with _interruptible():
        try:
            while waiting or active:
                for slot, (run, process) in [*active.items()]:
                    if not process.is_alive():
                        del active[slot]
                        if process.exitcode and not _error(run).is_file():
                            said = "it ended without a word, see the logs in"
                            store.write(_error(run), f"{said} {_logs(run.path)}".encode())
                free = [slot for slot in range(at_once) if slot not in active]
                for slot in free[: len(waiting)]:
                    run = waiting.popleft()
                    active[slot] = run, _started(run, slot)
                tell()
                time.sleep(POLL_SECONDS)
        except KeyboardInterrupt:
            _stop([process for _, process in active.values()])
            raise


def _logs(path: Path) -> Path:
    return path.parent / ".sweep" / "logs"


def _error(run: Training) -> Path:
    """Why a run failed."""
    return run.path.parent / ".sweep" / f"{run.name}.error"


def _metrics(path: Path) -> pd.DataFrame:
    try:
        return pd.read_csv(path / "metrics.csv")
    except (OSError, ValueError):  # not there, empty, or being written
        return pd.DataFrame()


def _started(run: Training, slot: int) -> BaseProcess:
    process = multiprocessing.get_context("spawn").Process(target=_process, args=(run, slot))
    _logs(run.path).mkdir(parents=True, exist_ok=True)
    process.start()
    return process


def _process(run: Training, slot: int) -> None:
    """What a process does: its output goes to a log, and a GPU is its own."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's is for the parent, which tells it
    with (_logs(run.path) / f"{run.name}.log").open("ab") as file:
        for stream in (sys.stdout, sys.stderr):
            os.dup2(file.fileno(), stream.fileno())
    if run.device.startswith("cuda"):
        import torch

        listed = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
        devices = [d for d in listed if d] or [*map(str, range(torch.cuda.device_count()))]
        if devices:
            os.environ["CUDA_VISIBLE_DEVICES"] = devices[slot % len(devices)]
    job(run)


def _stop(active: Sequence[BaseProcess]) -> None:
    """Have processes stop after an update; returns once they have."""
    while left := [process for process in active if process.is_alive()]:
        for process in left:
            process.terminate()
        time.sleep(STOP_SECONDS)


@contextmanager
def _interruptible() -> Iterator[None]:
    """SIGTERM is a Ctrl-C."""
    previous = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)
