"""Variant of Algorithms 1 to 6: sub-trajectory balance in the place of detailed balance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from plot_attractors.data import DataSet
from plot_attractors.gflownet import SubTrajectoryBalance
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.ranges import Range
from plot_attractors.runs import registry
from plot_attractors.training import Schedule

detailed_balance_em = registry.load("inference", "detailed_balance_em")


@dataclass(frozen=True)
class Config(detailed_balance_em.Config):  # type: ignore[misc, name-defined]
    lam: Annotated[float, Range(0, 100)] = 0.9  # λ; 0: detailed balance


PRESETS: dict[str, dict[str, Any]] = detailed_balance_em.PRESETS


def build(model: AttractorModel, data: DataSet, c: Config) -> Schedule:
    """Algorithm 3 over all parts of a trajectory."""
    balance = SubTrajectoryBalance(model.forward_step, model.backward_step, lam=c.lam)
    schedule: Schedule = detailed_balance_em.build(model, data, c, balance=balance)
    return schedule
