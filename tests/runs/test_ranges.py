"""Every number that can be set has a range beside its type; what is outside of it is refused."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, get_args

import pytest

from plot_attractors.ranges import Range, range_of
from plot_attractors.runs import registry
from plot_attractors.runs.settings import as_text, fields, from_table, wanted

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


def test_ranges_leave_room_for_what_is_sensible() -> None:
    assert sum(len(list(numbers(registry.load(*of).Config))) for of in CONFIGS) > 118
    config = registry.load("models", "algorithms").Config
    result = from_table(config, {"epsilon": 1e-3, "language.length_cost": -1})
    assert (result.epsilon, result.language.length_cost) == (1e-3, -1)


def test_settings_are_described() -> None:
    of = fields(registry.load("models", "attractor").Config)
    assert wanted(of["latent"].type) == "a whole number from 1 to 16,384"
    assert (of["latent"].meaning, of["latent"].default) == ("dimensions d of the latent space", 8)
    assert of["units"].meaning.startswith("of encoder, decoder")
    assert (as_text(of["language.groups"].default), of["reward.beta"].default) == ("", 1.0)
    of = fields(registry.load("inference", "wake_sleep_em").Config)
    assert of["vocabulary"].meaning.startswith("updates of tokens alone")
