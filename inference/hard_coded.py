"""Nothing to fit: counts the sentences of a hard-coded language."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from plot_attractors.baselines import HardCoded
from plot_attractors.data import DataSet
from plot_attractors.training.em import USAGE_INPUTS, Inference, Phase, require_model, usage


@dataclass(frozen=True)
class Config:
    pass


PRESETS: dict[str, dict[str, Any]] = {"full": {}, "demo": {}, "paper": {}, "smoke": {}}


def build(model: HardCoded, data: DataSet, config: Config) -> NothingToFit:
    """A single update, which changes nothing."""
    return NothingToFit(require_model(model, HardCoded), data, [Phase("count", 0, 1)])


class NothingToFit(Inference):
    """A run like others, so that the same analyses and reports are made of it."""

    def count(self) -> dict[str, float]:
        """No update."""
        return {}

    @torch.no_grad()
    def summary(self) -> dict[str, float]:
        """Sentences and tokens in use among 4096 inputs."""
        x = self.data.batch(USAGE_INPUTS).x.to(self.model.sentences.device)
        return usage(self.model.language, self.model.describe(x).s[:, 0])
