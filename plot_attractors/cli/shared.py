"""What all commands share: the consoles, options, and errors in one sentence."""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer
from rich.console import Console
from rich.markup import escape
from typer import Argument, Option

from plot_attractors import __version__

__all__ = [
    "DEBUG", "RunPath", "RunPaths", "Set", "app", "command", "console", "errors", "parse", "say",
    "sentence",
    "write_table",
]  # fmt: skip

console = Console(highlight=False, soft_wrap=True)
errors = Console(stderr=True, highlight=False, soft_wrap=True)

DEBUG = "PLOT_ATTRACTORS_DEBUG"  # with a value, errors come with their traceback

Set = Annotated[
    list[str] | None,
    Option("--set", metavar="KEY=VALUE", help="Change a setting; can be repeated."),
]
RunPath = Annotated[Path, Argument(help="Directory of a run, or pretrained:NAME from `list`.")]
RunPaths = Annotated[
    list[Path],
    Argument(metavar="RUN...", help="Directories of runs, or pretrained:NAME from `list`."),
]


app = typer.Typer(
    help="Thoughts as attractors: fit models written as Pyro programs, analyse and compare them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _version(asked: bool) -> None:
    if asked:
        say(__version__)
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """What stands before every command."""


def command(name: str | None = None) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A function becomes a command, whose errors are told in one sentence; what the library logs
    goes to the standard error stream.
    """

    def register(function: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(function)
        def guarded(*args: Any, **kwargs: Any) -> None:
            logger, handler = logging.getLogger("plot_attractors"), logging.StreamHandler()
            logger.addHandler(handler)
            logger.setLevel(logging.INFO)
            try:
                function(*args, **kwargs)
            except typer.Exit:
                raise
            except KeyboardInterrupt:
                errors.print("Interrupted.")
                raise typer.Exit(130) from None
            except Exception as error:
                if os.environ.get(DEBUG):
                    raise
                errors.print(f"[bold red]Error:[/bold red] {escape(sentence(error))}")
                raise typer.Exit(2) from None
            finally:
                logger.removeHandler(handler)

        return app.command(name)(guarded)

    return register


def sentence(error: Exception) -> str:
    text = " ".join(str(error).split())
    if isinstance(error, OSError) and error.strerror:
        text = f"{error.strerror}: {error.filename}"
    if isinstance(error, ValueError | OSError | FloatingPointError | MemoryError):
        return text
    # not one of our own: a fault in a program
    return f"{type(error).__name__}: {text} ({DEBUG}=1 shows where)"


def parse(pairs: Iterable[str]) -> dict[str, str]:
    """Split ``key=value`` strings; the last one wins.

    >>> parse(["depth=4", "sleep.steps=8"])
    {'depth': '4', 'sleep.steps': '8'}
    """
    settings: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise ValueError(f"a setting is written key=value, and {pair!r} is not")
        settings[key.strip()] = value.strip()
    return settings


def say(text: str, to: Console = console) -> None:
    """Print a text as it stands."""
    to.print(text, markup=False)


def write_table(table: pd.DataFrame, out: Path) -> None:
    """Write a table as the CSV file that a user named."""
    out.parent.mkdir(parents=True, exist_ok=True)
    table.to_csv(out, index=False)
