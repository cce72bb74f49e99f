"""Settings of a run: a preset and ``key=value`` overrides merged into the Config dataclasses of two
programs.
"""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from plot_attractors.runs.registry import suggestion

__all__ = ["PRESET_NAMES", "parse", "resolve", "convert", "to_table", "from_table"]

PRESET_NAMES = ("full", "demo", "smoke")

T = TypeVar("T")

_TRUE = {"true", "yes", "on", "1"}
_FALSE = {"false", "no", "off", "0"}


def parse(pairs: Iterable[str]) -> dict[str, str]:
    """Split ``key=value`` strings; the last one wins.

    >>> parse(["depth=4", "labels=family,order"])
    {'depth': '4', 'labels': 'family,order'}
    """
    settings: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise ValueError(f"a setting is written key=value, and {pair!r} is not")
        settings[key.strip()] = value.strip()
    return settings


def resolve(
    configs: Mapping[str, type],
    presets: Mapping[str, Mapping[str, Mapping[str, Any]]],
    preset: str,
    settings: Mapping[str, Any],
) -> dict[str, Any]:
    """Configs of a run, from the defaults, then the preset, then the settings.

    Args:
        configs: a Config dataclass for each part, ``{"model": ..., "inference": ...}``.
        presets: the PRESETS of each part; a part without the preset keeps its defaults. What a
            part's preset sets of another part comes over that part's own.
        preset: one of the presets' names; ``full`` is always there.
        settings: overrides, as text or as Python values; each key belongs to exactly one part.

    Raises:
        ValueError: an unknown preset, key or value, or a key that two parts share.
    """
    fields = {
        part: [field.name for field in dataclasses.fields(config)]
        for part, config in configs.items()
    }
    owner: dict[str, str] = {}
    for part, keys in fields.items():
        for key in keys:
            if key in owner:
                raise ValueError(
                    f"both programs have a setting {key!r} ({owner[key]} and {part}): rename it in "
                    f"one of them"
                )
            owner[key] = part
    known = [
        *PRESET_NAMES,
        *(name for part in presets.values() for name in part if name not in PRESET_NAMES),
    ]
    available = [
        name
        for name in dict.fromkeys(known)
        if name == "full" or any(name in p for p in presets.values())
    ]
    if preset not in available:
        raise ValueError(
            f"there is no preset {preset!r}: {suggestion(preset, available)}These programs have "
            f"{', '.join(available)}"
        )
    unknown = next((key for key in settings if key not in owner), None)
    if unknown is not None:
        listed = "; ".join(f"{', '.join(keys) or 'none'} ({part})" for part, keys in fields.items())
        raise ValueError(
            f"there is no setting {unknown!r}: {suggestion(unknown, owner)}There are {listed}"
        )
    overrides: dict[str, dict[str, Any]] = {
        part: dict(presets[part].get(preset, {})) for part in configs
    }
    for part in configs:
        for key in [key for key in overrides[part] if key not in fields[part]]:
            if key not in owner:
                raise ValueError(
                    f"the preset {preset!r} of the {part} program sets {key!r}, which its Config lacks"
                )
            overrides[owner[key]][key] = overrides[part].pop(key)
    for key, value in settings.items():
        overrides[owner[key]][key] = value
    return {part: from_table(config, overrides[part]) for part, config in configs.items()}


def from_table(config: type[T], table: Mapping[str, Any]) -> T:
    """A Config from a table of its fields; what the table leaves out keeps its default.

    Raises:
        ValueError: an unknown key, a value of another type, a field without default and value.
    """
    hints = get_type_hints(config)
    fields = {field.name: field for field in dataclasses.fields(config)}  # type: ignore[arg-type]
    stray = next((key for key in table if key not in fields), None)
    if stray is not None:
        raise ValueError(
            f"there is no setting {stray!r}: {suggestion(stray, fields)}There are {', '.join(fields)}"
        )
    for name, field in fields.items():
        required = (
            field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        )
        if required and name not in table:
            raise ValueError(f"the setting {name!r} has no default: give it with --set {name}=...")
    return config(**{key: convert(value, hints[key], key) for key, value in table.items()})


