"""Variant: forward dynamics that follow the gradient of the reward's density, which the paper found
unhelpful.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from plot_attractors.data import DataSet
from plot_attractors.gflownet import EnumeratedFlow, LangevinDynamics
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.runs import registry

hbv = registry.load("models", "hbv")

Config = hbv.Config
PRESETS: dict[str, dict[str, Any]] = hbv.PRESETS
load_data = hbv.load_data

BANDWIDTH = 0.3  # sd of an embedding's well; with ε the gradient vanishes a few ε away


def build(config: Any, data: DataSet) -> AttractorModel:
    """The forward dynamics see the input through ∇_z log Σ_s R(s; x) N(z; ẑ_s, h²)."""
    model: AttractorModel = hbv.build(config, data)

    def log_density(z: Tensor, z0: Tensor) -> Tensor:
        encoder: Any = model.encoder
        log_r = model.reward.log_pairs(encoder.around(z0), model.sentences).detach()
        flow = EnumeratedFlow(log_r, model.embeddings().detach(), BANDWIDTH, steps=0)
        return flow.log_flow(z.reshape(-1, *z.shape[-2:]), z.new_zeros(1)).reshape(z.shape[:-1])

    model.forward_dynamics = LangevinDynamics(
        model.forward_dynamics, log_density, config.latent, config.dynamics.max_step
    )
    return model
