"""Runs: fit a model program with an inference program into a directory, resumably, and read such a
directory.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import io
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
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from importlib import metadata
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, NamedTuple

import pandas as pd
import tomlkit
import torch

from plot_attractors.runs import settings as settings_
from plot_attractors.runs import registry
from plot_attractors.runs.tracking import CSVTracker, Tracker, check_tracker, open_tracker

__all__ = ["DEFAULT_INFERENCE", "fit", "Run", "Progress", "Interrupted", "default_path"]

DEFAULT_INFERENCE = "gflownet_em"

logger = logging.getLogger("plot_attractors")

_PACKAGES = (
    "plot-attractors",
    "torch",
    "pyro-ppl",
    "numpy",
    "scipy",
    "pandas",
    "matplotlib",
    "arviz",
    "xarray",
)
_PROGRESS_SECONDS = 0.25


class Progress(NamedTuple):
    """What a run is doing: given to ``on_progress`` a few times a second."""

    position: int  # updates done
    total: int  # updates of the whole schedule
    phase: str
    cycle: int
    metrics: Mapping[str, float]  # of the latest window, and the inference's summary
    seconds: float  # of training so far, earlier sessions included
    remaining: float | None  # seconds, estimated; None before there is anything to estimate from


class Interrupted(KeyboardInterrupt):
    """A signal stopped a run, after the checkpoint was written."""

    def __init__(self, path: Path, position: int, total: int, signal_number: int) -> None:
        super().__init__(
            f"interrupted after update {position} of {total}, which the checkpoint in {path} holds"
        )
        self.path, self.position, self.total, self.signal_number = (
            path,
            position,
            total,
            signal_number,
        )


def default_path(
    program: str, inference: str, preset: str, seed: int, default_inference: str
) -> Path:
    """Directory of a run that was given none: ``runs/<program>[-<inference>]-<preset>-<seed>``."""
    parts = [Path(program).stem, Path(inference).stem, preset, str(seed)]
    if inference == default_inference:
        del parts[1]
    return Path("runs", "-".join(parts))


def fit(
    program: str | Path,
    inference: str | Path | None = None,
    *,
    preset: str = "full",
    seed: int = 0,
    out: str | Path | None = None,
    settings: Mapping[str, Any] | None = None,
    resume: bool = False,
    device: str = "cpu",
    trackers: Sequence[str | Tracker] = ("csv",),
    on_progress: Callable[[Progress], None] | None = None,
    log_every: int = 100,
    checkpoint_seconds: float = 60.0,
) -> Path:
    """Train a model and return the directory of the run; a finished run returns at once.

    The directory holds ``config.toml``, ``metrics.csv`` (means over windows of updates that end
    with a phase at the latest), ``checkpoint.pt`` and ``environment.json``. Whatever stops the
    process, the last checkpoint stays whole; a run resumed from it equals an uninterrupted one bit
    for bit on the CPU with the same number of threads, but for the column ``seconds``. The caller's
    random state is left alone.

    Args:
        program: model program, by name or by path.
        inference: inference program; by default the model program's ``INFERENCE``, else
        ``gflownet_em``.
        preset: ``full``, ``demo``, ``smoke``, or another that the programs have.
        seed: seeds torch's global generator before data, model and inference are built.
        out: the directory; by default `default_path`.
        settings: overrides of fields of either program's Config, as text or as Python values.
        resume: go on with an unfinished run; where there is none, start.
        device: where to train, ``cpu`` or ``cuda``.
        trackers: names, or objects with ``log`` and ``close``; the CSV file is always written.
        on_progress: called a few times a second.
        log_every: updates in a row of the metrics.
        checkpoint_seconds: time between checkpoints; there is one at the start, at the end and at
        Ctrl-C, too.

    Raises:
        ValueError: an unknown program, preset, setting or device, or a directory that holds
        something else.
        FloatingPointError: a metric or a parameter is not finite; the checkpoint before stays.
        Interrupted: SIGINT or SIGTERM; the checkpoint was written.
        OSError: the directory cannot be written to.
    """
    if log_every < 1:
        raise ValueError(
            f"log_every is the number of updates in a row of the metrics, at least 1, and not {log_every}"
        )
    torch_device = _device(device)
    for tracker in trackers:
        if isinstance(tracker, str):
            check_tracker(tracker)
    model_program = registry.load("models", program)
    default_inference = str(getattr(model_program, "INFERENCE", DEFAULT_INFERENCE))
    inference = default_inference if inference is None else inference
    inference_program = registry.load("inference", inference)
    model_presets = model_program.PRESETS
    # it sets what its own has
    if default_inference not in (inference, registry.identifier("inference", inference)):
        known = {field.name for field in dataclasses.fields(model_program.Config)}
        model_presets = {
            name: {k: v for k, v in values.items() if k in known}
            for name, values in model_presets.items()
        }
    configs = settings_.resolve(
        {"model": model_program.Config, "inference": inference_program.Config},
        {"model": model_presets, "inference": inference_program.PRESETS},
        preset,
        settings or {},
    )
    config: dict[str, dict[str, Any]] = {
        "run": {
            "program": registry.identifier("models", program),
            "inference": registry.identifier("inference", inference),
            "preset": preset,
            "seed": seed,
            "log_every": log_every,
        },
        **{part: settings_.to_table(value) for part, value in configs.items()},
    }
    if out is None:
        default_inference = registry.identifier("inference", default_inference)
        path = default_path(
            config["run"]["program"], config["run"]["inference"], preset, seed, default_inference
        )
    else:
        path = Path(out)
    fresh = not (path / "config.toml").exists()
    checkpoint = _enter(path, config, resume)
    if checkpoint is not None and checkpoint["position"] >= checkpoint["total"]:
        logger.info("nothing to do: %s is finished (%d updates)", path, checkpoint["total"])
        return path
    with _lock(path), torch.random.fork_rng(devices=_cuda_devices(torch_device)):
        torch.manual_seed(seed)
        try:
            _, model, trainer = _build(model_program, inference_program, configs, torch_device)
        except Exception:
            if fresh:  # a refused pair or setting does not take the place of the run to come
                _leave(path)
            raise
        session = _Session(path, config, torch_device, checkpoint, log_every, checkpoint_seconds)
        _train(session, model, trainer, trackers, on_progress)
    return path


def _device(device: str) -> torch.device:
    try:
        parsed = torch.device(device)
    except RuntimeError:
        raise ValueError(f"there is no device {device!r}: give cpu or cuda") from None
    if parsed.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(
            "the device cuda was asked for, and torch finds none on this machine: give cpu"
        )
    if parsed.type not in ("cpu", "cuda"):
        raise ValueError(f"there is no training on the device {device!r}: give cpu or cuda")
    return parsed


def _cuda_devices(device: torch.device) -> list[int]:
    return (
        []
        if device.type == "cpu"
        else [torch.cuda.current_device() if device.index is None else device.index]
    )


def _build(
    model_program: ModuleType,
    inference_program: ModuleType,
    configs: Mapping[str, Any],
    device: torch.device,
) -> tuple[Any, torch.nn.Module, Any]:
    data = model_program.load_data(configs["model"])
    model = model_program.build(configs["model"], data).to(device)
    if device.type != "cpu" and hasattr(data, "to"):
        data = data.to(device)
    return data, model, inference_program.build(model, data, configs["inference"])


# The directory.


def _enter(
    path: Path, config: Mapping[str, Mapping[str, Any]], resume: bool
) -> dict[str, Any] | None:
    """Make the directory, or check that it holds the same run; returns the checkpoint to go on
    from.
    """
    if path.exists() and not path.is_dir():
        raise ValueError(f"{path} is a file: choose another directory (--out)")
    if not (path / "config.toml").is_file():
        if path.exists() and any(not entry.name.startswith(".") for entry in path.iterdir()):
            raise ValueError(
                f"{path} is not empty and holds no run: choose another directory (--out)"
            )
        with _writing(path):
            path.mkdir(parents=True, exist_ok=True)
            _write(path / "config.toml", tomlkit.dumps(dict(config)).encode())
        return None
    difference = _difference(_read_config(path), config)
    if difference:
        raise ValueError(
            f"{path} holds a run with other settings ({difference}): choose another directory (--out)"
        )
    checkpoint = _load_checkpoint(path) if (path / "checkpoint.pt").is_file() else None
    finished = checkpoint is not None and checkpoint["position"] >= checkpoint["total"]
    if not resume and not finished:
        done = (
            f"update {checkpoint['position']} of {checkpoint['total']}"
            if checkpoint
            else "before its first update"
        )
        raise ValueError(
            f"{path} holds an unfinished run ({done}): go on with it (--resume), or choose another "
            f"directory (--out)"
        )
    return checkpoint


def _leave(path: Path) -> None:
    """Undo `_enter` into a directory that was new or empty."""
    with contextlib.suppress(OSError):
        (path / "config.toml").unlink()
        path.rmdir()


def _read_config(path: Path) -> dict[str, dict[str, Any]]:
    file = path / "config.toml"
    if not file.is_file():
        raise ValueError(f"{path} is not the directory of a run: it has no config.toml")
    try:
        config: dict[str, dict[str, Any]] = tomlkit.parse(file.read_text(encoding="utf-8")).unwrap()
    except (tomlkit.exceptions.ParseError, UnicodeDecodeError) as error:
        raise ValueError(f"{file} cannot be read: {error}") from error
    if not {"run", "model", "inference"} <= config.keys():
        raise ValueError(
            f"{file} lacks one of the tables run, model, inference: it is not that of a run"
        )
    return config


def _difference(old: Mapping[str, Mapping[str, Any]], new: Mapping[str, Mapping[str, Any]]) -> str:
    for table in ("run", "model", "inference"):
        for key in [*old[table], *new[table]]:
            there, here = old[table].get(key), new[table].get(key)
            if there != here:
                return f"{key} is {there!r} there and {here!r} here"
    return ""


def _load_checkpoint(path: Path) -> dict[str, Any]:
    file = path / "checkpoint.pt"
    if not file.is_file():
        raise ValueError(f"{path} has no checkpoint yet: fit it first")
    try:
        checkpoint: dict[str, Any] = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises many kinds
        raise ValueError(
            f"{file} cannot be read as a checkpoint ({type(error).__name__})"
        ) from error
    return checkpoint


@contextlib.contextmanager
def _of_today(path: Path) -> Iterator[None]:
    """A checkpoint in `path` whose parts are not those of the program as it is now is refused in a
    sentence.
    """
    try:
        yield
    except (RuntimeError, KeyError) as error:
        raise ValueError(
            f"{path} was fitted by another version of its programs, with other parts: fit it again"
        ) from error


def _write(path: Path, content: bytes) -> None:
    """Replace a file at once: after a crash it holds the old content or the new, never a part."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    if os.name == "posix":
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        why = "the disk is full" if error.errno == errno.ENOSPC else (error.strerror or str(error))
        raise OSError(
            f"cannot write to {path}: {why}; the last checkpoint, if there is one, is whole"
        ) from error


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Keep a second process out; the system drops the lock when this one ends, however it ends."""
    try:
        import fcntl
    except ImportError:  # not on Windows
        yield
        return
    with (path / "config.toml").open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(
                f"another process is training in {path}: wait for it, or choose another --out"
            ) from None
        yield


def _environment(device: torch.device) -> dict[str, Any]:
    versions = {}
    for package in _PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    return {
        "command": shlex.join(sys.argv),
        "python": platform.python_version(),
        "versions": versions,
        "platform": platform.platform(),
        "processors": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else str(device),
        **_commit(),
    }


def _commit() -> dict[str, Any]:
    """Commit of the checkout that the package runs from, and whether files differ from it; empty
    elsewhere.
    """
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return {}
    try:
        commit, status = (
            subprocess.run(
                ["git", "-C", str(root), *arguments],
                capture_output=True,
                text=True,
                check=True,
                timeout=10,
            )
            for arguments in (["rev-parse", "HEAD"], ["status", "--porcelain"])
        )
    except (OSError, subprocess.SubprocessError):
        return {}
    return {"commit": commit.stdout.strip(), "dirty": bool(status.stdout.strip())}


# The loop.


class _Signals:
    """Notes SIGINT and SIGTERM, so that the loop stops between two updates; a second SIGINT stops
    at once.
    """

    received: int | None = None

    def __enter__(self) -> _Signals:
        self._previous: dict[int, Any] = {}
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _note(self, number: int, _: FrameType | None) -> None:
        if self.received is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.received = number


class _Window:
    """Means of metrics over the updates since the last row."""

    def __init__(self, state: Mapping[str, Any]) -> None:
        self.sums: dict[str, float] = dict(state.get("sums", {}))
        self.counts: dict[str, int] = dict(state.get("counts", {}))
        self.updates: int = state.get("updates", 0)

    def state(self) -> dict[str, Any]:
        return {"sums": self.sums, "counts": self.counts, "updates": self.updates}

    def add(self, metrics: Mapping[str, float]) -> None:
        self.updates += 1
        for name, value in metrics.items():
            self.sums[name] = self.sums.get(name, 0.0) + value
            self.counts[name] = self.counts.get(name, 0) + 1

    def take(self) -> dict[str, float]:
        means = {name: total / self.counts[name] for name, total in self.sums.items()}
        self.sums, self.counts, self.updates = {}, {}, 0
        return means


@dataclasses.dataclass(frozen=True)
class _Session:
    """One go of a process at a run."""

    path: Path
    config: Mapping[str, Mapping[str, Any]]
    device: torch.device
    checkpoint: Mapping[str, Any] | None
    log_every: int
    checkpoint_seconds: float

    def save(
        self,
        model: torch.nn.Module,
        trainer: Any,
        csv: CSVTracker,
        window: _Window,
        position: int,
        seconds: float,
    ) -> None:
        broken = next(
            (name for name, p in model.named_parameters() if not bool(torch.isfinite(p).all())),
            None,
        )
        if broken is not None:
            raise FloatingPointError(
                f"the parameter {broken} is not finite after update {position}; {self.path} keeps "
                f"the checkpoint before"
            )
        checkpoint = {
            "inference": trainer.state_dict(),
            "torch_rng": torch.get_rng_state(),
            "cuda_rng": [torch.cuda.get_rng_state(device) for device in _cuda_devices(self.device)],
            "position": position,
            "total": sum(phase.updates for phase in trainer.schedule),
            "rows": csv.rows,
            "columns": list(csv.columns),
            "window": window.state(),
            "seconds": seconds,
        }
        buffer = io.BytesIO()
        torch.save(checkpoint, buffer)
        buffer.seek(0)
        try:  # a checkpoint replaces the one before only when it can be read
            torch.load(buffer, map_location="cpu", weights_only=True)
        except Exception as error:
            raise ValueError(
                "the state_dict of the inference holds something that torch does not load with "
                "weights_only=True: "
                "keep it to tensors, numbers, text, lists and dicts"
            ) from error
        with _writing(self.path):
            csv.sync()
            _write(self.path / "checkpoint.pt", buffer.getvalue())


def _train(
    session: _Session,
    model: torch.nn.Module,
    trainer: Any,
    trackers: Sequence[str | Tracker],
    on_progress: Callable[[Progress], None] | None,
) -> None:
    path, checkpoint = session.path, session.checkpoint
    total = sum(phase.updates for phase in trainer.schedule)
    if checkpoint is not None:
        if checkpoint["total"] != total:
            raise ValueError(
                f"the checkpoint in {path} belongs to a schedule of {checkpoint['total']} updates "
                f"and the inference "
                f"program now makes {total}: choose another directory (--out)"
            )
        with _of_today(path):
            trainer.load_state_dict(checkpoint["inference"])
        torch.set_rng_state(checkpoint["torch_rng"])
        for device, cuda_rng in zip(
            _cuda_devices(session.device), checkpoint["cuda_rng"], strict=False
        ):
            torch.cuda.set_rng_state(cuda_rng, device)
        if trainer.position != checkpoint["position"]:
            raise RuntimeError("load_state_dict of the inference did not restore its position")
        logger.info("resumed %s after update %d of %d", path, trainer.position, total)
    state: Mapping[str, Any] = checkpoint or {}
    position, before = trainer.position, state.get("seconds", 0.0)
    begun = time.monotonic()

    def elapsed() -> float:
        return float(before + time.monotonic() - begun)

    environment = _environment(session.device)
    now = _now()
    environment |= {
        "started": _read_environment(path).get("started", now),
        "ended": None,
        "seconds": before,
    }
    if position:
        environment |= {"resumed": now, "resumed_at": position}
    with _writing(path):
        _write(path / "environment.json", json.dumps(environment, indent=2).encode())
    others: list[Tracker] = []
    for tracker in trackers:
        if not isinstance(tracker, str):
            others.append(tracker)
        elif tracker != "csv":  # which is always written
            others.append(
                open_tracker(tracker, path, session.config, position, environment["started"])
            )
    window = _Window(state.get("window", {}))
    clock = _Clock(trainer.schedule)
    with _writing(path):
        csv = CSVTracker(path / "metrics.csv", state.get("rows", 0), state.get("columns", ()))
    try:
        with _Signals() as signals, _no_validation():
            if checkpoint is None:
                session.save(model, trainer, csv, window, position, elapsed())
            saved = reported = time.monotonic()
            latest: Mapping[str, float] = {}
            while position < total and signals.received is None:
                phase = trainer.phase
                before_update = time.monotonic()
                metrics = {name: float(value) for name, value in trainer.step().items()}
                position += 1
                if trainer.position != position:
                    raise RuntimeError(
                        f"a step of the inference took its position to {trainer.position}, not by one"
                    )
                _require_finite(metrics, position, phase, path)
                window.add(metrics)
                now_ = time.monotonic()
                clock.add(phase.name, now_ - before_update, first=position - 1 in (0, *clock.ends))
                row_due = window.updates == session.log_every or position in clock.ends
                if row_due:
                    with torch.random.fork_rng(devices=_cuda_devices(session.device)):
                        latest = {**window.take(), **trainer.summary()}
                    row = {
                        "phase": phase.name,
                        "cycle": phase.cycle,
                        "seconds": round(elapsed(), 3),
                        **latest,
                    }
                    with _writing(path):
                        csv.log(position, row)
                        for other in others:
                            other.log(position, row)
                if now_ - saved >= session.checkpoint_seconds:
                    session.save(model, trainer, csv, window, position, elapsed())
                    saved = time.monotonic()
                if on_progress is not None and (
                    now_ - reported >= _PROGRESS_SECONDS or row_due or position == total
                ):
                    reported = now_
                    remaining = clock.remaining(position)
                    on_progress(
                        Progress(
                            position, total, phase.name, phase.cycle, latest, elapsed(), remaining
                        )
                    )
            session.save(model, trainer, csv, window, position, elapsed())
            environment |= {"ended": _now(), "seconds": round(elapsed(), 3)}
            with _writing(path):
                _write(path / "environment.json", json.dumps(environment, indent=2).encode())
            if position < total:
                assert signals.received is not None
                raise Interrupted(path, position, total, signals.received)
    finally:
        with contextlib.suppress(OSError):
            csv.close()
        for other in others:
            other.close()


def _require_finite(metrics: Mapping[str, float], position: int, phase: Any, path: Path) -> None:
    broken = next((name for name, value in metrics.items() if not math.isfinite(value)), None)
    if broken is not None:
        raise FloatingPointError(
            f"{broken} is {metrics[broken]} at update {position} ({phase.name}, cycle "
            f"{phase.cycle}): a smaller "
            f"learning rate or another seed may help; {path} keeps the checkpoint before"
        )


class _Clock:
    """Estimates the time that is left, for phases whose updates take unlike times."""

    def __init__(self, schedule: Sequence[Any]) -> None:
        self.schedule = schedule
        self.ends = list(itertools.accumulate(phase.updates for phase in schedule))
        self._spent: dict[str, float] = defaultdict(float)
        self._updates: dict[str, int] = defaultdict(int)
        self._provisional: set[str] = set()  # phases of which only a first update is known

    def add(self, name: str, seconds: float, first: bool = False) -> None:
        """An update; the `first` of a phase, which may prepare buffers, counts only until there is
        another.
        """
        if first and name in self._updates:
            return
        if name in self._provisional:
            self._provisional.remove(name)
            self._spent[name], self._updates[name] = 0.0, 0
        if first:
            self._provisional.add(name)
        self._spent[name] += seconds
        self._updates[name] += 1

    def remaining(self, position: int) -> float | None:
        updates = sum(self._updates.values())
        if not updates:
            return None
        mean = sum(self._spent.values()) / updates
        left = 0.0
        for phase, end in zip(self.schedule, self.ends, strict=True):
            count = min(phase.updates, max(0, end - position))
            seen = self._updates.get(phase.name, 0)
            left += count * (self._spent[phase.name] / seen if seen else mean)
        return left


@contextlib.contextmanager
def _no_validation() -> Iterator[None]:
    """Pyro's checks double the cost of a site: the tests keep them on, a training turns them off."""
    import pyro

    if os.environ.get("PLOT_ATTRACTORS_VALIDATE"):
        yield
    else:
        with pyro.validation_enabled(False):
            yield


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _read_environment(path: Path) -> dict[str, Any]:
    try:
        environment: dict[str, Any] = json.loads(
            (path / "environment.json").read_text(encoding="utf-8")
        )
    except (OSError, ValueError):
        return {}
    return environment


