"""GFlowNet-EM: sentences and dynamics learn from the reward alone, for languages of any size.

R(s; x) is evaluated on sentences that the model proposes; none are listed, and nothing factors.
Algorithms 1 to 6 to the letter, with detailed balance on a replay buffer, are
`detailed_balance_em`; an E-step that is taught by exact draws is `wake_sleep_em`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import torch
from pyro.distributions import Normal
from torch import Tensor

from plot_attractors import gflownet, training
from plot_attractors.data import DataSet
from plot_attractors.model.attractor import AttractorModel, Encoding
from plot_attractors.training.balance import BALANCE_INPUTS, balance_loss
from plot_attractors.training.sleep import (
    OFF_SENTENCE_STATES,
    OffSentence,
    Sleep,
    off_sentence,
)
from plot_attractors.training.vocabulary import Vocabulary, VocabularyLearning

POLICY_EVERY = 3  # updates of EM by the policy alone for one of the policy
POLICY_INPUTS = 32  # in an update of the policy
DISCRETIZER_EVERY = 8  # updates of the forward dynamics for one of the discretizer
POOL = 8192  # pairs (x, s) that an E-step draws from at a time
RENEW_EVERY = 16  # updates between new inputs in the pool
USES = 4  # times that a sleep update uses a pair, in the mean
LABEL_USES = 16  # times an M-step uses a labelled input
COST_INPUTS = 1024  # whose sentences tell what tokens cost
SUMMARY = 64, 256  # inputs and candidates that tell how well the policy proposes


@dataclass(frozen=True)
class Config:
    pretrain: int = 1500  # updates of the VAE alone
    warm_up: int = 10_000  # of EM by the policy alone, a third of them the policy's
    policy_updates: int = 1500  # of the policy before the last E-step, its learning rate falling
    cycles: int = 3  # of an E-step and an M-step
    e_updates: int = 1000  # in a cycle
    m_updates: int = 250  # in a cycle
    final_e_updates: int = 45_000  # the last E-step, its learning rate falling in the second half
    lr: float = 2e-3  # Adam's, in the E-step
    lr_policy: float = 1e-3  # Adam's, of P(s | z0)
    balance: Literal["none", "detailed", "sub_trajectory", "trajectory", "vargrad"] = "none"
    balance_weight: float = 0.05  # of balance on forward trajectories, beside sleep
    sentences: training.Sampling = field(default_factory=training.Sampling)
    sleep: Sleep = field(default_factory=Sleep)
    m_step: training.MStepConfig = field(default_factory=training.MStepConfig)
    vocabulary: Vocabulary | None = None  # phases in which tokens of one axis each learn

    def __post_init__(self) -> None:
        training.check_counts(self)

    def inert(self) -> dict[str, str]:
        """Settings that have no effect beside the others, and why."""
        found = {} if self.cycles else dict.fromkeys(("e_updates", "m_updates"), "no cycles")
        return found | ({} if self.balance != "none" else {"balance_weight": "balance=none"})


SMOKE: dict[str, Any] = {
    "pretrain": 20, "warm_up": 40, "policy_updates": 10, "cycles": 1, "e_updates": 10,
    "m_updates": 5, "final_e_updates": 10, "sleep.trajectories": 16, "m_step.batch": 16,
}  # fmt: skip
PRESETS: dict[str, dict[str, Any]] = {
    "full": {},
    "demo": {"pretrain": 1000, "warm_up": 5000, "cycles": 1, "final_e_updates": 4000},
    "smoke": SMOKE,
}


SPRITES = {
    "pretrain": 3000, "warm_up": 2000, "cycles": 0, "final_e_updates": 10_000,
    "sentences.candidates": 16, "sentences.temperatures": 10, "sentences.moves": 2,
    "m_step.vae_weight": 1.0, "m_step.kl_weight": 1.0, "m_step.lr_decoder": 4e-3,
    "sleep.trajectories": 48, "sleep.steps": 10, "sleep.first": 0.25, "sleep.noise": 0.04,
    "sleep.perturbed_sd": (0.3, 2.0),
}  # fmt: skip
ANNEALED = {"sentences.candidates": 4, "sentences.temperatures": 3, "sentences.moves": 1}
PRESETS_OF = {
    "dsprites": {
        "full": SPRITES,
        "demo": {**SPRITES, "pretrain": 1500, "warm_up": 500, "final_e_updates": 2000},
        "smoke": {**SMOKE, **ANNEALED},
    }
}


def build(model: AttractorModel, data: DataSet, c: Config) -> training.Schedule:
    """EM by the sentence policy alone, cycles of EM through the dynamics, a last E-step."""
    model = training.require_model(model, AttractorModel)
    inputs = training.input_source(data, model, c.m_step.batch)
    m = training.MStep(model, inputs, c.m_step)
    policy = model.add_sentence_policy()  # P_θ(s | z0)
    of_policy = torch.optim.Adam(policy.parameters(), c.lr_policy)
    sentences = training.SampledSentences(model, policy, c.sentences)
    vocabulary = None
    if c.vocabulary is not None:
        vocabulary = VocabularyLearning(model, m, c.vocabulary, sentences)
    labels = gflownet.ReplayBuffer(1_000_000, weighted=False, device=model.device)  # (x, s)
    pool = gflownet.ReplayBuffer(POOL, weighted=False, device=model.device)  # (P(z0 | x), z0, s)
    off_pool = gflownet.ReplayBuffer(POOL, weighted=False, device=model.device)  # (z, ẑ, z0)

    # -- the sentence policy ---------------------------------------------------------------------
    def update_policy(rate: float = 1.0) -> dict[str, float]:
        """Balance of P_θ(s | z0) per input (`SampledSentences.policy_loss`)."""
        for group in of_policy.param_groups:
            group["lr"] = rate * c.lr_policy
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
    @torch.no_grad()
    def renew(n: int) -> None:
        """n pairs more in the pool: inputs with all their candidates."""
        e = model.encode(inputs(max(1, n // c.sentences.candidates)))
        s = sentences.population(e.distribution).s
        row = torch.arange(len(e.z0)).repeat(len(s))
        of = e[row]
        q = of.distribution
        pool.add(loc=q.loc, scale=q.scale, z0=of.z0, s=s.flatten(0, 1))
        few = OFF_SENTENCE_STATES * RENEW_EVERY // USES
        if found := off_sentence(model, e, c.sleep, sentences, few):
            off_pool.add(s=found.z, **found._asdict())

    def pairs(n: int) -> tuple[Encoding, Tensor]:
        """n inputs and a sentence of P(s | x) each."""
        drawn = pool.draw(n)
        return Encoding(Normal(drawn["loc"], drawn["scale"]), drawn["z0"]), drawn["s"]

    def off(_: Encoding) -> OffSentence | None:
        if not off_pool:
            return None
        drawn = off_pool.draw(OFF_SENTENCE_STATES)
        return OffSentence(drawn["z"], drawn["z_hat"], drawn["z0"])

    e_step = training.EStep(model, inputs, pairs, c.sleep, off, c.lr, DISCRETIZER_EVERY)

    def balance() -> Tensor | None:
        """Of forward trajectories (`training.balance`)."""
        if c.balance == "none":
            return None
        e = model.encode(inputs(BALANCE_INPUTS))
        return c.balance_weight * balance_loss(model, e, sentences, c.balance)

    def begin_e_step(cycle: int) -> None:
        """A new pool, since the reward has changed, and what ends the learning of tokens."""
        if vocabulary is not None:
            vocabulary.finish(cycle)
        elif model.prior.odds_cost:
            sentences.fit_costs(model.encode(inputs(COST_INPUTS)).distribution)
        pool.clear()
        off_pool.clear()
        renew(POOL)

    def update_dynamics(at: training.At, final: bool) -> dict[str, float]:
        if at.position % RENEW_EVERY == 0:
            renew(RENEW_EVERY * c.sleep.trajectories // USES)
        found = e_step.update(at, final, balance())
        if not final and at.position % POLICY_EVERY == 0 and c.sentences.temperatures == 1:
            found |= update_policy()  # which follows the M-steps
        return found

    # -- the M-step ------------------------------------------------------------------------------
    def populate() -> None:
        """Labels: for every input a sentence that the discretizer reads on its trajectories."""
        labels.clear()
        n = max(1, round(c.m_updates * c.m_step.batch / LABEL_USES))
        for start in range(0, n, 1024):
            x = inputs(min(1024, n - start))
            labels.add(x=x, s=training.visited_sentences(model, x, readout=model.discretizer))

    def m_step(_: training.At) -> dict[str, float]:
        drawn = labels.draw(c.m_step.batch)
        return m.update(drawn["x"], drawn["s"])

    def e_phase(k: int, updates: int) -> training.Phase:
        update = partial(update_dynamics, final=k == c.cycles)
        return training.Phase("e_step", k, updates, update, lambda: begin_e_step(k))

    state = {"phi": m.optimizer, "policy": of_policy, **e_step.state, "labels": labels}
    state |= {"pool": pool, "off_pool": off_pool}
    phases = [
        training.Phase("pretrain", 0, c.pretrain, m.pretrain),
        training.Phase("warm_up", 0, c.warm_up, warm_up),
    ]
    if vocabulary is not None:
        phases, state = vocabulary.phases(c.pretrain, c.warm_up), state | vocabulary.state
    for k in range(c.cycles):
        e = e_phase(k, c.e_updates)
        phases += [e, training.Phase("m_step", k, c.m_updates, m_step, populate)]
    phases.append(training.Phase("policy", 0, c.policy_updates, learn_policy))
    phases.append(e_phase(c.cycles, c.final_e_updates))

    def summary() -> dict[str, float]:
        n, candidates = SUMMARY
        return sentences.summary(model.encode(inputs(n)), candidates)

    return training.Schedule(model, phases, state, summary)
