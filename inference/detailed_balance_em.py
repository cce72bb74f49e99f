"""Algorithms 1 to 6 of the paper to the letter: detailed balance on a weighted replay buffer.

Sentences are read by the model's P(s | z): the learned discretizer's with readout=discretizer, as
in the preset paper of `algorithms`; else the exact one, where it can be. Both flows of a transition
are of the buffer's sentence, as Algorithms 3 and 4 are printed; by flow_sentences=new, Eq.
*flow_estimate*, each has its own. Beyond the text: gradients are clipped to
a norm of 1, the VAE is trained first, and steps have a least noise (`dynamics.min_sd`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from pyro.distributions import Normal
from torch import Tensor

from plot_attractors import gflownet, training
from plot_attractors.data import DataSet
from plot_attractors.gflownet.replay import Rarity
from plot_attractors.model.attractor import AttractorModel, Encoding
from plot_attractors.ranges import Count, Positive, Share, Size, setting

BETA = 0.25  # of the KL term that moves ẑ_s
SLEEP_PRIOR = 0.5  # share of backward ones with s ~ P(s), z0 ~ P(z0 | ẑ_s); others: visited s
ALPHA = 0.05  # α_dyn and α_disc, the probabilities of an off-policy step and token
POPULATE_EVERY = 100  # updates of an E-step or an M-step


@dataclass(frozen=True)
class Config:
    pretrain: Count = setting(1500, "updates of the VAE alone")
    cycles: Count = setting(6, "cycles of an E-step and an M-step; one more E-step is last")
    e_updates: Count = setting(1000, "updates of an E-step")
    m_updates: Count = setting(500, "updates of an M-step")
    replay: Size = setting(1024, "trajectories kept; an eighth of them is new every 100 updates")
    replay_weights: Rarity | None = setting("product", "of tokens; none: all draws alike")
    batch: Size = setting(64, "trajectories in an E-update, pairs in an M-update")
    lr: Positive = setting(1e-3, "Adam's learning rate")
    sleep: Share = setting(0.1, "share of the replayed trajectories that are backward ones")
    explore: Share = setting(0.3, "share of off-policy forward ones; the rest: on-policy")
    flow_sentences: Literal["buffer", "new"] = setting(
        "buffer", "Algorithms 3, 4, or Eq. flow_estimate"
    )

    def __post_init__(self) -> None:
        if self.sleep + self.explore > 1:
            raise ValueError(
                "sleep and explore are shares of the replayed trajectories, 1 at most together, "
                f"not {self.sleep:g} and {self.explore:g}"
            )


# Full length: 51 trajectories are 1,020 transitions. The text gives no length of pretraining.
PAPER = {
    "pretrain": 15_000, "cycles": 8, "e_updates": 10_000, "m_updates": 2500, "batch": 51,
    "lr": 1e-4,
}  # fmt: skip
PRESETS: dict[str, dict[str, Any]] = {
    "full": {},
    "paper": PAPER,
    "demo": {"pretrain": 1000, "cycles": 2, "e_updates": 500, "m_updates": 250},
    "smoke": {
        "cycles": 1, "e_updates": 10, "m_updates": 5, "pretrain": 20, "replay": 64, "batch": 16,
    },
}  # fmt: skip


class DetailedBalanceEM:
    """Algorithm 1, the training loop; a variant overrides a method."""

    def __init__(self, model: AttractorModel, data: DataSet, c: Any) -> None:
        self.model, self.config = training.require_model(model, AttractorModel), c
        if model.flow_correction is None or model.log_partition is None:
            raise ValueError(
                "this inference program trains flow_correction and log_partition, which this model "
                "does not have: take plot-attractors fit algorithms, with the same --data and --set"
            )
        self.g, self.log_z = model.flow_correction, model.log_partition
        self.inputs = training.input_source(data, model)
        weights = training.MStepConfig(c.lr, 1.0, 1.0)
        self.m = training.MStep(model, self.inputs, weights, c.batch, c.lr, BETA)
        self.of_discretizer = [*model.discretizer.parameters(), *self.log_z.parameters()]
        self.of_dynamics = model.theta
        self.theta, self.discretizer = (
            torch.optim.Adam(p, c.lr, fused=True) for p in (self.of_dynamics, self.of_discretizer)
        )
        buffer = gflownet.ReplayBuffer
        self.replay = buffer(c.replay, c.replay_weights, model.device)  # (P(z0 | x), z, s)
        self.pairs = buffer(1_000_000, weights=None, device=model.device)  # (x, s)
        dynamics: Any = model.forward_dynamics
        reach = dynamics.max_step
        self.explores = gflownet.exploring(model.transition, ALPHA, reach, model.latent)
        self.balance = gflownet.DetailedBalance(model.forward_step, model.backward_step)

    # -- trajectories ----------------------------------------------------------------------------
    def forward(self, n: int, explore: bool) -> tuple[Encoding, Tensor, Tensor]:
        """Trajectories z (T + 1, n, d), of the policy or exploring, and s ~ P(s | z_T)."""
        return self.model.guide(self.inputs(n), self.explores if explore else None)

    def backward(self, n: int, prior: bool) -> tuple[Encoding, Tensor, Tensor]:
        """*Wake-sleep*: from ẑ_s to z0, with s from the prior and z0 ~ P(z0 | ẑ_s), or with a
        sentence visited along an exploring trajectory, ∝ R(s; x).
        """
        if prior:
            e, s = training.imagined(self.model, n)
        else:
            e, z, _ = self.forward(n, True)
            s = training.visited_sentence(self.model, e, z, n)
        return e, training.backward_trajectories(self.model, e, s), s

    @torch.no_grad()
    def populate(self, n: int) -> None:
        """Algorithm 2, E-step: on-policy, exploring and backward trajectories, n in all."""
        sleep, explore = round(self.config.sleep * n), round(self.config.explore * n)
        prior = round(SLEEP_PRIOR * sleep)
        ways = (
            (self.forward, False, n - sleep - explore),
            (self.forward, True, explore),
            (self.backward, False, sleep - prior),
            (self.backward, True, prior),
        )
        drawn = [draw(k, how) for draw, how, k in ways if k]
        order = torch.randperm(n)  # else the oldest, which go first, would be of one way
        q = [e.distribution for e, *_ in drawn]
        loc, scale = torch.cat([p.loc for p in q]), torch.cat([p.scale for p in q])
        z, s = torch.cat([z for _, z, _ in drawn], 1), torch.cat([s for *_, s in drawn])
        self.replay.add(loc=loc[order], scale=scale[order], z=z.transpose(0, 1)[order], s=s[order])

    def draw(self) -> tuple[Encoding, gflownet.Trajectories, Tensor]:
        """Trajectories of the buffer and their sentences, rare ones preferred."""
        old = self.replay.draw(self.config.batch)
        z = old["z"].transpose(0, 1)
        z0 = z[0, :, : self.model.latent]
        e = Encoding(Normal(old["loc"], old["scale"]), z0)
        return e, gflownet.Trajectories(z, z0), old["s"]

    # -- the E-step ------------------------------------------------------------------------------
    def update_dynamics(self) -> Tensor:
        """Algorithm 3, with the flow of Algorithm 4."""
        model = self.model
        e, trajectories, s = self.draw()
        fixed = torch.no_grad()  # φ, which reward and embeddings depend on
        flow = gflownet.SampledFlow(
            fixed(lambda z, s: model.reward(e.distribution, z, s)),
            fixed(model.embed),
            lambda z: OneOrder(model, z, e.z0),
            model.epsilon,
            model.steps,
            correction=lambda z, t: self.g(z, t, e.z0),
            sentences=s if self.config.flow_sentences == "buffer" else None,
        )
        loss = self.balance(trajectories, WithMemory(flow, model, e.z0))
        training.clipped_update(self.theta, self.of_dynamics, loss)
        return loss.detach()

    def update_discretizer(self) -> Tensor:
        """Algorithm 5, on a state of each trajectory drawn from the buffer."""
        model, batch = self.model, self.config.batch
        e, trajectories, _ = self.draw()
        z = trajectories.z[torch.randint(1, model.steps + 1, (batch,)), torch.arange(batch)]
        z = z[:, : model.latent]
        with torch.no_grad():
            s = model.discretizer(z, e.z0, ALPHA).sample()
            log_r = model.reward(e.distribution, z, s)
            log_kernel = model.terminal_kernel(s).log_prob(z).sum(-1)
        log_pf, log_pb = model.discretizer.score(s, z, e.z0)
        residual = gflownet.discretizer_balance(
            self.log_z(z, e.z0), log_pf, log_r, log_kernel, log_pb
        )
        loss = residual.square().mean()
        training.clipped_update(self.discretizer, self.of_discretizer, loss)
        return loss.detach()

    def begin_e_step(self) -> None:
        """All trajectories anew: the reward has changed."""
        self.populate(self.config.replay)

    def e_step(self, at: training.At) -> dict[str, training.Scalar]:
        if at.progress > 0 and at.position % POPULATE_EVERY == 0:
            self.populate(max(1, self.config.replay // 8))
        return {
            "balance_loss": self.update_dynamics(), "discretizer_loss": self.update_discretizer()
        }  # fmt: skip

    # -- the M-step ------------------------------------------------------------------------------
    @torch.no_grad()
    def begin_m_step(self) -> None:
        """Algorithm 2, M-step: pairs (x, s) of the policy itself."""
        self.pairs.clear()
        x = self.inputs(self.config.replay)
        self.pairs.add(x=x, s=self.model.guide(x)[-1])

    def m_step(self, at: training.At) -> dict[str, training.Scalar]:
        """Algorithm 6, on new pairs now and then."""
        if at.progress > 0 and at.position % POPULATE_EVERY == 0:
            self.begin_m_step()
        drawn = self.pairs.draw(self.config.batch)
        return self.m.update(drawn["x"], drawn["s"])

    def schedule(self) -> training.Schedule:
        c = self.config
        phases = [training.Phase("pretrain", 0, c.pretrain, self.m.pretrain)]
        for k in range(c.cycles + 1):
            phases.append(training.Phase("e_step", k, c.e_updates, self.e_step, self.begin_e_step))
            phases.append(training.Phase("m_step", k, c.m_updates, self.m_step, self.begin_m_step))
        state: dict[str, Any] = {"phi": self.m.optimizer, "theta": self.theta}
        state |= {"discretizer": self.discretizer, "replay": self.replay, "pairs": self.pairs}
        return training.Schedule(
            self.model, phases[:-1], state,
            lambda: training.summary(self.model, self.inputs(256), False),
        )  # fmt: skip


def build(model: AttractorModel, data: DataSet, c: Config) -> training.Schedule:
    return DetailedBalanceEM(model, data, c).schedule()


class WithMemory(NamedTuple):
    """The flow of latent states, times the density of their memory, for balance of both."""

    latent: gflownet.SampledFlow
    model: AttractorModel
    z0: Tensor

    def log_flow(self, z: Tensor, t: Tensor) -> Tensor:
        """z (T + 1, B, d + m), t (T + 1, 1, 1) → (T + 1, B), nats."""
        d, memory = self.model.latent, self.model.memory
        return self.latent.log_flow(z[..., :d], t) + memory.log_prob(z[..., d:], t, self.z0)


class OneOrder:
    """P(s | z, x) by one building order of s, log P(tokens) − log P←(tokens), of states z (…, d):
    the canonical one, or one that the backward policy draws (Eq. *flow_estimate*; Algorithm 4).
    """

    def __init__(self, model: AttractorModel, z: Tensor, z0: Tensor) -> None:
        self.model, self.z, self.z0 = model, z, z0

    def sample(self, shape: Any) -> Tensor:
        s: Tensor = self.model.discretizer(self.z, self.z0).sample(shape)
        return s

    def log_prob(self, s: Tensor) -> Tensor:
        log_pf, log_pb = self.model.discretizer.score(s, self.z, self.z0)
        return log_pf - log_pb
