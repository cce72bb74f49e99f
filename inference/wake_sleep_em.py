"""EM with an E-step that is taught by draws from the exact posterior: wake-sleep, no balance loss.

It needs P(s | x) ∝ R(s; x) exactly: sentences that can be listed, or that factor along the latent
axes. `gflownet_em` learns from the reward alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

from plot_attractors import training
from plot_attractors.data import DataSet
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.ranges import Count, Positive, Size, check_ranges
from plot_attractors.training.vocabulary import Vocabulary, VocabularyLearning
from plot_attractors.training.walk import Walk


@dataclass(frozen=True)
class Config:
    pretrain: Count = 1500  # updates of the VAE alone
    warm_up: Count = 8000  # M-updates on the sharpened exact posterior: first embeddings
    cycles: Count = 3  # of an E-step and an M-step
    e_updates: Count = 1000  # in a cycle, whose M-step has a quarter as many
    final_e_updates: Count = 20_000  # the last E-step, its learning rate falling in the second half
    lr: Positive = 2e-3  # Adam's, of all but the decoder
    batch: Size = 64  # inputs in an M-update
    walk: Walk = field(default_factory=Walk)
    m_step: training.MStepConfig = field(default_factory=training.MStepConfig)
    # updates of tokens alone, one latent axis each, and in proportion those of phases in which axes
    # become independent components (`training.vocabulary`); 0: no such phases
    vocabulary: Count = 0

    def __post_init__(self) -> None:
        check_ranges(self)

    def inert(self, model: Any = None) -> dict[str, str]:
        """Settings that have no effect beside the others, with a model's Config, and why."""
        return {} if self.cycles else {"e_updates": "there are no cycles"}


SPRITES = {
    "pretrain": 3000, "warm_up": 2000, "cycles": 0, "final_e_updates": 10_000,
    "m_step.vae_weight": 1.0, "m_step.kl_weight": 1.0,
    "m_step.lr_decoder": 4e-3, "vocabulary": 1000,
}  # fmt: skip
DEMO = {
    "pretrain": 1500, "warm_up": 500, "final_e_updates": 2000, "vocabulary": 500,
}  # fmt: skip
SMOKE = {
    "pretrain": 20, "warm_up": 40, "cycles": 1, "e_updates": 10, "final_e_updates": 10, "batch": 16,
}  # fmt: skip
OF_IMAGES: dict[str, dict[str, Any]] = {
    "full": SPRITES,
    "diverse": SPRITES,
    "demo": {**SPRITES, **DEMO},
    "smoke": {**SMOKE, "vocabulary": 5},
}  # fmt: skip
PRESETS: dict[str, dict[str, Any]] = {
    "full": {},
    "demo": {
        "pretrain": 1000, "warm_up": 5000, "cycles": 1, "final_e_updates": 5000,
    },
    "smoke": SMOKE,
    # over these, by the data
    **{f"{kind}/{name}": of for kind in ("dsprites", "images") for name, of in OF_IMAGES.items()},
    # the likelihood of many real numbers outweighs what their sentences tell
    "vectors/full": {"m_step.vae_weight": 0.1},
    "vectors/demo": {"m_step.vae_weight": 0.1},
}  # fmt: skip


def build(model: AttractorModel, data: DataSet, c: Config) -> training.Schedule:
    """Raises ValueError for sentences that neither factor nor can be listed."""
    inputs = training.input_source(data, training.require_posterior(model), c.batch)
    m = training.MStep(model, inputs, c.m_step, c.batch, c.lr)
    sentences = training.ExactSentences(model)
    m_updates = max(1, c.e_updates // 4)
    labels = training.VisitedLabels(m, m_updates)
    vocabulary = None
    if c.vocabulary:
        vocabulary = VocabularyLearning(model, m, Vocabulary.lasting(c.vocabulary), sentences)

    starts = training.PERTURBED_SD if vocabulary is None else vocabulary.perturbed_sd
    pool = training.ExactPool(model, inputs, sentences, starts)
    e_step = training.EStep(model, inputs, pool, c.walk, c.lr)

    def e_phase(k: int, updates: int) -> training.Phase:
        update = partial(e_step.update, final=k == c.cycles)
        return training.Phase("e_step", k, updates, update, e_step.begin)

    phases = [
        training.Phase("pretrain", 0, c.pretrain, m.pretrain),
        training.Phase("warm_up", 0, c.warm_up, lambda _: m.sharpened(sentences)),
    ]
    state = {"phi": m.optimizer, **e_step.state, "labels": labels.buffer}
    if vocabulary is not None:
        phases, state = vocabulary.phases(c.pretrain, c.warm_up), state | vocabulary.state
    for k in range(c.cycles):
        phases += [
            e_phase(k, c.e_updates),
            training.Phase("m_step", k, m_updates, labels.update, labels.populate),
        ]
    phases.append(e_phase(c.cycles, c.final_e_updates))
    return training.Schedule(model, phases, state, lambda: training.summary(model, inputs(256)))
