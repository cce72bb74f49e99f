"""Variant of Algorithms 1 to 6: an M-step also learns from sentences with tokens deleted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from plot_attractors.data import DataSet
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.runs import registry
from plot_attractors.training import Schedule

detailed_balance_em = registry.load("inference", "detailed_balance_em")


@dataclass(frozen=True)
class Config(detailed_balance_em.Config):  # type: ignore[misc, name-defined]
    within: ClassVar[str] = "box"  # as the authors' code


PRESETS: dict[str, dict[str, Any]] = detailed_balance_em.PRESETS


class DeletionChainsEM(detailed_balance_em.DetailedBalanceEM):  # type: ignore[misc, name-defined]
    """Every sentence on a random chain of deletions, down to the shortest, is paired with x."""

    def m_step_pairs(self, x: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
        language, pairs = self.model.language, [(x, s)]
        for _ in range(language.longest - language.min_length):
            x, s = pairs[-1]
            keep = language.length(s) > language.min_length
            deleted = torch.rand_like(s).masked_fill(s == 0, -1).argmax(-1)
            pairs.append((x[keep], language.without(s[keep], deleted[keep])))
        all_x, all_s = zip(*pairs, strict=True)
        return torch.cat(all_x), torch.cat(all_s)


def build(model: AttractorModel, data: DataSet, c: Any) -> Schedule:
    schedule: Schedule = DeletionChainsEM(model, data, c).schedule()
    return schedule
