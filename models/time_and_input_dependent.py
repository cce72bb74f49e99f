"""Variant: forward dynamics that see time and the input, as the detailed-balance equation has
them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from plot_attractors.runs import registry

attractor = registry.load("models", "attractor")


@dataclass(frozen=True)
class DynamicsConfig(attractor.DynamicsConfig):  # type: ignore[misc, name-defined]
    sees: tuple[str, ...] = ("time", "context")  # Eq. detailed_balance instead of Eq. traj_loss


@dataclass(frozen=True)
class Config(attractor.Config):  # type: ignore[misc, name-defined]
    dynamics: DynamicsConfig = field(default_factory=DynamicsConfig)


PRESETS: dict[str, dict[str, Any]] = attractor.PRESETS
language, build = attractor.language, attractor.build
