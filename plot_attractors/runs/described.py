"""What can be set of a program: names, defaults, the values they take, and what they mean."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import io
import textwrap
import tokenize
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
    """The comment of every field, in the class that declares it last: beside it, and in the lines
    that follow up to the next field; or else in the lines above.
    """
    found: dict[str, str] = {}
    for part in reversed(config.__mro__):
        if dataclasses.is_dataclass(part):
            try:
                own = _comments_in(inspect.getsource(part))
                found |= {name: text for name, text in own.items() if text}
            except OSError:  # no source: made by hand
                continue
    return found


def _comments_in(source: str) -> dict[str, str]:
    r"""Of the source of one class.

    >>> _comments_in("class A:\n    a: int = 1  # one,\n    # two\n    b: int = 2  # three\n")
    {'a': 'one, two', 'b': 'three'}
    >>> _comments_in("class A:\n    a: int = 1  # one\n    # two\n    b: int = 2\n")
    {'a': 'one', 'b': 'two'}
    """
    source = textwrap.dedent(source)
    (definition,) = ast.parse(source).body
    fields = [node for node in getattr(definition, "body", []) if isinstance(node, ast.AnnAssign)]
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = [token for token in tokens if token.type == tokenize.COMMENT]
    lines = {t.start[0]: t.string.lstrip("# ") for t in comments if "type: ignore" not in t.string}
    alone = {k for k in lines if source.splitlines()[k - 1].lstrip().startswith("#")}
    found, taken = dict[str, str](), set[int]()
    for node in reversed(fields):  # lines above a field with no comment beside it are its own
        first, last = node.lineno, node.end_lineno or node.lineno
        own = [k for k in range(first, last + 1) if k in lines]
        step, start = (1, last) if own else (-1, first)
        k = start + step
        while k in alone - taken:
            own.append(k)
            taken.add(k)
            k += step
        found[ast.unparse(node.target)] = " ".join(lines[k] for k in sorted(own))
    return dict(reversed(found.items()))
