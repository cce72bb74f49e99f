"""A GFlowNet over the expressions of a grammar: a guide that builds them rule by rule, by
trajectory balance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from plot_attractors.data import DataSet
from plot_attractors.gflownet import TrajectoryBalance, VarGrad
from plot_attractors.language_of_thought import GrammarInference, GrammarModel
from plot_attractors.training.em import Phase, clipped_update, cosine


@dataclass(frozen=True)
class Config:
    updates: int = 6000
    batch: int = 64  # inputs in an update
    particles: int = 8  # expressions of each
    # with a learned log P(x), or without
    balance: Literal["trajectory", "log_variance"] = "trajectory"
    # share of random true things to say in the behaviour policy; 0 is on-policy
    explore: float = 0.5
    lr: float = 2e-3
    clip: float = 1.0  # global gradient norm


PRESETS: dict[str, dict[str, Any]] = {
    "full": {},
    "demo": {"updates": 1500},
    "smoke": {"updates": 20, "batch": 16, "particles": 4},
}


def build(model: GrammarModel, data: DataSet, config: Config) -> GrammarGFlowNet:
    """The model draws its sentences from the guide."""
    return GrammarGFlowNet(model, data, config)


class GrammarGFlowNet(GrammarInference):
    """Our GFlowNet losses on a Pyro model and guide with one discrete site, each input a trajectory
    of its own.
    """

    def __init__(self, model: GrammarModel, data: DataSet, config: Config) -> None:
        super().__init__(model, data, [Phase("train", 0, config.updates)], config.batch)
        c = self.config = config
        if not 0 <= c.explore <= 1:
            raise ValueError(
                f"explore is a share of the behaviour policy, from 0 to 1, not {c.explore}"
            )
        model.draw = model.guide_draws
        common: dict[str, Any] = {
            "batch_plate": "inputs",
            "loss": "huber",
            "behaviour": self.behaviour,
        }
        self.loss: TrajectoryBalance | VarGrad = (
            TrajectoryBalance(c.particles, log_z=model.builder.log_z, **common)
            if c.balance == "trajectory"
            else VarGrad(c.particles, **common)
        )
        self.optimizer = torch.optim.Adam(model.builder.parameters(), lr=c.lr)
        self.stateful["optimizer"] = self.optimizer

    def behaviour(self, x: Tensor) -> None:
        """What is learned from: the guide's own expressions, and random true ones."""
        self.model.behaviour(x, self.config.explore)

    def train(self) -> dict[str, float]:
        """One update."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.config.lr * cosine(self.progress)
        loss = self.loss.differentiable_loss(
            self.model.model, self.model.guide, self.inputs(self.batch)
        )
        clipped_update(self.optimizer, self.model.builder.parameters(), loss, self.config.clip)
        return {"loss": float(loss.detach())}

    @torch.no_grad()
    def summary(self) -> dict[str, float]:
        """Total variation of the guide from the enumerated posterior, on 64 inputs or as few as
        50,000 expressions of them in all, with the measures of the latter.
        """
        x = self.inputs(max(1, min(64, 50_000 // len(self.model.derivations))))
        log_p = self.model.posterior(x).log_p
        found = (
            self.model.builder.law(x[:, None])
            .log_prob(self.model.derivations.expand(len(x), -1, -1))
            .double()
        )
        total_variation = (found.exp() - log_p.exp()).abs().sum(-1).mean() / 2
        return {**super().summary(), **self.measure(x), "total_variation": float(total_variation)}
