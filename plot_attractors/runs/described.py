"""What can be set of a program: names, defaults, the values they take, and what they mean."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import re
import textwrap
import types
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, get_type_hints

from plot_attractors.runs.settings import default_of, wanted

__all__ = ["Setting", "settings_of", "shown_value"]


class Setting(NamedTuple):
    """A setting by its dotted name: its default, what it takes, and the comment beside it."""

    name: str
    default: str
    takes: str
    meaning: str


def settings_of(
    config: type, preset: Mapping[str, Any] = types.MappingProxyType({})
) -> list[Setting]:
    """All settings of a Config, those of its groups included; the values of a preset, by dotted
    names, are their defaults.
    """

    def walk(part: type, prefix: str) -> Iterator[Setting]:
        hints, comments = get_type_hints(part, include_extras=True), _comments(part)
        for field in dataclasses.fields(part):  # type: ignore[arg-type]
            name, hint = f"{prefix}{field.name}", hints[field.name]
            if dataclasses.is_dataclass(hint):
                yield from walk(hint, f"{name}.")  # type: ignore[arg-type]
            else:
                value = shown_value(preset.get(name, default_of(config, name)))
                yield Setting(name, value, wanted(hint), comments.get(field.name, ""))

    return list(walk(config, ""))


def shown_value(value: Any) -> str:
    """A value of a setting as text."""
    if value is dataclasses.MISSING:
        return "to be given"
    if isinstance(value, tuple | list):
        same = len({*value}) == 1 and len(value) > 4
        if same:
            return f"{shown_value(value[0])} × {len(value)}"
        return ", ".join(map(shown_value, value)) or "–"
    if value is None:
        return "none"
    return str(value).lower() if isinstance(value, bool) else str(value) or "–"


def _comments(config: type) -> dict[str, str]:
    """The comment of every field, in the class that declares it last."""
    comments: dict[str, str] = {}
    for part in reversed(config.__mro__):
        if dataclasses.is_dataclass(part):
            with contextlib.suppress(OSError):  # no source: made by hand
                comments |= _comments_in(inspect.getsource(part))
    return comments


def _comments_in(source: str) -> dict[str, str]:
    r"""Of the source of one class: the comment beside a field, or else those in the lines above.

    >>> _comments_in("class A:\n    # one,\n    # two\n    a: int = 1\n    b: int = 2  # three\n")
    {'a': 'one, two', 'b': 'three'}
    """
    comments, above = dict[str, str](), list[str]()
    for line in textwrap.dedent(source).splitlines():
        code, _, comment = line.partition("# ")
        if field := re.match(r" {4}(\w+):", code):
            beside = "" if comment.startswith("type: ignore") else comment
            if meaning := beside or " ".join(above):
                comments[field[1]] = meaning
        above = [*above, comment] if comment and not code.strip() else []
    return comments
