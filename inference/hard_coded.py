"""Nothing to fit: counts the sentences of a hard-coded language."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from plot_attractors.baselines import HardCoded
from plot_attractors.data import DataSet
from plot_attractors.language import USAGE_INPUTS, usage
from plot_attractors.training import Phase, Schedule, input_source, require_model


@dataclass(frozen=True)
class Config:
    pass


PRESETS: dict[str, dict[str, Any]] = {"full": {}, "demo": {}, "smoke": {}}


def build(model: HardCoded, data: DataSet, config: Config) -> Schedule:
    """One update, which changes nothing: a run like others, for the same analyses and reports."""
    inputs = input_source(data, require_model(model, HardCoded))

    @torch.no_grad()
    def summary() -> dict[str, float]:
        """Sentences and tokens in use among 4096 inputs."""
        return usage(model.language, model.describe(inputs(USAGE_INPUTS)).s[:, 0])

    return Schedule(model, [Phase("count", 0, 1, lambda _: {})], {}, summary)
