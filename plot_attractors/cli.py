"""The command line: ``plot-attractors fit``, ``sweep``, ``paper``, ``analyze``, ``list``,
``settings``, ``compare``, ``measure``, ``export`` and ``report``.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import shlex
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text
from typer import Argument, Option

from plot_attractors import __version__
from plot_attractors.durations import duration
from plot_attractors.runs import pretrained, registry

if TYPE_CHECKING:
    from plot_attractors.runs import Progress
    from plot_attractors.runs.analyze import AnalysisResult
    from plot_attractors.runs.jobs import Status

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
_STILL_SECONDS = 15.0
_SWEEP_SECONDS = 2.0
_DEBUG = "PLOT_ATTRACTORS_DEBUG"
_SHOWN_METRICS = 8

Debug = Annotated[
    bool, Option("--debug", help=f"Show the whole traceback of an error (or set {_DEBUG}=1).")
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


def main() -> None:
    """Entry point of the console script."""
    app()


@app.command()
def fit(
    program: Annotated[
        str, Argument(help="Model program: a name from `list`, or the path of a .py file.")
    ],
    inference: Annotated[str | None, Option(help="Inference program, by name or path.")] = None,
    preset: Annotated[str, Option(help="full, demo, smoke, or one of the programs' own.")] = "full",
    seed: Annotated[int, Option(min=0, max=2**63 - 1, help="Seed of everything random.")] = 0,
    out: Annotated[Path | None, Option(help="Directory of the run; default: in runs/.")] = None,
    set_: Set = None,
    data: Annotated[
        Path | None,
        Option(help="Your data: table, vectors, folder or array of images, original dSprites."),
    ] = None,
    resume: Annotated[bool, Option("--resume", help="Go on with an unfinished run.")] = False,
    device: Annotated[str, Option(help="cpu or cuda.")] = "cpu",
    threads: Annotated[
        int | None, Option(min=1, max=1024, help="Of torch; default: all cores.")
    ] = None,
    track: Annotated[str, Option(help="Trackers: csv, tensorboard, wandb, with commas.")] = "csv",
    log_every: Annotated[int, Option(min=1, help="Updates in a row of metrics.csv.")] = 100,
    checkpoint_seconds: Annotated[float, Option(min=0.0, help="Between checkpoints.")] = 60.0,
    debug: Debug = False,
) -> None:
    """Train a model, resumably, into a directory."""
    with _one_sentence(debug), _messages():
        from plot_attractors import processes, runs
        from plot_attractors.runs import settings

        rank, count = processes.launched()
        console.quiet = rank > 0
        if threads is not None:
            import torch

            torch.set_num_threads(threads)
        changed = settings.parse(set_ or [])
        if data is not None:
            changed = _with_data(program, data, changed)
        try:
            with _View(console) as view:
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
            more = [] if "--resume" in sys.argv else ["--resume"]
            torchrun = ["torchrun", "--nproc-per-node", str(count), "-m", "plot_attractors"]
            program_ = ["plot-attractors"] if count == 1 else torchrun
            command = shlex.join([*program_, *sys.argv[1:], *more])
            if rank == 0:
                errors.print(escape(f"{_capital(str(interruption))}. Go on with:\n  {command}"))
            raise typer.Exit(128 + interruption.signal_number) from None
        command = shlex.join(["plot-attractors", "analyze", str(path)])
        console.print(escape(f"{path} is ready: {command}"))


def _with_data(program: str, path: Path, changed: dict[str, str]) -> dict[str, str]:
    """The changed settings, and `data`, or else `images` or `vectors`, as the program has it."""
    known = [field.name for field in dataclasses.fields(registry.load("models", program).Config)]
    key = next((name for name in ("data", "images", "vectors") if name in known), None)
    if key is None:
        raise ValueError(f"the program {program} makes its own data: leave --data out")
    if key in changed:
        raise ValueError(
            f"--data sets {key}, and so does --set {key}={changed[key]}: leave one out"
        )
    return {**changed, key: str(path)}


@app.command()
def sweep(
    file: Annotated[Path, Argument(metavar="SWEEP.toml", help="What to run.")],
    executor: Annotated[str, Option(help="local: on this machine; slurm: as jobs.")] = "local",
    jobs: Annotated[int, Option(min=1, help="Runs at once on this machine.")] = 1,
    dry_run: Annotated[bool, Option("--dry-run", help="Only list what would be run.")] = False,
    status: Annotated[bool, Option("--status", help="Only show how far each run is.")] = False,
    debug: Debug = False,
) -> None:
    """Train programs × settings × seeds, all that is not done yet; failed runs start again."""
    with _one_sentence(debug):
        from plot_attractors.runs import jobs as of_sweep
        from plot_attractors.runs.sweep import read_sweep

        if executor not in of_sweep.EXECUTORS:
            near = registry.suggestion(executor, of_sweep.EXECUTORS)
            raise ValueError(f"there is no executor {executor!r}: {near}Take local or slurm")
        asked = read_sweep(file)
        found = of_sweep.status(asked.runs)
        if status:
            console.print(_sweep_table(found))
            return
        begun = [s for s in found if s.state not in ("done", "running", "queued")]
        runs, ready = [s.run for s in begun], len(found) - len(begun)
        if dry_run:
            for run in runs:
                console.print(escape(str(run.path)))
            console.print(f"{len(runs)} runs to run, {ready} done, running or queued")
            return
        if not runs:
            console.print(f"Nothing to do: all {ready} runs are done, running or queued.")
            return
        if executor == "slurm":
            ids = of_sweep.submit_to_slurm(asked, runs)
            console.print(f"{len(ids)} jobs are queued: {ids[0]} to {ids[-1]}")
            return
        with _SweepView() as view:
            now = partial(of_sweep.status, runs)
            try:
                of_sweep.run_here(asked, runs, jobs, partial(view.show, now))
            except KeyboardInterrupt:
                errors.print("Interrupted: the same command goes on where the runs stopped.")
                raise typer.Exit(130) from None
            view.show(now, last=True)
        failed = [s for s in of_sweep.status(runs) if s.state != "done"]
        for one in failed:
            errors.print(escape(f"{one.run.name} {one.state}: {one.reason}"))
    if failed:
        errors.print(
            f"{len(failed)} of {len(runs)} runs failed; the same command starts them again"
        )
        raise typer.Exit(1)
    console.print(escape(f"{asked.out} is ready: plot-attractors compare {asked.out}/*"))


@app.command()
def analyze(
    run: Annotated[Path, Argument(help="Directory of a run, or pretrained:NAME from `list`.")],
    names: Annotated[
        list[str] | None, Argument(help="Analysis programs, by name or path; default: all.")
    ] = None,
    set_: Set = None,
    redraw: Annotated[
        bool, Option("--redraw", help="Only draw the figures, from the tables that are there.")
    ] = False,
    missing: Annotated[
        bool, Option("--missing", help="Only those that apply and that the run does not have yet.")
    ] = False,
    draw: Annotated[
        bool, Option("--draw/--no-draw", help="Draw figures, or leave them to --redraw.")
    ] = True,
    out: Annotated[
        Path | None,
        Option(help="Where analyses of pretrained:NAME go; default: pretrained-NAME/."),
    ] = None,
    jobs: Annotated[
        int | None, Option(min=1, help="Analyses at once; by default two, on two cores.")
    ] = None,
    debug: Debug = False,
) -> None:
    """Run analyses on a run: tables and figures in its folder analyses/.

    A setting of an analysis is KEY=VALUE, and NAME.KEY=VALUE with several analyses, or all.
    """
    os.environ.setdefault("MPLBACKEND", "Agg")
    failed = []

    def tell(result: AnalysisResult) -> None:
        if result.error is None:
            console.print(escape(f"{result.name}: {result.out} ({duration(result.seconds)})"))
            return
        failed.append(result)
        if _debugging(debug):
            traceback.print_exception(result.error)
        errors.print(escape(f"{result.name} failed: {_sentence(result.error)}"))

    with _one_sentence(debug), _messages():
        from plot_attractors import runs
        from plot_attractors.runs import analyze as analysis
        from plot_attractors.runs import settings

        changed = _by_analysis(settings.parse(set_ or []), names or registry.names("analyses"))
        if redraw and (changed or out):
            raise ValueError("--redraw measures nothing anew: leave --set and --out out")
        if redraw and (missing or not draw):
            other = "--missing" if missing else "--no-draw"
            raise ValueError(f"--redraw draws what is there already: leave {other} out")
        if redraw:
            results = analysis.redraw(run, names, tell)
        else:
            directory = runs.Run(run)
            position, total = directory.position
            if position < total:
                done = f"update {position} of {total}"
                console.print(f"The run is unfinished: these are analyses of {done}.")
            if jobs is None:  # tracebacks stay in the process that made them
                jobs = 1 if _debugging(debug) else min(2, os.cpu_count() or 1)
            with console.status("analysing"), _still("analysing"):
                results = analysis.analyze(
                    directory,
                    names,
                    settings=changed,
                    missing=missing,
                    draw=draw,
                    out=out,
                    jobs=jobs,
                    on_result=tell,
                )
        if not results and missing:
            console.print("Nothing to do: the run has every one of these analyses that applies.")
        elif not results:
            console.print("There is no analysis that applies to this run.")
    if failed:
        raise typer.Exit(1)


def _by_analysis(changed: dict[str, str], names: Sequence[str]) -> dict[str, dict[str, str]]:
    """Settings by the name of the analysis, which may be left out where there is only one."""
    stems = [Path(name).stem for name in names]
    found: dict[str, dict[str, str]] = {}
    for key, value in changed.items():
        head, _, rest = key.partition(".")
        if head not in stems and len(stems) == 1:
            head, rest = stems[0], key
        if head not in stems or not rest:
            raise ValueError(
                f"name the analysis that {key!r} is a setting of: analyze RUN NAME --set "
                "KEY=VALUE, or --set NAME.KEY=VALUE with several names, or none"
            )
        found.setdefault(head, {})[rest] = value
    return found


@app.command("list")
def list_(
    paths: Annotated[bool, Option("--paths", help="The files of the programs, too.")] = False,
) -> None:
    """Show the programs that are there, models, inference, analyses, and the trained models."""
    for kind in registry.KINDS:
        console.print(f"[bold]{kind}[/bold]")
        known = registry.names(kind)
        width = max(map(len, known), default=0)
        for name in known:
            file = registry.find(kind, name)
            console.print(f"  {name:<{width}}  {escape(registry.describe(file))}".rstrip())
            if paths:
                console.print(f"  {'':<{width}}  {escape(str(file))}")
    if trained := pretrained.names():
        console.print("[bold]trained models[/bold], in the place of RUN")
    for name in trained:
        console.print(f"  {pretrained.PREFIX}{name}")


@app.command()
def copy(
    program: Annotated[str, Argument(help="Any program: a name from `list`.")],
    path: Annotated[Path, Argument(help="The .py file to write.")],
    kind: Annotated[
        str | None, Option(help="models, inference or analyses, where several have the name.")
    ] = None,
    debug: Debug = False,
) -> None:
    """Copy a program into a file of your own, to change it; its path then stands for its name."""
    with _one_sentence(debug):
        known = registry.kinds_of(program)
        kinds = [found for found in known if kind in (None, found)]
        if len(kinds) != 1:
            raise ValueError(
                f"{program!r} is a program in {' and '.join(known)}: say which with --kind"
            )
        if path.suffix != ".py":
            raise ValueError(f"a program is a .py file, and {path} is not")
        if path.exists():
            raise ValueError(f"{path} is there already: choose another file")
        path.write_bytes(registry.find(kinds[0], program).read_bytes())
        console.print(escape(f"{path} is a copy of {kinds[0]}/{program}.py"))


@app.command("settings")
def settings_(
    program: Annotated[
        str, Argument(help="Any program: a name from `list`, or the path of a .py file.")
    ],
    debug: Debug = False,
) -> None:
    """Show every setting of a program: its default, the values that it takes, and its meaning."""
    with _one_sentence(debug):
        from plot_attractors.runs.described import settings_of

        for kind in registry.kinds_of(program):
            console.print(f"[bold]{kind}: {escape(program)}[/bold]")
            table = Table("setting", "default", "takes", "meaning", box=None, padding=(0, 2, 0, 0))
            for setting in settings_of(registry.load(kind, program).Config):
                table.add_row(*map(escape, setting))
            console.print(table)


@app.command()
def report(
    run: RunPaths,
    out: Annotated[
        Path | None, Option("--out", "-o", help="The HTML file; default: report.html in the run.")
    ] = None,
    debug: Debug = False,
) -> None:
    """Write one HTML file about a run, or about several side by side."""
    with _one_sentence(debug), _messages(errors):
        from plot_attractors.report import report as write

        console.print(escape(str(write(run, out))))


@app.command()
def export(
    run: Annotated[Path, Argument(help="Directory of a finished run that was analysed.")],
    folder: Annotated[Path, Argument(help="Directory to write.")],
    debug: Debug = False,
) -> None:
    """Write a trained model to be given away: weights, settings, numbers, and a card about it."""
    os.environ.setdefault("MPLBACKEND", "Agg")
    with _one_sentence(debug), _messages():
        from plot_attractors.report.export import export as write

        with console.status("exporting"), _still("measuring again what the weights give"):
            path = write(run, folder)
        megabytes = sum(file.stat().st_size for file in path.iterdir()) / 1e6
        console.print(escape(f"{path} is ready, {megabytes:.2f} MB: see {path / 'card.md'}"))


@app.command()
def compare(
    run: RunPaths,
    out: Annotated[
        Path | None, Option("--out", "-o", help="A .md or .csv file to write the table to.")
    ] = None,
    analyze: Annotated[
        bool, Option("--analyze", help="Make the analyses that are missing.")
    ] = False,
    topic: Annotated[
        str, Option(help="Which numbers: dynamics, language or features.")
    ] = "dynamics",
    debug: Debug = False,
) -> None:
    """Show the settings in which runs differ beside the metrics of their analyses."""
    os.environ.setdefault("MPLBACKEND", "Agg")
    with _one_sentence(debug), _messages(errors):
        if out is not None and out.suffix not in (".md", ".csv"):
            raise ValueError(f"a table of comparisons is a .md or .csv file, and {out} is neither")
        from plot_attractors.runs import compare as comparison

        table = comparison.compare(run, analyze, topic)  # type: ignore[arg-type]
        if out is None and console.is_terminal:
            console.print(comparison.to_text(table, console.width), markup=False)
            return
        if out is None:
            console.print(comparison.to_markdown(table), markup=False, end="")
            return
        csv = out.suffix == ".csv"
        text = table.to_csv(index=False) if csv else comparison.to_markdown(table)
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text, encoding="utf-8")
        console.print(escape(str(out)))


@app.command()
def measure(
    corpus: Annotated[Path, Argument(help="A file of JSON lines, one sentence a line.")],
    out: Annotated[Path | None, Option("--out", "-o", help="A .csv file to write.")] = None,
    debug: Debug = False,
) -> None:
    """Measure the language of a corpus, of a run's language_measures/corpus.jsonl or anybody's."""
    with _one_sentence(debug):
        if out is not None and out.suffix != ".csv":
            raise ValueError(f"the measures of a corpus are a .csv file, and {out} is not")
        import pandas as pd

        from plot_attractors.evaluation import corpus_files, language_measures

        splits = corpus_files.read(corpus).splits
        sizes = language_measures.Sizes()
        with console.status("measuring"), _still("measuring"):
            parts = [
                language_measures.measure_all(of, sizes).assign(split=split)
                for split, of in splits.items()
            ]
        table = pd.concat(parts)[list(language_measures.COLUMNS)]
        if out is not None:
            out.parent.mkdir(parents=True, exist_ok=True)
            table.to_csv(out, index=False)
            console.print(escape(str(out)))
            return
        for split, of in table.groupby("split", sort=False):
            console.print(escape(f"{split}: {of['n'].max():.0f} inputs"))
            known = of[of["value"].notna()]
            columns = ["value", "null_mean", "holistic_mean", "spelled", "unit"]
            shown = known.set_index("measure")[columns].rename_axis(None).fillna({"unit": ""})
            shown.columns = pd.Index(["value", "shuffled", "holistic", "spelled out", "unit"])
            console.print(escape(shown.to_string(float_format="{:.3f}".format, na_rep="")))
            for reason, without in of[of["value"].isna()].groupby("reason", sort=False):
                console.print(escape(f"not defined: {', '.join(without['measure'])}: {reason}"))


@app.command()
def paper(
    out: Annotated[Path, Option(help="Directory of the runs, tables and the page.")] = Path(
        "paper"
    ),
    preset: Annotated[str, Option(help="full, demo or smoke.")] = "full",
    seeds: Annotated[
        str | None, Option(help="Such as 0-4 or 0,2; default: 0-4 of full, 0 of demo and smoke.")
    ] = None,
    jobs: Annotated[int, Option(min=1, help="Processes at once.")] = 1,
    only: Annotated[
        list[str] | None,
        Option(metavar="WORD", help="A data set, a model, fit, analyze or page; can be repeated."),
    ] = None,
    show_map: Annotated[
        bool, Option("--map", help="Only show which figure of the paper is made by what.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Fit and analyse all models of the paper, and write one page with its figures and numbers.

    Interrupted, the same command goes on.
    """
    with _one_sentence(debug):
        from plot_attractors.paper import make_paper, results
        from plot_attractors.runs.seeds import seeds as seeds_of

        if show_map:
            _show_map(results.HEAD, results.map_rows(), results.to_markdown())
            return
        chosen = None if seeds is None else seeds_of(seeds)
        try:
            made = make_paper(out, preset, chosen, jobs, only or (), console, errors)
        except KeyboardInterrupt:
            command = shlex.join(["plot-attractors", *sys.argv[1:]])
            errors.print(escape(f"Interrupted. Go on with:\n  {command}"))
            raise typer.Exit(130) from None
        console.print(escape(f"{made.page} is ready ({duration(made.seconds)})"))
        if made.failed:
            names = ", ".join(outcome.step.name for outcome in made.failed)
            errors.print(escape(f"Failed: {names}; logs are in {out / 'log'}"))
            raise typer.Exit(1)


