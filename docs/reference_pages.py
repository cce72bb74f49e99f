"""Pages of the reference that are written from the code: programs, commands, the library.

`write` makes them before Sphinx reads its sources; they are not kept in git.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import typer
import typer.cli

from plot_attractors import cli
from plot_attractors.measures.registry import to_markdown
from plot_attractors.report.sections import SECTIONS
from plot_attractors.runs import registry
from plot_attractors.runs.run import defaults_of
from plot_attractors.runs.settings import as_text, fields, flatten, presets_of, wanted

__all__ = ["PACKAGES", "commands", "library_page", "program_page", "programs_page", "write"]

# A page each; `report`, which writes the report, has none.
PACKAGES = (
    "gflownet",
    "model",
    "language",
    "training",
    "analysis",
    "measures",
    "data",
    "runs",
    "baselines",
    "language_of_thought",
)

TITLES = {
    "models": "Models", "datasets": "Data sets", "inference": "Inference programs",
    "analyses": "Analyses",
}  # fmt: skip
LEADS = {
    "models": "A model program makes a model for data: `plot-attractors fit NAME --data DATA`.",
    "datasets": "A data set: `plot-attractors fit MODEL --data NAME`; `plot-attractors fit NAME` "
    "fits the attractor model to it.",
    "inference": "An inference program trains a model: `plot-attractors fit MODEL --inference "
    "NAME`. A model names the one that is used where none is given.",
    "analyses": "An analysis turns a run into tables and figures: `plot-attractors analyze RUN "
    "NAME`. [What each file holds](../../run-directory.md) is a page of its own.",
}


def write(folder: Path) -> None:
    """All pages, below the folder; pages that are as they were keep their time stamps."""
    pages = {"commands.md": commands(), "metrics.md": to_markdown()}
    pages["library/index.md"] = library_index()
    pages |= {f"library/{package}.md": library_page(package) for package in PACKAGES}
    for kind in registry.KINDS:
        pages[f"programs/{kind}/index.md"] = programs_page(kind)
        for name in registry.names(kind):
            pages[f"programs/{kind}/{name}.md"] = program_page(kind, name)
    for part in ("programs", "library"):
        for old in (folder / part).rglob("*.md"):
            if str(old.relative_to(folder)) not in pages:
                old.unlink()
    for name, text in pages.items():
        file = folder / name
        if not file.is_file() or file.read_text(encoding="utf-8") != text:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A Markdown table; bars within cells are escaped."""
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(c.replace("|", "\\|") for c in row) + " |" for row in lines)


def programs_page(kind: registry.Kind) -> str:
    """All programs of a kind, with the first lines of their docstrings."""
    names = registry.names(kind)
    rows = [(f"[{n}]({n}.md)", registry.describe(registry.find(kind, n))) for n in names]
    tree = "\n".join(names)
    return (
        f"# {TITLES[kind]}\n\n{LEADS[kind]}\n\n{table(('program', 'what it is'), rows)}\n\n"
        f"```{{toctree}}\n:hidden:\n\n{tree}\n```\n"
    )


def program_page(kind: registry.Kind, name: str) -> str:
    """A program: its docstring, settings, presets and captions, and the file itself."""
    module, file = registry.load(kind, name), registry.find(kind, name)
    parts = [f"# {name}", _plain(inspect.getdoc(module) or ""), *_how(kind, name, module)]
    full = presets_of(module, "hbv").get("full", {}) if hasattr(module, "PRESETS") else {}
    settings = fields(module.Config)
    if settings:
        rows = [(f"`{n}`", as_text(full.get(n, s.default)), wanted(s.type), s.meaning)
                for n, s in settings.items()]  # fmt: skip
        heads = ("setting", "default, on binary vectors" if full else "default", "takes", "meaning")
        parts += ["## Settings", table(heads, [tuple(map(_plain, row)) for row in rows])]
    else:
        parts += ["It has no settings."]
    parts += [*_presets(module), *_captions(module)]
    parts += ["## The program", f"```{{literalinclude}} ../../../../{kind}/{file.name}\n"
              ":language: python\n```"]  # fmt: skip
    return "\n\n".join(parts) + "\n"


