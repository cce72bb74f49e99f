"""What all commands share: the consoles, options, and errors in one sentence."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from typer import Argument, Option

from plot_attractors import __version__
from plot_attractors.durations import duration
from plot_attractors.runs import registry

__all__ = [
    "Debug", "RunPaths", "Set", "app", "capital", "console", "debugging", "errors", "expanded",
    "messages", "one_sentence", "sentence", "shown", "still",
]  # fmt: skip

app = typer.Typer(
    help="Thoughts as attractors: fit models written as Pyro programs, analyse and compare them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
console = Console(highlight=False, soft_wrap=True)
errors = Console(stderr=True, highlight=False, soft_wrap=True)

STILL_SECONDS = 15.0
DEBUG = "PLOT_ATTRACTORS_DEBUG"

Debug = Annotated[
    bool, Option("--debug", help=f"Show the whole traceback of an error (or set {DEBUG}=1).")
]
Set = Annotated[
    list[str] | None,
    Option("--set", metavar="KEY=VALUE", help="Change a setting; can be repeated."),
]
RunPaths = Annotated[
    list[Path],
    Argument(metavar="RUN...", help="Directories of runs, or pretrained:NAME from `list`."),
]


def _version(asked: bool) -> None:
    if asked:
        console.print(__version__)
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """What stands before every command."""


@contextlib.contextmanager
def one_sentence(debug: bool) -> Iterator[None]:
    try:
        yield
    except (typer.Exit, typer.Abort):
        raise
    except KeyboardInterrupt:
        errors.print("Interrupted.")
        raise typer.Exit(130) from None
    except SystemExit as ended:  # by a program, whose status would pass for our own
        errors.print(f"[bold red]Error:[/bold red] {escape(registry.exit_sentence(ended))}")
        raise typer.Exit(2) from None
    except Exception as error:
        if debugging(debug):
            raise
        errors.print(f"[bold red]Error:[/bold red] {escape(sentence(error))}")
        raise typer.Exit(2) from None


@contextlib.contextmanager
def still(what: str) -> Iterator[None]:
    """Where the output is no terminal, a line every 15 s that says that the work goes on."""
    begun, ended = time.monotonic(), threading.Event()

    def tell() -> None:
        while not ended.wait(STILL_SECONDS):
            console.print(f"{what}, {duration(time.monotonic() - begun)} so far")

    thread = threading.Thread(target=tell, daemon=True)
    if not console.is_terminal:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        if thread.is_alive():
            thread.join()


def expanded(path: Path | None) -> Path | None:
    """A path of an option, with ~ as the home directory, which shells leave in --out=~/x."""
    return None if path is None else path.expanduser()


def shown(path: Path) -> str:
    """A path as an argument of a command: none that begins as an option."""
    return f"./{path}" if str(path).startswith("-") else str(path)


def debugging(debug: bool) -> bool:
    return debug or bool(os.environ.get(DEBUG))


def sentence(error: Exception) -> str:
    text = " ".join(str(error).split())
    if isinstance(error, OSError) and error.strerror:
        text = f"{error.strerror}: {error.filename}"
    if isinstance(error, ValueError | OSError | FloatingPointError | MemoryError):
        return text
    # not one of our own: a fault in a program
    return f"{type(error).__name__}: {text} (--debug shows where)"


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]


@contextlib.contextmanager
def messages(to: Console = console) -> Iterator[None]:
    logger, handler = logging.getLogger("plot_attractors"), logging.Handler()
    handler.emit = lambda record: _print(record.getMessage(), to)  # type: ignore[method-assign]
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def _print(text: str, to: Console) -> None:
    path = "/" in text.split(" ", 1)[0]  # a path keeps its small letter
    to.print(escape(text if path else capital(text)))
