"""environment.json of a run: what it was trained by, and on."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from plot_attractors.runs import store

__all__ = ["describe", "read", "replace"]

_PACKAGES = "plot-attractors torch pyro-ppl numpy scipy pandas matplotlib arviz xarray"


def describe(device: torch.device) -> dict[str, Any]:
    """Command line, versions, machine, and the commit of a checkout."""
    versions = {}
    for package in _PACKAGES.split():
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
    """Commit of the checkout that the package runs from, and whether files differ from it."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return {}
    try:
        commit, status = (
            subprocess.run(
                ["git", "-C", str(root), *command],
                capture_output=True, text=True, check=True, timeout=10,
            ).stdout.strip()
            for command in (["rev-parse", "HEAD"], ["status", "--porcelain"])
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return {}
    return {"commit": commit, "dirty": bool(status)}


TYPES: dict[str, Any] = {  # of what reports read; what has another type counts as missing
    **dict.fromkeys(("commit", "command", "started", "ended", "python", "device"), str | None),
    "versions": dict, "seconds": int | float, "threads": int, "dirty": bool,
}  # fmt: skip


def read(path: Path) -> dict[str, Any]:
    """environment.json of a run; empty where it is missing."""
    try:
        content: dict[str, Any] = json.loads(
            (path / "environment.json").read_text(encoding="utf-8")
        )
    except (OSError, ValueError):
        return {}
    known = content.items() if isinstance(content, dict) else ()
    return {key: value for key, value in known if isinstance(value, TYPES.get(key, object))}


def replace(path: Path, content: Mapping[str, Any]) -> None:
    """Replace environment.json of a run."""
    with store.writing(path):
        store.write(path / "environment.json", json.dumps(content, indent=2).encode())
