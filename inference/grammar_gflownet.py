"""A GFlowNet over the expressions of a grammar: a guide builds them rule by rule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from plot_attractors.data import DataSet
from plot_attractors.gflownet import TrajectoryBalance
from plot_attractors.language_of_thought import GrammarInference, GrammarModel
from plot_attractors.training.em import Phase, clipped_update, cosine


@dataclass(frozen=True)
class Config:
    updates: int = 6000
    batch: int = 64  # inputs in an update
    particles: int = 8  # expressions of each


LR = 2e-3  # Adam's learning rate, falling by a cosine
CLIP = 1.0  # global gradient norm


PRESETS: dict[str, dict[str, Any]] = {
    "full": {},
    "demo": {"updates": 1500},
    "smoke": {"updates": 20, "batch": 16, "particles": 4},
}


def build(model: GrammarModel, data: DataSet, config: Config) -> GrammarGFlowNet:
    """The model draws its sentences from the guide."""
    return GrammarGFlowNet(model, data, config)


class GrammarGFlowNet(GrammarInference):
    """Trajectory balance on a Pyro model and guide, each input a trajectory of its own."""

    def __init__(self, model: GrammarModel, data: DataSet, config: Config) -> None:
        super().__init__(model, data, [Phase("train", 0, config.updates)], config.batch)
        model.draw = model.guide_draws
        self.loss = TrajectoryBalance(
            config.particles,
            log_z=model.builder.log_z,
            batch_plate="inputs",
            loss="huber",
            behaviour=model.behaviour,
        )
        self.optimizer = torch.optim.Adam(model.builder.parameters(), lr=LR)
        self.stateful["optimizer"] = self.optimizer

    def train(self) -> dict[str, float]:
        """One update."""
        self.optimizer.param_groups[0]["lr"] = LR * cosine(self.progress)
        x, model = self.inputs(self.batch), self.model
        loss = self.loss.differentiable_loss(model.model, model.guide, x)
        clipped_update(self.optimizer, model.builder.parameters(), loss, CLIP)
        return {"loss": float(loss.detach())}

    @torch.no_grad()
    def summary(self) -> dict[str, float]:
        """Total variation of the guide from the exact posterior, on up to 64 inputs.

        As many inputs as have 50,000 expressions in all; with the measures of the posterior.
        """
        x = self.inputs(max(1, min(64, 50_000 // len(self.model.derivations))))
        log_p = self.model.posterior(x).log_p
        rules = self.model.derivations.expand(len(x), -1, -1)
        found = self.model.builder.derivations(x[:, None]).log_prob(rules).double()
        total_variation = (found.exp() - log_p.exp()).abs().sum(-1).mean() / 2
        return {**super().summary(), **self.measure(x), "total_variation": float(total_variation)}
