"""Nothing to fit: counts what a hard-coded language says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from plot_attractors.baselines import HardCoded
from plot_attractors.data import DataSet
from plot_attractors.em import Inference, Phase, in_use_threshold, require_model


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
        s = self.model.describe(self.data.batch(4096).x.to(self.model.sentences.device)).s[:, 0]
        _, counts = s.unique(dim=0, return_counts=True)
        return {
            "sentences_in_use": float((counts / len(s) > in_use_threshold(self.model.language.count)).sum()),
            "tokens_in_use": float((s.sum(0) > 0).sum()),
        }
