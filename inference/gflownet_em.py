"""GFlowNet-EM: sentences and dynamics learn from the reward alone, for languages of any size.

R(s; x) is evaluated on sentences that the model proposes; none are listed, and nothing factors.
Algorithms 1 to 6 to the letter, with detailed balance on a replay buffer, are
`detailed_balance_em`; an E-step that is taught by exact draws is `wake_sleep_em`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from plot_attractors import training
from plot_attractors.data import DataSet
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.ranges import Count, Positive, Size, check_ranges
from plot_attractors.training.vocabulary import Vocabulary, VocabularyLearning
from plot_attractors.training.walk import Walk

POLICY_EVERY = 3  # updates of EM by the policy alone for one of the policy
POLICY_INPUTS = 32  # in an update of the policy
POLICY_UPDATES = 1500  # before the last E-step, its rate falling; no more than of pretraining
POLICY_LR = 1e-3  # Adam's, of P(s | z0)
SUMMARY = 32, 128  # inputs and candidates that tell how well the policy proposes


@dataclass(frozen=True)
class Config:
    pretrain: Count = 1500  # updates of the VAE alone
    warm_up: Count = 10_000  # of EM by the policy alone, a third of them the policy's
    cycles: Count = 3  # of an E-step and an M-step
    e_updates: Count = 1000  # in a cycle, whose M-step has a quarter as many
    final_e_updates: Count = 45_000  # the last E-step, its learning rate falling in the second half
    lr: Positive = 2e-3  # Adam's, of all but the decoder and the policy
    batch: Size = 64  # inputs in an M-update
    sentences: training.Sampling = field(default_factory=training.Sampling)
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


SMOKE: dict[str, Any] = {
    "pretrain": 20, "warm_up": 40, "cycles": 1, "e_updates": 10, "final_e_updates": 10, "batch": 16,
}  # fmt: skip
SPRITES = {
    "pretrain": 3000, "warm_up": 2000, "cycles": 0, "final_e_updates": 10_000,
    "sentences.candidates": 64, "sentences.temperatures": 15,
    "m_step.vae_weight": 1.0, "m_step.kl_weight": 1.0, "m_step.lr_decoder": 4e-3,
    "vocabulary": 1000,
}  # fmt: skip
ANNEALED = {"sentences.candidates": 4, "sentences.temperatures": 3}
LINEAR = {
    **SPRITES, "sentences.candidates": 32, "sentences.temperatures": 10,
    "final_e_updates": 12_000,
}  # fmt: skip
OF_IMAGES: dict[str, dict[str, Any]] = {
    "full": SPRITES,
    "linear": LINEAR,
    "demo": {
        **SPRITES, "pretrain": 1500, "warm_up": 500, "final_e_updates": 2000, "vocabulary": 500,
    },
    "smoke": {**SMOKE, **ANNEALED},
}  # fmt: skip
PRESETS: dict[str, dict[str, Any]] = {
    "full": {},
    "demo": {
        "pretrain": 1000, "warm_up": 3000, "cycles": 1, "final_e_updates": 6500,
    },
    "smoke": SMOKE,
    # over these, by the data
    "hbv/full": {"warm_up": 5000, "final_e_updates": 16_000},  # of more KL and TV are no better
    "hbv/demo": {"warm_up": 2000, "final_e_updates": 4000},
    **{f"{kind}/{name}": of for kind in ("dsprites", "images") for name, of in OF_IMAGES.items()},
    # the likelihood of many real numbers outweighs what their sentences tell
    "vectors/full": {"m_step.vae_weight": 0.1},
    "vectors/demo": {"m_step.vae_weight": 0.1},
}  # fmt: skip


def build(model: AttractorModel, data: DataSet, c: Config) -> training.Schedule:
    """EM by the sentence policy alone, cycles of EM through the dynamics, a last E-step."""
    model = training.require_model(model, AttractorModel)
    inputs = training.input_source(data, model, c.batch)
    m = training.MStep(model, inputs, c.m_step, c.batch, c.lr)
    policy = model.add_sentence_policy()  # P_θ(s | z0)
    of_policy = torch.optim.Adam(policy.parameters(), POLICY_LR, fused=True)
    sentences = training.SampledSentences(model, policy, c.sentences)
    vocabulary = None
    if c.vocabulary:
        vocabulary = VocabularyLearning(model, m, Vocabulary.lasting(c.vocabulary), sentences)
    m_updates = max(1, c.e_updates // 4)
    labels = training.VisitedLabels(m, m_updates, model.discretizer)

    # -- the sentence policy ---------------------------------------------------------------------
    def update_policy(rate: float = 1.0) -> dict[str, float]:
        """Balance of P_θ(s | z0) per input (`SampledSentences.policy_loss`)."""
        training.set_lr(rate * POLICY_LR, of_policy)
        loss = sentences.policy_loss(model.encode(inputs(POLICY_INPUTS)).distribution)
        training.clipped_update(of_policy, policy.parameters(), loss)
        return {"policy_loss": float(loss.detach())}

    def warm_up(at: training.At) -> dict[str, float]:
        """EM without dynamics: labels are candidates of the policy, ∝ R(s; x)^16."""
        if at.position % POLICY_EVERY == 0 and c.sentences.temperatures == 1:
            return update_policy()
        return m.sharpened(sentences)

    def learn_policy(at: training.At) -> dict[str, float]:
        return update_policy(training.cosine(at.progress))

    # -- the E-step ------------------------------------------------------------------------------
    starts = training.PERTURBED_SD if vocabulary is None else vocabulary.perturbed_sd
    pool = training.SentencePool(model, inputs, sentences, starts)
    e_step = training.EStep(model, inputs, pool, c.walk, c.lr)

    def update_dynamics(at: training.At, final: bool) -> dict[str, float]:
        found = e_step.update(at, final)
        if not final and at.position % POLICY_EVERY == 0 and c.sentences.temperatures == 1:
            found |= update_policy()  # which follows the M-steps
        return found

    def e_phase(k: int, updates: int) -> training.Phase:
        update = partial(update_dynamics, final=k == c.cycles)
        return training.Phase("e_step", k, updates, update, e_step.begin)

    state = {"phi": m.optimizer, "policy": of_policy, **e_step.state}
    state["labels"] = labels.buffer
    phases = [
        training.Phase("pretrain", 0, c.pretrain, m.pretrain),
        training.Phase("warm_up", 0, c.warm_up, warm_up),
    ]
    if vocabulary is not None:
        phases, state = vocabulary.phases(c.pretrain, c.warm_up), state | vocabulary.state
    for k in range(c.cycles):
        e = e_phase(k, c.e_updates)
        phases += [e, training.Phase("m_step", k, m_updates, labels.update, labels.populate)]
    phases.append(training.Phase("policy", 0, min(c.pretrain, POLICY_UPDATES), learn_policy))
    phases.append(e_phase(c.cycles, c.final_e_updates))

    def summary() -> dict[str, float]:
        n, candidates = SUMMARY
        of: Any = sentences if vocabulary is None else vocabulary.spoken
        return of.summary(model.encode(inputs(n)), candidates)

    return training.Schedule(model, phases, state, summary)
