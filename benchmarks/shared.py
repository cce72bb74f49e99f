"""What several benchmarks do: command lines, and torch as in training."""

from __future__ import annotations

import argparse
import atexit
import shutil
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pyro
import torch


def parser(doc: str | None) -> argparse.ArgumentParser:
    """Of a program with this docstring, that writes into a folder."""
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
        small = program["SMALL"]
        program.update({name: value for name, value in small.items() if name.isupper()})
        own.set_defaults(**{name: value for name, value in small.items() if not name.isupper()})
        given = own.parse_args()
    if given.folder is None:
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
