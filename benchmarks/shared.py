"""What several benchmarks do: command lines, Markdown tables, trainings, their time and memory."""

from __future__ import annotations

import argparse
import atexit
import platform
import re
import shutil
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pyro
import torch

from plot_attractors.runs import environment as environment_
from plot_attractors.runs import registry, settings


def parser(doc: str | None) -> argparse.ArgumentParser:
    """Of a program with this docstring."""
    plain = argparse.RawDescriptionHelpFormatter
    made = argparse.ArgumentParser(description=doc, formatter_class=plain)
    small = "in seconds, into a temporary folder: all is executed, and results mean nothing"
    made.add_argument("--small", action="store_true", help=small)
    return made


def among(names: Collection[str]) -> Callable[[str], str]:
    """The type of an argument that is one of the names."""

    def name(text: str) -> str:
        if text in names:
            return text
        raise argparse.ArgumentTypeError(f"{text!r} is none of {'; '.join(names)}")

    return name


def arguments(program: dict[str, Any], of: argparse.ArgumentParser) -> argparse.Namespace:
    """What was asked of a program, whose `globals()` these are.

    With --small its table SMALL takes the place of its constants and of defaults of its options.
    """
    given = of.parse_args()
    if given.small:
        constants = {name: value for name, value in program["SMALL"].items() if name.isupper()}
        options = {name: value for name, value in program["SMALL"].items() if not name.isupper()}
        if unknown := (constants.keys() - program.keys()) | (options.keys() - vars(given).keys()):
            raise KeyError(f"SMALL names what the program does not have: {sorted(unknown)}")
        program.update(constants)
        of.set_defaults(**options)
        given = of.parse_args()
    if "folder" in given and given.folder is None:
        if not given.small:
            of.error("name a folder, or add --small")
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
    of = environment_.describe(torch.device("cpu"))
    commit = of.get("commit", "unknown")[:7] + (" and changes" if of.get("dirty") else "")
    linux = Path("/proc/cpuinfo")
    names = re.findall(r"model name\s*: (.+)", linux.read_text() if linux.exists() else "")
    machine = f"{names[0] if names else platform.machine()}, {of['processors']} cores, one thread"
    print(f"{machine}, torch {of['versions']['torch']}, commit {commit}\n", flush=True)


def header(*names: str) -> None:
    """Starts a table whose first column is text."""
    row(*names)
    print("|:--|" + "--:|" * (len(names) - 1))


def row(*cells: object) -> None:
    print("|", " | ".join(map(str, cells)), "|", flush=True)


def schedule(model: str, inference: str, changed: Mapping[str, Any] | None = None) -> Any:
    """A training that is about to begin: the default one, but for some settings."""
    of = registry.load("models", model), registry.load("inference", inference)
    parts = {"model": of[0].Config, "inference": of[1].Config}
    configs = settings.resolve(parts, settings.presets_of(*of), "full", changed or {})
    torch.manual_seed(0)
    data = of[0].load_data(configs["model"])
    return of[1].build(of[0].build(configs["model"], data), data, configs["inference"])


def updates(of: Any, count: int) -> float:
    """Milliseconds of processor time that an update of a training takes, of so many."""
    start = time.process_time()
    for _ in range(count):
        of.step()
    return 1e3 * (time.process_time() - start) / count


def milliseconds(work: Callable[[], object], rounds: int = 3) -> float:
    """Of the fastest round."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        times.append(1e3 * (time.perf_counter() - start))
    return min(times)


PROCESSES = get_context("forkserver")  # which imports once
PROCESSES.set_forkserver_preload(["pyro", "plot_attractors.training"])


def memory(count: int, *of: Any) -> float:
    """MiB that a process of its own holds at most, for so many updates of `schedule(*of)`."""
    with ProcessPoolExecutor(1, PROCESSES) as pool:
        return pool.submit(_memory, count, *of).result()


def _memory(count: int, *of: Any) -> float:
    as_in_training()
    updates(schedule(*of), count)
    return most_memory()


def most_memory() -> float:
    """MiB that this process held at most, on Linux; `getrusage` counts its parent's, too."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
