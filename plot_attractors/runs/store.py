"""The directory of a run: locked, and written so that a crash leaves every file whole."""

from __future__ import annotations

import contextlib
import io
import json
import os
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import tomlkit
import torch
from filelock import FileLock, Timeout
from safetensors import SafetensorError, safe_open

from plot_attractors.data.checks import differences
from plot_attractors.model.state import digest
from plot_attractors.runs import pretrained
from plot_attractors.runs.settings import flatten

__all__ = [
    "compatible", "enter", "glance", "has_weights_alone", "is_locked",
    "load_checkpoint", "lock", "progress", "read_config", "read_environment", "require_same",
    "require_same_data", "require_untouched", "save_checkpoint", "write",
]  # fmt: skip

TABLES = ("run", "data", "model", "inference")  # of config.toml
LOCK = ".lock"
LOCK_SECONDS = 1.0  # `is_locked` of another process may hold the lock for an instant

Config = Mapping[str, Mapping[str, Any]]


@contextlib.contextmanager
def lock(path: Path) -> Iterator[None]:
    """Make the directory where there is none, and keep a second process out of it; the system drops
    the lock when this one ends, however it ends.
    """
    path.mkdir(parents=True, exist_ok=True)
    others = any(not entry.name.startswith(".") for entry in path.iterdir())
    if others and not (path / "config.toml").is_file():
        raise ValueError(f"{path} is not empty and holds no run: choose another --out")
    try:
        held = FileLock(path / LOCK).acquire(timeout=LOCK_SECONDS)
    except Timeout:
        raise ValueError(
            f"another process is training in {path}: wait for it, or choose another --out"
        ) from None
    with held:
        yield


def is_locked(path: Path) -> bool:
    """Whether a process is training in this directory."""
    if not (path / LOCK).is_file():
        return False
    try:
        with FileLock(path / LOCK).acquire(timeout=0):
            return False
    except Timeout:
        return True


def enter(path: Path, config: Config, resume: bool) -> dict[str, Any] | None:
    """The checkpoint to go on from, of the same run; None where there is none yet."""
    if has_weights_alone(path):
        raise ValueError(
            f"{path} holds a trained model without what training needs to go on: choose another "
            "--out"
        )
    if not (path / "checkpoint.pt").is_file():
        return None
    require_same(path, config)
    checkpoint = load_checkpoint(path)
    position, total = checkpoint["position"], checkpoint["total"]
    if not resume and position < total:
        raise ValueError(
            f"{path} holds an unfinished run (update {position} of {total}): go on with it "
            "(--resume), or choose another directory (--out)"
        )
    return checkpoint


def require_same(path: Path, config: Config) -> None:
    """Raises ValueError where a directory holds a run with other settings."""
    if difference := _difference(read_config(path), config):
        raise ValueError(
            f"{path} holds a run with other settings ({difference}): choose another --out"
        )


def read_config(path: Path) -> dict[str, dict[str, Any]]:
    """The tables run, data, model and inference of a run's config.toml."""
    file = path / "config.toml"
    if not file.is_file():
        raise ValueError(f"{path} is not the directory of a run: it has no config.toml")
    config: dict[str, dict[str, Any]] = tomlkit.parse(file.read_text(encoding="utf-8")).unwrap()
    if missing := {*TABLES} - config.keys():
        raise ValueError(
            f"{file} lacks the table {', '.join(sorted(missing))}: runs of before data sets were "
            "programs open with the version that made them"
        )
    return config


def _difference(old: Config, new: Config) -> str:
    there, here = (flatten({table: of[table] for table in TABLES}) for of in (old, new))
    keys = (key for key in [*there, *here] if there.get(key) != here.get(key))
    return next((f"{key}: {there.get(key)!r}, not {here.get(key)!r}" for key in keys), "")


def write(path: Path, content: bytes) -> None:
    """Replace a file at once: after a crash it holds the old content or the new, never a part."""
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


# The checkpoint.


