"""Commands about programs: ``list``, ``copy`` and ``settings``."""

from __future__ import annotations

from pathlib import Path
from textwrap import fill
from typing import Annotated, Any

from rich.markup import escape
from typer import Argument, Option

from plot_attractors.cli.shared import Debug, app, console, one_sentence
from plot_attractors.runs import pretrained, registry

__all__ = ["copy", "list_", "settings_"]

_INDENT: dict[str, Any] = {
    "initial_indent": " " * 6, "subsequent_indent": " " * 6,
    "break_long_words": False, "break_on_hyphens": False,
}  # fmt: skip


@app.command("list")
def list_(
    paths: Annotated[bool, Option("--paths", help="The files of the programs, too.")] = False,
) -> None:
    """Show the programs that are there, of every kind, and the trained models."""
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
        str | None,
        Option(help="models, datasets, inference or analyses, where several have the name."),
    ] = None,
    debug: Debug = False,
) -> None:
    """Copy a program into a file of your own, to change it; its path then stands for its name."""
    with one_sentence(debug):
        known = registry.kinds_of(program)
        kinds = [one for one in known if kind in (None, one)]
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
    inference: Annotated[
        str | None, Option(help="Of a model: the inference program, by name or path.")
    ] = None,
    data: Annotated[str | None, Option(help="Of a model: the data set, by name or path.")] = None,
    debug: Debug = False,
) -> None:
    """Show every setting of a program: its value in the preset full, its meaning, and the values
    that it takes. Of a model, all that `fit` takes: those of data and inference program, too.
    """
    with one_sentence(debug):
        from plot_attractors.runs.described import settings_of
        from plot_attractors.runs.run import programs
        from plot_attractors.runs.settings import flatten

        kinds, shown = registry.kinds_of(program), list[tuple[str, str, Any, Any]]()
        if "models" in kinds or "datasets" in kinds:
            loaded = programs(program, inference, data)
            full = {
                k: v for part in loaded.presets.values() for k, v in part.get("full", {}).items()
            }
            for (part, module), name in zip(loaded.parts.items(), loaded.names, strict=True):
                shown.append((part, name, module, {"full": full}))
        elif inference is not None or data is not None:
            raise ValueError(
                f"{program} is no model, which --inference and --data go with: leave them out"
            )
        for kind in kinds:
            if kind == "analyses" or (kind == "inference" and "models" not in kinds):
                module = registry.load(kind, program)
                shown.append((kind, program, module, getattr(module, "PRESETS", {})))
        lines = []
        for part, title, module, presets in shown:
            lines.append(f"[bold]{part}: {escape(title)}[/bold]")
            config = getattr(module, "Config", None)
            own = settings_of(config, flatten(presets.get("full", {}))) if config else []
            width = max((len(setting.name) for setting in own), default=0)
            for setting in own:
                lines.append(escape(f"  {setting.name:<{width}}  {setting.default}"))
                about = "; ".join(filter(None, (setting.meaning, setting.takes)))
                lines.append(escape(fill(about, max(console.width, 40), **_INDENT)))
        console.print("\n".join(lines))