def _show_map(head: Sequence[str], rows: Sequence[Sequence[str]], markdown: str) -> None:
    if not console.is_terminal:
        console.print(markdown, markup=False, end="")
        return
    table = Table(*head, show_lines=True)
    for row in rows:
        table.add_row(*map(escape, row))
    Console(highlight=False).print(table)


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
    except SystemExit as ended:  # by a program, whose status would pass for our own
        errors.print(f"[bold red]Error:[/bold red] {escape(registry.exit_sentence(ended))}")
        raise typer.Exit(2) from None
    except Exception as error:
        if _debugging(debug):
            raise
        # of several processes all raise these alike, and the first one says so
        if not (console.quiet and isinstance(error, ValueError | FloatingPointError)):
            errors.print(f"[bold red]Error:[/bold red] {escape(_sentence(error))}")
        raise typer.Exit(2) from None


@contextlib.contextmanager
def _still(what: str) -> Iterator[None]:
    """Where the output is no terminal, a line every 15 s that says that the work goes on."""
    begun, ended = time.monotonic(), threading.Event()

    def tell() -> None:
        while not ended.wait(_STILL_SECONDS):
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


def _debugging(debug: bool) -> bool:
    return debug or bool(os.environ.get(_DEBUG))


def _sentence(error: Exception) -> str:
    text = " ".join(str(error).split())
    if isinstance(error, OSError) and error.strerror:
        text = f"{error.strerror}: {error.filename}"
    if isinstance(error, ValueError | OSError | FloatingPointError | MemoryError):
        return text
    # not one of our own: a fault in a program
    return f"{type(error).__name__}: {text} (--debug shows where)"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


