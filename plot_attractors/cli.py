"""The command line: ``plot-attractors fit``, ``analyze``, ``list``, ``compare`` and ``report``."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import shlex
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from plot_attractors.runs import registry

if TYPE_CHECKING:
    from plot_attractors.runs import Progress
    from plot_attractors.runs.analyze import AnalysisResult

__all__ = ["app", "main"]

app = typer.Typer(
    help="Thoughts as attractors: fit models written as Pyro programs, analyse and compare them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
console = Console(highlight=False, soft_wrap=True)
errors = Console(stderr=True, highlight=False, soft_wrap=True)

_LINE_SECONDS = 5.0
_DEBUG = "PLOT_ATTRACTORS_DEBUG"
_SHOWN_METRICS = 8

Debug = Annotated[
    bool, typer.Option("--debug", help=f"Show the whole traceback of an error (or set {_DEBUG}=1).")
]


def main() -> None:
    """Entry point of the console script."""
    app()


@app.command()
def fit(
    program: Annotated[
        str, typer.Argument(help="Model program: a name from `list`, or the path of a .py file.")
    ],
    inference: Annotated[
        str | None, typer.Option(help="Inference program, by name or path.")
    ] = None,
    preset: Annotated[
        str, typer.Option(help="full, demo, smoke, or another that the programs have.")
    ] = "full",
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    out: Annotated[
        Path | None, typer.Option(help="Directory of the run; by default one in runs/.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a setting; can be repeated."),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            help="Your data: a table, a folder or array of images, or the original dSprites."
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with an unfinished run, or start.")
    ] = False,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads of torch; by default all cores.")
    ] = None,
    track: Annotated[
        str, typer.Option(help="Trackers, separated by commas: csv, tensorboard, wandb.")
    ] = "csv",
    log_every: Annotated[int, typer.Option(min=1, help="Updates in a row of metrics.csv.")] = 100,
    checkpoint_seconds: Annotated[
        float, typer.Option(min=0.0, help="Time between checkpoints.")
    ] = 60.0,
    debug: Debug = False,
) -> None:
    """Train a model, resumably, into a directory."""
    with _one_sentence(debug), _messages():
        from plot_attractors import runs
        from plot_attractors.runs import settings

        if threads is not None:
            import torch

            torch.set_num_threads(threads)
        changed = settings.parse(set_ or [])
        if data is not None:
            changed = _with_data(program, data, changed)
        view = _View(console)
        try:
            with view:
                path = runs.fit(
                    program,
                    inference,
                    preset=preset,
                    seed=seed,
                    out=out,
                    settings=changed,
                    resume=resume,
                    device=device,
                    trackers=[name.strip() for name in track.split(",") if name.strip()],
                    on_progress=view.show,
                    log_every=log_every,
                    checkpoint_seconds=checkpoint_seconds,
                )
        except runs.Interrupted as interruption:
            errors.print(
                _capital(escape(str(interruption)))
                + f". Go on with:\n  {escape(_resume_command())}"
            )
            raise typer.Exit(128 + interruption.signal_number) from None
        console.print(
            f"{escape(str(path))} is ready: plot-attractors analyze "
            f"{escape(shlex.quote(str(path)))}"
        )


def _with_data(program: str, path: Path, changed: dict[str, str]) -> dict[str, str]:
    """The settings that are changed, and the one that names a program's data: `data`, or `images`
    where it has none.
    """
    known = [field.name for field in dataclasses.fields(registry.load("models", program).Config)]
    key = next((name for name in ("data", "images") if name in known), None)
    if key is None:
        raise ValueError(f"the program {program} makes its own data: leave --data out")
    if key in changed:
        raise ValueError(
            f"--data sets {key}, and so does --set {key}={changed[key]}: leave one out"
        )
    return {**changed, key: str(path)}


@app.command()
def analyze(
    run: Annotated[Path, typer.Argument(help="Directory of a run.")],
    names: Annotated[
        list[str] | None, typer.Argument(help="Analysis programs, by name or path; default: all.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Analyses at once; by default two, on two cores.")
    ] = None,
    debug: Debug = False,
) -> None:
    """Run analyses on a run: tables and figures in its folder analyses/."""
    os.environ.setdefault("MPLBACKEND", "Agg")
    failed: list[AnalysisResult] = []

    def tell(result: AnalysisResult) -> None:
        if result.error is None:
            console.print(f"{result.name}: {escape(str(result.out))} ({_duration(result.seconds)})")
            return
        failed.append(result)
        if _debugging(debug):
            traceback.print_exception(result.error)
        errors.print(f"{result.name} failed: {escape(_sentence(result.error))}")

    with _one_sentence(debug):
        from plot_attractors import runs
        from plot_attractors.runs import analyze as analysis

        directory = runs.Run(run)
        position, total = directory.position
        if position < total:
            console.print(
                f"The run is unfinished: these are analyses of update {position} of {total}."
            )
        if jobs is None:  # tracebacks stay in the process that made them
            jobs = 1 if _debugging(debug) else min(2, os.cpu_count() or 1)
        with console.status("") as status:
            results = analysis.analyze(
                directory,
                names or None,
                jobs=jobs,
                on_running=lambda names: status.update(f"at work: {', '.join(names)}"),
                on_result=tell,
            )
        if not results:
            console.print("There is no analysis that applies to this run.")
    if failed:
        raise typer.Exit(1)


@app.command("list")
def list_(debug: Debug = False) -> None:
    """Show the programs on the three registry."""
    with _one_sentence(debug):
        for shelf in registry.SHELVES:
            console.print(f"[bold]{shelf}[/bold]")
            known = registry.names(shelf)
            width = max(map(len, known), default=0)
            for name in known:
                described = registry.describe(registry.folder(shelf) / f"{name}.py")
                console.print(f"  {name:<{width}}  {escape(described)}".rstrip())


@app.command()
def report(
    run: Annotated[list[Path], typer.Argument(help="Directories of runs.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The HTML file; by default report.html in the run."),
    ] = None,
    debug: Debug = False,
) -> None:
    """Write one HTML file about a run, or about several side by side."""
    with _one_sentence(debug):
        from plot_attractors.report import report as write

        console.print(escape(str(write(run, out))))


@app.command()
def compare(
    run: Annotated[list[Path], typer.Argument(help="Directories of runs.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="A .md or .csv file to write the table to.")
    ] = None,
    analyze: Annotated[
        bool, typer.Option("--analyze", help="Make the analyses that are missing.")
    ] = False,
    topic: Annotated[
        str, typer.Option(help="Which numbers: dynamics, language or features.")
    ] = "dynamics",
    debug: Debug = False,
) -> None:
    """Show the settings in which runs differ beside the headline numbers of their analyses."""
    os.environ.setdefault("MPLBACKEND", "Agg")
    with _one_sentence(debug), _messages(errors):
        if out is not None and out.suffix not in (".md", ".csv"):
            raise ValueError(f"a table of comparisons is a .md or .csv file, and {out} is neither")
        from plot_attractors.runs import compare as comparison

        table = comparison.compare(run, analyze, topic)  # type: ignore[arg-type]
        if out is not None:
            out.parent.mkdir(parents=True, exist_ok=True)
            text = (
                table.to_csv(index=False) if out.suffix == ".csv" else comparison.to_markdown(table)
            )
            out.write_text(text, encoding="utf-8")
            console.print(escape(str(out)))
        elif console.is_terminal:
            for i, part in enumerate(comparison.to_tables(table, console.width)):
                if i:
                    console.print()
                console.print(part, soft_wrap=False)
        else:
            console.print(comparison.to_markdown(table), markup=False, end="")


# Errors: one sentence, and the traceback on request.


@contextlib.contextmanager
def _one_sentence(debug: bool) -> Iterator[None]:
    try:
        yield
    except (typer.Exit, typer.Abort):
        raise
    except KeyboardInterrupt:
        errors.print("Interrupted.")
        raise typer.Exit(130) from None
    except Exception as error:
        if _debugging(debug):
            raise
        errors.print(f"[bold red]Error:[/bold red] {escape(_sentence(error))}")
        raise typer.Exit(2) from None


def _debugging(debug: bool) -> bool:
    return debug or bool(os.environ.get(_DEBUG))


def _sentence(error: Exception) -> str:
    text = " ".join(str(error).split())
    if isinstance(error, OSError) and error.strerror:
        text = f"{error.strerror}: {error.filename}"
    if isinstance(error, ValueError | OSError | FloatingPointError):
        return text
    # not one of our own: a fault in a program
    return f"{type(error).__name__}: {text} (--debug shows where)"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _resume_command() -> str:
    arguments = sys.argv[1:]
    return shlex.join(
        ["plot-attractors", *arguments, *([] if "--resume" in arguments else ["--resume"])]
    )


@contextlib.contextmanager
def _messages(to: Console = console) -> Iterator[None]:
    """What the library logs, as lines."""
    logger = logging.getLogger("plot_attractors")
    handler = _ConsoleHandler(to)
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


class _ConsoleHandler(logging.Handler):
    def __init__(self, to: Console) -> None:
        super().__init__()
        self._console = to

    def emit(self, record: logging.LogRecord) -> None:
        text = self.format(record)
        path = "/" in text.split(" ", 1)[0]  # a path keeps its small letter
        self._console.print(escape(text if path else _capital(text)))


# The view of a training: live in a terminal, a line every few seconds elsewhere.


class _View:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = (
            Live(console=console, auto_refresh=False, transient=False)
            if console.is_terminal
            else None
        )
        self._shown = -1.0

    def __enter__(self) -> _View:
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None and self._live.is_started:
            self._live.stop()

    def show(self, progress: Progress) -> None:
        if self._live is not None:
            if not self._live.is_started:
                self._live.start()
            self._live.update(_panel(progress), refresh=True)
            return
        now = time.monotonic()
        if (
            self._shown < 0
            or now - self._shown >= _LINE_SECONDS
            or progress.position == progress.total
        ):
            self._shown = now
            self._console.print(escape(line(progress)))


def line(progress: Progress) -> str:
    """One line of plain text on what a training is doing."""
    parts = [
        f"{progress.position / max(1, progress.total):4.0%}",
        f"{progress.phase} {progress.cycle}",
        f"{progress.position}/{progress.total}",
        *(
            f"{name} {_number(value)}"
            for name, value in list(progress.metrics.items())[:_SHOWN_METRICS]
        ),
        _left(progress),
    ]
    return "  ".join(parts)


def _panel(progress: Progress) -> Group:
    head = Table.grid(padding=(0, 2))
    head.add_row(
        Text(f"{progress.phase}, cycle {progress.cycle}", style="bold"),
        ProgressBar(total=max(1, progress.total), completed=progress.position, width=30),
        f"{progress.position}/{progress.total}",
        _left(progress),
    )
    metrics = Table.grid(padding=(0, 2))
    cells = [
        Text.assemble((f"{name} ", "dim"), _number(value))
        for name, value in progress.metrics.items()
    ]
    for start in range(0, len(cells), 4):
        metrics.add_row(*cells[start : start + 4])
    return Group(head, metrics)


def _left(progress: Progress) -> str:
    if progress.position == progress.total:
        return f"{_duration(progress.seconds)} in all"
    return "" if progress.remaining is None else f"{_duration(progress.remaining)} left"


def _number(value: Any) -> str:
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e6 else f"{value:.4g}"


def _duration(seconds: float) -> str:
    """Seconds as text.

    >>> _duration(8.2), _duration(75), _duration(3700)
    ('8 s', '1 min 15 s', '1 h 01 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
