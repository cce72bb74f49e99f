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
from torch import Tensor

from plot_attractors import training
from plot_attractors.data import DataSet
from plot_attractors.gflownet import ReplayBuffer, Trajectories
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.ranges import Count, Positive, Size, check_ranges
from plot_attractors.training.stay import Basins, posterior_transitions, prior_transitions
from plot_attractors.training.vocabulary import Vocabulary, VocabularyLearning
from plot_attractors.training.vocabulary import inert as inert_in_vocabulary
from plot_attractors.training.walk import Walk, backward_walks, sleep_loss, wake_loss

POLICY_EVERY = 3  # updates of EM by the policy alone for one of the policy
POLICY_INPUTS = 32  # in an update of the policy
POLICY_LR = 1e-3  # Adam's, of P(s | z0)
SUMMARY = 32, 128  # inputs and candidates that tell how well the policy proposes
ONSET_STATES = 512  # inputs and sentences that show where no embedding lies
WALKS_EVERY = 4  # updates of the forward dynamics for which backward trajectories are drawn at once
WAKE_EVERY = 4  # updates of the forward dynamics for one of the backward dynamics
WAKE_TRAJECTORIES = 64  # in an update of the backward dynamics
DISCRETIZER_STATES = 256  # in an update of the discretizer


@dataclass(frozen=True)
class Config:
    pretrain: Count = 1500  # updates of the VAE alone
    warm_up: Count = 10_000  # of EM by the policy alone, a third of them the policy's
    policy_updates: Count = 1500  # of the policy before the last E-step, its learning rate falling
    cycles: Count = 3  # of an E-step and an M-step
    e_updates: Count = 1000  # in a cycle
    m_updates: Count = 250  # in a cycle
    final_e_updates: Count = 45_000  # the last E-step, its learning rate falling in the second half
    lr: Positive = 2e-3  # Adam's, in the E-step
    discretizer_every: Size = 4  # updates of the forward dynamics for one of the discretizer
    sentences: training.Sampling = field(default_factory=training.Sampling)
    walk: Walk = field(default_factory=Walk)
    m_step: training.MStepConfig = field(default_factory=training.MStepConfig)
    vocabulary: Vocabulary | None = None  # phases in which tokens of one axis each learn

    def __post_init__(self) -> None:
        check_ranges(self)

    def inert(self, model: Any = None) -> dict[str, str]:
        """Settings that have no effect beside the others, with a model's Config, and why."""
        found = {} if self.cycles else dict.fromkeys(("e_updates", "m_updates"), "no cycles")
        if self.vocabulary is not None:
            found["token_norm"] = "tokens begin along the latent axes (vocabulary)"
        return found | inert_in_vocabulary(model, self)


SMOKE: dict[str, Any] = {
    "pretrain": 20, "warm_up": 40, "policy_updates": 10, "cycles": 1, "e_updates": 10,
    "m_updates": 5, "final_e_updates": 10, "walk.trajectories": 16, "m_step.batch": 16,
}  # fmt: skip
SPRITES = {
    "pretrain": 3000, "warm_up": 2000, "cycles": 0, "final_e_updates": 10_000,
    "sentences.candidates": 64, "sentences.temperatures": 15, "sentences.moves": 2,
    "m_step.vae_weight": 1.0, "m_step.kl_weight": 1.0, "m_step.lr_decoder": 4e-3,
    "walk.perturbed_sd": (0.3, 2.0), "vocabulary.updates": 1000,
}  # fmt: skip
ANNEALED = {"sentences.candidates": 4, "sentences.temperatures": 3, "sentences.moves": 1}
LINEAR = {
    **SPRITES, "sentences.candidates": 32, "sentences.temperatures": 10,
    "final_e_updates": 12_000,
}  # fmt: skip
PRESETS: dict[str, dict[str, Any]] = {
    "full": {},
    "demo": {
        "pretrain": 1000, "warm_up": 3000, "policy_updates": 500, "cycles": 1,
        "final_e_updates": 6500,
    },
    "smoke": SMOKE,
    # over these, by the KIND of a model
    "tree/full": {"warm_up": 5000, "final_e_updates": 20_000},  # of more KL and TV are no better
    "tree/demo": {"warm_up": 2000, "final_e_updates": 4000},
    "images/full": SPRITES,
    "images/linear": LINEAR,
    "images/demo": {
        **SPRITES, "pretrain": 1500, "warm_up": 500, "policy_updates": 200,
        "final_e_updates": 2000, "vocabulary.second_warm_up": 0, "vocabulary.updates": 500,
    },
    "images/smoke": {**SMOKE, **ANNEALED},
    # the likelihood of many real numbers outweighs what their sentences tell
    "vectors/full": {"m_step.vae_weight": 0.1},
    "vectors/demo": {"m_step.vae_weight": 0.1},
}  # fmt: skip


