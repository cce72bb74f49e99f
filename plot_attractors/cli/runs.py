"""Commands about runs: ``analyze``, ``report``, ``export``, ``compare``, ``measure``, ``paper``."""

from __future__ import annotations

import os
import shlex
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from typer import Argument, Option

from plot_attractors.cli.shared import (
    Debug,
    RunPaths,
    Set,
    app,
    console,
    debugging,
    errors,
    expanded,
    messages,
    one_sentence,
    sentence,
    still,
)
from plot_attractors.cli.views import SweepView
from plot_attractors.durations import duration
from plot_attractors.runs import registry

if TYPE_CHECKING:
    from plot_attractors.runs.analyze import AnalysisResult


__all__ = ["analyze", "compare", "export", "measure", "paper", "report"]


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
    quick: Annotated[
        bool, Option("--quick", help="A first look, in about a minute: without the slow ones.")
    ] = False,
    draw: Annotated[
        bool, Option("--draw/--no-draw", help="Draw figures, or leave them to --redraw.")
    ] = True,
    out: Annotated[
        Path | None,
        Option(
            callback=expanded,
            help="Where analyses of pretrained:NAME go; default: pretrained-NAME/.",
        ),
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
            left = f"; {result.left} to go" if result.left else ""
            took = duration(result.seconds)
            console.print(escape(f"{result.name}: {result.out} ({took}{left})"))
            return
        failed.append(result)
        if debugging(debug):
            traceback.print_exception(result.error)
        errors.print(escape(f"{result.name} failed: {sentence(result.error)}"))

    with one_sentence(debug), messages():
        from plot_attractors import runs
        from plot_attractors.runs import analyze as analysis
        from plot_attractors.runs import settings

        slow = analysis.slow() if not (names or redraw) else []
        every = [name for name in registry.names("analyses") if not (quick and name in slow)]
        changed = _by_analysis(settings.parse(set_ or []), names or every)
        if redraw and (changed or out or missing or quick or not draw):
            others = "--set, --out, --missing, --quick and --no-draw"
            raise ValueError(f"--redraw draws what is there already: leave {others} out")
        if redraw:
            results = analysis.redraw(run, names, tell)
        else:
            directory = runs.Run(run)
            position, total = directory.position
            if position < total:
                done = f"update {position} of {total}"
                console.print(f"The run is unfinished: these are analyses of {done}.")
            if not (names or missing or quick):
                listed = ", ".join(slow)
                console.print(f"All analyses, some minutes; --quick leaves out {listed}.")
            if jobs is None:  # tracebacks stay in the process that made them
                jobs = 1 if debugging(debug) else min(2, os.cpu_count() or 1)
            with console.status("analysing"), still("analysing"):
                results = analysis.analyze(
                    directory,
                    names,
                    settings=changed,
                    missing=missing,
                    quick=quick,
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


@app.command()
def report(
    run: RunPaths,
    out: Annotated[
        Path | None,
        Option(
            "--out", "-o", callback=expanded, help="The HTML file; default: report.html in the run."
        ),
    ] = None,
    debug: Debug = False,
) -> None:
    """Write one HTML file about a run, or about several side by side."""
    with one_sentence(debug), messages(errors):
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
    with one_sentence(debug), messages():
        from plot_attractors.report.export import export as write

        with console.status("exporting"), still("measuring again what the weights give"):
            path = write(run, folder)
        megabytes = sum(file.stat().st_size for file in path.iterdir()) / 1e6
        console.print(escape(f"{path} is ready, {megabytes:.2f} MB: see {path / 'card.md'}"))


@app.command()
def compare(
    run: RunPaths,
    out: Annotated[
        Path | None,
        Option("--out", "-o", callback=expanded, help="A .md or .csv file to write the table to."),
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
    with one_sentence(debug), messages(errors):
        if out is not None and out.suffix not in (".md", ".csv"):
            raise ValueError(f"a table of comparisons is a .md or .csv file, and {out} is neither")
        from plot_attractors.runs import compare as comparison
        from plot_attractors.runs.tables import spreadsheet

        table = comparison.compare(run, analyze, topic)  # type: ignore[arg-type]
        if out is None and console.is_terminal:
            console.print(comparison.to_text(table, console.width), markup=False)
            return
        if out is None:
            console.print(comparison.to_markdown(table), markup=False, end="")
            return
        csv = out.suffix == ".csv"
        text = spreadsheet(table).to_csv(index=False) if csv else comparison.to_markdown(table)
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text, encoding="utf-8")
        console.print(escape(str(out)))


@app.command()
def measure(
    corpus: Annotated[Path, Argument(help="A table (CSV) with a sentence a row.")],
    out: Annotated[
        Path | None, Option("--out", "-o", callback=expanded, help="A .csv file to write.")
    ] = None,
    bags: Annotated[bool, Option("--bags", help="The order of tokens counts for nothing.")] = False,
    debug: Debug = False,
) -> None:
    """Measure the language of a corpus, of a run's language_measures/corpus.csv or anybody's."""
    with one_sentence(debug):
        if out is not None and out.suffix != ".csv":
            raise ValueError(f"the measures of a corpus are a .csv file, and {out} is not")
        import pandas as pd

        from plot_attractors.analysis.corpora import read_corpus
        from plot_attractors.runs.tables import spreadsheet

        language_measures: Any = registry.load("analyses", "language_measures")
        splits = read_corpus(corpus, bags)
        sizes = language_measures.Config()
        with console.status("measuring"), still("measuring"):
            parts = [
                language_measures.measures(rows, sizes).assign(split=split)
                for split, rows in splits.items()
            ]
        table = pd.concat(parts).reindex(columns=language_measures.COLUMNS.split())
        if out is not None:
            out.parent.mkdir(parents=True, exist_ok=True)
            spreadsheet(table).to_csv(out, index=False)
            console.print(escape(str(out)))
            return
        for split, rows in table.groupby("split", sort=False):
            console.print(escape(f"{split}: {rows['n'].max():.0f} inputs"))
            known = rows[rows["value"].notna()]
            columns = ["value", "null_mean", "holistic_mean", "spelled", "unit"]
            shown = known.set_index("measure")[columns].rename_axis(None).fillna({"unit": ""})
            shown.columns = pd.Index(["value", "shuffled", "holistic", "spelled out", "unit"])
            console.print(escape(shown.to_string(float_format="{:.3f}".format, na_rep="")))
            for reason, without in rows[rows["value"].isna()].groupby("reason", sort=False):
                console.print(escape(f"not defined: {', '.join(without['measure'])}: {reason}"))


@app.command()
def paper(
    out: Annotated[
        Path, Option(callback=expanded, help="Directory of the runs, tables and the page.")
    ] = Path("paper"),
    preset: Annotated[str, Option(help="full or smoke.")] = "full",
    seeds: Annotated[
        str | None, Option(help="Such as 0-4 or 0,2; default: 0-4 of full, 0 of smoke.")
    ] = None,
    jobs: Annotated[int, Option(min=1, help="Processes at once.")] = 1,
    only: Annotated[
        list[str] | None,
        Option(metavar="WORD", help="A data set or a model; can be repeated."),
    ] = None,
    debug: Debug = False,
) -> None:
    """Fit and analyse all models of the paper, and write one page with its figures and numbers.

    Interrupted, the same command goes on.
    """
    with one_sentence(debug):
        from plot_attractors.paper import make_paper
        from plot_attractors.runs.seeds import seeds as seeds_of

        chosen = None if seeds is None else seeds_of(seeds)
        try:
            with SweepView() as view:
                made = make_paper(out, preset, chosen, jobs, only or (), view.show)
        except KeyboardInterrupt:
            command = shlex.join(["plot-attractors", *sys.argv[1:]])
            errors.print(escape(f"Interrupted. Go on with:\n  {command}"))
            raise typer.Exit(130) from None
        console.print(escape(f"{made.page} is ready ({duration(made.seconds)})"))
        for one in made.failed:
            errors.print(escape(f"{one.run.name} {one.state}: {one.reason}"))
        if made.failed:
            raise typer.Exit(1)
