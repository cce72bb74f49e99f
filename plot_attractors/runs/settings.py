"""Settings of a run: a preset and ``key=value`` overrides merged into the Configs of two programs.

A field of a Config whose type is itself a dataclass is a group. Its settings have dotted names,
``sleep.steps``, and stand in a sub-table of config.toml.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import types
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from plot_attractors.ranges import Range, range_of
from plot_attractors.runs.registry import suggestion

__all__ = [
    "as_text", "convert", "default_of", "flatten", "from_table", "leaves", "parse", "presets_of",
    "refuse_inert", "resolve", "to_table", "wanted",
]  # fmt: skip

PRESET_NAMES = ("full", "demo", "smoke")  # shown first where presets are listed

_TOKENS = ("language.groups=100", "groups=100")  # one group of a hundred
ELSEWHERE = {  # words of neighbouring tools, and the settings that are nearest
    **dict.fromkeys(("vocab_size", "codebook_size", "num_embeddings", "num_codes"), _TOKENS),
    **dict.fromkeys(("max_len", "seq_len"), ("language.max_length", "max_length")),
    **dict.fromkeys(("batch_size", "bs"), ("batch",)),
    "learning_rate": ("lr",),
    **dict.fromkeys(("epochs", "n_steps", "max_steps"), ("updates", "e_updates")),
    **dict.fromkeys(("latent_dim", "z_dim", "embedding_dim"), ("latent",)),
    **dict.fromkeys(("hidden_size", "hidden_dim"), ("units",)),
}

T = TypeVar("T")

_TRUE = {"true", "yes", "on", "1"}
_FALSE = {"false", "no", "off", "0"}


def parse(pairs: Iterable[str]) -> dict[str, str]:
    """Split ``key=value`` strings; the last one wins.

    >>> parse(["depth=4", "sleep.steps=8"])
    {'depth': '4', 'sleep.steps': '8'}
    """
    settings: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise ValueError(f"a setting is written key=value, and {pair!r} is not")
        settings[key.strip()] = value.strip()
    return settings


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


def leaves(config: Any) -> list[str]:
    """Dotted names of all settings of a Config dataclass, the fields of its groups included: a
    group is a field whose type is a dataclass.
    """
    hints, names = get_type_hints(config), list[str]()
    for field in dataclasses.fields(config):
        hint = hints[field.name]
        inside = leaves(hint) if dataclasses.is_dataclass(hint) else None
        names += [field.name] if inside is None else [f"{field.name}.{name}" for name in inside]
    return names


def presets_of(program: Any, kind: str) -> dict[str, dict[str, Any]]:
    """Presets of a program: its ``KIND/NAME``, for data of this kind, come over its NAME."""
    special = {n: values for n, values in program.PRESETS.items() if "/" in n}
    over = {n.removeprefix(f"{kind}/"): v for n, v in special.items() if n.startswith(f"{kind}/")}
    own = {n: values for n, values in program.PRESETS.items() if n not in special}
    return {
        preset: flatten(own.get(preset, {})) | flatten(over.get(preset, {}))
        for preset in [*own, *(preset for preset in over if preset not in own)]
    }


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
    taken: set[str] = set()
    for config in configs.values():
        for field in dataclasses.fields(config):
            if field.name in taken:
                raise ValueError(f"two programs have a setting {field.name!r}: rename one of them")
            taken.add(field.name)
    names = dict.fromkeys(name for part in presets.values() for name in part) | {"full": None}
    available = sorted(names, key=lambda n: (*PRESET_NAMES, n).index(n))
    if preset not in available:
        raise ValueError(
            f"there is no preset {preset!r}: {suggestion(preset, available)}"
            f"These programs have {', '.join(available)}"
        )
    known = {part: leaves(config) for part, config in configs.items()}
    given = flatten(settings)
    listed = "; ".join(f"{', '.join(names) or 'none'} ({part})" for part, names in known.items())
    _require_known(given, [name for names in known.values() for name in names], listed)
    values = dict[str, Any]()
    for part in configs:
        own = flatten(presets[part].get(preset, {}))
        if stray := next((n for n in own if not any(n in names for names in known.values())), None):
            raise ValueError(
                f"the preset {preset!r} of the {part} program sets {stray!r}, which no Config has"
            )
        values |= own
    values |= given
    return {
        part: from_table(config, {n: v for n, v in values.items() if n in known[part]})
        for part, config in configs.items()
    }


def _require_known(values: Iterable[str], known: Sequence[str], listed: str) -> None:
    for name in values:
        if name in known:
            continue
        if members := [other for other in known if other.startswith(f"{name}.")]:
            raise ValueError(f"{name!r} is a group of settings: set one of {', '.join(members)}")
        words = ELSEWHERE.get(name.rpartition(".")[2], ())
        near = [other for other in words if other.partition("=")[0] in known]
        meant = f"here it is {' or '.join(near)}. " if near else ""
        raise ValueError(
            f"there is no setting {name!r}: {meant or suggestion(name, known)}There are {listed}"
        )


def refuse_inert(configs: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Refuse a setting that was set to another value than its default and has no effect.

    A Config may define ``inert()``, an inference program's also ``inert(model)``, of the model's
    Config: by dotted names, why settings have no effect beside the other values. `settings` are
    without presets.
    """
    why: dict[str, str] = {}
    for config in configs.values():
        if (inert := getattr(config, "inert", None)) is not None:
            takes_model = bool(inspect.signature(inert).parameters)
            why |= inert(configs["model"]) if takes_model else inert()
    for name in flatten(settings):
        if name not in why:
            continue
        config = next(c for c in configs.values() if hasattr(c, name.partition(".")[0]))
        if attrgetter(name)(config) != default_of(type(config), name):
            raise ValueError(f"the setting {name!r} has no effect here: {why[name]}")


