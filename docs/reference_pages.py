"""Pages of the reference that are written from the code: programs, commands, the library.

`write` makes them before Sphinx reads its sources; they are not kept in git.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import typer
import typer.cli

from plot_attractors import cli
from plot_attractors.measures.registry import to_markdown
from plot_attractors.runs import registry
from plot_attractors.runs.run import defaults_of
from plot_attractors.runs.settings import as_text, fields, presets_of, wanted

__all__ = ["PACKAGES", "commands", "library_page", "program_page", "write"]

# A page each; `report`, which writes the report, has none.
PACKAGES = (
    "gflownet", "model", "language", "training", "analysis", "measures", "data", "runs",
    "baselines", "language_of_thought",
)  # fmt: skip

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
    """All pages, below the folder."""
    shutil.rmtree(folder / "programs", ignore_errors=True)
    shutil.rmtree(folder / "library", ignore_errors=True)
    lead = "The packages of `plot_attractors`, but for those that write reports and draw figures."
    pages = {
        "commands.md": commands(),
        "metrics.md": to_markdown(),
        "library/index.md": _index("The library", lead, {p: _module(p) for p in PACKAGES}),
    }
    pages |= {f"library/{package}.md": library_page(package) for package in PACKAGES}
    for kind in registry.KINDS:
        modules = {name: registry.load(kind, name) for name in registry.names(kind)}
        pages[f"programs/{kind}/index.md"] = _index(TITLES[kind], LEADS[kind], modules)
        pages |= {f"programs/{kind}/{n}.md": program_page(kind, n) for n in modules}
    for name, text in pages.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A Markdown table; bars within cells are escaped."""
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(c.replace("|", "\\|") for c in row) + " |" for row in lines)


def _index(title: str, lead: str, modules: dict[str, ModuleType]) -> str:
    """Pages of modules, with the first paragraphs of their docstrings."""
    firsts = {n: _plain(inspect.getdoc(m) or "").partition("\n\n")[0] for n, m in modules.items()}
    rows = [(f"[{name}]({name}.md)", " ".join(text.split())) for name, text in firsts.items()]
    tree = "\n".join(modules)
    return (
        f"# {title}\n\n{lead}\n\n{table(('name', 'what it is'), rows)}\n\n"
        f"```{{toctree}}\n:hidden:\n\n{tree}\n```\n"
    )


def program_page(kind: registry.Kind, name: str) -> str:
    """A program: its docstring and settings, and the file itself."""
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
    return [f"It needs {module.NEEDS.words}."] if kind == "analyses" else []


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


def library_page(name: str) -> str:
    """A package: the names that it hands on, and all its modules."""
    package = _module(name)
    prefix = f"{package.__name__}."
    modules = [info.name for info in pkgutil.walk_packages(package.__path__, prefix)]
    names = [n for n in getattr(package, "__all__", ()) if f"{prefix}{n}" not in modules]
    parts = [f"# {name}", _automodule(package.__name__, "   :no-members:\n")]
    if names:
        listed = ", ".join(f"`{n}`" for n in names)
        parts.append(f"To be imported from `{package.__name__}`: {listed}.")
    for module in modules:
        parts += [f"## {module.removeprefix(prefix)}", _automodule(module)]
    return "\n\n".join(parts) + "\n"


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"plot_attractors.{name}")


def _automodule(name: str, options: str = "") -> str:
    return f"```{{eval-rst}}\n.. automodule:: {name}\n{options}```"
