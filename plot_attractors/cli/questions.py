"""Commands that ask a trained model: ``ask`` and ``samples``."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

from rich.markup import escape
from rich.table import Table
from typer import Argument, Option

from plot_attractors.cli.shared import Debug, app, console, expanded, one_sentence, still

__all__ = ["ask", "samples"]

RunPath = Annotated[Path, Argument(help="Directory of a run, or pretrained:NAME from `list`.")]
Seed = Annotated[int, Option(min=0, max=2**63 - 1, help="Seed of the trajectories.")]


@app.command()
def ask(
    run: RunPath,
    inputs: Annotated[
        list[str],
        Argument(
            metavar="INPUT...",
            help="A row's name or number, from 0; a class of the tree; feature=value ...; a row of "
            "values with commas between; or a file: table, npy, image, folder of images.",
        ),
    ],
    draws: Annotated[int, Option(min=1, help="Trajectories of each input.")] = 1000,
    most: Annotated[int, Option(min=1, help="Sentences that are shown of each.")] = 5,
    seed: Seed = 0,
    debug: Debug = False,
) -> None:
    """Say what a trained model says of an input, how sure it is, and how long it took."""
    with one_sentence(debug):
        from plot_attractors.runs import Run

        opened = Run(run)
        _say_first(opened)
        for text in inputs:
            answer = opened.ask(text, draws, most, seed)
            for row in answer.inputs.to_dict("records"):
                own = answer.sentences[answer.sentences["input"] == row["input"]]
                console.print(_summary(row), _sentences(own), "", sep="\n")


def _say_first(run: Any) -> None:
    """What makes the answers doubtful."""
    from plot_attractors.runs import trust

    position, total = run.position
    if position < total:
        console.print(f"The run is unfinished: this is update {position} of {total}.")
    for caution in trust.cautions(run):
        console.print(escape(caution))


def _summary(row: dict[str, Any]) -> str:
    name, near = escape(row["input"]), escape(row["near"])
    time = (
        f"after {row['time']:.0f} steps (middle half {row['time_q1']:.0f} to {row['time_q3']:.0f})"
        if row["responded"]
        else "within twice the steps of training"
    )
    return (
        f"[bold]{name}[/bold]: as uncertain as {row['sentences']:.1f} equally frequent sentences "
        f"(entropy {row['entropy']:.2f} nats)\n"
        f"a response in {row['responded']:.0%} of trajectories, {time}\nnearest inputs: {near}"
    )


def _sentences(rows: Any) -> Table:
    table = Table(
        "sentence",
        "probability",
        "95 % interval",
        "exact",
        "meaning",
        box=None,
        padding=(0, 2, 0, 0),
    )
    for row in rows.to_dict("records"):
        exact = "" if math.isnan(row["exact"]) else f"{row['exact']:.3f}"
        between = f"{row['low']:.3f} to {row['high']:.3f}"
        cells = row["sentence"], f"{row['probability']:.3f}", between, exact, row["meaning"]
        table.add_row(*map(escape, cells))
    return table


@app.command()
def samples(
    run: RunPath,
    out: Annotated[Path, Option("--out", "-o", callback=expanded, help="A .csv file to write.")],
    data: Annotated[
        str | None, Option(help="Inputs, as those of `ask`; default: training inputs at random.")
    ] = None,
    count: Annotated[int, Option("--inputs", min=1, help="Training inputs, without --data.")] = 64,
    draws: Annotated[int, Option(min=1, help="Trajectories of each input.")] = 100,
    feature: Annotated[
        str, Option(help="Whose value is the choice; default: the sentence, and no choice.")
    ] = "",
    seed: Seed = 0,
    debug: Debug = False,
) -> None:
    """Write every draw of a trained model: input, sentence, choice, time, what is right, log P."""
    with one_sentence(debug):
        if out.suffix != ".csv":
            raise ValueError(f"samples are a .csv file, and {out} is not")
        from plot_attractors.analysis import ask as questions
        from plot_attractors.analysis.responses import choices
        from plot_attractors.runs import Run
        from plot_attractors.runs.tables import spreadsheet

        opened = Run(run)
        _say_first(opened)
        with still("sampling"):
            chosen = choices(opened, feature) if feature else None
            inputs = questions.read_inputs(opened, data or questions.at_random(opened, count, seed))
            table = questions.samples(opened, inputs, draws, chosen, seed)
        out.parent.mkdir(parents=True, exist_ok=True)
        spreadsheet(table).to_csv(out, index=False)
        console.print(escape(f"{out}: {len(table):,} draws of {len(inputs.names)} inputs"))
