"""Variant: forward dynamics that see time and the input, as the detailed-balance equation has
them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from plot_attractors.runs import registry

hbv = registry.load("models", "hbv")


@dataclass(frozen=True)
class DynamicsConfig(hbv.DynamicsConfig):  # type: ignore[misc, name-defined]
    sees: tuple[str, ...] = ("time", "context")  # Eq. detailed_balance instead of Eq. traj_loss


@dataclass(frozen=True)
class Config(hbv.Config):  # type: ignore[misc, name-defined]
    dynamics: DynamicsConfig = field(default_factory=DynamicsConfig)


PRESETS: dict[str, dict[str, Any]] = hbv.PRESETS
load_data, build = hbv.load_data, hbv.build
