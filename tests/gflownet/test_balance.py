"""Balance residuals vanish where flow and policies are known in closed form, and only there.

The backward kernel is a Brownian bridge pinned at z0 and the target a mixture of Gaussians, so that
(with P_B(z0 | z1) = 1) F(z, t) = Σ_s w_s N(z; z0 + (t/T)(m_s − z0), (t/T)² v + σ² t (T − t)/T), and
the forward policy is its Doob transform, a mixture of Gaussians with weights that depend on the
state.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pyro
import pytest
import torch
from pyro.distributions import Categorical, Independent, MixtureSameFamily, Normal
from torch import Tensor, nn

from plot_attractors.gflownet import (
    DetailedBalance,
    SubTrajectoryBalance,
    Trajectories,
    discretizer_balance,
    simulate,
    simulate_backward,
)
from plot_attractors.gflownet.balance import robust_loss
from plot_attractors.language import Language
from plot_attractors.language.policy import TabulatedSentences

T, B = 6, 8
float64 = torch.float64


@dataclass(frozen=True)
class Bridge:
    """Policies and flow of the module's docstring; the fields after `z0` are perturbed one at a
    time.
    """

    z0: Tensor = field(default_factory=lambda: torch.tensor([0.3, -0.2], dtype=float64))
    means: Tensor = field(
        default_factory=lambda: torch.tensor([[1.0, 0], [0, 1.5], [-1, -1]], dtype=float64)
    )
    weights: Tensor = field(default_factory=lambda: torch.tensor([0.5, 2.0, 1.0], dtype=float64))
    v: float = 0.05
    sigma: float = 0.4
    flow_weights: Tensor = field(
        default_factory=lambda: torch.tensor([0.5, 2.0, 1.0], dtype=float64)
    )
    flow_offset: float = 0.0  # nats, from z_1 on
    flow_variance: float = 1.0  # factor
    forward_shift: float = 0.0
    forward_weights: Tensor | None = None
    backward_sigma: float = 0.4
    backward_shift: float = 0.0
    log_z_offset: float = 0.0

    def moments(self, t: Tensor) -> tuple[Tensor, Tensor]:
        """Mean (…, S, d) and variance (…, 1) of z_t given the component, t (…, 1)."""
        u = t / T
        mean = self.z0 + u[..., None] * (self.means - self.z0)
        return mean, u**2 * self.v + self.sigma**2 * t * (1 - u)

    def components(self, z: Tensor, t: Tensor, weights: Tensor) -> Tensor:
        """(…, S) log w_s N(z; …); where the variance is 0, at t = 0, log w_s."""
        mean, var = self.moments(t)
        log_n = (
            Normal(mean, var.clamp(min=1e-300).sqrt()[..., None]).log_prob(z[..., None, :]).sum(-1)
        )
        return torch.where(t == 0, 0.0, log_n) + weights.log()

    def forward_step(self, z: Tensor, t: Any, context: Tensor) -> Tensor:
        t = torch.as_tensor(t, dtype=float64).reshape(1) if not torch.is_tensor(t) else t
        now, before = self.moments(t)
        mean, var = self.moments(t + 1)
        c = (t / (t + 1))[..., None]
        gain = torch.where(t > 0, var * c[..., 0] / before.clamp(min=1e-300), 0.0)[..., None]
        loc = mean + gain * (z[..., None, :] - now) + self.forward_shift
        scale = (var[..., None] * (1 - gain * c)).sqrt().expand_as(loc)
        weights = self.weights if self.forward_weights is None else self.forward_weights
        logits = self.components(z, t, weights)
        mixture = MixtureSameFamily(Categorical(logits=logits), Independent(Normal(loc, scale), 1))
        return pyro.sample("z", mixture)

    def backward_step(self, z: Tensor, t: Any, context: Tensor) -> Tensor:
        t = torch.as_tensor(t, dtype=float64).reshape(1) if not torch.is_tensor(t) else t
        loc = self.z0 + (t - 1) / t * (z - self.z0) + self.backward_shift
        scale = (self.backward_sigma * ((t - 1) / t).sqrt()).clamp(min=1e-12)
        return pyro.sample("z", Normal(loc, scale.expand_as(loc)).to_event(1))

    # a Flow
    def log_flow(self, z: Tensor, t: Tensor) -> Tensor:
        log_f = self.components(z, t / self.flow_variance**0.5, self.flow_weights).logsumexp(-1)
        return torch.where(t[..., 0] > 0, log_f + self.flow_offset, log_f)

    @property
    def log_z(self) -> Tensor:
        return self.weights.sum().log().expand(B) + self.log_z_offset


def off_policy(bridge: Bridge) -> Trajectories:
    z = torch.cat([bridge.z0.expand(1, B, 2), 1.5 * torch.randn(T, B, 2, dtype=float64)])
    return Trajectories(z, bridge.z0.expand(B, 2))


def on_policy(bridge: Bridge) -> Trajectories:
    return simulate(bridge.forward_step, bridge.z0.expand(B, 2), T, bridge.z0.expand(B, 2))


def backward(bridge: Bridge) -> Trajectories:
    end = bridge.means[torch.randint(3, (B,))] + bridge.v**0.5 * torch.randn(B, 2, dtype=float64)
    return simulate_backward(bridge.backward_step, end, T, bridge.z0.expand(B, 2))


SOURCES: dict[str, Callable[[Bridge], Trajectories]] = {
    "off": off_policy,
    "on": on_policy,
    "backward": backward,
}


@pytest.mark.parametrize("log_z", ["flow", "known"])
@pytest.mark.parametrize("source", SOURCES)
def test_residuals_vanish_in_closed_form(source: str, log_z: Any) -> None:
    bridge = Bridge()
    trajectories = SOURCES[source](bridge)
    detailed = DetailedBalance(bridge.forward_step, bridge.backward_step, log_z=log_z)
    residuals = detailed.residuals(trajectories, bridge)
    assert residuals.shape == (T, B)
    assert residuals.abs().max() < 1e-4
    assert detailed(trajectories, bridge) < 1e-8
    for lam in (0.0, 0.9, 1.0, 1e3):
        sub = SubTrajectoryBalance(bridge.forward_step, bridge.backward_step, log_z=log_z, lam=lam)
        assert sub(trajectories, bridge) < 1e-8


PERTURBATIONS: dict[str, dict[str, Any]] = {
    "flow, its reward's weights": {"flow_weights": torch.tensor([0.5, 2.0, 1.3], dtype=float64)},
    "flow, a constant after t = 0": {"flow_offset": 0.05},
    "flow, its clock": {"flow_variance": 1.1},
    "forward policy, mean": {"forward_shift": 0.02},
    "forward policy, weights": {"forward_weights": torch.tensor([0.5, 1.6, 1.0], dtype=float64)},
    "backward policy, mean": {"backward_shift": 0.02},
    "backward policy, sd": {"backward_sigma": 0.42},
    "log Z": {"log_z_offset": 0.05},
    "reward, a mean of the target": {
        "means": torch.tensor([[1.0, 0], [0, 1.5], [-1, -0.9]], dtype=float64)
    },
}


@pytest.mark.parametrize("name", PERTURBATIONS)
def test_residuals_vanish_no_more_when_one_term_is_perturbed(name: str) -> None:
    exact = Bridge()
    bridge = replace(exact, **PERTURBATIONS[name])
    trajectories = off_policy(exact)
    detailed = DetailedBalance(bridge.forward_step, bridge.backward_step, log_z="known")
    # a perturbed target concerns the flow alone: the policies stay those of the exact one
    policies = exact if name.startswith("reward") else bridge
    detailed = replace(
        detailed, forward_step=policies.forward_step, backward_step=policies.backward_step
    )
    assert detailed.residuals(trajectories, bridge).abs().max() > 0.01
    assert detailed(trajectories, bridge) > 1e-6
    sub = SubTrajectoryBalance(
        policies.forward_step, policies.backward_step, log_z="known", lam=0.9
    )
    assert sub(trajectories, bridge) > 1e-6


def test_known_log_z_concerns_the_first_transition_only() -> None:
    bridge = replace(Bridge(), log_z_offset=0.25)
    trajectories = off_policy(bridge)
    known = DetailedBalance(bridge.forward_step, bridge.backward_step, log_z="known").residuals(
        trajectories, bridge
    )
    assert torch.allclose(known[0], torch.full((B,), 0.25, dtype=float64), atol=1e-6)
    assert known[1:].abs().max() < 1e-6
    learned = DetailedBalance(bridge.forward_step, bridge.backward_step).residuals(
        trajectories, bridge
    )
    assert learned.abs().max() < 1e-6


def test_a_constant_factor_of_the_flow_is_free_unless_log_z_is_known() -> None:
    """Balance fixes a flow up to its normaliser: with w → 2w everywhere only the known log Z
    objects, by log 2.
    """
    bridge = replace(Bridge(), flow_weights=2 * Bridge().weights)
    trajectories = off_policy(bridge)
    assert DetailedBalance(bridge.forward_step, bridge.backward_step)(trajectories, bridge) < 1e-8
    known = DetailedBalance(bridge.forward_step, bridge.backward_step, log_z="known").residuals(
        trajectories, bridge
    )
    assert torch.allclose(known[0], torch.full((B,), -math.log(2), dtype=float64), atol=1e-6)


def test_forward_policy_reaches_the_target() -> None:
    """Simulated from z0, z_T is distributed as R / Z: the closed form is not only consistent but
    right.
    """
    bridge, n = Bridge(), 20_000
    z = simulate(bridge.forward_step, bridge.z0.expand(n, 2), T, bridge.z0.expand(n, 2)).z[-1]
    nearest = torch.cdist(z, bridge.means).argmin(-1)
    share = torch.bincount(nearest, minlength=3) / n
    assert torch.allclose(
        share.double(), bridge.weights / bridge.weights.sum(), atol=4.5 * (0.25 / n) ** 0.5
    )
    for s in range(3):
        assert torch.allclose(z[nearest == s].mean(0), bridge.means[s], atol=0.02)
        assert torch.allclose(
            z[nearest == s].var(0), torch.full((2,), bridge.v, dtype=float64), rtol=0.15
        )


# -- the losses as functions of residuals


def wrong() -> tuple[Bridge, Trajectories]:
    bridge = replace(Bridge(), forward_shift=0.1, flow_offset=0.2, backward_sigma=0.5)
    return bridge, off_policy(bridge)


@pytest.mark.parametrize("loss", ["squared", "huber"])
@pytest.mark.parametrize("lam", [0.5, 0.9, 1.0])
def test_sub_trajectories_against_a_double_loop(lam: float, loss: Any) -> None:
    bridge, trajectories = wrong()
    r = DetailedBalance(bridge.forward_step, bridge.backward_step).residuals(trajectories, bridge)
    total, weights = torch.zeros((), dtype=float64), 0.0
    for i in range(T):
        for j in range(i + 1, T + 1):
            total = total + lam ** (j - i) * robust_loss(r[i:j].sum(0), loss, 0.7).mean()
            weights += lam ** (j - i)
    sub = SubTrajectoryBalance(bridge.forward_step, bridge.backward_step, loss, 0.7, lam=lam)
    assert torch.allclose(sub(trajectories, bridge), total / weights)


def test_sub_trajectories_lie_between_detailed_and_trajectory_balance() -> None:
    bridge, trajectories = wrong()
    detailed = DetailedBalance(bridge.forward_step, bridge.backward_step)
    r = detailed.residuals(trajectories, bridge)
    steps = bridge.forward_step, bridge.backward_step
    assert torch.allclose(
        SubTrajectoryBalance(*steps, lam=0.0)(trajectories, bridge), detailed(trajectories, bridge)
    )
    whole = SubTrajectoryBalance(*steps, lam=1e12)(trajectories, bridge)
    assert torch.allclose(whole, r.sum(0).square().mean(), rtol=1e-6)


def test_scores_that_are_known_need_no_second_call() -> None:
    bridge, trajectories = wrong()
    balance = DetailedBalance(bridge.forward_step, bridge.backward_step)
    scores = balance.scores(trajectories)
    assert all(score.shape == (T, B) for score in scores)
    assert (scores[1][0] == 0).all(), "P_B(z0 | z1) = 1: z0 is given"

    def never(z: Tensor, t: Any, context: Tensor) -> Tensor:
        pytest.fail("scored twice")

    again = replace(balance, forward_step=never, backward_step=never)
    assert torch.equal(again(trajectories, bridge, scores), balance(trajectories, bridge))


def test_losses_do_not_depend_on_the_batch_order() -> None:
    bridge, (z, context) = wrong()
    order = torch.randperm(B)
    for kind in (DetailedBalance, SubTrajectoryBalance):
        balance = kind(bridge.forward_step, bridge.backward_step)
        a = balance(Trajectories(z, context), bridge)
        assert torch.allclose(a, balance(Trajectories(z[:, order], context[order]), bridge))


def test_robust_loss() -> None:
    r = torch.tensor([-30.0, -2.0, -0.5, 0.0, 0.5, 30.0], requires_grad=True)
    assert torch.equal(robust_loss(r), r.square())
    huber = robust_loss(r, "huber", delta=2.0)
    assert torch.allclose(huber[1:5], r[1:5].square())
    assert torch.allclose(huber[[0, 5]], torch.tensor([2 * 2.0 * 30 - 4.0] * 2))
    huber.sum().backward()
    assert r.grad is not None
    assert r.grad.abs().max() <= 4.0 + 1e-6
    with pytest.raises(ValueError, match="The robust loss is 'squared' or 'huber', not 'absolute'"):
        robust_loss(r, "absolute")  # type: ignore[arg-type]


def test_minimising_detailed_balance_finds_policy_and_flow() -> None:
    """From a wrong forward policy and a wrong flow, off-policy gradients lead to the right ones,
    log Z among them.
    """
    exact = Bridge()

    class Learned(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.log_weights = nn.Parameter(torch.zeros(3, dtype=float64))
            self.log_z = nn.Parameter(torch.zeros((), dtype=float64))

        def forward_step(self, z: Tensor, t: Any, context: Tensor) -> Tensor:
            return replace(exact, forward_weights=self.log_weights.exp()).forward_step(
                z, t, context
            )

        def log_flow(self, z: Tensor, t: Tensor) -> Tensor:
            return torch.where(t[..., 0] > 0, exact.log_flow(z, t), self.log_z)

    learned = Learned()
    balance = DetailedBalance(learned.forward_step, exact.backward_step)
    optimizer = torch.optim.Adam(learned.parameters(), lr=0.05)
    for _ in range(250):
        optimizer.zero_grad()
        balance(off_policy(exact), learned).backward()
        optimizer.step()
    assert torch.allclose(
        learned.log_weights.softmax(0), exact.weights / exact.weights.sum(), atol=0.01
    )
    assert learned.log_z.item() == pytest.approx(float(exact.weights.sum().log()), abs=0.01)


# -- the discretizer


def test_discretizer_balance_vanishes_for_the_exact_posterior() -> None:
    """log Z(z, x) + log P(s | z) = log R(s, x) + log N(z; ẑ_s, ε²) for P(s | z) ∝ R N, and for
    nothing else.
    """
    language = Language((2, 2))
    embeddings, log_r = torch.randn(8, 2, dtype=float64), torch.randn(8, dtype=float64)
    z = torch.randn(5, 2, dtype=float64)
    kernel = Normal(embeddings, 0.3).log_prob(z[:, None]).sum(-1)  # (5, 8)
    policy = TabulatedSentences(log_r + kernel, language)
    log_z = (log_r + kernel).logsumexp(-1)
    log_pf = policy.log_prob(language.sentences.double()[:, None]).T
    residual = discretizer_balance(log_z[:, None], log_pf, log_r, kernel)
    assert residual.abs().max() < 1e-4
    assert discretizer_balance(log_z[:, None], log_pf, log_r + 0.1, kernel).abs().min() > 0.09
    assert discretizer_balance(log_z[:, None], log_pf, log_r, 1.01 * kernel).abs().max() > 1e-3
    assert torch.allclose(
        discretizer_balance(log_z[:, None], log_pf, log_r, kernel, -0.5), residual + 0.5
    )
