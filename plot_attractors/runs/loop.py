"""The training loop: metrics, checkpoints, signals, and how long it will take."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import logging
import math
import os
import platform
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import pandas as pd
import torch

from plot_attractors import __version__
from plot_attractors.runs import store

__all__ = ["Interrupted", "Loop", "Progress", "cuda_devices"]

logger = logging.getLogger("plot_attractors")

_PROGRESS_SECONDS = 0.25


class Progress(NamedTuple):
    """What a run is doing: given to ``on_progress`` a few times a second."""

    position: int  # updates done
    total: int  # updates of the whole schedule
    phase: str
    cycle: int
    metrics: Mapping[str, float]  # of the latest window, and the inference's summary
    seconds: float  # of training so far, earlier sessions included
    remaining: float  # seconds, if updates take as long as those of this session


class Interrupted(KeyboardInterrupt):
    """A signal stopped a run, after the checkpoint was written."""

    def __init__(self, path: Path, position: int, total: int, signal_number: int) -> None:
        held = f"update {position} of {total}, which the checkpoint in {path} holds"
        super().__init__(f"interrupted after {held}")
        self.signal_number = signal_number


def cuda_devices(device: torch.device) -> list[int]:
    """The CUDA device whose random state belongs to a run on `device`; none on the CPU."""
    if device.type == "cpu":
        return []
    return [torch.cuda.current_device() if device.index is None else device.index]


@dataclasses.dataclass
class Loop:
    """One session of a run: trains from a checkpoint, or from the start, to the end or a signal."""

    path: Path
    config: Mapping[str, Mapping[str, Any]]
    device: torch.device
    checkpoint: Mapping[str, Any] | None
    model: torch.nn.Module
    trainer: Any
    data: Mapping[str, Any]  # its `data.digests`
    on_progress: Callable[[Progress], None] | None
    checkpoint_seconds: float

    def run(self) -> None:
        """Train; raises `Interrupted` after a signal, FloatingPointError for what is not finite."""
        import pyro  # slow to import, and reading a run does not need it

        self.total = sum(phase.updates for phase in self.trainer.schedule)
        self.rows: list[dict[str, Any]] = []  # of metrics.csv
        self.window: list[dict[str, Any]] = []  # metrics of the updates since the last row
        if self.checkpoint is not None:
            self._restore(self.checkpoint)
        state: Mapping[str, Any] = self.checkpoint or {}
        self.before, self.begun = state.get("seconds", 0.0), time.monotonic()
        self.first = self.trainer.position
        self.ends = list(itertools.accumulate(phase.updates for phase in self.trainer.schedule))
        self.latest: Mapping[str, float] = {}
        now = str(pd.Timestamp.now("UTC").floor("s"))
        environment = _environment(self.device) | {
            "started": store.read_environment(self.path).get("started", now),
            "ended": None,
            "seconds": self.before,
        }
        self._write_environment(environment)
        # Pyro's checks double the cost of a site: the tests keep them on, training turns them off
        keep = bool(os.environ.get("PLOT_ATTRACTORS_VALIDATE"))
        validation = contextlib.nullcontext() if keep else pyro.validation_enabled(False)
        with _Signals() as signals, validation:
            if self.checkpoint is None:
                self._save()
            stopped = self._updates(signals)
            self._save()
            environment |= {
                "ended": str(pd.Timestamp.now("UTC").floor("s")),
                "seconds": round(self.elapsed, 3),
            }
            self._write_environment(environment)
            position = self.trainer.position
            if stopped is not None and position < self.total:
                raise Interrupted(self.path, position, self.total, stopped)

    @property
    def elapsed(self) -> float:
        """Seconds of training so far, those of earlier sessions included."""
        return float(self.before + time.monotonic() - self.begun)

    def _restore(self, checkpoint: Mapping[str, Any]) -> None:
        if checkpoint["total"] != self.total:
            raise ValueError(
                f"the checkpoint in {self.path} belongs to a schedule of {checkpoint['total']} "
                f"updates, and the inference program now makes {self.total}: choose another --out"
            )
        with store.compatible(self.path):
            self.rows, self.window = list(checkpoint["rows"]), list(checkpoint["window"])
            self.trainer.load_state_dict(checkpoint["inference"])
        torch.set_rng_state(checkpoint["torch_rng"])
        for device, state in zip(cuda_devices(self.device), checkpoint["cuda_rng"], strict=False):
            torch.cuda.set_rng_state(state, device)
        logger.info(
            "resumed %s after update %d of %d", self.path, checkpoint["position"], self.total
        )

    def _write_environment(self, environment: Mapping[str, Any]) -> None:
        store.write(self.path / "environment.json", json.dumps(environment, indent=2).encode())

    def _updates(self, signals: _Signals) -> int | None:
        """Updates to the end, or to a signal, which is returned."""
        position = self.trainer.position
        saved = reported = time.monotonic()
        while position < self.total and signals.received is None:
            phase = self.trainer.phase
            self.window.append(self.trainer.step())  # not read: the device would be waited for
            position += 1
            now, since = time.monotonic(), self.rows[-1]["step"] if self.rows else 0
            row_due = position - since == self.config["run"]["log_every"] or position in self.ends
            if row_due:
                self._log(phase)
            if now - saved >= self.checkpoint_seconds:
                self._save()
                saved = time.monotonic()
            due = now - reported >= _PROGRESS_SECONDS or row_due or position == self.total
            if self.on_progress is not None and due:
                reported = now
                each = (now - self.begun) / (position - self.first)
                self.on_progress(Progress(
                    position, self.total, phase.name, phase.cycle, self.latest, self.elapsed,
                    each * (self.total - position),
                ))  # fmt: skip
        return signals.received

    def _read(self) -> None:
        """The window as numbers."""
        first = self.trainer.position - len(self.window) + 1
        self.window = [{name: float(v) for name, v in of.items()} for of in self.window]
        for update, metrics in enumerate(self.window, first):
            for name, value in metrics.items():
                if not math.isfinite(value):
                    raise FloatingPointError(
                        f"{name} is {value} at update {update}: a smaller learning rate or another "
                        f"seed may help; {self.path} keeps the checkpoint before"
                    )

    def _log(self, phase: Any) -> None:
        self._read()
        values: dict[str, list[float]] = {}
        for metrics in self.window:
            for name, value in metrics.items():
                values.setdefault(name, []).append(value)
        means, self.window = {name: sum(of) / len(of) for name, of in values.items()}, []
        with torch.random.fork_rng(devices=cuda_devices(self.device)):
            self.latest = {**means, **self.trainer.summary()}
        position, seconds = self.trainer.position, round(self.elapsed, 3)
        head = {"step": position, "phase": phase.name, "cycle": phase.cycle, "seconds": seconds}
        self.rows.append({**head, **self.latest})

    def _save(self) -> None:
        self._read()
        position = self.trainer.position
        for name, parameter in self.model.named_parameters():
            if not bool(torch.isfinite(parameter).all()):
                raise FloatingPointError(
                    f"the parameter {name} is not finite after update {position}; {self.path} "
                    "keeps the checkpoint before"
                )
        metrics = pd.DataFrame(self.rows).to_csv(index=False).encode() if self.rows else b""
        store.write(self.path / "metrics.csv", metrics)
        store.save_checkpoint(
            self.path,
            {
                "inference": self.trainer.state_dict(),
                "torch_rng": torch.get_rng_state(),
                "cuda_rng": [torch.cuda.get_rng_state(d) for d in cuda_devices(self.device)],
                "position": position,
                "total": self.total,
                "rows": self.rows,
                "window": self.window,
                "data": dict(self.data),
                "seconds": self.elapsed,
            },
            self.config,
        )


# SIGUSR2 is how SLURM says that the time is nearly up
_STOPS = signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR2


class _Signals:
    """Notes signals to stop: the loop stops between two updates, by a second SIGINT at once."""

    received: int | None = None

    def __enter__(self) -> _Signals:
        self._previous: dict[int, Any] = {}
        if threading.current_thread() is threading.main_thread():
            for number in _STOPS:
                if signal.getsignal(number) != signal.SIG_IGN:  # as nohup has it
                    self._previous[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _note(self, number: int, _: FrameType | None) -> None:
        if self.received is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.received = number


_PACKAGES = "torch pyro-ppl numpy scipy pandas matplotlib arviz xarray"


def _environment(device: torch.device) -> dict[str, Any]:
    """Command line, versions, machine, and the commit of a checkout."""
    versions = {package: metadata.version(package) for package in _PACKAGES.split()}
    return {
        "command": shlex.join(sys.argv),
        "python": platform.python_version(),
        "versions": {"plot-attractors": __version__, **versions},
        "platform": platform.platform(),
        "processors": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else str(device),
        **_commit(),
    }


def _commit() -> dict[str, Any]:
    """Commit of the checkout that the package runs from, and whether files differ from it."""
    root = Path(__file__).resolve().parents[2]

    def git(*words: str) -> str:
        command = ["git", "-C", str(root), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    if (root / ".git").exists():
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            return {"commit": git("rev-parse", "HEAD"), "dirty": bool(git("status", "--porcelain"))}
    return {}
