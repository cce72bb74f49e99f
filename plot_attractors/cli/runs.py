"""Commands about runs: ``analyze``, ``report``, ``export``, ``compare``, ``paper``."""

from __future__ import annotations

import math
import os
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from plot_attractors.cli.shared import (
    DEBUG,
    RunPath,
    RunPaths,
    Set,
    command,
    console,
    errors,
    parse,
    say,
    sentence,
    write_table,
)
from plot_attractors.cli.views import TrainingView
from plot_attractors.runs import registry

if TYPE_CHECKING:
    import pandas as pd

    from plot_attractors.runs.analyze import AnalysisResult


__all__ = ["analyze", "compare", "export", "markdown", "paper", "report"]

WIDEST = 10  # columns of a table beside which runs are rows


@command()
def analyze(
    run: RunPath,
    names: Annotated[
        list[str] | None, Argument(help="Analysis programs, by name or path; default: all.")
    ] = None,
    set_: Set = None,
    missing: Annotated[
        bool, Option("--missing", help="Only those that apply and that the run does not have yet.")
    ] = False,
) -> None:
    """Run analyses on a run: tables and figures in its folder analyses/.

    A setting of an analysis is KEY=VALUE, and NAME.KEY=VALUE with several analyses, or all.
    """
    from plot_attractors import runs
    from plot_attractors.runs import analyze as analysis

    failed = []

    def tell(result: AnalysisResult) -> None:
        if result.error is None:
            say(f"{result.name}: {result.out} ({result.seconds:.0f} s)")
            return
        failed.append(result)
        if os.environ.get(DEBUG):
            traceback.print_exception(result.error)
        say(f"{result.name} failed: {sentence(result.error)}", errors)

    changed = _by_analysis(parse(set_ or []), names or registry.names("analyses"))
    opened = runs.Run(run)
    position, total = opened.position
    if position < total:
        say(f"The run is unfinished: these are analyses of update {position} of {total}.")
    with console.status("analysing"):
        analysis.analyze(opened, names, settings=changed, missing=missing, on_result=tell)
    if failed:
        raise typer.Exit(1)


def _by_analysis(changed: dict[str, str], names: Sequence[str]) -> dict[str, dict[str, str]]:
    """Settings by the name of the analysis, which may be left out where there is only one."""
    stems = [Path(name).stem for name in names]
    settings: dict[str, dict[str, str]] = {}
    for key, value in changed.items():
        head, _, rest = key.partition(".")
        if head not in stems and len(stems) == 1:
            head, rest = stems[0], key
        if head not in stems or not rest:
            raise ValueError(
                f"name the analysis that {key!r} is a setting of: analyze RUN NAME --set "
                "KEY=VALUE, or --set NAME.KEY=VALUE with several names, or none"
            )
        settings.setdefault(head, {})[rest] = value
    return settings


@command()
def report(
    run: RunPaths,
    out: Annotated[
        Path | None, Option("--out", "-o", help="The HTML file; default: report.html in the run.")
    ] = None,
) -> None:
    """Write one HTML file about a run, or about several side by side."""
    from plot_attractors.report import report as write

    say(str(write(run, out)))


@command()
def export(
    run: Annotated[Path, Argument(help="Directory of a finished run that was analysed.")],
    folder: Annotated[Path, Argument(help="Directory to write.")],
) -> None:
    """Write a trained model to be given away: weights, settings, numbers, and a card about it."""
    from plot_attractors.report.export import export as write

    path = write(run, folder)
    say(f"{path} is ready: see {path / 'card.md'}")


@command()
def compare(
    run: RunPaths,
    out: Annotated[
        Path | None, Option("--out", "-o", help="A .md or .csv file to write the table to.")
    ] = None,
    topic: Annotated[str, Option(help="Which numbers: dynamics or language.")] = "dynamics",
) -> None:
    """Show the settings in which runs differ beside the metrics of their analyses."""
    from plot_attractors.runs import compare as comparison

    table = comparison.compare(run, topic)
    if out is None:
        say(markdown(table).rstrip())
    elif out.suffix == ".csv":
        write_table(table, out)
    else:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(markdown(table), encoding="utf-8")


def markdown(table: pd.DataFrame) -> str:
    """The table of `compare` as Markdown: numbers rounded, missing ones empty, and those that no
    run has left out; with more than ten columns, a row for each and a column for each run.

    >>> import pandas as pd
    >>> row = {"run": "a", "alpha": "0.25", "kl": 0.12345}
    >>> print(markdown(pd.DataFrame([row])), end="")
    | run | alpha | kl |
    |:----|------:|---:|
    | a | 0.25 | 0.123 |
    """
    from plot_attractors.measures.registry import METRICS  # slow to import

    def text(name: str, value: object) -> str:
        if not isinstance(value, float):
            return str(value).replace("|", "\\|")
        form = METRICS[name].format if name in METRICS else ".1f" if name == "minutes" else ".3f"
        shown = f"{value:{form}}".replace("inf", "∞").replace("-∞", "−∞")
        return "" if math.isnan(value) else shown

    known = table.dropna(axis="columns", how="all")
    names = [str(name) for name in known]
    grid = [names, *([*map(text, names, row)] for row in known.values.tolist())]
    head, *rows = zip(*grid, strict=True) if len(names) > WIDEST else grid
    rule = [":" + "-" * (len(head[0]) + 1), *("-" * (len(name) + 1) + ":" for name in head[1:])]
    lines = [f"| {' | '.join(row)} |" for row in (head, *rows)]
    return "\n".join([lines[0], f"|{'|'.join(rule)}|", *lines[1:]]) + "\n"


@command()
def paper(
    out: Annotated[Path, Option(help="Directory of the runs, numbers and the page.")] = Path(
        "paper"
    ),
    preset: Annotated[str, Option(help="full or smoke.")] = "full",
    seeds: Annotated[
        str | None, Option(help="Such as 0-4 or 0,2; default: 0-4 of full, 0 of smoke.")
    ] = None,
    only: Annotated[
        list[str] | None,
        Option(metavar="WORD", help="A data set or a model; can be repeated."),
    ] = None,
) -> None:
    """Fit and analyse all models of the paper, and write one page with its figures and numbers.

    Interrupted, the same command goes on; called in two shells, they share the runs out.
    """
    from plot_attractors.paper import make_paper
    from plot_attractors.runs.sweep import seeds as seeds_of

    chosen = seeds_of(seeds) if seeds else None
    with TrainingView() as view:
        page, failed = make_paper(out, preset, chosen, only or (), view.show)
    say(f"{page} is ready")
    if failed:
        raise typer.Exit(1)
