"""The comments of settings, which say what they mean."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import re
import textwrap

__all__ = ["comments_of"]


def comments_of(config: type) -> dict[str, str]:
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
