"""The base of inference programs of grammars: inputs, and measures of the exact posterior."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from plot_attractors.language_of_thought.model import GrammarModel
from plot_attractors.training.em import Inference, Phase, in_use_threshold, require_model

__all__ = ["GrammarInference", "sentence_shares"]


def sentence_shares(model: GrammarModel, rules: Tensor) -> Tensor:
    """(B, E) float64, share of each sentence of the model in derivations (B, draws, max_rules)."""
    place = 2.0 ** torch.arange(model.language.width, dtype=torch.float64)
    order = (model.sentences.double() @ place).sort()
    found = torch.searchsorted(order.values, model.grammar.sentence(rules).double() @ place)
    return torch.nn.functional.one_hot(order.indices[found], len(model.sentences)).double().mean(1)


class GrammarInference(Inference):
    """The base of the inference programs of a `GrammarModel`."""

    model: GrammarModel

    def __init__(
        self, model: GrammarModel, data: Any, schedule: Sequence[Phase], batch: int
    ) -> None:
        super().__init__(require_model(model, GrammarModel), data, schedule)
        if model.device.type != "cpu":
            raise ValueError("grammars are built on the processor only: leave --device out")
        if batch < 1:
            raise ValueError(f"batch must be 1 or more inputs, not {batch}")
        self.batch = batch

    def inputs(self, n: int) -> Tensor:
        """(n, bits) training inputs."""
        x: Tensor = self.data.batch(n).x
        return x

    @torch.no_grad()
    def measure(self, x: Tensor) -> dict[str, float]:
        """Mean log P(x) and mean entropy of the exact posterior of inputs x (B, bits), in nats."""
        log_p, log_evidence = self.model.posterior(x)
        entropy = -(log_p.exp() * log_p.clamp(min=-1e3)).sum(-1)
        means = {"log_evidence": log_evidence.mean(), "posterior_entropy": entropy.mean()}
        return {name: float(mean) for name, mean in means.items()}

    @torch.no_grad()
    def summary(self) -> dict[str, float]:
        """Sentences and tokens in use by the exact posterior of 256 inputs."""
        marginal = self.model.posterior(self.inputs(256)).log_p.exp().mean(0)
        used = marginal > in_use_threshold(len(marginal))
        return {
            "sentences_in_use": float(used.sum()),
            "tokens_in_use": float((self.model.sentences[used].sum(0) > 0).sum()),
        }
