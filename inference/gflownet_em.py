"""GFlowNet-EM on listed sentences: Algorithms 1-6 with exact flows and a maximum-likelihood sleep
phase.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from plot_attractors.data import DataSet
from plot_attractors.gflownet import (
    DetailedBalance,
    EnumeratedFlow,
    ReplayBuffer,
    SubTrajectoryBalance,
    Trajectories,
    choose_visited,
    discretizer_balance,
    exploring,
    mala,
    simulate,
    simulate_backward,
)
from plot_attractors.gflownet.balance import Flow, robust_loss
from plot_attractors.gflownet.trajectories import score_backward, score_forward, shift_end_points
from plot_attractors.language.policy import SentencePolicy
from plot_attractors.model.attractor import AttractorModel, Encoding
from plot_attractors.training.bridge import GoAndWait
from plot_attractors.training.em import (
    AttractorEM,
    MStepConfig,
    Phase,
    clipped_update,
    cosine,
    require_listable,
)
from plot_attractors.training.sleep import Transitions, waiting_transitions, walking_transitions


@dataclass(frozen=True)
class Config(MStepConfig):
    # Algorithm 1, the schedule
    pretrain: int = 1500  # updates of the VAE alone
    # M-updates on the sharpened exact posterior, which give sentences their first meanings
    warm_up: int = 8000
    cycles: int = 3  # of an E-step and an M-step
    e_updates: int = 1000  # in a cycle
    m_updates: int = 250  # in a cycle
    final_e_updates: int = 40000  # last E-step, its learning rate falling
    # Algorithm 2, the replay buffer
    replay: int = 1024  # trajectories kept
    refresh: int = 100  # updates between additions to the buffer
    fresh: int = 128  # trajectories added
    alpha_dyn: float = 0.05  # probability of an off-policy step
    alpha_disc: float = 0.05  # probability of an off-policy token
    # Metropolis-adjusted Langevin moves of terminal states on their way into the buffer
    mala_steps: int = 0
    mala_step_size: float = 0.02
    # the M-step's sentences: chosen among those met along trajectories, read at z_T (Algorithm 6),
    # or drawn from the exact posterior
    label_source: Literal["trajectory", "terminal", "posterior"] = "trajectory"
    # trajectories of an input among whose sentences its label is chosen
    label_trajectories: int = 8
    label_sharpness: float = 16.0  # power of R in that choice; inf: the best
    # times an M-step uses a labelled input; the fewer, the more alike bits that go together
    label_uses: float = 16.0
    substrings: bool = False  # label with sentences obtained by deleting tokens one by one, too
    # Wake-sleep: the forward dynamics learn from backward trajectories
    sleep_trajectories: int = 96  # in an update
    sleep_weight: float = 1.0  # of their likelihood; 0 for none
    # where their sentences come from
    sleep_sentences: Literal["posterior", "prior", "met"] = "posterior"
    sleep_full_length: bool = False  # only full-length sentences from the prior
    sleep_kernel: Literal["go_and_wait", "backward_dynamics"] = "go_and_wait"
    # of the offset that makes backward trajectories start at z0: 0 straight, else exponential
    shift_decay: float = 0.0
    walk: int = 4  # steps that go_and_wait walks
    first: float = 0.8  # part of the way in the first of them
    noise: float = 0.12  # standard deviation of the walk
    persistence: float = 0.7  # ρ of the waiting
    waits: int = 4  # of its waiting steps that are scored, with the weight of all
    # states at embeddings of sentences from the prior, that learn to wait as well
    prior_states: int = 192
    prior_weight: float = 0.3  # of them, beside the waiting of a trajectory
    strays: float = 0.1  # part of them that start far from the embeddings, and learn to come back
    stray_sd: tuple[float, float] = (
        0.3,
        0.6,
    )  # least and greatest standard deviation of how far these start
    # Algorithms 3-5: backward dynamics, flow correction and discretizer learn from forward
    # trajectories
    wake_every: int = 8  # updates of the forward dynamics for one of theirs
    trajectories: int = 64  # in one of these
    wake_weight: float = 1.0  # of the likelihood of the backward dynamics on forward trajectories
    balance_weight: float = 0.0  # of the balance losses, of dynamics and discretizer
    balance: Literal["detailed", "sub_trajectory"] = "detailed"
    # part of the trajectories for balance that are backward ones, the rest comes from the buffer
    sleep: float = 0.5
    lam: float = 0.9  # λ of sub-trajectory balance
    robust: Literal["squared", "huber"] = "huber"
    widening: float = 0.08  # σ of the forward-looking variance ε² + (T − t)σ²
    # states on which the discretizer is trained in an update; 0 for none
    discretizer_states: int = 256
    discretizer_every: int = 8  # updates of the forward dynamics for one of the discretizer
    lr_theta: float = 2e-3
    # Algorithm 6, the M-step: see MStepConfig


PRESETS: dict[str, dict[str, Any]] = {
    "full": {},
    "demo": {
        "pretrain": 1000, "warm_up": 5000, "cycles": 1, "e_updates": 1000, "m_updates": 150, "final_e_updates": 5000,
    },
    # the text to the letter, as far as it says; see docs/experiments.md for what comes of it
    "paper": {
        "warm_up": 0, "cycles": 6, "e_updates": 1000, "m_updates": 500, "final_e_updates": 2000, "lr_theta": 1e-3,
        "lr_phi": 1e-3, "lr_decoder": 1e-3, "vae_weight": 1.0, "kl_weight": 1.0, "encoder_weight": 1.0,
        "sentence_weight": 0.25, "label_source": "terminal", "sleep_weight": 0.0, "sleep_sentences": "prior",
        "sleep_kernel": "backward_dynamics", "sleep": 0.2, "wake_weight": 0.0, "balance_weight": 1.0,
        "robust": "squared", "widening": 0.0, "discretizer_states": 64,
    },
    "smoke": {
        "pretrain": 20, "warm_up": 40, "cycles": 1, "e_updates": 10, "m_updates": 5, "final_e_updates": 10,
        "replay": 64, "fresh": 32, "sleep_trajectories": 16, "prior_states": 16, "wake_every": 2, "trajectories": 16,
        "discretizer_states": 16, "discretizer_every": 2, "batch": 16,
    },
}  # fmt: skip


def build(model: AttractorModel, data: DataSet, config: Config) -> GFlowNetEM:
    """For sentences that can be listed; see `GFlowNetEM`."""
    return GFlowNetEM(require_listable(model), data, config)


class GFlowNetEM(AttractorEM):
    """E-step: forward dynamics, backward dynamics, flow correction and discretizer. M-step:
    encoder, decoder, sentence encoder.
    """

    config: Config

    def __init__(self, model: AttractorModel, data: DataSet, config: Config) -> None:
        c = config
        super().__init__(model, data, self.phases(c), c)
        if model.reward_exponent != 1 and self.schedule and self.schedule[-1].name != "e_step":
            raise ValueError(
                "reward_exponent acts in E-steps, and the last phase is none: leave it at 1, or "
                "set final_e_updates"
            )
        self.optimizer_theta = torch.optim.Adam(model.theta, lr=c.lr_theta)
        self.theta_discretizer = [
            *model.discretizer.parameters(),
            *model.log_partition.parameters(),
        ]
        self.optimizer_discretizer = torch.optim.Adam(self.theta_discretizer, lr=c.lr_theta)
        self.buffer = ReplayBuffer(
            c.replay, device=self.model.device
        )  # (x, z_0 … z_T, s), for the E-step
        self.labels = ReplayBuffer(
            1_000_000, weighted=False, device=self.model.device
        )  # (x, s), for the M-step
        self.stateful |= {
            "optimizer_theta": self.optimizer_theta,
            "optimizer_discretizer": self.optimizer_discretizer,
            "buffer": self.buffer,
            "labels": self.labels,
        }
        kind = {"detailed": DetailedBalance, "sub_trajectory": SubTrajectoryBalance}[c.balance]
        extra: dict[str, Any] = {"lam": c.lam} if c.balance == "sub_trajectory" else {}
        self.balance = kind(model.forward_step, model.backward_step, c.robust, **extra)

    @staticmethod
    def phases(c: Config) -> list[Phase]:
        """Algorithm 1."""
        cycles = [
            p
            for k in range(c.cycles)
            for p in (Phase("e_step", k, c.e_updates), Phase("m_step", k, c.m_updates))
        ]
        return [
            Phase("pretrain", 0, c.pretrain),
            Phase("exact_m_step", 0, c.warm_up),
            *cycles,
            Phase("e_step", c.cycles, c.final_e_updates),
        ]

    # -- Algorithm 2: populate the replay buffer ---------------------------------------------------
    @torch.no_grad()
    def forward_trajectories(self, x: Tensor) -> tuple[Trajectories, Tensor, Tensor]:
        """Trajectories of inputs x (n, bits) with off-policy steps, and the sentence read off at
        every state from 1 on.

        Returns trajectories, sentences s (T, n, width) and their log R(s; x) (T, n).
        """
        m, c = self.model, self.config
        e = m.encode(x)
        step = exploring(m.forward_dynamics, c.alpha_dyn, m.forward_dynamics.max_step)
        trajectories = simulate(step, e.z0, m.steps, e.context)
        s = m.sentence_given_state(trajectories.z[1:], e.context).sample()
        return trajectories, s, m.log_reward(e.distribution, s)

    def begin(self, phase: Phase) -> None:
        self.model.temper(phase.name == "e_step")
        if phase.name == "e_step":
            self.buffer.clear()  # the reward has changed
            if self.config.balance_weight:
                self.populate(self.config.replay)
        elif phase.name == "m_step" and self.config.label_source != "posterior":
            self.labels.clear()
            n = max(1, round(phase.updates * self.config.batch / self.config.label_uses))
            for start in range(0, n, 1024):
                self.add_labels(min(1024, n - start))

    def add_labels(self, n: int) -> None:
        """n inputs, each labelled with a sentence met along its trajectories, chosen ∝ R^sharpness,
        or with z_T's.
        """
        c = self.config
        x = self.inputs(n)
        if c.label_source == "terminal":
            label = self.forward_trajectories(x)[1][-1]
        else:
            _, s, log_r = self.forward_trajectories(
                x.repeat(c.label_trajectories, *[1] * (x.dim() - 1))
            )
            s = s.unflatten(1, (c.label_trajectories, n)).flatten(
                0, 1
            )  # (T · trajectories, n, width)
            chosen = choose_visited(
                log_r.reshape(-1, n), self.model.language.key(s), c.label_sharpness
            )
            label = s[chosen, torch.arange(n)]
        self.labels.add(x=x, s=label)
        if c.substrings:
            self.add_substrings(x, label)

    def populate(self, n: int) -> None:
        """Adds n trajectories; with MALA, backward ones from ends that were moved on R(z_T, x)
        instead.
        """
        m, c = self.model, self.config
        x = self.inputs(n)
        trajectories, s, _ = self.forward_trajectories(x)
        z, s = trajectories.z, s[-1]
        if c.mala_steps:
            e = m.encode(x)
            flow, end = self.flow(e), trajectories.times[-1:]
            z_end, _ = mala(
                z[-1], lambda y: flow.log_flow(y[None], end)[0], c.mala_step_size, c.mala_steps
            )
            with torch.no_grad():
                z = self.backward_trajectories(z_end, e).z
                s = m.sentence_given_state(z_end, e.context).sample()
        self.buffer.add(x=x, z=z.transpose(0, 1), s=s)

    def add_substrings(self, x: Tensor, s: Tensor) -> None:
        """Labels x with every sentence on a random chain of deletions from s, down to the
        shortest.
        """
        language = self.model.language
        for _ in range(language.longest - language.min_length):
            remove = torch.rand_like(s).masked_fill(s == 0, -1).argmax(-1)
            keep = language.length(s) > language.min_length
            x, s = x[keep], language.without(s[keep], remove[keep])
            self.labels.add(x=x, s=s)

    # -- Algorithms 3 to 5: the E-step -------------------------------------------------------------
    def posterior_sentences(self, n: int) -> tuple[Encoding, Tensor]:
        """n inputs and a sentence each from the exact P(s | x)."""
        e = self.model.encode(self.inputs(n))
        return e, self.model.posterior(e.distribution).sample()

    def met_sentences(self, n: int) -> tuple[Encoding, Tensor]:
        """n inputs and for each a sentence met along its forward trajectory, chosen by reward
        (*Wake-sleep*, the second way).
        """
        x = self.inputs(n)
        _, s, log_r = self.forward_trajectories(x)
        chosen = choose_visited(log_r, self.model.language.key(s))
        return self.model.encode(x), s[chosen, torch.arange(n)]

    def prior_sentences(self, n: int) -> tuple[Encoding, Tensor]:
        """s ~ P(s), z0 ~ P(z0 | ẑ_s) (*Wake-sleep*, the first way), the mean of an imagined input
        that is rewarded as any other; with context 'x' the decoded input stands for x.
        """
        m = self.model
        language = m.language
        if self.config.sleep_full_length:
            language = replace(language, min_length=language.longest)
        s = SentencePolicy(language.prior_logits, language, (n,), device=m.device).sample()
        z0 = m.sentence_encoder(s).sample()
        return Encoding(
            m.encoder.around(z0), z0, z0 if m.context == "z0" else m.decoder(z0).sample()
        ), s

    @property
    def sentences_from(self) -> Callable[[int], tuple[Encoding, Tensor]]:
        """Where sleep takes n inputs and a sentence of each from."""
        sources = {
            "posterior": self.posterior_sentences,
            "met": self.met_sentences,
            "prior": self.prior_sentences,
        }
        return sources[self.config.sleep_sentences]

    @property
    def go_and_wait(self) -> GoAndWait:
        c = self.config
        return GoAndWait(
            self.model.steps, self.model.epsilon, c.walk, c.first, c.noise, c.persistence
        )

    @property
    def homing_speed(self) -> float:
        """Length of the mean step of states that walk back from far away, one that the dynamics can
        make.
        """
        return 0.9 * self.model.forward_dynamics.max_step

    @torch.no_grad()
    def sleep(self, n: int) -> tuple[Encoding, Tensor, Trajectories]:
        """Wake-sleep: n inputs with a sentence each, and a backward trajectory from its ẑ_s
        to z0.
        """
        e, s = self.sentences_from(n)
        if self.config.sleep_kernel == "go_and_wait":
            t = self.go_and_wait.sample(e.z0, self.model.sentence_encoder(s).loc)
        else:
            t = self.backward_trajectories(
                self.model.first_backward_kernel(s, e.context).sample(), e
            )
        return e, s, t._replace(context=e.context)

    def backward_trajectories(self, z_end: Tensor, e: Encoding) -> Trajectories:
        """Trajectories of the backward dynamics from z_T, shifted so that they start at z0."""
        backward = simulate_backward(self.model.backward_step, z_end, self.model.steps, e.context)
        return shift_end_points(backward, e.z0, self.config.shift_decay or None)

    def sleep_loss(self) -> Tensor:
        """−log P_F of backward trajectories, nats a step, and of waiting at sentences from the
        prior: rare ones need basins as deep as any.
        """
        m, c = self.model, self.config
        e, s, trajectories = self.sleep(c.sleep_trajectories)
        if c.sleep_kernel == "backward_dynamics":
            return -score_forward(m.forward_step, trajectories).mean()
        to = self.walking(e, s, trajectories)
        if c.prior_states and m.steps > c.walk:
            to = to.join(self.prior_waiting(e))
        return to.cross_entropy(m.forward_step) / m.steps

    @torch.no_grad()
    def walking(self, e: Encoding, s: Tensor, trajectories: Trajectories) -> Transitions:
        """The walk of go-and-wait trajectories to sentences s, and some of their waiting steps."""
        z_hat = self.model.sentence_encoder(s).loc
        return walking_transitions(self.go_and_wait, trajectories, z_hat, self.config.waits)

    @torch.no_grad()
    def prior_waiting(self, e: Encoding) -> Transitions:
        """Waiting at sentences from the prior, and strays that walk back to them."""
        m, c, n = self.model, self.config, self.config.prior_states
        s = SentencePolicy(m.language.prior_logits, m.language, (n,), device=m.device).sample()
        context = e.context[torch.randint(len(e.z0), (n,))]
        away, home = round(c.strays * n), m.sentence_encoder(s).loc
        to = waiting_transitions(
            self.go_and_wait, home, context, away, c.stray_sd, self.homing_speed
        )
        return to._replace(weight=c.prior_weight * to.weight)

    def replayed(self, n: int) -> tuple[Encoding, Trajectories]:
        """n forward trajectories from the buffer, rare sentences and tokens preferred."""
        old = self.buffer.draw(n)
        e, z = self.model.encode(old["x"]), old["z"].transpose(0, 1)
        e = Encoding(e.distribution, z[0], z[0] if self.model.context == "z0" else e.context)
        return e, Trajectories(z, e.context)

    def e_step(self) -> dict[str, float]:
        """One update of θ by sleep and, now and then, by wake."""
        c, metrics = self.config, {}
        if c.balance_weight and self.position % c.refresh == 0 and self.progress > 0:
            self.populate(c.fresh)
        if self.phase.cycle == c.cycles:  # the last E-step
            for group in (
                self.optimizer_theta.param_groups + self.optimizer_discretizer.param_groups
            ):
                group["lr"] = c.lr_theta * cosine(max(0.0, 2 * self.progress - 1))
        loss = torch.zeros((), device=self.model.device)
        if c.sleep_weight:
            likelihood = self.sleep_loss()
            loss = c.sleep_weight * likelihood
            metrics["sleep_loss"] = float(likelihood.detach())
        wake = None
        if self.position % c.wake_every == 0 or not c.sleep_weight:
            e = self.model.encode(self.inputs(c.trajectories))
            forward = simulate(self.model.forward_step, e.z0, self.model.steps, e.context)
            wake_loss, wake_metrics = self.wake_loss(e, forward)
            loss, metrics = loss + wake_loss, metrics | wake_metrics
            wake = e, forward
        clipped_update(self.optimizer_theta, self.model.theta, loss, c.clip)
        if c.discretizer_states and (
            self.position % c.discretizer_every == 0 or not c.sleep_weight
        ):
            metrics |= self.update_discretizer(wake)
        return metrics

    def wake_loss(self, e: Encoding, forward: Trajectories) -> tuple[Tensor, dict[str, float]]:
        """−log P_B of forward trajectories, nats a step, and the imbalance of these, sleep's and
        the buffer's.
        """
        m, c = self.model, self.config
        metrics: dict[str, float] = {}
        batch = [(e, forward)]
        if c.balance_weight:
            n_sleep = round(c.sleep * c.trajectories)
            if n_sleep:
                e_sleep, _, backward = self.sleep(n_sleep)
                batch.append((e_sleep, backward))
            if n_sleep < c.trajectories:
                batch.append(self.replayed(c.trajectories - n_sleep))
        for other, _ in batch[1:]:
            e = e + other
        trajectories = Trajectories(
            *(torch.cat(p, -2) for p in zip(*(t for _, t in batch), strict=True))
        )
        # Algorithm 3: dynamics
        if c.balance_weight:
            log_pf, log_pb = self.balance.scores(trajectories)
        else:
            log_pb = score_backward(m.backward_step, trajectories)
        likelihood = -log_pb[:, : c.trajectories].sum() / (
            c.trajectories * max(m.steps - 1, 1)
        )  # z0 is given
        loss = c.wake_weight * likelihood
        metrics["wake_loss"] = float(likelihood.detach())
        if c.balance_weight:
            imbalance = self.balance(trajectories, self.flow(e), (log_pf, log_pb))
            loss = loss + c.balance_weight * imbalance
            metrics["balance_loss"] = float(imbalance.detach())
        return loss, metrics

    def flow(self, e: Encoding) -> Flow:
        """Algorithm 4: the forward-looking flow, its sum over sentences exact."""
        m, c = self.model, self.config
        with torch.no_grad():
            embeddings, log_r = m.embeddings(), m.log_reward(e.distribution)
        variance = None
        if m.first_backward_step == "learned":  # learned through the flow at T, which it is part of
            kernel = m.first_backward_kernel(m.sentences[None], e.context[:, None])
            embeddings, variance = kernel.loc, kernel.scale.square()
        return EnumeratedFlow(
            log_r,
            embeddings,
            m.epsilon,
            m.steps,
            c.widening,
            lambda z, t: m.flow_correction(z, t, e.context),
            None if m.decodability == "none" else m.log_decodability,
            variance,
        )

    def update_discretizer(self, wake: tuple[Encoding, Trajectories] | None) -> dict[str, float]:
        """Algorithm 5 on the forward trajectories of a wake, and the likelihood of sleep's
        sentences at states drawn round their embeddings.
        """
        m, c = self.model, self.config
        loss, metrics = torch.zeros((), device=m.device), {}
        if c.sleep_weight:
            with torch.no_grad():
                e_sleep, s = self.sentences_from(c.discretizer_states)
                z = m.first_backward_kernel(s, e_sleep.context).sample()
            likelihood = -m.discretizer(z, e_sleep.context).log_prob(s).mean()
            loss = c.sleep_weight * likelihood
            metrics["discretizer_sleep_loss"] = float(likelihood.detach())
        if c.balance_weight and wake is not None:
            imbalance = self.discretizer_loss(*wake)
            loss = loss + c.balance_weight * imbalance
            metrics["discretizer_loss"] = float(imbalance.detach())
        clipped_update(self.optimizer_discretizer, self.theta_discretizer, loss, c.clip)
        return metrics

    def discretizer_loss(self, e: Encoding, trajectories: Trajectories) -> Tensor:
        """Algorithm 5: the discretizer's own trajectory balance, on states of the trajectories,
        with off-policy tokens.
        """
        m, c = self.model, self.config
        n = c.discretizer_states
        t, b = torch.randint(1, m.steps + 1, (n,)), torch.randint(trajectories.z.shape[1], (n,))
        z, e = trajectories.z[t, b], e[b]
        with torch.no_grad():
            s = m.discretizer(z, e.context, c.alpha_disc).sample()
            log_r = m.log_reward(e.distribution, s) + m.log_decodability(z, s)
            kernel = m.first_backward_kernel(s, e.context).log_prob(z).sum(-1)
        policy = m.discretizer(z, e.context)
        if (
            m.discretizer.backward_policy is None
        ):  # one building order: the backward token policy has one choice
            log_pf, log_pb = policy.log_prob(s), torch.zeros((), device=z.device)
        else:
            ranks, log_pb = m.discretizer.backward_policy.sample_order(s, z)
            log_pf = policy.log_prob_path(s, ranks)
        residual = discretizer_balance(m.log_partition(z, e.context), log_pf, log_r, kernel, log_pb)
        return robust_loss(residual, c.robust).mean()

    # -- Algorithm 6: the M-step -------------------------------------------------------------------
    def m_step(self) -> dict[str, float]:
        """One update of φ on pairs (x, s) that trajectories have labelled."""
        if self.config.label_source == "posterior":
            return self.exact_m_step()
        pairs = self.labels.draw(self.config.batch)
        return self.m_update(pairs["x"], pairs["s"])
