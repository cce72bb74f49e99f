"""EM for attractor models: the VAE alone, first sentences, E-steps and M-steps in turn."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from plot_attractors.data import DataSet
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.ranges import Count, Positive, Size, setting
from plot_attractors.training.e_step import EStep
from plot_attractors.training.m_step import MStep, MStepConfig, VisitedLabels, input_source, summary
from plot_attractors.training.pool import PERTURBED_SD, Pool
from plot_attractors.training.schedule import At, Phase, Scalar, Schedule, require_model
from plot_attractors.training.sentences import Sentences
from plot_attractors.training.vocabulary.phases import VocabularyLearning

__all__ = ["EM", "EMConfig"]

SUMMARY_INPUTS = 256


@dataclass(frozen=True)
class EMConfig:
    pretrain: Count = setting(1500, "updates of the VAE alone")
    warm_up: Count = setting(8000, "M-updates on sentences ∝ R^16: first embeddings")
    cycles: Count = setting(3, "cycles of an E-step and an M-step")
    e_updates: Count = setting(1000, "of the E-step of a cycle; its M-step has a quarter as many")
    final_e_updates: Count = setting(8000, "the last E-step, at last with a falling learning rate")
    lr: Positive = setting(2e-3, "Adam's learning rate, of all but the decoder")
    batch: Size = setting(64, "inputs in an M-update")
    m_step: MStepConfig = field(default_factory=MStepConfig)
    vocabulary: Count = setting(
        0,
        "updates of tokens alone, one latent axis each, and in proportion those of phases in "
        "which axes become independent components (`training.vocabulary`); 0: no such phases",
    )

    def inert(self, model: Any = None) -> dict[str, str]:
        """Settings that have no effect beside the others, with a model's Config, and why."""
        return {} if self.cycles else {"e_updates": "there are no cycles"}


class EM(ABC):
    """EM whose E-step is `EStep`; an algorithm says where sentences of P(s | x) come from, and
    overrides what else it does in another way.

    Args:
        model, data: what learns, and of what.
        config: an `EMConfig`.
    """

    def __init__(self, model: AttractorModel, data: DataSet, config: Any) -> None:
        self.model, self.config = require_model(model, AttractorModel), config
        c = self.config
        self.inputs = input_source(data, model)
        self.m_step = MStep(model, self.inputs, c.m_step, c.batch, c.lr)
        self.state: dict[str, Any] = {"phi": self.m_step.optimizer}  # what must survive a stop
        self.sentences = self.sentence_source()
        self.vocabulary, starts = None, PERTURBED_SD
        if c.vocabulary:
            self.vocabulary = VocabularyLearning(model, self.m_step, c.vocabulary, self.sentences)
            starts = self.vocabulary.perturbed_sd
            self.state |= self.vocabulary.state
        self.e_step = EStep(model, Pool(model, self.inputs, self.sentences, starts), c.lr)
        self.m_updates = max(1, c.e_updates // 4)
        self.labels = self.visited_labels()
        self.state |= {**self.e_step.state, "labels": self.labels.buffer}

    @abstractmethod
    def sentence_source(self) -> Sentences:
        """Where labels of the warm-up come from."""

    def visited_labels(self) -> VisitedLabels:
        """Labels of an M-step: sentences visited along trajectories."""
        return VisitedLabels(self.m_step, self.m_updates)

    def warm_up(self, at: At) -> dict[str, Scalar]:
        """EM without dynamics: labels are sentences ∝ R(s; x)^16."""
        return self.m_step.sharpened(self.sentences)

    def update_dynamics(self, at: At) -> dict[str, Scalar]:
        """An update of an E-step before the last one."""
        return self.e_step.update(at, final=False)

    def first_phases(self) -> list[Phase]:
        """The VAE alone, and first embeddings of sentences."""
        c = self.config
        if self.vocabulary is not None:
            return self.vocabulary.phases(c.pretrain, c.warm_up)
        return [
            Phase("pretrain", 0, c.pretrain, self.m_step.pretrain),
            Phase("warm_up", 0, c.warm_up, self.warm_up),
        ]

    def cycle(self, k: int) -> list[Phase]:
        """The E-step and the M-step of cycle k."""
        update, begin = self.update_dynamics, self.e_step.begin
        return [
            Phase("e_step", k, self.config.e_updates, update, begin),
            Phase("m_step", k, self.m_updates, self.labels.update, self.labels.populate),
        ]

    def last_phases(self) -> list[Phase]:
        c = self.config
        update = partial(self.e_step.update, final=True)
        return [Phase("e_step", c.cycles, c.final_e_updates, update, self.e_step.begin)]

    def summary(self) -> dict[str, float]:
        """Slower measurements, now and then."""
        return summary(self.model, self.inputs(SUMMARY_INPUTS))

    def schedule(self) -> Schedule:
        """All phases (Algorithm 1)."""
        cycles = [phase for k in range(self.config.cycles) for phase in self.cycle(k)]
        phases = [*self.first_phases(), *cycles, *self.last_phases()]
        return Schedule(self.model, phases, self.state, self.summary)
