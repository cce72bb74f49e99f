"""The registry of programs: finds a program by name or path, and imports it."""

from __future__ import annotations

import ast
import difflib
import hashlib
import importlib.util
import inspect
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Literal, get_args

__all__ = [
    "KINDS", "Kind", "describe", "find", "folder", "identifier", "load", "names",
    "refuse_within", "suggestion",
]  # fmt: skip

Kind = Literal["models", "datasets", "inference", "analyses"]
KINDS: tuple[Kind, ...] = get_args(Kind)

_CONTRACT = {
    "models": ("Config", "PRESETS", "build(config, data)"),
    "datasets": ("Config", "PRESETS", "load(config)"),
    "inference": ("Config", "PRESETS", "build(model, data, config)"),
    "analyses": ("Config", "measure(run, config)"),
}


def folder(kind: Kind) -> Path:
    """Folder of the programs of a kind: in an installed package, or beside it in a checkout."""
    here = Path(__file__).resolve().parents[1]
    packaged = here / "programs" / kind
    return packaged if packaged.is_dir() else here.parent / kind


def names(kind: Kind) -> tuple[str, ...]:
    """Names of the programs of a kind, sorted, without files that start with an underscore."""
    stems = (path.stem for path in folder(kind).glob("*.py"))
    return tuple(sorted(stem for stem in stems if not stem.startswith("_")))


def describe(path: Path) -> str:
    """First line of a program's docstring, without marks of emphasis, read without importing it."""
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return re.sub(r"(\*|``)(.+?)\1", r"\2", docstring.partition("\n")[0])


def suggestion(word: str, choices: Iterable[str]) -> str:
    """The part of a sentence that names the closest of the choices, which may be dotted names.

    >>> suggestion("dpeth", ["depth", "bits"])
    "did you mean 'depth'? "
    >>> suggestion("walk", ["sleep.walk", "bits"])
    "did you mean 'sleep.walk'? "
    """
    ends = {choice.rpartition(".")[2]: choice for choice in choices}
    near = difflib.get_close_matches(word.rpartition(".")[2], ends, n=1)
    return f"did you mean {ends[near[0]]!r}? " if near else ""


def find(kind: Kind, program: str | Path) -> Path:
    """File of a program, given by its name or by the path of a user's own ``.py`` file.

    Raises ValueError where nothing is there.
    """
    text = str(program)
    if isinstance(program, Path) or text.endswith(".py") or "/" in text or "\\" in text:
        path = Path(text).expanduser()
        if not path.is_file():
            raise ValueError(f"there is no program file {text}")
        return path.resolve()
    known = names(kind)
    if text not in known:
        hint = suggestion(text, [name for kind in KINDS for name in names(kind)])
        raise ValueError(
            f"there is no program {text!r} in {kind}: {hint}It holds "
            f"{', '.join(known) or 'none'}; a file of your own is given by its path, ending in .py"
        )
    return folder(kind) / f"{text}.py"


def identifier(kind: Kind, program: str | Path) -> str:
    """What a run's settings keep of a program: its name, or the absolute path of a user's own."""
    path = find(kind, program)
    return path.stem if path.parent == folder(kind) else str(path)


def refuse_within(folder: Path, program: str) -> None:
    """Raise ValueError where a folder that may come from others names a program file in itself, or
    relative to wherever the reader is: to open it would run that file.
    """
    path = Path(program)
    if path.suffix != ".py":
        return
    if not path.is_absolute() or path.resolve().is_relative_to(folder.resolve()):
        raise ValueError(
            f"{folder} names the program {program}, which came along with it, and would be run: "
            "look at it, keep it elsewhere, and write its absolute path into config.toml"
        )


def _defines(module: ModuleType, part: str) -> bool:
    """Whether a module has what a name stands for, of a function with so many arguments."""
    name, _, arguments = part.partition("(")
    if not arguments or not hasattr(module, name):
        return hasattr(module, name)
    given = inspect.signature(getattr(module, name)).parameters.values()
    return sum(one.default is one.empty for one in given) == len(arguments.split(","))


def load(kind: Kind, program: str | Path) -> ModuleType:
    """Import a program and check that it has what programs of its kind have.

    A program that builds on another one loads it in the same way: ``hbv = load("models", "hbv")``.
    Loading twice gives the same module, unless the file has changed in between.

    Raises ValueError where nothing is there, it cannot be imported, or a required name is missing.
    """
    path = find(kind, program)
    name = f"plot_attractors.programs.{kind}.{path.stem}"
    if path.parent != folder(kind):  # two users' files may share a stem
        name += f"_{hashlib.sha1(str(path).encode()).hexdigest()[:8]}"
    changed = path.stat().st_mtime_ns
    previous = sys.modules.get(name)
    if previous is not None and getattr(previous, "__changed__", changed) == changed:
        return previous
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} is no program of Python: name data as --data {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # before it runs: dataclasses and pickle look their module up
    try:
        spec.loader.exec_module(module)
        if lacking := [part for part in _CONTRACT[kind] if not _defines(module, part)]:
            raise ValueError(f"{path} lacks {lacking[0]}, which a program in {kind} defines")
    except Exception as error:
        del sys.modules[name]
        if isinstance(error, ValueError):
            raise
        raise ValueError(f"cannot import {path}: {type(error).__name__}: {error}") from error
    vars(module)["__changed__"] = changed
    return module
