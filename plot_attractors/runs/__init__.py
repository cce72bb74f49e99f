"""Runs: fit a model program with an inference program into a directory, and read it again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .run import Interrupted, Progress, Run, default_path, fit

__all__ = ["Interrupted", "Progress", "Run", "default_path", "fit"]


def __getattr__(name: str) -> Any:
    """The public names, imported when they are first asked for: torch takes seconds, and the
    registry needs none.
    """
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import run

    return getattr(run, name)
