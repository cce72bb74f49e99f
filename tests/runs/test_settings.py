"""Settings: conversion by annotation, presets, and sentences that help."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, get_args

import pytest
import tomlkit
from hypothesis import given, settings
from hypothesis import strategies as st

from plot_attractors.cli.shared import parse
from plot_attractors.ranges import Range, range_of
from plot_attractors.runs import registry
from plot_attractors.runs.settings import convert, fields, from_table, presets_of, resolve, to_table


@dataclass(frozen=True)
class Model:
    depth: int = 6
    noise: float = 0.5
    bias: bool = True
    kind: Literal["bag", "ordered"] = "bag"
    labels: tuple[str, ...] = ()
    sizes: tuple[int, int] = (2, 3)
    clip: float | None = None
    name: str = "x"


@dataclass(frozen=True)
class Sleep:
    steps: int = 4
    walk: float = 0.5


@dataclass(frozen=True)
class Inference:
    cycles: int = 3
    sleep: Sleep = Sleep(steps=6)


def both(preset: str = "full", settings: dict[str, Any] | None = None) -> tuple[Model, Inference]:
    presets: dict[str, Any] = {
        "model": {"full": {}, "smoke": {"depth": 2}},
        "inference": {"demo": {"cycles": 1, "sleep.steps": 2}, "nested": {"sleep": {"steps": 3}}},
    }
    resolved = resolve({"model": Model, "inference": Inference}, presets, preset, settings or {})
    return resolved["model"], resolved["inference"]


@pytest.mark.parametrize(
    ("text", "annotation", "value"),
    [
        ("1e4", int, 10000),
        ("1e-3", float, 0.001),
        ("TRUE", bool, True),
        ("ordered", Literal["bag", "ordered"], "ordered"),
        ("a, b,", tuple[str, ...], ("a", "b")),
        ("", tuple[str, ...], ()),
        ("4,5", tuple[int, int], (4, 5)),
        ("none", float | None, None),
        ("7", int | str, 7),
        ("/hbv", Literal["hbv"] | Path | None, Path("/hbv")),
    ],
)
def test_text_becomes_the_annotated_type(text: str, annotation: Any, value: Any) -> None:
    converted = convert(text, annotation, "key")
    assert converted == value
    assert type(converted) is type(value)


@pytest.mark.parametrize(
    ("value", "annotation", "wanted"),
    [
        ("x", int, "a whole number"),
        ("1.5", int, "a whole number"),
        ("1e999999999", int, "a whole number"),
        (True, int, "a whole number"),
        ("nan", float, "a number"),
        ("2", bool, "true or false"),
        ("set", Literal["bag", "ordered"], "one of bag, ordered"),
        ("1,x", tuple[int, ...], "values separated by commas, each a whole number"),
        ("1", tuple[int, int], "2 values separated by commas"),
        ("x", float | None, "a number or none"),
        (3, str, "text"),
    ],
)
def test_a_value_that_does_not_fit_is_told_what_would(
    value: Any, annotation: Any, wanted: str
) -> None:
    with pytest.raises(
        ValueError, match=f"^the setting 'key' takes {wanted}.*, and .* is not that$"
    ):
        convert(value, annotation, "key")


def test_settings_come_over_the_preset_and_that_over_the_defaults() -> None:
    model, inference = both("smoke", {"noise": "0.25"})
    assert (model.depth, model.noise, inference.cycles) == (2, 0.25, 3)
    assert both("smoke", {"depth": "5"})[0].depth == 5
    assert both("full") == (Model(), Inference())
    assert both("demo")[1] == Inference(1, Sleep(2, 0.5))
    assert both("nested", {"sleep.walk": "1"})[1].sleep == Sleep(3, 1.0)
    assert both("demo", {"sleep": {"steps": 9}})[1].sleep.steps == 9


def test_what_a_program_presets_for_a_kind_of_data_comes_over_its_own() -> None:
    own = {"full": {"cycles": 1, "sleep.steps": 5}}
    special = {"tree/full": {"cycles": 2, "sleep": {"walk": 1}}, "tree/own": {}, "a/full": {}}
    program = SimpleNamespace(PRESETS=own | special)
    merged = {"cycles": 2, "sleep.steps": 5, "sleep.walk": 1}
    assert presets_of(program, "tree") == {"full": merged, "own": {}}
    assert presets_of(program, "other") == own


def test_a_preset_may_set_what_another_part_has() -> None:
    presets: dict[str, Any] = {"model": {"full": {"cycles": 7}}, "inference": {}}
    parts = {"model": Model, "inference": Inference}
    for own, cycles in (({}, 7), ({"full": {"cycles": 3}}, 3)):
        resolved = resolve(parts, presets | {"inference": own}, "full", {})
        assert resolved["inference"].cycles == cycles


@pytest.mark.parametrize(
    ("preset", "settings", "sentence"),
    [
        ("full", {"dpeth": "3"}, "did you mean 'depth'"),
        ("smok", {}, "did you mean 'smoke'.*full, smoke, demo, nested"),
        ("full", {"walk": "3"}, "no setting 'walk': did you mean 'sleep.walk'"),
        ("full", {"sleep.steps": "x"}, "'sleep.steps' takes a whole number, and 'x' is not that"),
    ],
)
def test_unknown_names_are_answered_with_close_ones(
    preset: str, settings: dict[str, str], sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        both(preset, settings)


def test_mistakes_of_programs_and_of_pairs_are_refused() -> None:
    with pytest.raises(ValueError, match="two programs have a setting 'depth'"):
        resolve({"model": Model, "inference": Model}, {"model": {}, "inference": {}}, "full", {})
    with pytest.raises(ValueError, match="there is no setting 'deep'"):
        resolve({"model": Model}, {"model": {"smoke": {"deep": 1}}}, "smoke", {})
    with pytest.raises(ValueError, match="key=value, and 'depth' is not"):
        parse(["depth"])


NUMBERS = st.floats(allow_nan=False)


@given(st.builds(Model, st.integers(-(10**9), 10**9), NUMBERS, clip=st.none() | NUMBERS,
                 labels=..., name=..., bias=..., kind=..., sizes=...))  # fmt: skip
@settings(derandomize=True, deadline=None, max_examples=50)
def test_a_config_survives_its_file(config: Model) -> None:
    inference = Inference(sleep=Sleep(walk=config.noise))
    text = tomlkit.dumps({"model": to_table(config), "inference": to_table(inference)})
    read = tomlkit.parse(text).unwrap()
    assert from_table(Model, read["model"]) == config
    assert from_table(Inference, read["inference"]) == inference


# The settings of all programs.

CONFIGS = [(kind, name) for kind in registry.KINDS for name in registry.names(kind)]


def numbers(config: type) -> Iterator[tuple[str, Any, Range | None]]:
    """Dotted names, types and ranges of all numbers that a Config holds, one by one or in tuples,
    and of its groups.
    """
    for name, setting in fields(config).items():
        for option in (setting.type, *get_args(setting.type)):
            plain, within = range_of(option)
            if plain in (int, float) and (within or range_of(setting.type)[1] is None):
                yield name, plain, within
                break


def outside(kind: type, within: Range) -> list[str]:
    """Texts of numbers just outside, and far outside."""
    step = 1 if kind is int else 0.5
    wrong = [within.low - step, within.low - 1e12, within.high + step, within.high + 1e15]
    wrong += [within.low] if within.above else []
    return [str(n) if kind is float else f"{n:.0f}" for n in wrong if math.isfinite(n)]


@pytest.mark.parametrize(("kind", "name"), CONFIGS)
def test_numbers_outside_of_their_range_are_refused_by_name(kind: str, name: str) -> None:
    config = registry.load(kind, name).Config
    for field, plain, within in numbers(config):
        assert within is not None, f"{name} says nothing of what {field} may be"
        for text in outside(plain, within):
            with pytest.raises(ValueError, match=rf"setting '{field}' takes .* {within}") as result:
                from_table(config, {field: text})
            assert "\n" not in str(result.value)
