"""Memory that is not there is refused when it is asked for, before the system kills the process."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

__all__ = ["free_memory", "within_memory"]

SPARE = 2**30  # bytes of addresses beside those in use: stacks, arenas of allocators
GIB = 2**30
CGROUP = Path("/sys/fs/cgroup")


@contextlib.contextmanager
def within_memory() -> Iterator[None]:
    """Inside, an allocation beyond the memory that is free now is a MemoryError that says how much
    was asked for, and how much is free. On Linux; elsewhere the system's own limits hold.
    """
    free = free_memory()
    if free is None or sys.platform != "linux":
        yield
        return
    import resource

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    in_use = pages * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    hard = before[1]
    limit = in_use + free + SPARE
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not (isinstance(error, MemoryError) or "allocate" in str(error)):
            raise
        asked = re.search(r"allocate (\d+) bytes", str(error))
        much = f"{int(asked[1]) / GIB:,.1f} GiB more" if asked else "more"
        raise MemoryError(
            f"this run asks for {much} of memory, and {free / GIB:,.1f} GiB were free when it "
            "began: make it smaller (latent, units, batch, bits, ...)"
        ) from error
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def free_memory() -> int | None:
    """Bytes that the system, or the container, has left; None where that is not known."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        found = [1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    except (OSError, ValueError, IndexError):
        return None
    with contextlib.suppress(OSError, ValueError):  # no container, or one without a limit
        limit = int((CGROUP / "memory.max").read_text())
        found.append(limit - int((CGROUP / "memory.current").read_text()))
    return min(found, default=None)
