"""Variant: a Gricean prior P(s) that prefers short sentences."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from plot_attractors.ranges import Cost
from plot_attractors.runs import registry

attractor = registry.load("models", "attractor")


@dataclass(frozen=True)
class LanguageConfig(attractor.LanguageConfig):  # type: ignore[misc, name-defined]
    length_cost: Cost = 0.5  # nats a token costs in log P(s)


@dataclass(frozen=True)
class Config(attractor.Config):  # type: ignore[misc, name-defined]
    language: LanguageConfig = field(default_factory=LanguageConfig)


PRESETS: dict[str, dict[str, Any]] = attractor.PRESETS
language, build = attractor.language, attractor.build
