"""What several benchmarks do: command lines and Markdown tables."""

from __future__ import annotations

import argparse
import atexit
import platform
import re
import shutil
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pyro
import torch

from plot_attractors.runs import environment as environment_


def parser(doc: str | None) -> argparse.ArgumentParser:
    """Of a program with this docstring."""
    plain = argparse.RawDescriptionHelpFormatter
    made = argparse.ArgumentParser(description=doc, formatter_class=plain)
    small = "in seconds, into a temporary folder: all is executed, and results mean nothing"
    made.add_argument("--small", action="store_true", help=small)
    return made


def arguments(program: dict[str, Any], own: argparse.ArgumentParser) -> argparse.Namespace:
    """What was asked of a program, whose `globals()` these are.

    With --small its table SMALL takes the place of its constants and of defaults of its options.
    """
    given = own.parse_args()
    if given.small:
        constants = {name: value for name, value in program["SMALL"].items() if name.isupper()}
        options = {name: value for name, value in program["SMALL"].items() if not name.isupper()}
        if unknown := (constants.keys() - program.keys()) | (options.keys() - vars(given).keys()):
            raise KeyError(f"SMALL names what the program does not have: {sorted(unknown)}")
        program.update(constants)
        own.set_defaults(**options)
        given = own.parse_args()
    if "folder" in given and given.folder is None:
        if not given.small:
            own.error("name a folder, or add --small")
        given.folder = Path(mkdtemp())
        atexit.register(shutil.rmtree, given.folder, ignore_errors=True)
    return given


def as_in_training() -> None:
    """One thread, without validation and denormal numbers."""
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    pyro.enable_validation(False)


def begin() -> None:
    """As in training, and a line that names the machine."""
    as_in_training()
    facts = environment_.describe(torch.device("cpu"))
    commit = facts.get("commit", "unknown")[:7] + (" and changes" if facts.get("dirty") else "")
    linux = Path("/proc/cpuinfo")
    names = re.findall(r"model name\s*: (.+)", linux.read_text() if linux.exists() else "")
    cores = f"{facts['processors']} cores, one thread"
    machine = f"{names[0] if names else platform.machine()}, {cores}"
    print(f"{machine}, torch {facts['versions']['torch']}, commit {commit}\n", flush=True)


def header(*names: str) -> None:
    """Starts a table whose first column is text."""
    row(*names)
    print("|:--|" + "--:|" * (len(names) - 1))


def row(*cells: object) -> None:
    print("|", " | ".join(map(str, cells)), "|", flush=True)
