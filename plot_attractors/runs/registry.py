"""The registry of programs: finds a model, inference or analysis program by name or path, and
imports it.
"""

from __future__ import annotations

import ast
import dataclasses
import difflib
import hashlib
import importlib.util
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, get_args

__all__ = [
    "Shelf",
    "SHELVES",
    "folder",
    "names",
    "describe",
    "find",
    "identifier",
    "load",
    "suggestion",
]

Shelf = Literal["models", "inference", "analyses"]
SHELVES: tuple[Shelf, ...] = get_args(Shelf)

_CONTRACT: dict[str, dict[str, str]] = {
    "models": {
        "Config": "a frozen dataclass of settings",
        "PRESETS": "a dict of overrides for each preset, of its own inference program's settings as well",
        "load_data": "a function load_data(config) that returns the data",
        "build": "a function build(config, data) that returns the model",
    },
    "inference": {
        "Config": "a frozen dataclass of settings",
        "PRESETS": "a dict of overrides for each preset",
        "build": "a function build(model, data, config) that returns the inference",
    },
    "analyses": {
        "Config": "a frozen dataclass of settings",
        "measure": "a function measure(run, config) that returns tables by file name",
        "plot": "a function plot(tables) that returns figures by file name",
    },
}
# An analysis may instead be one function that writes its own files.
_WRITES = {"analyze": "a function analyze(run, out) that writes tables and figures into out"}


def folder(shelf: Shelf) -> Path:
    """Folder of a shelf: inside the package when it was installed from a wheel, beside it in a
    checkout.
    """
    here = Path(__file__).resolve().parents[1]
    packaged = here / "programs" / shelf
    return packaged if packaged.is_dir() else here.parent / shelf


def names(shelf: Shelf) -> tuple[str, ...]:
    """Names of the programs on a shelf, sorted; files that start with an underscore are not
    programs.
    """
    return tuple(
        sorted(path.stem for path in folder(shelf).glob("*.py") if not path.stem.startswith("_"))
    )


def describe(path: Path) -> str:
    """First line of a program's docstring, without marks of emphasis, read without importing it; or
    nothing.
    """
    try:
        docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    except (OSError, SyntaxError, UnicodeDecodeError):
        return ""
    return re.sub(r"(\*|``)(.+?)\1", r"\2", docstring.strip().splitlines()[0]) if docstring else ""


def suggestion(word: str, choices: Iterable[str]) -> str:
    """The part of a sentence that names the closest of the choices: ``did you mean 'depth'?``, or
    nothing.

    >>> suggestion("dpeth", ["depth", "bits"])
    "did you mean 'depth'? "
    """
    close = difflib.get_close_matches(word, list(choices), n=2, cutoff=0.6)
    return f"did you mean {' or '.join(map(repr, close))}? " if close else ""


def find(shelf: Shelf, program: str | Path) -> Path:
    """File of a program, given by its name on the shelf or by the path of a user's own ``.py``
    file.

    Raises:
        ValueError: nothing is there; the sentence names what is.
    """
    text = str(program)
    if isinstance(program, Path) or text.endswith(".py") or "/" in text or "\\" in text:
        path = Path(text).expanduser()
        if not path.is_file():
            raise ValueError(f"there is no program file {text}")
        if path.suffix != ".py":
            raise ValueError(f"a program is a .py file, and {text} is not")
        return path.resolve()
    known = names(shelf)
    if text not in known:
        listed = ", ".join(known) or "none"
        raise ValueError(
            f"there is no program {text!r} in {shelf}: {suggestion(text, known)}It holds {listed}; "
            "a file of your own is given by its path, ending in .py"
        )
    return folder(shelf) / f"{text}.py"


def identifier(shelf: Shelf, program: str | Path) -> str:
    """What a run's settings keep of a program: its name when it is on the shelf, otherwise its
    absolute path.
    """
    path = find(shelf, program)
    return path.stem if path.parent == folder(shelf) else str(path)


def load(shelf: Shelf, program: str | Path) -> ModuleType:
    """Import a program and check that it has what programs of its shelf have.

    A program that builds on another one loads it in the same way: ``hbv = load("models", "hbv")``.
    Loading twice gives
    the same module, unless the file has changed in between.

    Raises:
        ValueError: nothing is there, the file cannot be imported, or a required name is missing.
    """
    path = find(shelf, program)
    name = _module_name(shelf, path)
    changed = path.stat().st_mtime_ns
    module = sys.modules.get(name)
    if module is not None and getattr(module, "__changed__", changed) == changed:
        return module
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    previous = sys.modules.get(name)
    # before it runs: dataclasses and pickle look their module up by name
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
        _check(shelf, module, path)
    except BaseException as error:
        if previous is None:
            del sys.modules[name]
        else:
            sys.modules[name] = previous
        if isinstance(error, Exception) and not isinstance(error, ValueError):
            raise ValueError(
                f"cannot import the program {path}: {type(error).__name__}: {error}"
            ) from error
        raise
    vars(module)["__changed__"] = changed
    return module


def _module_name(shelf: Shelf, path: Path) -> str:
    base = f"plot_attractors.programs.{shelf}.{path.stem}"
    if path.parent == folder(shelf):
        return base
    # two users' files may share a stem
    return f"{base}_{hashlib.sha1(str(path).encode()).hexdigest()[:8]}"


def _check(shelf: Shelf, module: ModuleType, path: Path) -> None:
    writes = shelf == "analyses" and not hasattr(module, "measure")
    for name, what in (_WRITES if writes else _CONTRACT[shelf]).items():
        if not hasattr(module, name):
            raise ValueError(
                f"the program {path} lacks {name}: a program in {shelf} defines it as {what}"
            )
        value: Any = getattr(module, name)
        if name == "Config":
            valid = isinstance(value, type) and dataclasses.is_dataclass(value)
        elif name == "PRESETS":
            valid = isinstance(value, dict) and all(
                isinstance(preset, dict) for preset in value.values()
            )
        else:
            valid = callable(value)
        if not valid:
            raise ValueError(
                f"{name} in the program {path} is not what a program in {shelf} defines it as: "
                f"{what}"
            )
