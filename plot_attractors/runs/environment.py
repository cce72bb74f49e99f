"""environment.json of a run: what it was trained by, and on."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import shlex
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from plot_attractors import __version__

__all__ = ["describe", "read"]

_PACKAGES = "torch pyro-ppl numpy scipy pandas matplotlib arviz xarray"


def describe(device: torch.device) -> dict[str, Any]:
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


def read(path: Path) -> dict[str, Any]:
    """environment.json of a run; empty where it is missing."""
    file = path / "environment.json"
    content: dict[str, Any] = json.loads(file.read_text("utf-8")) if file.is_file() else {}
    return content
