"""The training loop: metrics, checkpoints, signals, and how long it will take."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import logging
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import pandas as pd
import torch

from plot_attractors.runs import environment as environment_
from plot_attractors.runs import store

__all__ = ["Interrupted", "Loop", "Progress", "cuda_devices", "denormals_are_zero"]

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


@contextlib.contextmanager
def denormals_are_zero() -> Iterator[None]:
    """Numbers below 1e-38 count as 0 meanwhile, in this thread and in those that it starts.

    The gradients of saturated pixels are full of them, and processors take many times as long for
    one: an M-update of sprites took twice as long.
    """
    before = float(torch.tensor(1e-40) * 1) == 0
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


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
        self.window: dict[str, list[float]] = {}  # metrics of the updates since the last row
        if self.checkpoint is not None:
            self._restore(self.checkpoint)
        state: Mapping[str, Any] = self.checkpoint or {}
        self.before, self.begun = state.get("seconds", 0.0), time.monotonic()
        self.first = self.trainer.position
        self.ends = list(itertools.accumulate(phase.updates for phase in self.trainer.schedule))
        self.latest: Mapping[str, float] = {}
        environment = environment_.describe(self.device) | {
            "started": environment_.read(self.path).get("started", store.now()),
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
            environment |= {"ended": store.now(), "seconds": round(self.elapsed, 3)}
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
            self.rows, self.window = list(checkpoint["rows"]), dict(checkpoint["window"])
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
            metrics = self.trainer.step()
            position += 1
            for name, value in metrics.items():
                self._note(name, float(value), phase)
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

    def _note(self, name: str, value: float, phase: Any) -> None:
        if not math.isfinite(value):
            raise FloatingPointError(
                f"{name} is {value} at update {self.trainer.position} ({phase.name}, cycle "
                f"{phase.cycle}): a smaller learning rate or another seed may help; "
                f"{self.path} keeps the checkpoint before"
            )
        self.window.setdefault(name, []).append(value)

    def _log(self, phase: Any) -> None:
        means = {name: sum(of) / len(of) for name, of in self.window.items()}
        self.window = {}
        with torch.random.fork_rng(devices=cuda_devices(self.device)):
            self.latest = {**means, **self.trainer.summary()}
        position, seconds = self.trainer.position, round(self.elapsed, 3)
        head = {"step": position, "phase": phase.name, "cycle": phase.cycle, "seconds": seconds}
        self.rows.append({**head, **self.latest})

    def _save(self) -> None:
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
