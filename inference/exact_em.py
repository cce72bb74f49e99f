"""Expectation maximisation with the exact posterior and no dynamics: the ceiling."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from plot_attractors.data import DataSet
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.ranges import Count, Positive, Size, setting
from plot_attractors.runs.settings import fields
from plot_attractors.training import (
    ExactSentences,
    MStep,
    MStepConfig,
    Phase,
    Schedule,
    input_source,
    require_posterior,
    summary,
)


@dataclass(frozen=True)
class Config:
    pretrain: Count = setting(1500, "updates of the VAE alone")
    m_updates: Count = setting(7500, "M-updates on sentences from the exact posterior")
    lr: Positive = setting(2e-3, "Adam's learning rate, of all but the decoder")
    batch: Size = setting(64, "inputs in an M-update")
    m_step: MStepConfig = field(default_factory=MStepConfig)

    def inert(self, model: Any = None) -> dict[str, str]:
        """Settings of a model's Config that have no effect on this program, and why."""
        names = [] if model is None else fields(type(model))
        return {n: "exact_em has no dynamics" for n in names if n.startswith("dynamics.")}


PRESETS: dict[str, dict[str, Any]] = {
    "full": {},
    "demo": {"pretrain": 1000, "m_updates": 3000},
    "smoke": {"pretrain": 20, "m_updates": 40, "batch": 16},
}


def build(model: AttractorModel, data: DataSet, c: Config) -> Schedule:
    """E-step: P(s | x) ∝ R(s; x). M-step: Algorithm *M-step Inner Loop*."""
    inputs = input_source(data, require_posterior(model))
    m, sentences = MStep(model, inputs, c.m_step, c.batch, c.lr), ExactSentences(model)
    phases = [
        Phase("pretrain", 0, c.pretrain, m.pretrain),
        Phase("warm_up", 0, c.m_updates, lambda _: m.sharpened(sentences)),
    ]
    return Schedule(model, phases, {"phi": m.optimizer}, lambda: summary(model, inputs(256)))
