"""GFlowNet-EM: sentences and dynamics learn from the reward alone, for languages of any size.

R(s; x) is evaluated on sentences that the model proposes; none are listed, and nothing factors.
Algorithms 1 to 6 to the letter, with detailed balance on a replay buffer, are
`detailed_balance_em`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from plot_attractors import training
from plot_attractors.data import DataSet
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.ranges import Count, setting

POLICY_EVERY = 3  # updates of EM by the policy alone for one of the policy
POLICY_INPUTS = 32  # in an update of the policy
POLICY_UPDATES = 1500  # before the last E-step, its rate falling; no more than of pretraining
POLICY_LR = 1e-3  # Adam's, of P(s | z0)
SUMMARY = 32, 128  # inputs and candidates that tell how well the policy proposes


@dataclass(frozen=True)
class Config(training.EMConfig):
    warm_up: Count = setting(10_000, "updates of EM by the policy alone, a third its own")
    final_e_updates: Count = setting(
        12_000, "of the last E-step, its learning rate falling in the second half"
    )
    sentences: training.Sampling = field(default_factory=training.Sampling)


SMOKE: dict[str, Any] = {
    "pretrain": 20, "warm_up": 40, "cycles": 1, "e_updates": 10, "final_e_updates": 10, "batch": 16,
}  # fmt: skip
SPRITES = {
    "pretrain": 3000, "warm_up": 2000, "cycles": 0, "final_e_updates": 5000,
    "sentences.candidates": 64, "sentences.temperatures": 15,
    "m_step.vae_weight": 1.0, "m_step.kl_weight": 1.0, "m_step.lr_decoder": 4e-3,
    "vocabulary": 1000,
}  # fmt: skip
ANNEALED = {"sentences.candidates": 4, "sentences.temperatures": 3}
OF_IMAGES: dict[str, dict[str, Any]] = {
    "full": SPRITES,
    "demo": {
        **SPRITES, "pretrain": 1500, "warm_up": 500, "final_e_updates": 2000, "vocabulary": 500,
    },
    "smoke": {**SMOKE, **ANNEALED},
}  # fmt: skip
PRESETS: dict[str, dict[str, Any]] = {
    "full": {},
    "demo": {
        "pretrain": 1000, "warm_up": 3000, "cycles": 1, "final_e_updates": 4000,
    },
    "smoke": SMOKE,
    # over these, by the data
    "hbv/full": {"warm_up": 5000, "final_e_updates": 8000},
    "hbv/demo": {"warm_up": 2000, "cycles": 0, "final_e_updates": 1500},
    **{f"{data}/{name}": one for data in ("dsprites", "images") for name, one in OF_IMAGES.items()},
    # the likelihood of many real numbers outweighs what their sentences tell
    "vectors/full": {"m_step.vae_weight": 0.1},
    "vectors/demo": {"m_step.vae_weight": 0.1},
}  # fmt: skip


class GFlowNetEM(training.EM):
    """A policy P_θ(s | z0) proposes sentences; it learns by balance."""

    sentences: training.SampledSentences

    def sentence_source(self) -> training.SampledSentences:
        """Candidates of the policy, resampled by R."""
        self.policy = self.model.add_sentence_policy()
        self.of_policy = torch.optim.Adam(self.policy.parameters(), POLICY_LR, fused=True)
        self.state["policy"] = self.of_policy
        c = self.config.sentences
        self.policy_every = POLICY_EVERY if c.temperatures == 1 else 0  # 0: it proposes nothing yet
        return training.SampledSentences(self.model, self.policy, c)

    def visited_labels(self) -> training.VisitedLabels:
        """Sentences visited along trajectories, as the discretizer reads them."""
        return training.VisitedLabels(self.m_step, self.m_updates, self.model.discretizer)

    def update_policy(self, rate: float = 1.0) -> dict[str, training.Scalar]:
        """Balance of P_θ(s | z0) per input (`SampledSentences.policy_loss`)."""
        training.set_lr(rate * POLICY_LR, self.of_policy)
        q = self.model.encode(self.inputs(POLICY_INPUTS)).distribution
        loss = self.sentences.policy_loss(q)
        training.clipped_update(self.of_policy, self.policy.parameters(), loss)
        return {"policy_loss": loss.detach()}

    def policy_turn(self, at: training.At) -> bool:
        """Whether the policy learns in this update, too."""
        return bool(self.policy_every) and at.position % self.policy_every == 0

    def warm_up(self, at: training.At) -> dict[str, training.Scalar]:
        """EM without dynamics: the policy, or labels ∝ R(s; x)^16 of its candidates."""
        return self.update_policy() if self.policy_turn(at) else super().warm_up(at)

    def update_dynamics(self, at: training.At) -> dict[str, training.Scalar]:
        """The policy follows the M-steps."""
        losses = super().update_dynamics(at)
        return losses | self.update_policy() if self.policy_turn(at) else losses

    def learn_policy(self, at: training.At) -> dict[str, training.Scalar]:
        return self.update_policy(training.cosine(at.progress))

    def last_phases(self) -> list[training.Phase]:
        """The policy alone, its rate falling, before the last E-step."""
        updates = min(self.config.pretrain, POLICY_UPDATES)
        policy = training.Phase("policy", 0, updates, self.learn_policy)
        return [policy, *super().last_phases()]

    def summary(self) -> dict[str, float]:
        """How well candidates propose."""
        n, candidates = SUMMARY
        return self.sentences.summary(self.model.encode(self.inputs(n)), candidates)


def build(model: AttractorModel, data: DataSet, c: Config) -> training.Schedule:
    return GFlowNetEM(model, data, c).schedule()
