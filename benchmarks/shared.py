"""What several benchmarks do: Markdown tables, and the time that something takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

__all__ = ["header", "milliseconds", "most_memory", "row"]


def header(*names: str) -> None:
    """Starts a table whose first column is text."""
    row(*names)
    print("|:--|" + "--:|" * (len(names) - 1))


def row(*cells: object) -> None:
    print("|", " | ".join(map(str, cells)), "|", flush=True)


def milliseconds(work: Callable[[], object], rounds: int = 3) -> float:
    """Of the fastest round."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        times.append(1e3 * (time.perf_counter() - start))
    return min(times)


def most_memory() -> float:
    """MiB that this process held at most, on Linux; `getrusage` counts its parent's, too."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