@contextlib.contextmanager
def _messages(to: Console = console) -> Iterator[None]:
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
    to.print(escape(text if path else _capital(text)))


# The view of a training: live in a terminal, a line every few seconds elsewhere.


class _View:
    def __init__(self, console: Console) -> None:
        self._console, self._shown = console, -_LINE_SECONDS
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None

    def __enter__(self) -> _View:
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, progress: Progress) -> None:
        if self._live is not None:
            self._live.start()
            self._live.update(_panel(progress), refresh=True)
            return
        now = time.monotonic()
        if now - self._shown >= _LINE_SECONDS or progress.position == progress.total:
            self._shown = now
            self._console.print(escape(_line(progress)))


class _SweepView:
    """The runs of a sweep: a table in a terminal, elsewhere a line for each change of a state."""

    def __init__(self) -> None:
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None
        self._shown, self._states = -_SWEEP_SECONDS, dict[str, str]()

    def __enter__(self) -> _SweepView:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, found: Callable[[], Sequence[Status]], last: bool = False) -> None:
        """Every few seconds, and at last."""
        now = time.monotonic()
        if now - self._shown < _SWEEP_SECONDS and not last:
            return
        self._shown, runs = now, found()
        if self._live is not None:
            self._live.update(_sweep_table(runs), refresh=True)
            return
        for of in runs:
            if of.state != self._states.get(of.run.name, "not begun"):
                after = f" ({of.minutes:.1f} minutes)" if of.state == "done" and of.minutes else ""
                console.print(escape(f"{of.run.name}: {of.state}{after}"))
            self._states[of.run.name] = of.state


