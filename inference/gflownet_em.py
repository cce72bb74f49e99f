"""GFlowNet-EM: Algorithms 1 to 6 of the paper, from the reward alone, for a language of any size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from pyro.distributions import Normal
from torch import Tensor

from plot_attractors.data import DataSet
from plot_attractors.gflownet import (
    DetailedBalance,
    ReplayBuffer,
    SampledFlow,
    Trajectories,
    choose_visited,
    discretizer_balance,
    exploring,
    simulate_backward,
)
from plot_attractors.gflownet.trajectories import shift_end_points
from plot_attractors.model.attractor import AttractorModel, Encoding
from plot_attractors.training.m_step import MStep, MStepConfig, check_counts, input_source, usage
from plot_attractors.training.schedule import At, Phase, Schedule, clipped_update, require_model

BETA = 0.25  # of the KL term that moves ẑ_s
POPULATE_EVERY = 100  # updates of an E-step


@dataclass(frozen=True)
class Config:
    pretrain: int = 1500  # updates of the VAE alone
    cycles: int = 6  # of an E-step and an M-step; one more E-step is last
    e_updates: int = 1000  # in a cycle
    m_updates: int = 500  # in a cycle
    replay: int = 1024  # trajectories kept; an eighth of them is new every 100 updates
    batch: int = 64  # trajectories in an E-update, pairs in an M-update
    lr: float = 1e-3  # Adam's
    sleep: float = 0.1  # share of the replayed trajectories that are backward ones
    sleep_prior: float = 0.5  # share of these with s ~ P(s), z0 ~ P(z0 | ẑ_s); others: visited s
    explore: float = 0.3  # share that are forward ones with off-policy steps; the rest on-policy
    alpha_dyn: float = 0.05  # probability of an off-policy step
    alpha_disc: float = 0.05  # probability of an off-policy token
    within: Literal["ball", "box"] = "ball"  # where the mean of an off-policy step is uniform
    flow_samples: int = 1  # sentences in the estimate of a flow
    widening: float = 0.0  # σ of the forward-looking variance ε² + (T − t)σ²; the paper: 0

    def __post_init__(self) -> None:
        check_counts(self)
        if not (self.sleep >= 0 and self.explore >= 0 and self.sleep + self.explore <= 1):
            raise ValueError(
                "sleep and explore are shares of the replayed trajectories, 0 or more and 1 at "
                f"most together, not {self.sleep:g} and {self.explore:g}"
            )


PRESETS: dict[str, dict[str, Any]] = {
    "full": {},
    "paper": {},
    "demo": {"pretrain": 1000, "cycles": 2, "e_updates": 500, "m_updates": 250},
    "smoke": {
        "pretrain": 20,
        "cycles": 1,
        "e_updates": 10,
        "m_updates": 5,
        "replay": 64,
        "batch": 16,
    },
}


def build(model: AttractorModel, data: DataSet, c: Config) -> Schedule:
    """Algorithm 1, the training loop."""
    inputs = input_source(data, require_model(model, AttractorModel), c.batch)
    m = MStep(model, inputs, MStepConfig(c.batch, c.lr, c.lr, 1.0, 1.0), BETA)
    of_discretizer = [*model.discretizer.parameters(), *model.log_partition.parameters()]
    theta, discretizer = (torch.optim.Adam(p, c.lr) for p in (model.theta, of_discretizer))
    replay = ReplayBuffer(c.replay, device=model.device)  # (P(z0 | x), z_0 … z_T, s)
    pairs = ReplayBuffer(1_000_000, weighted=False, device=model.device)  # (x, s)
    balance = DetailedBalance(model.forward_step, model.backward_step)
    max_step = float(model.forward_dynamics.max_step)  # type: ignore[arg-type]
    explores = exploring(model.forward_dynamics, c.alpha_dyn, max_step, c.within)

    @torch.no_grad()
    def forward(n: int, explore: bool) -> tuple[Encoding, Tensor, Tensor]:
        """Algorithm 2: trajectories z (T + 1, n, d) of the policy, or exploring, and s (n, width)."""
        x = inputs(n)
        z, s = model.guide(x, explores if explore else None)
        return Encoding(model.encode(x).distribution, z[0]), z, s

    @torch.no_grad()
    def backward(n: int, prior: bool) -> tuple[Encoding, Tensor, Tensor]:
        """*Wake-sleep*: from ẑ_s to z0, of s ~ P(s) and z0 ~ P(z0 | ẑ_s), or of a sentence visited
        along an exploring trajectory, ∝ R(s; x).
        """
        if prior:
            s = model.prior.policy(n, model.reward.beta, model.device).sample()
            z0 = model.sentence_encoder(s).sample()
            e = Encoding(model.encoder.around(z0), z0)
        else:
            e, z, _ = forward(n, True)
            visited = model.readout(z[1:], e.z0).sample()
            log_r = model.reward.log(e.distribution, visited)
            s = visited[choose_visited(log_r, model.language.key(visited)), torch.arange(n)]
        end = model.terminal_kernel(s).sample()
        path = simulate_backward(model.backward_step, end, model.steps, e.z0)
        return e, shift_end_points(path, e.z0).z, s

    def populate(n: int) -> None:
        """Algorithm 2, E-step: n more trajectories, on-policy, exploring and backward."""
        sleep = round(c.sleep * n)
        prior, explore = round(c.sleep_prior * sleep), round(c.explore * n)
        for count, sample, kind in (
            (n - sleep - explore, forward, False),
            (explore, forward, True),
            (sleep - prior, backward, False),
            (prior, backward, True),
        ):
            if count:
                e, z, s = sample(count, kind)
                q = e.distribution
                replay.add(loc=q.loc, scale=q.scale, z=z.transpose(0, 1), s=s)

    def draw() -> tuple[Encoding, Trajectories]:
        """Trajectories of the buffer, rare sentences and tokens preferred."""
        old = replay.draw(c.batch)
        z = old["z"].transpose(0, 1)
        return Encoding(Normal(old["loc"], old["scale"]), z[0]), Trajectories(z, z[0])

    def flow(e: Encoding) -> SampledFlow:
        """Algorithm 4."""
        return SampledFlow(
            lambda z, s: model.reward(e.distribution, z, s).detach(),
            lambda s: model.embed(s).detach(),
            lambda z: model.discretizer(z, e.z0),
            model.epsilon,
            model.steps,
            c.flow_samples,
            c.widening,
            lambda z, t: model.flow_correction(z, t, e.z0),
        )

    def update_dynamics() -> float:
        """Algorithm 3."""
        e, trajectories = draw()
        loss = balance(trajectories, flow(e))
        clipped_update(theta, model.theta, loss)
        return float(loss.detach())

    def update_discretizer() -> float:
        """Algorithm 5, on a state of each trajectory drawn from the buffer."""
        e, trajectories = draw()
        t, b = torch.randint(1, model.steps + 1, (c.batch,)), torch.arange(c.batch)
        z = trajectories.z[t, b]
        with torch.no_grad():
            s = model.discretizer(z, e.z0, c.alpha_disc).sample()
            log_r = model.reward(e.distribution, z, s)
            log_kernel = model.terminal_kernel(s).log_prob(z).sum(-1)
        log_pf, log_pb = model.discretizer.score(s, z, e.z0)
        log_z = model.log_partition(z, e.z0)
        loss = discretizer_balance(log_z, log_pf, log_r, log_kernel, log_pb).square().mean()
        clipped_update(discretizer, of_discretizer, loss)
        return float(loss.detach())

    def begin_e_step() -> None:
        replay.clear()  # the reward has changed
        populate(c.replay)

    def e_step(at: At) -> dict[str, float]:
        if at.progress > 0 and at.position % POPULATE_EVERY == 0:
            populate(max(1, c.replay // 8))
        return {"balance_loss": update_dynamics(), "discretizer_loss": update_discretizer()}

    def begin_m_step() -> None:
        """Algorithm 2, M-step: pairs (x, s) of the policy itself."""
        pairs.clear()
        x = inputs(c.replay)
        with torch.no_grad():
            pairs.add(x=x, s=model.guide(x)[1])

    def m_step(_: At) -> dict[str, float]:
        """Algorithm 6."""
        drawn = pairs.draw(c.batch)
        return m.update(drawn["x"], drawn["s"])

    phases = [Phase("pretrain", 0, c.pretrain, m.pretrain)]
    for k in range(c.cycles):
        phases.append(Phase("e_step", k, c.e_updates, e_step, begin_e_step))
        phases.append(Phase("m_step", k, c.m_updates, m_step, begin_m_step))
    phases.append(Phase("e_step", c.cycles, c.e_updates, e_step, begin_e_step))
    state = {"phi": m.optimizer, "theta": theta, "discretizer": discretizer}
    state |= {"replay": replay, "pairs": pairs}
    return Schedule(
        model, phases, state, lambda: usage(model.language, model.describe(inputs(256)).s[:, 0])
    )
