"""The directory of a run: entered, locked, and written so that a crash leaves every file whole."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import json
import os
import struct
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import tomlkit
import torch

from plot_attractors.data.digests import differences
from plot_attractors.runs import pretrained, weights
from plot_attractors.runs.settings import flatten

__all__ = [
    "OtherData", "check_settings", "compatible", "data_digests", "digest", "enter",
    "has_weights_alone", "is_alive", "is_locked", "leave", "load_checkpoint", "lock",
    "metrics_fault", "now", "progress", "read_config", "require_same", "require_same_data",
    "save_checkpoint", "write", "writing",
]  # fmt: skip

TABLES = ("run", "data", "model", "inference")  # of config.toml
NO_COMMENT = b"\0\0"  # the end of a zip archive without one
DIGEST = 64  # hexadecimal digits of SHA-256
PARTS = "position", "total"  # of a checkpoint, without which nothing can be told
LOCK = ".lock"  # a file that is there while a process trains
LOCK_TRIES, LOCK_SECONDS = 5, 0.1  # to lock a directory, and between two of them

Config = Mapping[str, Mapping[str, Any]]


class OtherData(ValueError):
    """Data were changed after a training."""


def enter(path: Path, config: Config, resume: bool) -> dict[str, Any] | None:
    """Make the directory, or check that it holds the same run; the checkpoint to go on from.

    Under the `lock` of the directory, so that no other process changes it meanwhile.
    """
    if not (path / "config.toml").is_file():
        _begin(path, config)
        return None
    if has_weights_alone(path):
        raise ValueError(
            f"{path} holds a trained model without what training needs to go on: choose another "
            "--out"
        )
    if not (path / "checkpoint.pt").is_file():
        if (path / "analyses").exists():
            raise ValueError(f"{path} has lost its checkpoint.pt: choose another --out")
        _begin(path, config)  # it ended before it had anything to keep
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


def _begin(path: Path, config: Config) -> None:
    with writing(path):
        write(path / "config.toml", tomlkit.dumps(dict(config)).encode())


def leave(path: Path) -> None:
    """Undo `enter` into a directory that was new or empty."""
    with contextlib.suppress(OSError):
        (path / "config.toml").unlink()
        (path / LOCK).unlink(missing_ok=True)
        path.rmdir()


def read_config(path: Path) -> dict[str, dict[str, Any]]:
    """The tables run, data, model and inference of a run's config.toml."""
    file = path / "config.toml"
    if not file.is_file():
        raise ValueError(f"{path} is not the directory of a run: it has no config.toml")
    try:
        config: dict[str, dict[str, Any]] = tomlkit.parse(file.read_text(encoding="utf-8")).unwrap()
    except (tomlkit.exceptions.ParseError, UnicodeDecodeError) as error:
        raise ValueError(f"{file} cannot be read: {error}") from error
    if missing := {*TABLES} - config.keys():
        raise ValueError(
            f"{file} lacks the table {', '.join(sorted(missing))}: runs of before data sets were "
            "programs open with the version that made them"
        )
    return config


def _difference(old: Config, new: Config, places: tuple[str, str] = ("there", "here")) -> str:
    for table in TABLES:
        there, here = flatten(old[table]), flatten(new[table])
        for key in [*there, *here]:
            if there.get(key) != here.get(key):
                first, second = there.get(key), here.get(key)
                return f"{key} is {first!r} {places[0]} and {second!r} {places[1]}"
    return ""


@contextlib.contextmanager
def lock(path: Path) -> Iterator[None]:
    """Make the directory where there is none, and keep a second process out of it; the system drops
    the lock when this one ends, however it ends.
    """
    if path.exists() and not path.is_dir():
        raise ValueError(f"{path} is a file: choose another directory (--out)")
    with writing(path):
        path.mkdir(parents=True, exist_ok=True)
    others = any(not entry.name.startswith(".") for entry in path.iterdir())
    if others and not (path / "config.toml").is_file():
        raise ValueError(f"{path} is not empty and holds no run: choose another --out")
    with contextlib.ExitStack() as stack:
        for _ in range(LOCK_TRIES):
            try:
                if _locked(path, stack):
                    break
            except (ImportError, OSError):  # on Windows; a directory that nobody can train in
                break
            time.sleep(LOCK_SECONDS)
        else:
            raise ValueError(
                f"another process is training in {path}: wait for it, or choose another --out"
            )
        yield


def _locked(path: Path, stack: contextlib.ExitStack) -> bool:
    """Whether the lock could be had, until the stack is left; the file goes with it."""
    import fcntl

    with contextlib.ExitStack() as tried:
        file = tried.enter_context((path / LOCK).open("ab"))
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # `is_locked` has it for an instant, too
            return False
        try:  # it may be a file that another process has just taken away
            same = (path / LOCK).stat().st_ino == os.fstat(file.fileno()).st_ino
        except FileNotFoundError:
            return False
        if same:
            tried.callback((path / LOCK).unlink, missing_ok=True)
            stack.enter_context(tried.pop_all())
        return same


def is_locked(path: Path) -> bool:
    """Whether a process is training in this directory."""
    try:
        import fcntl

        with (path / LOCK).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except (ImportError, OSError):  # on Windows; nobody has trained there
        return False
    return False


