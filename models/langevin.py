"""Variant: forward dynamics that follow the gradient of the reward's density, which the paper found
unhelpful: with one sampled sentence the gradient points straight to its embedding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from pyro.distributions import Normal
from torch import Tensor, nn

from plot_attractors.data import DataSet
from plot_attractors.gflownet import EnumeratedFlow
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.runs import registry

attractor = registry.load("models", "attractor")
language = attractor.language

Config = attractor.Config
PRESETS: dict[str, dict[str, Any]] = attractor.PRESETS

BANDWIDTH = 0.3  # standard deviation of a well; with ε the gradient vanishes a few ε away


class LangevinDynamics(nn.Module):
    """N(mean + sigmoid(a(z)) · max_step · ∇/(1 + ‖∇‖), σ²), ∇ = ∇ log R(z, x) (*Energy gradient*).

    The added step is bounded, so that a narrow well does not throw states out of the latent space;
    with that of `dynamics`, a step may be twice as long.
    """

    context = True  # the input is seen, through the reward

    def __init__(
        self,
        dynamics: Any,
        log_density: Callable[[Tensor, Tensor], Tensor],
        latent: int,
        max_step: float,
    ) -> None:
        super().__init__()
        self.dynamics, self.log_density, self.max_step = dynamics, log_density, max_step
        self.strength = nn.Sequential(nn.Linear(latent, 64), nn.SiLU(), nn.Linear(64, 1))

    def forward(self, z: Tensor, t: Tensor | float, context: Tensor) -> Normal:
        with torch.enable_grad():
            y = z.detach().requires_grad_()
            (gradient,) = torch.autograd.grad(self.log_density(y, context).sum(), y)
        push = self.max_step * gradient / (gradient.norm(dim=-1, keepdim=True) + 1.0)
        base = self.dynamics(z, t, context)
        return Normal(base.loc + torch.sigmoid(self.strength(z)) * push, base.scale)

    def raw(self, z: Tensor, t: Tensor | float, context: Tensor) -> Tensor:
        """What backward dynamics start from: the steps without the gradient, which is slow."""
        out: Tensor = self.dynamics.raw(z, t, context)
        return out


def build(config: Any, data: DataSet) -> AttractorModel:
    """The forward dynamics see the input through ∇_z log Σ_s R(s; x) N(z; ẑ_s, h²)."""
    model: AttractorModel = attractor.build(config, data)

    def log_density(z: Tensor, z0: Tensor) -> Tensor:
        encoder: Any = model.encoder
        log_r = model.reward.log_pairs(encoder.around(z0), model.sentences).detach()
        flow = EnumeratedFlow(log_r, model.embeddings().detach(), BANDWIDTH, steps=0)
        return flow.log_flow(z.reshape(-1, *z.shape[-2:]), z.new_zeros(1)).reshape(z.shape[:-1])

    model.forward_dynamics = LangevinDynamics(
        model.forward_dynamics, log_density, config.latent, config.dynamics.max_step
    )
    return model
