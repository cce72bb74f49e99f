"""The VQ-VAE's loss: reconstruction straight through the codes, dictionary and commitment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from plot_attractors.baselines import VQVAE, MovingAverages, perplexity
from plot_attractors.data import DataSet
from plot_attractors.training.em import (
    USAGE_INPUTS,
    Inference,
    Phase,
    clipped_update,
    cosine,
    require_model,
    usage,
)


@dataclass(frozen=True)
class Config:
    updates: int = 6000
    batch: int = 64  # inputs in an update
    lr: float = 2e-3  # Adam's learning rate, falling by a cosine
    commitment: float = 0.25  # weight of the loss that moves queries to codes
    dictionary: Literal["loss", "moving_average"] = "loss"  # how codes move to queries
    decay: float = 0.99  # γ of the moving averages
    reset_below: float = 0.01  # share of inputs below which a code is reset; moving averages only


CLIP = 1.0  # global gradient norm
PRESETS: dict[str, dict[str, Any]] = {
    "full": {},
    "demo": {"updates": 3000},
    "paper": {},
    "modern": {"dictionary": "moving_average"},
    "smoke": {"updates": 40, "batch": 16},
}


def build(model: VQVAE, data: DataSet, config: Config) -> VQVAEInference:
    """One phase, in which all parts learn together."""
    return VQVAEInference(require_model(model, VQVAE), data, config)


class VQVAEInference(Inference):
    """Minimises −log P(x | s) + Σ_k ‖sg[q_k] − e_k‖² + β Σ_k ‖q_k − sg[e_k]‖²."""

    def __init__(self, model: VQVAE, data: DataSet, config: Config) -> None:
        super().__init__(model, data, [Phase("train", 0, config.updates)])
        c = self.config = config
        if c.commitment < 0:
            raise ValueError(f"commitment, a weight, must be 0 or more, not {c.commitment}")
        if hasattr(data, "check_batch"):
            data.check_batch(c.batch)
        self.averages: MovingAverages | None = None
        if c.dictionary == "moving_average":
            self.averages = MovingAverages(model, c.decay, c.reset_below).to(model.codes.device)
            self.stateful["averages"] = self.averages
        observer = list(model.continuous_decoder.parameters())  # clipped by itself
        others = [p for p in model.parameters() if not any(p is q for q in observer)]
        parameters = [p for p in others if p.requires_grad]
        self.parts = [(torch.optim.Adam(part, c.lr), part) for part in (parameters, observer)]
        self.stateful |= {f"optimizer_{k}": part[0] for k, part in enumerate(self.parts)}

    def inputs(self, n: int) -> Tensor:
        """n training inputs on the model's device."""
        x: Tensor = self.data.batch(n).x
        return x.to(self.model.codes.device)

    def train(self) -> dict[str, float]:
        """One update."""
        c = self.config
        for optimizer, _ in self.parts:
            optimizer.param_groups[0]["lr"] = c.lr * cosine(self.progress)
        found, terms = self.model.losses(self.inputs(c.batch))
        loss = terms["reconstruction"] + c.commitment * terms["commitment"]
        if self.averages is None:
            loss = loss + terms["dictionary"]
        for (optimizer, part), of_part in zip(self.parts, (loss, terms["continuous"]), strict=True):
            clipped_update(optimizer, part, of_part, CLIP)
        shown = ("reconstruction", "commitment", "continuous")
        metrics = {name: float(terms[name].detach()) for name in shown}
        if self.averages is not None:
            metrics["resets"] = float(self.averages.update(found))
        return metrics

    @torch.no_grad()
    def summary(self) -> dict[str, float]:
        """Sentences and tokens in use, and perplexity and codes in use of each codebook."""
        language = self.model.language
        s = self.model.quantise(self.inputs(USAGE_INPUTS)).s
        effective, used = perplexity(language, s, self.model.null_code)
        return {
            **usage(language, s),
            **{f"perplexity_{k}": float(value) for k, value in enumerate(effective, 1)},
            **{f"codes_in_use_{k}": float(value) for k, value in enumerate(used, 1)},
        }
