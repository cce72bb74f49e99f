"""Standard streams that may fail: what cannot be printed never ends the work."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import Any

__all__ = ["Stream", "guarded"]


class Stream:
    """A stream whose errors are kept, and after the first of which nothing more is written.

    Characters that its encoding lacks are replaced.
    """

    failure: OSError | None = None

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        with contextlib.suppress(AttributeError, ValueError):
            stream.reconfigure(errors="replace")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream if self._stream is not None else io.StringIO(), name)

    def write(self, text: str) -> int:
        self._try("write", text)
        return len(text)

    def flush(self) -> None:
        self._try("flush")

    def _try(self, call: str, *args: Any) -> None:
        if self.failure is not None or self._stream is None:  # None: it was closed at the start
            return
        try:
            getattr(self._stream, call)(*args)
        except OSError as error:
            self.failure = error
            with contextlib.suppress(OSError, ValueError):  # what its buffer still holds goes there
                os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())


@contextlib.contextmanager
def guarded() -> Any:
    """Standard output and errors as `Stream`; a command whose output got lost ends with status 1,
    and says so, but where a reader closed a pipe, as ``head`` does.
    """
    out, errors = Stream(sys.stdout), Stream(sys.stderr)
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = out, errors  # type: ignore[assignment]
    status: Any = 0
    try:
        yield
    except SystemExit as ended:
        status = ended.code
    finally:
        out.flush()
        sys.stdout, sys.stderr = before
    if out.failure is not None and not isinstance(out.failure, BrokenPipeError):
        reason = out.failure.strerror or out.failure
        errors.write(f"Error: the output cannot be written: {reason}\n")
        status = status or 1
    raise SystemExit(status)
