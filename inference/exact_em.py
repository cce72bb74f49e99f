"""Expectation maximisation with the exact posterior over listed sentences and no dynamics: the
ceiling.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from plot_attractors.data import DataSet
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.training.em import (
    AttractorEM,
    MStepConfig,
    Phase,
    require_listable,
    require_model,
)


@dataclass(frozen=True)
class Config(MStepConfig):
    pretrain: int = 1500  # updates of the VAE alone
    m_updates: int = 7500  # M-step updates on the exact posterior


PRESETS: dict[str, dict[str, Any]] = {
    "full": {},
    "demo": {"pretrain": 1000, "m_updates": 3000},
    "smoke": {"pretrain": 20, "m_updates": 40, "batch": 16},
}


def build(model: AttractorModel, data: DataSet, config: Config) -> AttractorEM:
    """E-step: P(s | x) ∝ R(s; x) by listing. M-step: Algorithm *M-step Inner Loop*."""
    if require_model(model, AttractorModel).reward_exponent != 1:
        raise ValueError(
            "this inference program has no E-steps for reward_exponent to act on: leave it at 1"
        )
    schedule = [Phase("pretrain", 0, config.pretrain), Phase("exact_m_step", 0, config.m_updates)]
    return AttractorEM(require_listable(model), data, schedule, config)