class GFlowNetEM:
    """EM by the sentence policy alone, cycles of EM through the dynamics, a last E-step."""

    def __init__(self, model: AttractorModel, data: DataSet, c: Config) -> None:
        self.model, self.c = training.require_model(model, AttractorModel), c
        self.inputs = training.input_source(data, model, c.m_step.batch)
        self.m = training.MStep(model, self.inputs, c.m_step)
        self.policy = model.add_sentence_policy()  # P_θ(s | z0)
        self.sentences = training.SampledSentences(model, self.policy, c.sentences)
        self.labels = training.VisitedLabels(self.m, c.m_updates, model.discretizer)
        walk, self.steps = c.walk, c.walk.steps(model)  # K
        self.basins = Basins(model.steps, self.steps, model.epsilon)
        pairs = walk.trajectories + walk.states
        self.pool = training.SentencePool(
            model, self.inputs, self.sentences, pairs, walk.perturbed_sd
        )
        buffer = partial(ReplayBuffer, weighted=False, device=model.device)
        self.backward = buffer(WALKS_EVERY * training.per_rank(walk.trajectories))
        adam = partial(torch.optim.Adam, fused=True)
        self.of_policy = adam(self.policy.parameters(), POLICY_LR)
        self.theta = adam(model.theta, c.lr)
        self.of_discretizer = adam(model.discretizer.parameters(), c.lr)

    # -- the sentence policy ---------------------------------------------------------------------
    def update_policy(self, rate: float = 1.0) -> dict[str, float]:
        """Balance of P_θ(s | z0) per input (`SampledSentences.policy_loss`)."""
        training.set_lr(rate * POLICY_LR, self.of_policy)
        e = self.model.encode(self.inputs(training.per_rank(POLICY_INPUTS)))
        loss = self.sentences.policy_loss(e.distribution)
        training.clipped_update(self.of_policy, self.policy.parameters(), loss)
        return {"policy_loss": float(loss.detach())}

    def policy_follows(self, at: training.At) -> bool:
        """Whether the policy learns in this update, too: of annealed candidates it need not."""
        return at.position % POLICY_EVERY == 0 and self.c.sentences.temperatures == 1

    def warm_up(self, at: training.At) -> dict[str, float]:
        """EM without dynamics: labels are candidates of the policy, ∝ R(s; x)^16."""
        return self.update_policy() if self.policy_follows(at) else self.m.sharpened(self.sentences)

    def learn_policy(self, at: training.At) -> dict[str, float]:
        return self.update_policy(training.cosine(at.progress))

    # -- the E-step ------------------------------------------------------------------------------
    def begin(self) -> None:
        """Sentences anew, since the reward has changed; inputs begin where no embedding lies."""
        self.pool.fill()
        self.backward.clear()
        e, s = self.pool.pairs(ONSET_STATES)
        self.model.set_noise(s, self.steps)
        if not self.model.onset.any():
            self.model.orient_onset(torch.cat([e.z0, self.model.embed(s).detach()]))

    def walk(self, at: training.At) -> Tensor:
        """Sleep: forward dynamics on backward trajectories from sentences of the posterior."""
        n, model = training.per_rank(self.c.walk.trajectories), self.model
        if at.position % WALKS_EVERY == 0 or not self.backward:
            e, s = self.pool.pairs(WALKS_EVERY * n)
            z = backward_walks(model, e.z0, s, self.steps)
            self.backward.add(z=z.transpose(0, 1), z0=e.z0)
        drawn = self.backward.draw(n)
        return sleep_loss(model, Trajectories(drawn["z"].transpose(0, 1), drawn["z0"]))

    def wake(self) -> Tensor:
        """Backward dynamics on forward trajectories."""
        e = self.model.encode(self.inputs(training.per_rank(WAKE_TRAJECTORIES)))
        forward = Trajectories(self.model.whole_trajectories(e.z0), e.z0)
        return wake_loss(self.model, forward, self.steps)

    def stay(self) -> Tensor:
        """After the walk, F = R: detailed balance in the basins of sentences, in closed form."""
        e, s = self.pool.pairs(training.per_rank(self.c.walk.states))
        if self.steps == self.model.steps:
            return torch.zeros((), device=self.model.device)
        with torch.no_grad():
            to = posterior_transitions(self.model, self.basins, e, s)
            perturbed_sd, off = self.c.walk.perturbed_sd, self.pool.off
            to = to.join(prior_transitions(self.model, self.basins, e, perturbed_sd, off))
        return to.cross_entropy(self.model.forward_step) / self.model.steps

    def update_dynamics(self, at: training.At, final: bool) -> dict[str, float]:
        """In a final E-step the learning rate falls in the second half."""
        self.pool.renew(at.position)
        if final:
            training.set_lr(training.late_cosine(at.progress) * self.c.lr, self.theta)
            training.set_lr(training.late_cosine(at.progress) * self.c.lr, self.of_discretizer)
        losses = {"walk_loss": self.walk(at), "stay_loss": self.c.walk.stay_weight * self.stay()}
        if at.position % WAKE_EVERY == 0:
            losses["wake_loss"] = self.wake()
        training.clipped_update(self.theta, self.model.theta, torch.stack([*losses.values()]).sum())
        found = {name: float(loss.detach()) for name, loss in losses.items()}
        if at.position % self.c.discretizer_every == 0:
            found |= self.update_discretizer()
        return found | (self.update_policy() if not final and self.policy_follows(at) else {})

    def update_discretizer(self) -> dict[str, float]:
        """Likelihood of P_θ(s | z) at N(ẑ_s, ε²)."""
        e, s = self.pool.pairs(training.per_rank(DISCRETIZER_STATES))
        of = self.model.discretizer
        loss = -of(self.model.terminal_kernel(s).sample(), e.z0).log_prob(s).mean()
        training.clipped_update(self.of_discretizer, of.parameters(), loss)
        return {"discretizer_loss": float(loss.detach())}

    # -- the schedule ----------------------------------------------------------------------------
    def schedule(self) -> training.Schedule:
        c, m, phase = self.c, self.m, training.Phase
        state = {
            "phi": m.optimizer, "policy": self.of_policy, "theta": self.theta,
            "discretizer": self.of_discretizer, **self.pool.state, "backward": self.backward,
            "labels": self.labels.buffer,
        }  # fmt: skip
        phases = [phase("pretrain", 0, c.pretrain, m.pretrain)]
        spoken: Any = self.sentences
        phases.append(phase("warm_up", 0, c.warm_up, self.warm_up))
        if c.vocabulary is not None:
            vocabulary = VocabularyLearning(self.model, m, c.vocabulary, self.sentences)
            phases, state = vocabulary.phases(c.pretrain, c.warm_up), state | vocabulary.state
            spoken = vocabulary.spoken
        for k in range(c.cycles + 1):
            final = k == c.cycles
            if final:
                phases.append(phase("policy", 0, c.policy_updates, self.learn_policy))
            updates, update = (c.final_e_updates if final else c.e_updates), self.update_dynamics
            phases.append(phase("e_step", k, updates, partial(update, final=final), self.begin))
            if not final:
                labels = self.labels
                phases.append(phase("m_step", k, c.m_updates, labels.update, labels.populate))

        def summary() -> dict[str, float]:
            n, candidates = SUMMARY
            found: dict[str, float] = spoken.summary(self.model.encode(self.inputs(n)), candidates)
            return found

        return training.Schedule(self.model, phases, state, summary)


def build(model: AttractorModel, data: DataSet, c: Config) -> training.Schedule:
    return GFlowNetEM(model, data, c).schedule()
