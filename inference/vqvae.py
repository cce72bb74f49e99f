"""The VQ-VAE's loss: reconstruction straight through the codes, dictionary and commitment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch

from plot_attractors import training
from plot_attractors.baselines import VQVAE, MovingAverages
from plot_attractors.data import DataSet
from plot_attractors.language import USAGE_INPUTS, usage
from plot_attractors.ranges import NonNegative, Positive, Size, setting


@dataclass(frozen=True)
class Config:
    updates: Size = 6000
    batch: Size = setting(64, "inputs in an update")
    lr: Positive = setting(2e-3, "Adam's learning rate, falling by a cosine")
    commitment: NonNegative = setting(0.25, "weight of the loss that moves queries to codes")
    dictionary: Literal["loss", "moving_average"] = setting("loss", "how codes move to queries")


PRESETS: dict[str, dict[str, Any]] = {
    "full": {},
    "demo": {"updates": 3000},
    "modern": {"dictionary": "moving_average"},
    "smoke": {"updates": 40, "batch": 16},
}


def build(model: VQVAE, data: DataSet, c: Config) -> training.Schedule:
    """Minimises −log P(x | s) + Σ_k ‖sg[q_k] − e_k‖² + β Σ_k ‖q_k − sg[e_k]‖², β = `commitment`."""
    inputs = training.input_source(data, training.require_model(model, VQVAE))
    averages: MovingAverages | None = None
    if c.dictionary == "moving_average":
        averages = MovingAverages(model).to(model.codes.device)
    observer = list(model.continuous_decoder.parameters())  # clipped by itself
    others = [p for p in model.parameters() if not any(p is q for q in observer)]
    parameters = [p for p in others if p.requires_grad]
    parts = [(torch.optim.Adam(part, c.lr, fused=True), part) for part in (parameters, observer)]

    def train(at: training.At) -> dict[str, training.Scalar]:
        for optimizer, _ in parts:
            optimizer.param_groups[0]["lr"] = c.lr * training.cosine(at.progress)
        codes, terms = model.losses(inputs(c.batch))
        loss = terms["reconstruction"] + c.commitment * terms["commitment"]
        if averages is None:
            loss = loss + terms["dictionary"]
        for (optimizer, part), of_part in zip(parts, (loss, terms["continuous"]), strict=True):
            training.clipped_update(optimizer, part, of_part)
        shown = ("reconstruction", "commitment", "continuous")
        metrics: dict[str, training.Scalar] = {name: terms[name].detach() for name in shown}
        if averages is not None:
            metrics["resets"] = float(averages.update(codes))
        return metrics

    @torch.no_grad()
    def summary() -> dict[str, float]:
        """Sentences and tokens in use."""
        return usage(model.language, model.quantise(inputs(USAGE_INPUTS)).s)

    state: dict[str, Any] = {f"optimizer_{k}": part[0] for k, part in enumerate(parts)}
    if averages is not None:
        state["averages"] = averages
    return training.Schedule(model, [training.Phase("train", 0, c.updates, train)], state, summary)