def default_of(config: type, name: str) -> Any:
    """The default of a setting, by its dotted name; MISSING where it has none."""
    head, _, rest = name.partition(".")
    field = config.__dataclass_fields__[head]  # type: ignore[attr-defined]
    factory = field.default_factory
    default = field.default if factory is dataclasses.MISSING else factory()
    if not rest:
        return default
    if default is dataclasses.MISSING:
        return default_of(get_type_hints(config)[head], rest)
    return attrgetter(rest)(default)


def from_table(config: type[T], table: Mapping[str, Any]) -> T:
    """A Config from a table, nested or with dotted names; what it leaves out keeps its default.

    Raises ValueError for an unknown key, a value of another type, or a field that has none.
    """
    values, known = flatten(table), leaves(config)
    _require_known(values, known, ", ".join(known))

    def build(part: Any, prefix: str) -> Any:
        hints, arguments = get_type_hints(part, include_extras=True), dict[str, Any]()
        for field in dataclasses.fields(part):
            name, hint = prefix + field.name, hints[field.name]
            if dataclasses.is_dataclass(hint):
                arguments[field.name] = build(hint, f"{name}.")
            elif name in values:
                arguments[field.name] = convert(values[name], hint, name)
            else:
                arguments[field.name] = default_of(config, name)
                if arguments[field.name] is dataclasses.MISSING:
                    raise ValueError(
                        f"the setting {name!r} has no default: give it with --set {name}=..."
                    )
        return part(**arguments)

    built: T = build(config, "")
    return built


def as_text(value: Any) -> str:
    """A value of a settings file as it is given to a command.

    >>> as_text([1, 2]), as_text(True), as_text(0.5)
    ('1,2', 'true', '0.5')
    """
    if isinstance(value, list):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


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
    except (TypeError, ValueError, OverflowError):
        raise ValueError(
            f"the setting {key!r} takes {wanted(annotation)}, and {value!r} is not that"
        ) from None


def _convert(value: Any, annotation: Any) -> Any:
    annotation, within = range_of(annotation)
    if within is not None:
        number = _convert(value, annotation)
        if number not in within:
            raise ValueError
        return number
    origin, options = get_origin(annotation), get_args(annotation)
    text = value.lower() if isinstance(value, str) else None
    if annotation is Any:
        return value
    if origin in (Union, types.UnionType):
        if types.NoneType in options and (value is None or text == "none"):
            return None
        # text fits str always, so the narrower types come first
        named = [option for option in options if option is not types.NoneType]
        for option in sorted(named, key=lambda option: option is str):
            try:
                return _convert(value, option)
            except (TypeError, ValueError):
                continue
    elif origin is Literal:
        for choice in options:
            if (type(choice) is type(value) and choice == value) or str(choice) == value:
                return choice
    elif annotation is tuple or origin is tuple:
        return _convert_tuple(value, options or (str, ...))
    elif annotation is bool:
        if isinstance(value, bool):
            return value
        if text in _TRUE | _FALSE:
            return text in _TRUE
    elif annotation in (int, float):
        if isinstance(value, int | float | str) and not isinstance(value, bool):
            number = float(value)
            if annotation is float and not math.isnan(number):
                return number
            whole = annotation is int and number.is_integer()  # also "1e4"
            if whole and (exact := Fraction(value)).denominator == 1:
                return int(exact)
    elif annotation is str and isinstance(value, str):
        return value
    elif annotation is Path:
        return Path(value).expanduser().absolute()
    raise ValueError


def _convert_tuple(value: Any, kinds: Sequence[Any]) -> tuple[Any, ...]:
    if isinstance(value, str):
        value = [item.strip() for item in value.split(",") if item.strip()]
    items = list(value) if isinstance(value, tuple | list) else [value]
    if len(kinds) == 2 and kinds[1] is ...:
        kinds = [kinds[0]] * len(items)
    return tuple(_convert(item, kind) for item, kind in zip(items, kinds, strict=True))


_WANTED: dict[type, str] = {
    bool: "true or false", int: "a whole number", float: "a number", str: "text", Path: "a path",
}  # fmt: skip


def wanted(annotation: Any) -> str:
    """What a field takes, in words, such as "a whole number from 1 to 16,384"."""
    annotation, within = range_of(annotation)
    if within is not None:
        return f"{wanted(annotation)}{' ' if isinstance(within, Range) else ', '}{within}"
    origin, options = get_origin(annotation), get_args(annotation)
    if annotation in _WANTED:
        return _WANTED[annotation]
    if origin in (Union, types.UnionType):
        return " or ".join("none" if o is types.NoneType else wanted(o) for o in options)
    if origin is Literal:
        return f"one of {', '.join(map(str, options))}"
    if annotation is tuple or origin is tuple:
        kinds = options or (str, ...)
        if kinds[-1] is ...:
            return f"values separated by commas, each {wanted(kinds[0])}"
        return f"{len(kinds)} values separated by commas ({', '.join(map(wanted, kinds))})"
    return f"{annotation}, a type that no setting can be given for"
