"""Commands about programs: ``list``, ``copy`` and ``settings``."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from plot_attractors.cli.shared import command, say
from plot_attractors.runs import pretrained, registry

__all__ = ["copy", "list_", "settings_"]


@command("list")
def list_() -> None:
    """Show the programs that are there, of every kind, and the trained models."""
    for kind in registry.KINDS:
        say(kind)
        for name in registry.names(kind):
            say(f"  {name:<26}  {registry.describe(registry.find(kind, name))}")
    say("trained models, in the place of RUN")
    for name in pretrained.names():
        say(f"  {pretrained.PREFIX}{name}")


@command()
def copy(
    program: Annotated[str, Argument(help="Any program: a name from `list`.")],
    path: Annotated[Path, Argument(help="The .py file to write.")],
    kind: Annotated[
        str | None,
        Option(help="models, datasets, inference or analyses, where several have the name."),
    ] = None,
) -> None:
    """Copy a program into a file of your own, to change it; its path then stands for its name."""
    known = kinds_of(program)
    kinds = [one for one in known if kind in (None, one)]
    if len(kinds) != 1:
        raise ValueError(
            f"{program!r} is a program in {' and '.join(known)}: say which with --kind"
        )
    if path.exists():
        raise ValueError(f"{path} is there already: choose another file")
    path.write_bytes(registry.find(kinds[0], program).read_bytes())
    say(f"{path} is a copy of {kinds[0]}/{program}.py")


@command("settings")
def settings_(
    program: Annotated[
        str, Argument(help="Any program: a name from `list`, or the path of a .py file.")
    ],
    inference: Annotated[
        str | None, Option(help="Of a model: the inference program, by name or path.")
    ] = None,
    data: Annotated[str | None, Option(help="Of a model: the data set, by name or path.")] = None,
) -> None:
    """Show every setting of a program: its value in the preset full, its meaning, and the values
    that it takes. Of a model, all that `fit` takes: those of data and inference program, too.
    """
    from plot_attractors.runs.run import programs
    from plot_attractors.runs.settings import as_text, fields, presets_of, wanted

    kinds = kinds_of(program)
    if "models" in kinds or "datasets" in kinds:
        loaded = programs(program, inference, data)
        full = {k: v for part in loaded.presets.values() for k, v in part.get("full", {}).items()}
        shown = {f"{part}: {name}": (config, full) for (part, config), name
                 in zip(loaded.configs.items(), loaded.names, strict=True)}  # fmt: skip
    else:
        module = registry.load(kinds[0], program)
        presets = presets_of(module, "") if hasattr(module, "PRESETS") else {}
        shown = {f"{kinds[0]}: {program}": (module.Config, presets.get("full", {}))}
    for title, (config, preset) in shown.items():
        say(title)
        for name, setting in fields(config).items():
            value = as_text(preset.get(name, setting.default))
            say(f"  {name} = {value}  ({wanted(setting.type)})")
            if setting.meaning:
                say(f"      {setting.meaning}")


def kinds_of(program: str) -> list[registry.Kind]:
    """The kinds that have a program of this name, or whose contract a user's own file meets."""
    kinds = [kind for kind in registry.KINDS if program in registry.names(kind)]
    if not kinds:
        file = registry.find("models", program)  # which says what there is
        for kind in registry.KINDS:
            with contextlib.suppress(ValueError):
                registry.load(kind, file)
                kinds.append(kind)
    return kinds
