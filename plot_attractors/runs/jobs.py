"""The runs of a sweep as jobs of submitit, on this machine or by SLURM, and how far they are.

The folder ``.sweep`` beside the runs has submitit's files and logs, and of every run that was
begun or queued ``NAME.job``, where it runs, and of one that failed ``NAME.error``, why.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import pandas as pd

from plot_attractors.runs import store
from plot_attractors.runs.analyze import analyze
from plot_attractors.runs.loop import Interrupted
from plot_attractors.runs.run import fit
from plot_attractors.runs.sweep import SLURM, Sweep, Training

if TYPE_CHECKING:
    import submitit

__all__ = [
    "EXECUTORS", "Executor", "State", "Status", "inapplicable", "lacking", "run_here", "status",
    "submit_to_slurm",
]  # fmt: skip

Executor = Literal["local", "slurm"]
EXECUTORS: tuple[Executor, ...] = get_args(Executor)
State = Literal["done", "running", "queued", "failed", "stopped", "not begun"]

INAPPLICABLE = ".inapplicable"  # in the folder analyses of a run: names of what does not apply
RESTARTS = 1000  # of a job that SLURM stops at its time limit
FOREVER = 60 * 24 * 365  # minutes of a job on this machine
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


@dataclass(frozen=True)
class Job:
    """What a job does: it fits a run, from its last checkpoint, and makes its analyses."""

    run: Training

    def __call__(self) -> None:
        """Fit, and leave word of what went wrong."""
        import torch

        of_error = _file(self.run, "error")
        of_error.unlink(missing_ok=True)
        torch.set_num_threads(self.run.threads)
        run = self.run
        try:
            try:
                fit(
                    run.program, run.inference, data=run.data, preset=run.preset, seed=run.seed,
                    out=run.path, settings=run.settings, resume=True, device=run.device,
                )  # fmt: skip
            except Interrupted as interruption:
                if interruption.signal_number == signal.SIGUSR2:
                    signal.raise_signal(signal.SIGUSR2)  # submitit's handler: queued again
            else:
                _analyze(run)
        except Exception as error:
            text = " ".join(str(error).split()) or type(error).__name__
            ours = isinstance(error, ValueError | OSError | FloatingPointError | MemoryError)
            store.write(of_error, (text if ours else f"{type(error).__name__}: {text}").encode())
            raise
        _file(run, "job").unlink(missing_ok=True)

    def checkpoint(self) -> Any:
        """What submitit queues again at the time limit: the same, as the run has its checkpoint."""
        import submitit

        return submitit.helpers.DelayedSubmission(self)


def _analyze(run: Training) -> None:
    """The analyses that a run lacks; ValueError where one fails."""
    asked = run.analyses or {}
    if not (names := lacking(run.path, asked)):
        return
    of = {name: asked[name] for name in names}
    made = analyze(run.path, names, settings=of, missing=True, draw=run.draw)
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
    queued = _active(runs)
    return [_status(run, run.name in queued) for run in runs]


def _status(run: Training, active: bool) -> Status:
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
    of_error, reason = _file(run, "error"), ""
    state: State
    if trained and not lacking(run.path, run.analyses or ()):
        state = "done"
    elif (trained and active) or store.is_locked(run.path):
        state = "running"
    elif active:
        state = "queued"
    elif of_error.is_file():
        state, reason = "failed", of_error.read_text(encoding="utf-8")
    elif _file(run, "job").is_file():
        state, reason = "failed", f"it ended without a word, see the logs in {_logs(run.path)}"
    else:
        state = "not begun" if done is None else "stopped"
    return Status(run, state, updates, total, minutes, loss, reason)


def run_here(
    sweep: Sweep, runs: Sequence[Training], at_once: int, tell: Callable[[], object]
) -> None:
    """Run these runs of a sweep on this machine, so many at once; returns once all have ended.

    `tell` is called all the time. A signal stops the runs after an update, with a checkpoint each.
    GPUs are shared out one a run, in turn.
    """
    submitit = _submitit()
    logs = _logs(sweep.out / "run")
    executor = submitit.LocalExecutor(logs)
    waiting, active = deque(runs), dict[int, Any]()
    with _interruptible():
        try:
            while waiting or active:
                active = {slot: job for slot, job in active.items() if not job.done()}
                free = [slot for slot in range(at_once) if slot not in active]
                for slot in free[: len(waiting)]:
                    run = waiting.popleft()
                    executor.update_parameters(timeout_min=FOREVER, **_gpu(run, slot))
                    active[slot] = _started(executor, run)
                tell()
                time.sleep(POLL_SECONDS)
        except KeyboardInterrupt:
            _stop(active.values())
            raise


def submit_to_slurm(sweep: Sweep, runs: Sequence[Training]) -> list[str]:
    """Submit these runs of a sweep as one array of SLURM jobs; returns the ids of the jobs.

    A job that comes to its time limit writes a checkpoint, is queued again, and goes on.
    """
    submitit = _submitit()
    if shutil.which("srun") is None or shutil.which("sbatch") is None:
        raise ValueError(
            "there is no SLURM here, since srun and sbatch are not found: run this on a machine "
            "that submits jobs, or take --executor local"
        )
    executor = submitit.AutoExecutor(
        _logs(sweep.out / "run"), cluster="slurm", slurm_max_num_timeout=RESTARTS
    )
    try:
        executor.update_parameters(
            name=sweep.out.name, **{SLURM[key]: value for key, value in sweep.slurm.items()}
        )
    except (AssertionError, TypeError, ValueError) as error:
        raise ValueError(f"submitit refuses the table [slurm]: {error}") from error
    with executor.batch():
        jobs = [executor.submit(Job(run)) for run in runs]
    for run, job in zip(runs, jobs, strict=True):
        store.write(_file(run, "job"), f"slurm {job.job_id}".encode())
    return [str(job.job_id) for job in jobs]


def _submitit() -> Any:
    try:
        import submitit
    except ImportError:
        raise ValueError("a sweep needs a package: pip install 'plot-attractors[sweep]'") from None
    return submitit


def _logs(path: Path) -> Path:
    return path.parent / ".sweep" / "logs"


def _file(run: Training, kind: str) -> Path:
    folder = run.path.parent / ".sweep"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{run.name}.{kind}"


def _metrics(path: Path) -> pd.DataFrame:
    try:
        return pd.read_csv(path / "metrics.csv")
    except (OSError, ValueError):  # not there, empty, or being written
        return pd.DataFrame()


def _active(runs: Sequence[Training]) -> set[str]:
    """The names of the runs whose jobs wait or run; of what SLURM does not know, too."""
    found, in_slurm = set[str](), dict[str, Any]()
    for run in runs:
        if not (run.path.parent / ".sweep" / f"{run.name}.job").is_file():
            continue
        executor, _, number = _file(run, "job").read_text(encoding="utf-8").partition(" ")
        if executor == "slurm":
            in_slurm[run.name] = _submitit().SlurmJob(_logs(run.path), number)
        elif store.is_alive(int(number)):
            found.add(run.name)
    return found | {name for name, job in in_slurm.items() if not job.done()}


def _gpu(run: Training, slot: int) -> dict[str, Any]:
    if not run.device.startswith("cuda"):
        return {}
    import torch

    return {"gpus_per_node": 1, "visible_gpus": (slot % max(1, torch.cuda.device_count()),)}


def _started(executor: submitit.LocalExecutor, run: Training) -> Any:
    # a Ctrl-C at the terminal goes to all processes: it must leave the job's controller alive,
    # which else kills the run before its checkpoint
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        job = executor.submit(Job(run))
    finally:
        signal.signal(signal.SIGINT, previous)
    store.write(_file(run, "job"), f"local {job.job_id}".encode())
    return job


def _stop(jobs: Any) -> None:
    """Have jobs on this machine stop after an update; returns once they have."""
    while left := [job for job in jobs if not job.done()]:
        for job in left:  # again and again: what is not yet training passes a signal over
            os.kill(int(job.job_id), signal.SIGTERM)
        time.sleep(STOP_SECONDS)


@contextmanager
def _interruptible() -> Iterator[None]:
    """SIGTERM is a Ctrl-C."""
    previous = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)