def load_checkpoint(path: Path) -> dict[str, Any]:
    """The last checkpoint of a run, on the CPU; of a model's weights alone what they hold of one.

    Raises ValueError where there is none, its numbers have other checksums, or config.toml is not
    what it was trained with.
    """
    file = path / "checkpoint.pt"
    if has_weights_alone(path):
        checkpoint = _load_weights(path)
    elif not file.is_file():
        raise ValueError(f"{path} has no checkpoint yet: fit it first")
    else:
        try:
            content = io.BytesIO(file.read_bytes())
            with zipfile.ZipFile(content) as archive:
                # torch ignores the checksums of parts, and does not read one marked as a folder
                folders = [i.filename for i in archive.infolist() if i.external_attr & 0x10]
                damaged = archive.testzip() or ", ".join(folders)
            content.seek(0)
            checkpoint = torch.load(content, "cpu", weights_only=True)
        except Exception as error:  # torch and zipfile raise many kinds
            name = type(error).__name__
            raise ValueError(f"{file} cannot be read as a checkpoint ({name})") from error
        if damaged:
            raise ValueError(f"{file} is damaged: {damaged} in it is not what was saved")
    require_untouched(path, checkpoint, read_config(path))
    return checkpoint


def _load_weights(path: Path) -> dict[str, Any]:
    """What `load_checkpoint` gives, of a directory with weights alone; floats as float32.

    Raises ValueError where the file cannot be read.
    """
    file = path / pretrained.WEIGHTS
    try:
        with safe_open(file, "pt") as archive:
            tensors = {name: archive.get_tensor(name) for name in [*archive.keys()]}
            header = archive.metadata() or {}
        if header["sha256"] != digest(tensors, header):
            raise ValueError(f"{file} is damaged: it is not what was saved, by its checksum")
    except (SafetensorError, KeyError) as error:
        raise ValueError(f"{file} cannot be read as weights of a model: {error}") from error
    model = {n: t.float() if t.dtype == torch.float16 else t for n, t in tensors.items()}
    position = int(header["position"])
    return {
        "inference": {"model": model},
        "config": header["config"],
        "data": json.loads(header.get("data", "{}")),
        "position": position,
        "total": position,
    }


def has_weights_alone(path: Path) -> bool:
    """Whether a directory is an exported run, with a model's weights and no checkpoint."""
    return (path / pretrained.WEIGHTS).is_file() and not (path / "checkpoint.pt").is_file()


def require_same_data(path: Path, then: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raises ValueError where digests of data are not those that a run was trained on."""
    if differ := differences(then, now):
        raise ValueError(
            f"the data are not those that {path} was trained on, but have other "
            f"{', '.join(differ)}: put the data back, or fit again into another directory (--out)"
        )


def glance(path: Path) -> dict[str, Any]:
    """A checkpoint whose tensors are not read; empty where it cannot be."""
    if has_weights_alone(path):
        return _load_weights(path)
    try:
        content = torch.load(path / "checkpoint.pt", "cpu", weights_only=True, mmap=True)
    except Exception:  # torch raises many kinds
        return {}
    return content if isinstance(content, dict) else {}


def progress(path: Path) -> tuple[int, int] | None:
    """Updates done at the last checkpoint, and of the whole schedule, without reading the rest of
    it; None where there is none that can be read.
    """
    checkpoint = glance(path)
    return (checkpoint["position"], checkpoint["total"]) if "total" in checkpoint else None


def require_untouched(path: Path, checkpoint: Mapping[str, Any], config: Config) -> None:
    """Raises ValueError where the settings in config.toml are not those of the checkpoint."""
    trained = json.loads(checkpoint.get("config", "null"))  # none in those of before
    if trained and (difference := _difference(trained, config)):
        raise ValueError(
            f"{path / 'config.toml'} was changed after training ({difference}): put it back, or "
            "fit again into another directory"
        )


def save_checkpoint(path: Path, checkpoint: Mapping[str, Any], config: Config) -> None:
    """Replace the checkpoint of a run, with its settings, once it is known that the new one can be
    read.
    """
    buffer = io.BytesIO()
    torch.save({**checkpoint, "config": json.dumps(config)}, buffer)
    buffer.seek(0)
    torch.load(buffer, map_location="cpu", weights_only=True)
    write(path / "checkpoint.pt", buffer.getvalue())


@contextlib.contextmanager
def compatible(path: Path) -> Iterator[None]:
    """Refuse, in a sentence, a checkpoint whose parts are not those of the program as it is now."""
    try:
        yield
    except (RuntimeError, KeyError, ValueError, TypeError) as error:
        raise ValueError(
            f"{path} was fitted by another version of its programs, with other parts: fit it again"
        ) from error


def read_environment(path: Path) -> dict[str, Any]:
    """environment.json of a run; empty where it is missing."""
    file = path / "environment.json"
    content: dict[str, Any] = json.loads(file.read_text("utf-8")) if file.is_file() else {}
    return content
