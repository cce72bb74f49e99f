"""The registry of programs: finds a program by name or path, and imports it."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import difflib
import hashlib
import importlib.util
import inspect
import re
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, get_args

__all__ = [
    "KINDS", "Kind", "describe", "exit_sentence", "find", "folder", "identifier", "kinds_of",
    "load", "names", "refuse_within", "suggestion",
]  # fmt: skip

Kind = Literal["models", "datasets", "inference", "analyses"]
KINDS: tuple[Kind, ...] = get_args(Kind)

_SETTINGS = {"Config": "a frozen dataclass of settings"}
_FITTED = {**_SETTINGS, "PRESETS": "a dict of overrides for each preset"}
_CONTRACT: dict[str, dict[str, str]] = {
    "models": {
        **_FITTED,
        "build": "a function build(config, data) that returns the model",
    },
    "datasets": {**_FITTED, "load": "a function load(config) that returns the data"},
    "inference": {
        **_FITTED,
        "build": "a function build(model, data, config) that returns the inference",
    },
    "analyses": {
        **_SETTINGS,
        "measure": "a function measure(run, config) that returns tables by file name",
        "draw": "a function draw(tables) that returns figures by file name",
    },
}
_BUILD = {"models": 2, "inference": 3}  # parameters of build
# An analysis may instead be one function that writes its own files.
_WRITES = {"analyze": "a function analyze(run, out) that writes tables and figures into out"}


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
    try:
        docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    except (OSError, SyntaxError, UnicodeDecodeError):
        return ""
    return re.sub(r"(\*|``)(.+?)\1", r"\2", docstring.strip().splitlines()[0]) if docstring else ""


def suggestion(word: str, choices: Iterable[str]) -> str:
    """The part of a sentence that names the closest of the choices, which may be dotted names.

    >>> suggestion("dpeth", ["depth", "bits"])
    "did you mean 'depth'? "
    >>> suggestion("walk", ["sleep.walk", "bits"])
    "did you mean 'sleep.walk'? "
    """
    choices = list(choices)
    last = [choice.rpartition(".")[2] for choice in choices]
    end = word.rpartition(".")[2]
    close = [choice for choice, tail in zip(choices, last, strict=True) if tail == end][:2]
    close = close or difflib.get_close_matches(word, choices, n=2, cutoff=0.6)
    close = close or [choices[last.index(t)] for t in difflib.get_close_matches(end, last, n=1)]
    return f"did you mean {' or '.join(map(repr, close))}? " if close else ""


def find(kind: Kind, program: str | Path) -> Path:
    """File of a program, given by its name or by the path of a user's own ``.py`` file.

    Raises ValueError where nothing is there; the sentence names what is.
    """
    text = str(program)
    if isinstance(program, Path) or text.endswith(".py") or "/" in text or "\\" in text:
        path = Path(text).expanduser()
        if not path.is_file():
            raise ValueError(f"there is no program file {text}")
        if path.suffix != ".py":
            raise ValueError(f"a program is a .py file, and {text} is not")
        return path.resolve()
    known = names(kind)
    if text not in known:
        raise ValueError(
            f"there is no program {text!r} in {kind}: {suggestion(text, known)}It holds "
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


def kinds_of(program: str) -> list[Kind]:
    """The kinds that have a program of this name, or whose contract a user's own file meets; raises
    ValueError where there are none.
    """
    if kinds := [kind for kind in KINDS if program in names(kind)]:
        return kinds
    for kind in KINDS:
        with contextlib.suppress(ValueError):
            load(kind, program)
            kinds.append(kind)
    if not kinds and (close := suggestion(program, [n for kind in KINDS for n in names(kind)])):
        raise ValueError(f"there is no program {program!r}: {close[0].upper()}{close[1:-1]}")
    if not kinds:
        load(KINDS[0], program)  # which says what it lacks
    return kinds


def exit_sentence(ended: SystemExit) -> str:
    """Which file ended the process, by `sys.exit`, and with which status."""
    where = traceback.extract_tb(ended.__traceback__)[-1]
    status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    said = f", {ended.code!r}" if isinstance(ended.code, str) else ""
    return (
        f"line {where.lineno} of {where.filename} ended the process (exit status {status}{said}): "
        "raise an error there instead"
    )


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
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # before it runs: dataclasses and pickle look their module up
    try:
        spec.loader.exec_module(module)
        _check(kind, module, path)
    except BaseException as error:
        del sys.modules[name]
        if previous is not None:
            sys.modules[name] = previous
        if isinstance(error, SystemExit):
            raise ValueError(f"cannot import the program {path}: {exit_sentence(error)}") from error
        if isinstance(error, Exception) and not isinstance(error, ValueError):
            raise ValueError(
                f"cannot import the program {path}: {type(error).__name__}: {error}"
            ) from error
        raise
    vars(module)["__changed__"] = changed
    return module


def _required(function: Any) -> int:
    """Number of parameters without a default."""
    known = inspect.signature(function).parameters.values()
    return sum(
        parameter.default is parameter.empty and parameter.kind <= parameter.POSITIONAL_OR_KEYWORD
        for parameter in known
    )


def _check(kind: Kind, module: ModuleType, path: Path) -> None:
    writes = kind == "analyses" and not hasattr(module, "measure")
    for name, what in (_WRITES if writes else _CONTRACT[kind]).items():
        if not hasattr(module, name):
            raise ValueError(
                f"the program {path} lacks {name}: a program in {kind} defines it as {what}"
            )
        value: Any = getattr(module, name)
        if name == "Config":
            valid = isinstance(value, type) and dataclasses.is_dataclass(value)
        elif name == "PRESETS":
            valid = isinstance(value, dict) and all(isinstance(v, dict) for v in value.values())
        else:
            valid = callable(value) and (name != "build" or _required(value) == _BUILD[kind])
        if not valid:
            raise ValueError(
                f"{name} in the program {path} is not what a program in {kind} defines it as: "
                f"{what}"
            )
