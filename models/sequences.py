"""Variant: ordered sequences of up to 8 of 24 tokens, short ones preferred."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from plot_attractors.data import DataSet
from plot_attractors.language import Language
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.ranges import Size
from plot_attractors.runs import registry

attractor = registry.load("models", "attractor")
length_prior = registry.load("models", "length_prior")


@dataclass(frozen=True)
class LanguageConfig(length_prior.LanguageConfig):  # type: ignore[misc, name-defined]
    groups: tuple[Size, ...] = (1,) * 24  # 30 billion sequences
    max_length: Size | None = 8


@dataclass(frozen=True)
class Config(length_prior.Config):  # type: ignore[misc, name-defined]
    language: LanguageConfig = field(default_factory=LanguageConfig)


SMOKE = {**length_prior.PRESETS["smoke"], "language.groups": (1,) * 6, "language.max_length": 3}
PRESETS: dict[str, dict[str, Any]] = {**length_prior.PRESETS, "smoke": SMOKE}


def language(config: Config, data: Any) -> Language:
    """Sentences have an order, and an end token."""
    return replace(attractor.language(config, data), ordered=True)


def build(config: Config, data: DataSet) -> AttractorModel:
    """The attractor model of another language."""
    model: AttractorModel = attractor.build(config, data, language(config, data))
    return model