def is_alive(process: int) -> bool:
    """Whether there is a process of this number."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def write(path: Path, content: bytes) -> None:
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
def writing(path: Path) -> Iterator[None]:
    """Say in one sentence what kept a file in `path` from being written."""
    try:
        yield
    except OSError as error:
        why = "the disk is full" if error.errno == errno.ENOSPC else (error.strerror or str(error))
        raise OSError(
            f"cannot write to {path}: {why}; the last checkpoint, if there is one, is whole"
        ) from error


# The checkpoint.


def load_checkpoint(path: Path) -> dict[str, Any]:
    """The last checkpoint of a run, on the CPU; of a model's weights alone what they hold of one.

    Raises ValueError where there is none, its content has other checksums, a part is missing, or
    config.toml is not what it was trained with.
    """
    file = path / "checkpoint.pt"
    if has_weights_alone(path):
        state = weights.load(path)
        _require_same_settings(path, state, read_config(path))
        return state
    if not file.is_file():
        raise ValueError(f"{path} has no checkpoint yet: fit it first")
    try:
        content = file.read_bytes()
        checkpoint: dict[str, Any] = torch.load(io.BytesIO(content), "cpu", weights_only=True)
    except Exception as error:  # torch raises many kinds
        name = type(error).__name__
        raise ValueError(f"{file} cannot be read as a checkpoint ({name})") from error
    if not _is_whole(content):
        raise ValueError(f"{file} is damaged: it is not what was saved, by its checksum")
    if lacking := [part for part in PARTS if part not in checkpoint]:
        raise ValueError(f"{file} is no whole checkpoint: it lacks {', '.join(lacking)}")
    _require_same_settings(path, checkpoint, read_config(path))
    return checkpoint


def has_weights_alone(path: Path) -> bool:
    """Whether a directory is an exported run, with a model's weights and no checkpoint."""
    return (path / pretrained.WEIGHTS).is_file() and not (path / "checkpoint.pt").is_file()


def data_digests(path: Path) -> dict[str, Any]:
    """`data.digests` of what a run was trained on; empty for those of before, and without any."""
    digests: dict[str, Any] = _glance(path).get("data", {})
    return digests


def require_same_data(path: Path, then: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raises `OtherData` where digests of data are not those that a run was trained on."""
    if differ := differences(then, now):
        raise OtherData(
            f"the data are not those that {path} was trained on, but have other "
            f"{', '.join(differ)}: put the data back, or fit again into another directory (--out)"
        )


def check_settings(path: Path, config: Config) -> None:
    """Raises ValueError where the settings in config.toml are not those of the checkpoint; a
    checkpoint that cannot be read is left to `load_checkpoint`.
    """
    _require_same_settings(path, _glance(path), config)


def metrics_fault(path: Path) -> str:
    """What is wrong with metrics.csv of a finished run, in words: gone, damaged, or nothing."""
    checkpoint, file = _glance(path), path / "metrics.csv"
    if checkpoint.get("position", 0) < checkpoint.get("total", 1) or "metrics" not in checkpoint:
        return ""
    if not file.is_file():
        return "is gone"
    same = digest(file.read_bytes()) == checkpoint["metrics"]
    return "" if same else "is damaged: it is not what was written, by its checksum"


def _glance(path: Path) -> dict[str, Any]:
    """A checkpoint whose tensors are not read; empty where it cannot be."""
    if has_weights_alone(path):
        return weights.glance(path)
    try:
        content = torch.load(path / "checkpoint.pt", "cpu", weights_only=True, mmap=True)
    except Exception:  # torch raises many kinds
        return {}
    return content if isinstance(content, dict) else {}


def progress(path: Path) -> tuple[int, int] | None:
    """Updates done at the last checkpoint, and of the whole schedule, without reading the rest of
    it; None where there is none that can be read.
    """
    checkpoint = _glance(path)
    return (checkpoint["position"], checkpoint["total"]) if set(PARTS) <= set(checkpoint) else None


def _require_same_settings(path: Path, checkpoint: Any, config: Config) -> None:
    trained = json.loads(checkpoint.get("config", "null"))  # none in those of before
    places = "in the checkpoint", "in the file"
    if trained and (difference := _difference(trained, config, places)):
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
    try:
        torch.load(buffer, map_location="cpu", weights_only=True)
    except Exception as error:
        raise ValueError(
            "the state_dict of the inference holds something that torch does not load with "
            "weights_only=True: keep it to tensors, numbers, text, lists and dicts"
        ) from error
    write(path / "checkpoint.pt", _with_checksum(buffer.getvalue()))


def digest(content: bytes) -> str:
    """SHA-256, in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def _with_checksum(archive: bytes) -> bytes:
    """A zip archive without comment, and the SHA-256 of all before it as its comment."""
    content = archive[: -len(NO_COMMENT)]
    return content + struct.pack("<H", DIGEST) + digest(content).encode()


def _is_whole(archive: bytes) -> bool:
    """Whether an archive has the content that its comment tells; one without comment has none."""
    if archive.endswith(NO_COMMENT):
        return True
    return archive == _with_checksum(archive[: -DIGEST - len(NO_COMMENT)] + NO_COMMENT)


@contextlib.contextmanager
def compatible(path: Path) -> Iterator[None]:
    """Refuse, in a sentence, a checkpoint whose parts are not those of the program as it is now."""
    try:
        yield
    except (RuntimeError, KeyError, ValueError) as error:  # of optimizers, the last
        raise ValueError(
            f"{path} was fitted by another version of its programs, with other parts: fit it again"
        ) from error


def now() -> str:
    """The time, to the second, as ISO text."""
    return datetime.now(UTC).isoformat(timespec="seconds")
