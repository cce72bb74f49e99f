"""Commands that train: ``fit`` and ``sweep``."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from plot_attractors.cli.shared import Set, command, console, errors, parse, say
from plot_attractors.cli.views import TrainingView, sweep_table

__all__ = ["fit", "sweep"]


@command()
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
    out: Annotated[Path | None, Option(help="Directory of the run; default: in runs/.")] = None,
    set_: Set = None,
    data: Annotated[
        str | None,
        Option(help="A data set, by name or path; or your table, vectors, folder of images."),
    ] = None,
    resume: Annotated[bool, Option("--resume", help="Go on with an unfinished run.")] = False,
    device: Annotated[str, Option(help="cpu or cuda.")] = "cpu",
    threads: Annotated[
        int | None, Option(min=1, max=1024, help="Of torch; default: all cores.")
    ] = None,
    log_every: Annotated[int, Option(min=1, help="Updates in a row of metrics.csv.")] = 100,
    checkpoint_seconds: Annotated[float, Option(min=0.0, help="Between checkpoints.")] = 60.0,
) -> None:
    """Train a model, resumably, into a directory."""
    import torch

    from plot_attractors import runs

    if threads is not None:
        torch.set_num_threads(threads)
    try:
        with TrainingView() as view:
            path = runs.fit(
                program,
                inference,
                data=data,
                preset=preset,
                seed=seed,
                out=out,
                settings=parse(set_ or []),
                resume=resume,
                device=device,
                on_progress=view.show,
                log_every=log_every,
                checkpoint_seconds=checkpoint_seconds,
            )
    except runs.Interrupted as interruption:
        more = [] if "--resume" in sys.argv else ["--resume"]
        line = shlex.join(["plot-attractors", *sys.argv[1:], *more])
        say(f"{interruption}; go on with:\n  {line}", errors)
        raise typer.Exit(128 + interruption.signal_number) from None
    say(f"{path} is ready: {shlex.join(['plot-attractors', 'analyze', str(path)])}")


@command()
def sweep(
    file: Annotated[Path, Argument(metavar="SWEEP.toml", help="What to run.")],
    status: Annotated[bool, Option("--status", help="Only show how far each run is.")] = False,
) -> None:
    """Train programs × settings × seeds, all that is not done yet; failed runs start again.

    Called several times at once, the calls share the runs out.
    """
    from plot_attractors.runs import sweep as of_sweep

    runs = of_sweep.read_sweep(file)
    if status:
        console.print(sweep_table(runs))
        return
    with TrainingView() as view:
        failed = of_sweep.train(runs, view.show)
    if failed:
        raise typer.Exit(1)
    folder = runs[0].path.parent
    say(f"{folder} is ready: plot-attractors compare {folder}/*")
