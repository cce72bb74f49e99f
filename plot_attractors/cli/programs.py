"""Commands about programs: ``list``, ``copy`` and ``settings``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from rich.markup import escape
from rich.table import Table
from typer import Argument, Option

from plot_attractors.cli.shared import Debug, app, console, one_sentence
from plot_attractors.runs import pretrained, registry

__all__ = ["copy", "list_", "settings_"]


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
    with one_sentence(debug):
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
    with one_sentence(debug):
        from plot_attractors.runs.described import settings_of

        for kind in registry.kinds_of(program):
            console.print(f"[bold]{kind}: {escape(program)}[/bold]")
            table = Table("setting", "default", "takes", "meaning", box=None, padding=(0, 2, 0, 0))
            for setting in settings_of(registry.load(kind, program).Config):
                table.add_row(*map(escape, setting))
            console.print(table)
