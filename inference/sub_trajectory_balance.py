"""Variant of Algorithms 1 to 6: sub-trajectory balance in the place of detailed balance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from plot_attractors.data import DataSet
from plot_attractors.gflownet import SubTrajectoryBalance
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.ranges import Range, setting
from plot_attractors.runs import registry
from plot_attractors.training import Schedule

detailed_balance_em = registry.load("inference", "detailed_balance_em")


@dataclass(frozen=True)
class Config(detailed_balance_em.Config):  # type: ignore[misc, name-defined]
    lam: Annotated[float, Range(0, 100)] = setting(0.9, "λ; 0: detailed balance")


PRESETS: dict[str, dict[str, Any]] = detailed_balance_em.PRESETS


class SubTrajectoryBalanceEM(detailed_balance_em.DetailedBalanceEM):  # type: ignore[misc, name-defined]
    """Algorithm 3 over all parts of a trajectory."""

    def balance_loss(self) -> SubTrajectoryBalance:
        step = self.model.forward_step, self.model.backward_step
        return SubTrajectoryBalance(*step, lam=self.config.lam)


def build(model: AttractorModel, data: DataSet, c: Config) -> Schedule:
    schedule: Schedule = SubTrajectoryBalanceEM(model, data, c).schedule()
    return schedule
