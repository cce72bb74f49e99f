"""Variant: ordered sequences of up to 8 of 24 tokens, short ones preferred."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from plot_attractors.data import DataSet
from plot_attractors.language import Language
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.ranges import Cost, Size, setting
from plot_attractors.runs import registry

attractor = registry.load("models", "attractor")


@dataclass(frozen=True)
class LanguageConfig(attractor.LanguageConfig):  # type: ignore[misc, name-defined]
    groups: tuple[Size, ...] = setting((1,) * 24, "30 billion sequences")
    max_length: Size | None = 8
    length_cost: Cost = setting(0.5, "nats a token costs in log P(s)")


@dataclass(frozen=True)
class Config(attractor.Config):  # type: ignore[misc, name-defined]
    language: LanguageConfig = field(default_factory=LanguageConfig)


SMOKE = {**attractor.PRESETS["smoke"], "language.groups": (1,) * 6, "language.max_length": 3}
PRESETS: dict[str, dict[str, Any]] = {**attractor.PRESETS, "smoke": SMOKE}


def language(config: Config, data: Any) -> Language:
    """Sentences have an order, and an end token."""
    return replace(attractor.language(config, data), ordered=True)


def build(config: Config, data: DataSet) -> AttractorModel:
    """The attractor model of another language."""
    model: AttractorModel = attractor.build(config, data, language(config, data))
    return model
