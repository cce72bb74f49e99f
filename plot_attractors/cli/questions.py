"""Commands that ask a trained model: ``ask`` and ``samples``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from plot_attractors.cli.shared import RunPath, command, say, write_table

__all__ = ["ask", "samples"]

Seed = Annotated[int, Option(min=0, max=2**63 - 1, help="Seed of the trajectories.")]
Resample = Annotated[int, Option(min=1, help="Paths of which each is one, by weight.")]


@command()
def ask(
    run: RunPath,
    inputs: Annotated[
        list[str],
        Argument(
            metavar="INPUT...",
            help="A row's name or number, from 0; a class of the tree; feature=value ...; or a "
            "file: table, npy, image, folder of images.",
        ),
    ],
    draws: Annotated[int, Option(min=1, help="Trajectories of each input.")] = 1000,
    most: Annotated[int, Option(min=1, help="Sentences that are shown of each.")] = 5,
    resample: Resample = 1,
    seed: Seed = 0,
) -> None:
    """Say what a trained model says of an input, how sure it is, and how long it took."""
    from plot_attractors.analysis.ask import ask as answer_of

    opened = _opened(run)
    for text in inputs:
        answer = answer_of(opened, text, draws, most, seed, resample)
        for row in answer.inputs.to_dict("records"):
            own = answer.sentences[answer.sentences["input"] == row["input"]]
            say(_summary(row))
            shown = own.drop(columns="input").set_index("sentence").rename_axis(None)
            shown = shown.dropna(axis=1, how="all")
            say(shown.to_string(float_format="{:.3f}".format, na_rep="") + "\n")


def _opened(path: Path) -> Any:
    """A run, once it is said what makes its answers doubtful."""
    from plot_attractors.measures.registry import doubts
    from plot_attractors.runs import Run
    from plot_attractors.runs.numbers import numbers

    run = Run(path)
    position, total = run.position
    if position < total:
        say(f"The run is unfinished: this is update {position} of {total}.")
    for caution in doubts(numbers(run)):
        say(caution)
    return run


def _summary(row: Mapping[Any, Any]) -> str:
    lines = [
        f"{row['input']}: {'its exact posterior is' if row['known'] else 'at least'} as uncertain "
        f"as {row['sentences']:.1f} equally frequent sentences "
        f"(entropy {row['entropy']:.2f} nats)"
    ]
    if "responded" in row:  # of a model with attractors
        time = "within twice the steps of training"
        if row["responded"]:
            middle = f"(middle half {row['time_q1']:.0f} to {row['time_q3']:.0f})"
            time = f"after {row['time']:.0f} steps {middle}"
        lines.append(f"a response in {row['responded']:.0%} of trajectories, {time}")
    return "\n".join([*lines, f"nearest inputs: {row['near']}"])


@command()
def samples(
    run: RunPath,
    out: Annotated[Path, Option("--out", "-o", help="A .csv file to write.")],
    data: Annotated[
        str | None, Option(help="Inputs, as those of `ask`; default: training inputs at random.")
    ] = None,
    count: Annotated[int, Option("--inputs", min=1, help="Training inputs, without --data.")] = 64,
    draws: Annotated[int, Option(min=1, help="Trajectories of each input.")] = 100,
    feature: Annotated[
        str, Option(help="Whose value is the choice; default: the sentence, and no choice.")
    ] = "",
    hssm: Annotated[
        float, Option(min=0.0, help="Seconds of a step: write trials as HSSM reads them.")
    ] = 0.0,
    resample: Resample = 1,
    seed: Seed = 0,
) -> None:
    """Write every draw of a trained model: input, sentence, choice, time, what is right, log P."""
    from plot_attractors.analysis import ask as questions
    from plot_attractors.analysis.responses import choices
    from plot_attractors.analysis.sampling import require_attractors

    if out.suffix.lower() != ".csv":  # before anything is drawn
        raise ValueError(f"tables are written as CSV: call the file {out.with_suffix('.csv')}")
    opened = _opened(run)
    require_attractors(opened.model)
    chosen = choices(opened, feature) if feature else None
    inputs = questions.read_inputs(opened, data or questions.at_random(opened, count, seed))
    table = questions.samples(opened, inputs, draws, chosen, seed, resample)
    if hssm:
        table = questions.as_hssm(table, chosen, hssm, opened.seed)
    write_table(table, out)
    say(f"{out}: {len(table):,} draws of {len(inputs.names)} inputs")
