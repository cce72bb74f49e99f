"""Commands that train: ``fit`` and ``sweep``."""

from __future__ import annotations

import re
import shlex
import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from typer import Argument, Option

from plot_attractors.cli.shared import (
    Debug,
    Set,
    app,
    capital,
    console,
    errors,
    expanded,
    messages,
    one_sentence,
    shown,
)
from plot_attractors.cli.views import SweepView, TrainingView, sweep_table

__all__ = ["fit", "sweep"]


@app.command()
def fit(
    program: Annotated[
        str,
        Argument(
            help="Model program: a name from `list`, or the path of a .py file; or a data set."
        ),
    ],
    inference: Annotated[str | None, Option(help="Inference program, by name or path.")] = None,
    preset: Annotated[str, Option(help="full, demo, smoke, or one of the programs' own.")] = "full",
    seed: Annotated[int, Option(min=0, max=2**63 - 1, help="Seed of everything random.")] = 0,
    out: Annotated[
        Path | None, Option(callback=expanded, help="Directory of the run; default: in runs/.")
    ] = None,
    set_: Set = None,
    data: Annotated[
        str | None,
        Option(help="A data set, by name or path; or your table, vectors, folder of images."),
    ] = None,
    resume: Annotated[bool, Option("--resume", help="Go on with an unfinished run.")] = False,
    dry_run: Annotated[bool, Option("--dry-run", help="Only say what would be read.")] = False,
    device: Annotated[str, Option(help="cpu or cuda.")] = "cpu",
    threads: Annotated[
        int | None, Option(min=1, max=1024, help="Of torch; default: all cores.")
    ] = None,
    tensorboard: Annotated[bool, Option("--tensorboard", help="Metrics for TensorBoard.")] = False,
    log_every: Annotated[int, Option(min=1, help="Updates in a row of metrics.csv.")] = 100,
    checkpoint_seconds: Annotated[float, Option(min=0.0, help="Between checkpoints.")] = 60.0,
    debug: Debug = False,
) -> None:
    """Train a model, resumably, into a directory."""
    with one_sentence(debug), messages():
        from plot_attractors import runs
        from plot_attractors.runs import settings
        from plot_attractors.runs.run import plan

        if threads is not None:
            import torch

            torch.set_num_threads(threads)
        changed = settings.parse(set_ or [])
        if dry_run:
            planned = plan(program, inference, preset, seed, out, changed, log_every, data)
            read = planned.programs.data.load(planned.configs["data"])
            made = f"the data set {planned.programs.names[0]} makes its own data"
            console.print(escape(capital(getattr(read, "summary", made))))
            return
        try:
            with TrainingView(console) as view:
                path = runs.fit(
                    program,
                    inference,
                    data=data,
                    preset=preset,
                    seed=seed,
                    out=out,
                    settings=changed,
                    resume=resume,
                    device=device,
                    tensorboard=tensorboard,
                    on_progress=view.show,
                    log_every=log_every,
                    checkpoint_seconds=checkpoint_seconds,
                )
        except runs.Interrupted as interruption:
            more = [] if "--resume" in sys.argv else ["--resume"]
            command = shlex.join(["plot-attractors", *sys.argv[1:], *more])
            errors.print(escape(f"{capital(str(interruption))}. Go on with:\n  {command}"))
            raise typer.Exit(128 + interruption.signal_number) from None
        if said := _collapsed(path):
            errors.print(said)
        command = shlex.join(["plot-attractors", "analyze", shown(path)])
        console.print(escape(f"{path} is ready: {command}"))


def _collapsed(path: Path) -> str:
    """What to say of a run that ended with one sentence for all inputs; empty for others."""
    from plot_attractors.runs import Run

    last = Run(path).metrics().tail(1)
    known = [n for n in map(str, last) if re.fullmatch(r"sentences_in_use|codes_in_use_\d+", n)]
    if not known or last.empty or (last[known] > 1).any(axis=None):
        return ""
    return (
        "One sentence is in use for all inputs: nothing was learned of what differs between them. "
        "Try another seed, a longer training, or fewer tokens."
    )


@app.command()
def sweep(
    file: Annotated[Path, Argument(metavar="SWEEP.toml", help="What to run.")],
    jobs: Annotated[int, Option(min=1, help="Runs at once.")] = 1,
    dry_run: Annotated[bool, Option("--dry-run", help="Only list what would be run.")] = False,
    commands: Annotated[
        bool, Option("--commands", help="Only print a command for each, as for a cluster.")
    ] = False,
    status: Annotated[bool, Option("--status", help="Only show how far each run is.")] = False,
    debug: Debug = False,
) -> None:
    """Train programs × settings × seeds, all that is not done yet; failed runs start again."""
    with one_sentence(debug):
        from plot_attractors.runs import jobs as of_sweep
        from plot_attractors.runs.sweep import read_sweep

        asked = read_sweep(file)
        states = of_sweep.status(asked.runs)
        if status:
            console.print(sweep_table(states))
            return
        begun = [s for s in states if s.state not in ("done", "running")]
        runs, ready = [s.run for s in begun], len(states) - len(begun)
        if commands:
            for run in runs:
                typer.echo(of_sweep.command(run))
            return
        if dry_run:
            for run in runs:
                console.print(escape(str(run.path)))
            console.print(f"{len(runs)} runs to run, {ready} done or running")
            return
        if not runs:
            console.print(f"Nothing to do: all {ready} runs are done or running.")
            return
        with SweepView() as view:
            now = partial(of_sweep.status, runs)
            try:
                of_sweep.run_here(runs, jobs, partial(view.show, now))
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