def to_table(config: Any) -> dict[str, Any]:
    """A Config as a table of plain values for a TOML file; None is written as ``"none"``, as on the
    command line.
    """
    return {field.name: _plain(getattr(config, field.name)) for field in dataclasses.fields(config)}


def _plain(value: Any) -> Any:
    if value is None:
        return "none"
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value


def convert(value: Any, annotation: Any, key: str) -> Any:
    """A value, given as text or as a Python value, as the type that a field's annotation asks for.

    Known are bool, int, float, str, Path (made absolute), Literal choices, tuples
    (comma-separated), and ``| None``.

    >>> convert("family,order", tuple[str, ...], "labels")
    ('family', 'order')
    >>> convert("none", float | None, "clip") is None
    True

    Raises:
        ValueError: the value does not fit; the sentence says what would.
    """
    try:
        return _convert(value, annotation)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(
            f"the setting {key!r} takes {_wanted(annotation)}, and {value!r} is not that"
        ) from None


def _convert(value: Any, annotation: Any) -> Any:
    origin = get_origin(annotation)
    if annotation is Any:
        return value
    if origin in (Union, types.UnionType):
        options = get_args(annotation)
        if types.NoneType in options and (
            value is None or (isinstance(value, str) and value.lower() == "none")
        ):
            return None
        # Text fits str always, so the narrower types come first.
        for option in sorted(
            (o for o in options if o is not types.NoneType), key=lambda o: o is str
        ):
            try:
                return _convert(value, option)
            except (TypeError, ValueError):
                continue
        raise ValueError
    if origin is Literal:
        for choice in get_args(annotation):
            if (type(choice) is type(value) and choice == value) or str(choice) == value:
                return choice
        raise ValueError
    if annotation is tuple or origin is tuple:
        return _convert_tuple(value, get_args(annotation))
    if annotation is bool:
        if isinstance(value, bool):
            return value
        if isinstance(value, str) and value.lower() in _TRUE | _FALSE:
            return value.lower() in _TRUE
        raise ValueError
    if annotation is int:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise ValueError
        try:
            return int(value) if not isinstance(value, float) else _whole(value)
        except ValueError:
            return _whole(float(value))  # 1e4
    if annotation is float:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise ValueError
        number = float(value)
        if math.isnan(number):
            raise ValueError
        return number
    if annotation is str:
        if not isinstance(value, str):
            raise ValueError
        return value
    if annotation is Path:
        return Path(value).expanduser().absolute()
    raise TypeError


def _whole(number: float) -> int:
    if number != int(number):
        raise ValueError
    return int(number)


def _convert_tuple(value: Any, types_: Sequence[Any]) -> tuple[Any, ...]:
    if isinstance(value, str):
        items: list[Any] = [item.strip() for item in value.split(",") if item.strip()]
    elif isinstance(value, tuple | list):
        items = list(value)
    else:
        items = [value]
    if not types_:
        types_ = (str, ...)
    if len(types_) == 2 and types_[1] is ...:
        return tuple(_convert(item, types_[0]) for item in items)
    if len(items) != len(types_):
        raise ValueError
    return tuple(_convert(item, type_) for item, type_ in zip(items, types_, strict=True))


def _wanted(annotation: Any) -> str:
    origin = get_origin(annotation)
    simple = {
        bool: "true or false",
        int: "a whole number",
        float: "a number",
        str: "text",
        Path: "a path",
    }
    if annotation in simple:
        return simple[annotation]
    if origin in (Union, types.UnionType):
        return " or ".join(
            "none" if o is types.NoneType else _wanted(o) for o in get_args(annotation)
        )
    if origin is Literal:
        return f"one of {', '.join(map(str, get_args(annotation)))}"
    if annotation is tuple or origin is tuple:
        parts = get_args(annotation) or (str, ...)
        plural = {
            bool: "true or false values",
            int: "whole numbers",
            float: "numbers",
            str: "words",
        }
        if len(parts) == 2 and parts[1] is ...:
            return f"{plural.get(parts[0], 'values')} separated by commas"
        return f"{len(parts)} values separated by commas ({', '.join(map(_wanted, parts))})"
    return f"{annotation}, a type that no setting can be given for"
