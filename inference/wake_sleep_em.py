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
from plot_attractors.training.vocabulary import inert as inert_in_vocabulary
from plot_attractors.training.walk import Walk


@dataclass(frozen=True)
class Config:
    pretrain: Count = 1500  # updates of the VAE alone
    warm_up: Count = 8000  # M-updates on the sharpened exact posterior: first embeddings
    cycles: Count = 3  # of an E-step and an M-step
    e_updates: Count = 1000  # in a cycle
    m_updates: Count = 250  # in a cycle
    final_e_updates: Count = 20_000  # the last E-step, its learning rate falling in the second half
    lr: Positive = 2e-3  # Adam's, in the E-step
    discretizer_every: Size = 4  # updates of the forward dynamics for one of the discretizer
    walk: Walk = field(default_factory=Walk)
    m_step: training.MStepConfig = field(default_factory=training.MStepConfig)
    vocabulary: Vocabulary | None = None  # phases in which tokens of one axis each learn

    def __post_init__(self) -> None:
        check_ranges(self)

    def inert(self, model: Any = None) -> dict[str, str]:
        """Settings that have no effect beside the others, with a model's Config, and why."""
        none = dict.fromkeys(("e_updates", "m_updates"), "there are no cycles")
        found = {} if self.cycles else none
        if self.vocabulary is not None:
            found["token_norm"] = "tokens begin along the latent axes (vocabulary)"
        return found | inert_in_vocabulary(model, self)


SPRITES = {
    "pretrain": 3000, "warm_up": 2000, "cycles": 0, "final_e_updates": 10_000,
    "m_step.vae_weight": 1.0, "m_step.kl_weight": 1.0,
    "m_step.lr_decoder": 4e-3, "walk.perturbed_sd": (0.3, 2.0), "vocabulary.updates": 1000,
}  # fmt: skip
DEMO = {
    "pretrain": 1500, "warm_up": 500, "final_e_updates": 2000, "vocabulary.second_warm_up": 500,
}  # fmt: skip
SMOKE = {
    "pretrain": 20, "warm_up": 40, "cycles": 1, "e_updates": 10, "m_updates": 5,
    "final_e_updates": 10, "discretizer_every": 2, "walk.trajectories": 16,
    "m_step.batch": 16,
}  # fmt: skip
TOKENS = {
    "vocabulary.rotate": 5, "vocabulary.second_warm_up": 0, "vocabulary.updates": 5,
}  # fmt: skip

OF_IMAGES: dict[str, dict[str, Any]] = {
    "full": SPRITES,
    "diverse": SPRITES,
    "demo": {**SPRITES, **DEMO},
    "smoke": {**SMOKE, **TOKENS},
}  # fmt: skip
PRESETS: dict[str, dict[str, Any]] = {
    "full": {},
    "demo": {
        "pretrain": 1000, "warm_up": 5000, "cycles": 1, "m_updates": 150, "final_e_updates": 5000,
    },
    "smoke": SMOKE,
    # over these, by the KIND of the data
    **{f"{kind}/{name}": of for kind in ("dsprites", "images") for name, of in OF_IMAGES.items()},
    # the likelihood of many real numbers outweighs what their sentences tell
    "vectors/full": {"m_step.vae_weight": 0.1},
    "vectors/demo": {"m_step.vae_weight": 0.1},
}  # fmt: skip


def build(model: AttractorModel, data: DataSet, c: Config) -> training.Schedule:
    """Raises ValueError for sentences that neither factor nor can be listed."""
    inputs = training.input_source(data, training.require_posterior(model), c.m_step.batch)
    m = training.MStep(model, inputs, c.m_step)
    sentences = training.ExactSentences(model)
    labels = training.VisitedLabels(m, c.m_updates)
    vocabulary = None
    if c.vocabulary is not None:
        vocabulary = VocabularyLearning(model, m, c.vocabulary, sentences)

    pool = training.ExactPool(model, inputs, sentences, c.walk.perturbed_sd)
    e_step = training.EStep(model, inputs, pool, c.walk, c.lr, c.discretizer_every)

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
            training.Phase("m_step", k, c.m_updates, labels.update, labels.populate),
        ]
    phases.append(e_phase(c.cycles, c.final_e_updates))
    return training.Schedule(model, phases, state, lambda: training.summary(model, inputs(256)))