# Reading a run.


class Run:
    """A run's directory: its settings, metrics, data and trained model, each read when it is first
    asked for.

    The model comes from the last checkpoint, on the CPU, in evaluation mode; data that is drawn at
    random is the data of the training, as it is made from the same seed.

    Raises:
        ValueError: the directory does not hold a run, or the run has no checkpoint yet.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.config: dict[str, dict[str, Any]] = _read_config(self.path)

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"

    @property
    def program_name(self) -> str:
        """Name of the model program, or the path of a user's own file."""
        return str(self.config["run"]["program"])

    @property
    def inference_name(self) -> str:
        """Name of the inference program, or the path of a user's own file."""
        return str(self.config["run"]["inference"])

    @property
    def preset(self) -> str:
        return str(self.config["run"]["preset"])

    @property
    def seed(self) -> int:
        return int(self.config["run"]["seed"])

    @cached_property
    def model_config(self) -> Any:
        """The model program's Config."""
        return settings_.from_table(
            registry.load("models", self.program_name).Config, self.config["model"]
        )

    @cached_property
    def inference_config(self) -> Any:
        """The inference program's Config."""
        return settings_.from_table(
            registry.load("inference", self.inference_name).Config, self.config["inference"]
        )

    @cached_property
    def environment(self) -> dict[str, Any]:
        """Versions, machine, commit, command line and times; empty where the file is missing."""
        return _read_environment(self.path)

    @cached_property
    def data(self) -> Any:
        """The data that the run was trained on."""
        with self._seeded():
            return registry.load("models", self.program_name).load_data(self.model_config)

    @cached_property
    def inference(self) -> Any:
        """The inference at the last checkpoint, as built around `model`."""
        data, model, inference, state = self._built()
        with _of_today(self.path):
            inference.load_state_dict(state)
        self.__dict__.setdefault("data", data)
        self.__dict__["model"] = model.eval()
        return inference

    @cached_property
    def model(self) -> Any:
        """The trained model."""
        # the inference program may set how the model reads sentences
        _, model, _, state = self._built()
        with _of_today(self.path):
            model.load_state_dict(state["model"])
        return model.eval()

    def _built(self) -> tuple[Any, torch.nn.Module, Any, dict[str, Any]]:
        """Data, model and inference as at the start of the run, and the inference's state at the
        last checkpoint.
        """
        state: dict[str, Any] = _load_checkpoint(self.path)["inference"]
        with self._seeded():
            data, model, inference = _build(
                registry.load("models", self.program_name),
                registry.load("inference", self.inference_name),
                {"model": self.model_config, "inference": self.inference_config},
                torch.device("cpu"),
            )
        return data, model, inference, state

    @property
    def position(self) -> tuple[int, int]:
        """Updates done at the last checkpoint, and updates of the whole schedule."""
        checkpoint = _load_checkpoint(self.path)
        return int(checkpoint["position"]), int(checkpoint["total"])

    def metrics(self) -> pd.DataFrame:
        """The rows of ``metrics.csv``: step, phase, cycle, seconds, then what the inference
        reports.
        """
        try:
            return pd.read_csv(self.path / "metrics.csv")
        except (pd.errors.EmptyDataError, FileNotFoundError):
            return pd.DataFrame()

    @contextlib.contextmanager
    def _seeded(self) -> Iterator[None]:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            yield
