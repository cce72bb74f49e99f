"""Trained models in the package: ``pretrained:NAME`` stands for the directory of a run.

Such a model is read where the package is installed. What is to be written, analyses and reports,
goes into a copy in a folder of the user's, which then is a run as any other.
"""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

from plot_attractors.runs.registry import suggestion

__all__ = ["PREFIX", "WEIGHTS", "find", "name_of", "names", "shown", "writable"]

PREFIX = "pretrained:"
FOLDER = Path(__file__).resolve().parents[1] / "pretrained"  # a folder each
WEIGHTS = "weights.safetensors"  # of a run that cannot be trained further

logger = logging.getLogger("plot_attractors")


def names() -> tuple[str, ...]:
    """Names of the trained models that the package holds, sorted."""
    return tuple(sorted(file.parent.name for file in FOLDER.glob(f"*/{WEIGHTS}")))


def find(run: str | Path) -> Path:
    """The directory of a run, given by its path or as ``pretrained:NAME``: the copy in
    ``./pretrained-NAME`` once there is one.
    """
    if not str(run).startswith(PREFIX):
        return Path(run).expanduser()
    name = str(run).removeprefix(PREFIX)
    if name not in names():
        raise ValueError(
            f"there is no trained model {str(run)!r} in this package: "
            f"{suggestion(name, names())}It holds {', '.join(map(PREFIX.__add__, names()))}"
        )
    return _copy_of(name) if _is_copy(_copy_of(name), name) else FOLDER / name


def name_of(path: Path) -> str | None:
    """The name of the trained model in a folder of the package; None for any other folder."""
    path = path.resolve()
    return path.name if path.parent == FOLDER and path.name in names() else None


def shown(path: Path) -> str:
    """A run's directory as it is given to a command."""
    name = name_of(path)
    return str(path) if name is None else PREFIX + name


def writable(path: Path) -> Path:
    """The directory of a run that analyses and reports may be written to: `path` itself, or of a
    model in the package a copy in ``./pretrained-NAME``.
    """
    if (name := name_of(path)) is None:
        return path
    out = _copy_of(name)
    if not _is_copy(out, name):
        shutil.copytree(path, out)
        logger.info("copied %s%s to %s, which is a run as any other", PREFIX, name, out)
    return out


def _copy_of(name: str) -> Path:
    return Path(f"pretrained-{name}")


def _is_copy(path: Path, name: str) -> bool:
    """Whether a folder holds the weights of a model of the package."""
    file, own = path / WEIGHTS, FOLDER / name / WEIGHTS
    return file.is_file() and file.read_bytes() == own.read_bytes()