def _how(kind: registry.Kind, name: str, module: ModuleType) -> list[str]:
    if kind == "models":
        data, default = defaults_of(module)
        return [
            f"`plot-attractors fit {name}`; on [{data}](../datasets/{data}.md), trained by "
            f"[{default}](../inference/{default}.md), where no others are named."
        ]
    if kind == "analyses":
        section = next((s for s, members in SECTIONS.items() if name in members.split()), "")
        when = f" It needs {module.NEEDS.words}."
        return [
            f"`plot-attractors analyze RUN {name}`; in a report it stands under *{section}*.{when}"
        ]
    return []


def _small(text: str) -> str:
    return text[:1].lower() + text[1:]


def _presets(module: ModuleType) -> list[str]:
    """What each preset sets, those for one kind of data among them."""
    rows = [
        (" of ".join(f"`{part}`" for part in reversed(preset.split("/"))),
         ", ".join(f"`{k}={as_text(v)}`" for k, v in flatten(values).items()) or "the defaults")
        for preset, values in getattr(module, "PRESETS", {}).items()
    ]  # fmt: skip
    return ["## Presets", table(("preset", "what it sets"), rows)] if rows else []


def _captions(module: ModuleType) -> list[str]:
    captions: dict[str, str] = getattr(module, "CAPTIONS", {})
    if not captions:
        return []
    return [
        "## Figures",
        table(("figure", "caption"), [(f"`{k}`", v) for k, v in captions.items()]),
    ]


def _plain(text: str) -> str:
    """reStructuredText's double backticks as Markdown's single ones, bars and stars as they are."""
    return re.sub(r"``(.+?)``", r"`\1`", text)


def commands() -> str:
    """The command line, as its own help tells it."""
    command: Any = typer.main.get_command(cli.app)
    context = typer.Context(command, info_name="plot-attractors")
    text = typer.cli.get_docs_for_click(obj=command, ctx=context, name="plot-attractors")
    text = text.replace("# `plot-attractors`", "# The command line", 1)
    text = re.sub(r"^\* (`.*?`): (.*)$", r"- \1: \2", text, flags=re.MULTILINE)
    return text.replace("\\[", "[")


def library_index() -> str:
    """All packages, with the first lines of their docstrings."""
    rows = [(f"[{p}]({p}.md)", _first(_module(p))) for p in PACKAGES]
    tree = "\n".join(PACKAGES)
    return (
        "# The library\n\nThe packages of `plot_attractors`, from their docstrings, but for those "
        f"that draw figures and write the report.\n\n{table(('package', 'what it has'), rows)}"
        f"\n\n```{{toctree}}\n:hidden:\n\n{tree}\n```\n"
    )


def library_page(name: str) -> str:
    """A package: the names that it hands on, and all its modules."""
    package = _module(name)
    below = [info.name for info in pkgutil.iter_modules(package.__path__)]
    modules = [m for m in below if f"{name}.{m}" not in PACKAGES]
    handed_on = [n for n in getattr(package, "__all__", ()) if n not in modules]
    parts = [f"# {name}", _automodule(package.__name__, "   :no-members:\n")]
    if handed_on:
        names = ", ".join(f"`{n}`" for n in handed_on)
        parts.append(f"To be imported from `{package.__name__}`: {names}.")
    for module in modules:
        full = f"{name}.{module}"
        inner = [m.name for m in pkgutil.iter_modules(getattr(_module(full), "__path__", []))]
        parts += [f"## {module}", _automodule(f"plot_attractors.{full}")]
        for part in inner:
            parts += [f"### {module}.{part}", _automodule(f"plot_attractors.{full}.{part}")]
    return "\n\n".join(parts) + "\n"


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"plot_attractors.{name}")


def _first(module: ModuleType) -> str:
    """The first sentence of a docstring."""
    return " ".join(_plain(inspect.getdoc(module) or "").split("\n\n")[0].split())


def _automodule(name: str, options: str = "") -> str:
    return f"```{{eval-rst}}\n.. automodule:: {name}\n{options}```"
