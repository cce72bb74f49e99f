"""Settings of a run: a preset and ``key=value`` overrides merged into the Configs of two programs.

A field of a Config whose type is itself a dataclass is a group. Its settings have dotted names,
``sleep.steps``, and stand in a sub-table of config.toml.
"""

from __future__ import annotations

import dataclasses
import math
import types
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from plot_attractors.ranges import Features, Width, range_of
from plot_attractors.runs.registry import suggestion

__all__ = [
    "Setting", "as_text", "convert", "fields", "flatten", "from_table", "presets_of",
    "refuse_ignored", "refuse_inert", "resolve", "to_table", "wanted",
]  # fmt: skip

T = TypeVar("T")


class Setting(NamedTuple):
    """A setting: the annotation of its type, its default, MISSING where it has none, and what it
    means.
    """

    type: Any
    default: Any
    meaning: str


def flatten(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """A nested table with dotted names.

    >>> flatten({"depth": 4, "sleep": {"steps": 8}})
    {'depth': 4, 'sleep.steps': 8}
    """
    flat: dict[str, Any] = {}
    for key, value in table.items():
        name = f"{prefix}{key}"
        flat |= flatten(value, f"{name}.") if isinstance(value, Mapping) else {name: value}
    return flat


def fields(config: type) -> dict[str, Setting]:
    """All settings of a Config dataclass by dotted names, those of its groups included: a group is
    a field whose type is a dataclass.
    """
    return dict(_walk(config, "", dataclasses.MISSING))


def _walk(part: Any, prefix: str, instance: Any) -> Iterator[tuple[str, Setting]]:
    hints = get_type_hints(part, include_extras=True)
    for field in dataclasses.fields(part):
        default = field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        if instance is not dataclasses.MISSING:
            default = getattr(instance, field.name)
        name, hint = f"{prefix}{field.name}", hints[field.name]
        if dataclasses.is_dataclass(hint):
            yield from _walk(hint, f"{name}.", default)
        else:
            yield name, Setting(hint, default, _meaning(part, field.name))


def _meaning(part: Any, name: str) -> str:
    """Of a class that sets another default alone, what the class before it says."""
    known = (getattr(of, "__dataclass_fields__", {}).get(name) for of in part.__mro__)
    return next((of.metadata["meaning"] for of in known if of and "meaning" in of.metadata), "")


def presets_of(program: Any, kind: str) -> dict[str, dict[str, Any]]:
    """Presets of a program: its ``KIND/NAME``, for data of this kind, come over its NAME."""
    own = {name: flatten(values) for name, values in program.PRESETS.items()}
    names = dict.fromkeys(name.removeprefix(f"{kind}/") for name in own)
    return {n: own.get(n, {}) | own.get(f"{kind}/{n}", {}) for n in names if "/" not in n}


def resolve(
    configs: Mapping[str, type],
    presets: Mapping[str, Mapping[str, Mapping[str, Any]]],
    preset: str,
    settings: Mapping[str, Any],
) -> dict[str, Any]:
    """Configs of a run: the defaults, then the preset, then the settings.

    The parts are ``data``, ``model`` and ``inference``, each with a Config dataclass. ``full`` is
    always among the presets; a part without the preset keeps its defaults, and a preset may set
    what another part has. Settings have dotted names or are nested, as text or as Python values.

    Raises ValueError for an unknown preset, key or value, or a name that two parts share.
    """
    named = Counter(field.name for c in configs.values() for field in dataclasses.fields(c))
    if twice := [name for name, count in named.items() if count > 1]:
        raise ValueError(f"two programs have a setting {twice[0]!r}: rename one of them")
    available = dict.fromkeys(["full", *(name for part in presets.values() for name in part)])
    if preset not in available:
        raise ValueError(
            f"there is no preset {preset!r}: {suggestion(preset, available)}"
            f"These programs have {', '.join(available)}"
        )
    known = {part: fields(config) for part, config in configs.items()}
    values = dict[str, Any]()
    for part in configs:
        values |= flatten(presets[part].get(preset, {}))
    values |= flatten(settings)
    listed = "; ".join(f"{', '.join(names) or 'none'} ({part})" for part, names in known.items())
    _require_known(values, [name for names in known.values() for name in names], listed)
    return {
        part: from_table(config, {n: v for n, v in values.items() if n in known[part]})
        for part, config in configs.items()
    }


def _require_known(values: Iterable[str], known: Sequence[str], listed: str) -> None:
    if unknown := [name for name in values if name not in known]:
        hint, many = suggestion(unknown[0], known), "plot-attractors settings MODEL lists them"
        every = f"There are {listed}" if len(listed) < 200 else many
        raise ValueError(f"there is no setting {unknown[0]!r}: {hint}{every}")


def refuse_inert(configs: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Refuse a setting that was set to another value than its default and has no effect.

    A Config may define ``inert()``, that of an inference program ``inert(model)``, of the model's
    Config: by dotted names, why settings have no effect beside the other values. `settings` are
    without presets.
    """
    why: dict[str, str] = {}
    for part, config in configs.items():
        if hasattr(config, "inert"):
            why |= config.inert(configs["model"]) if part == "inference" else config.inert()
    for name in [name for name in flatten(settings) if name in why]:
        config = next(c for c in configs.values() if hasattr(c, name.partition(".")[0]))
        if attrgetter(name)(config) != fields(type(config))[name].default:
            raise ValueError(f"the setting {name!r} has no effect here: {why[name]}")


def refuse_ignored(build: Callable[[Any], Any], config: Any, changed: Iterable[str]) -> None:
    """Refuse a width that was changed, and changes no shape of a model's parameters, as where the
    part that it belongs to was replaced. `build` makes the model of a Config.
    """

    def shapes(table: Mapping[str, Any]) -> list[Any]:
        model = build(from_table(type(config), table))
        return [(name, value.shape) for name, value in model.state_dict().items()]

    table = flatten(to_table(config))
    for name, setting in fields(type(config)).items():
        if name in changed and setting.type in (Width, Features) and table[name] != setting.default:
            try:
                other = shapes(table | {name: setting.default})
            except ValueError:  # which the other settings rule out
                continue
            if other == shapes(table):
                raise ValueError(f"the setting {name!r} has no effect here: no parameter needs it")


def from_table(config: type[T], table: Mapping[str, Any]) -> T:
    """A Config from a table, nested or with dotted names; what it leaves out keeps its default.

    Raises ValueError for an unknown key, a value of another type, or a field that has none.
    """
    given, known = flatten(table), fields(config)
    _require_known(given, [*known], ", ".join(known))
    values = {
        name: convert(given[name], setting.type, name) if name in given else setting.default
        for name, setting in known.items()
    }
    if lacking := [name for name, value in values.items() if value is dataclasses.MISSING]:
        name = lacking[0]
        raise ValueError(f"the setting {name!r} has no default: give it with --set {name}=...")

    def build(part: Any, prefix: str) -> Any:
        hints = get_type_hints(part)
        names = {field.name: f"{prefix}{field.name}" for field in dataclasses.fields(part)}
        return part(**{
            own: values[name] if name in values else build(hints[own], f"{name}.")
            for own, name in names.items()
        })  # fmt: skip

    built: T = build(config, "")
    return built


def as_text(value: Any) -> str:
    """A value of a setting as it is given to a command.

    >>> as_text((1, 2)), as_text(True), as_text(0.5), as_text(None)
    ('1,2', 'true', '0.5', 'none')
    """
    if isinstance(value, tuple | list):
        return ",".join(map(as_text, value))
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def to_table(config: Any) -> dict[str, Any]:
    """A Config as a nested table for a TOML file; None is written as ``"none"``."""
    return {field.name: _plain(getattr(config, field.name)) for field in dataclasses.fields(config)}


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return to_table(value)
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return "none" if value is None else str(value) if isinstance(value, Path) else value


def convert(value: Any, annotation: Any, key: str) -> Any:
    """A value, given as text or as a Python value, as the type that a field's annotation asks for.

    Known are bool, int, float, str, Path (made absolute), Literal choices, tuples
    (comma-separated), ``| None``, and numbers with a range (`plot_attractors.ranges`).

    >>> convert("family,order", tuple[str, ...], "labels")
    ('family', 'order')
    >>> convert("none", float | None, "clip") is None
    True

    Raises ValueError where the value does not fit; the sentence says what would.
    """
    try:
        return _convert(value, annotation)
    except (TypeError, ValueError, KeyError):
        raise ValueError(
            f"the setting {key!r} takes {wanted(annotation)}, and {value!r} is not that"
        ) from None


def _convert(value: Any, annotation: Any) -> Any:
    plain, within = range_of(annotation)
    origin, options = get_origin(plain), get_args(plain)
    if origin in (Union, types.UnionType):
        # any text fits str
        for option in sorted(options, key=lambda one: (one is not types.NoneType, one is str)):
            with suppress(TypeError, ValueError, KeyError):
                return _convert(value, option)
        raise ValueError
    if origin is Literal:
        return {str(choice): choice for choice in options}[str(value)]
    if origin is tuple:
        items = value if isinstance(value, list | tuple) else [value]
        if isinstance(value, str):
            items = [item.strip() for item in value.split(",") if item.strip()]
        kinds = options[:1] * len(items) if options[-1] is ... else options
        return tuple(_convert(item, kind) for item, kind in zip(items, kinds, strict=True))
    converted = _PLAIN[plain](value)
    if within is not None and converted not in within:
        raise ValueError
    return converted


def _none(value: Any) -> None:
    if str(value).lower() != "none":
        raise ValueError


def _number(value: Any) -> float:
    if isinstance(value, bool) or math.isnan(number := float(value)):
        raise ValueError
    return number


def _whole(value: Any) -> int:
    """Also of text such as 1e4."""
    number = _number(value)
    if not number.is_integer():
        raise ValueError
    return int(number) if abs(number) < 2**53 else int(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value


_TRUTH = {"true": True, "false": False}
_PLAIN: dict[Any, Callable[[Any], Any]] = {
    bool: lambda value: _TRUTH[str(value).lower()],
    int: _whole,
    float: _number,
    str: _text,
    Path: lambda value: Path(value).expanduser().absolute(),
    types.NoneType: _none,
}
_WANTED: dict[type, str] = {
    bool: "true or false", int: "a whole number", float: "a number", str: "text", Path: "a path",
    types.NoneType: "none",
}  # fmt: skip


def wanted(annotation: Any) -> str:
    """What a field takes, in words, such as "a whole number from 1 to 16,384"."""
    plain, within = range_of(annotation)
    origin, options = get_origin(plain), get_args(plain)
    if origin in (Union, types.UnionType):
        return " or ".join(map(wanted, options))
    if origin is Literal:
        return f"one of {', '.join(map(str, options))}"
    if origin is tuple and options[-1] is ...:
        return f"values separated by commas, each {wanted(options[0])}"
    if origin is tuple:
        return f"{len(options)} values separated by commas ({', '.join(map(wanted, options))})"
    return _WANTED[plain] if within is None else f"{_WANTED[plain]} {within}"