def _sweep_table(found: Sequence[Status]) -> Table:
    columns = ("run", "state", "updates", "minutes", "last loss")
    table = Table(*columns, box=None, padding=(0, 2, 0, 0))
    for of in found:
        updates = "" if of.total is None else f"{of.updates}/{of.total}"
        minutes = "" if of.minutes is None else f"{of.minutes:.1f}"
        table.add_row(*map(escape, (of.run.name, of.state, updates, minutes, of.loss)))
    return table


def _line(progress: Progress) -> str:
    share = f"{progress.position / max(1, progress.total):4.0%}"
    phase = f"{progress.phase} {progress.cycle}"
    count = f"{progress.position}/{progress.total}"
    return "  ".join([share, phase, count, *_metrics(progress)[:_SHOWN_METRICS], _left(progress)])


def _panel(progress: Progress) -> Group:
    head = Table.grid(padding=(0, 2))
    head.add_row(
        Text(f"{progress.phase}, cycle {progress.cycle}", style="bold"),
        ProgressBar(total=max(1, progress.total), completed=progress.position, width=30),
        f"{progress.position}/{progress.total}",
        _left(progress),
    )
    return Group(head, Text("  ".join(_metrics(progress))))


def _metrics(progress: Progress) -> list[str]:
    return [f"{name} {_number(value)}" for name, value in progress.metrics.items()]


def _left(progress: Progress) -> str:
    if progress.position == progress.total:
        return f"{duration(progress.seconds)} in all"
    return "" if progress.remaining is None else f"{duration(progress.remaining)} left"


def _number(value: Any) -> str:
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e6 else f"{value:.4g}"
