"""Every loss is zero at the solution of a known problem, and only there."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from pyro.distributions import Normal
from torch import Tensor

from plot_attractors.gflownet import (
    DetailedBalance,
    SubTrajectoryBalance,
    Trajectories,
    TrajectoryBalance,
    VarGrad,
    discretizer_balance,
)
from plot_attractors.gflownet.balance import robust_loss
from plot_attractors.language.policy import TabulatedSentences

from ..problems import (
    EMBEDDINGS,
    LOG_REWARDS,
    TWO_TOKENS,
    B,
    Bridge,
    T,
    backward,
    float64,
    off_policy,
    on_policy,
    two_token_log_joint,
)

SOURCES = {"off-policy": off_policy, "on-policy": on_policy, "backward": backward}
LOSSES: dict[str, tuple[Any, dict[str, Any]]] = {
    "detailed balance": (DetailedBalance, {}),
    "sub-trajectories, small λ": (SubTrajectoryBalance, {"lam": 0.1}),
    "sub-trajectories, large λ": (SubTrajectoryBalance, {"lam": 1e3}),
    "trajectory balance": (TrajectoryBalance, {}),
    "VarGrad": (VarGrad, {}),
}
losses = pytest.mark.parametrize("name", LOSSES)
kinds = pytest.mark.parametrize("kind", ["squared", "huber"])


def value(name: str, bridge: Bridge, kind: Any, trajectories: Trajectories | None = None) -> Tensor:
    """A loss of a bridge with log Z known."""
    make, options = LOSSES[name]
    if make in (DetailedBalance, SubTrajectoryBalance):
        steps = bridge.forward_step, bridge.backward_step
        balance = make(*steps, loss=kind, delta=0.5, **options)
        return balance(off_policy(bridge) if trajectories is None else trajectories, bridge)
    log_z = {"log_z": bridge.log_z[0]} if make is TrajectoryBalance else {}
    ratios = bridge.log_ratios(off_policy(bridge) if trajectories is None else trajectories)
    loss: Tensor = make(B, loss=kind, delta=0.5, **log_z).objective(ratios)
    return loss


@losses
@kinds
@pytest.mark.parametrize("source", SOURCES)
def test_zero_at_the_exact_solution(name: str, kind: str, source: str) -> None:
    bridge = Bridge()
    assert abs(float(value(name, bridge, kind, SOURCES[source](bridge)))) < 1e-8


ERRORS: dict[str, dict[str, Any]] = {
    "forward policy, mean": {"forward_shift": 0.02},
    "forward policy, weights": {"forward_weights": torch.tensor([0.5, 1.6, 1.0]).double()},
    "backward policy, mean": {"backward_shift": 0.02},
    "backward policy, sd": {"backward_sigma": 0.42},
    "log Z": {"log_z_offset": 0.05},
    "flow, weights": {"flow_weights": torch.tensor([0.5, 2.0, 1.3]).double()},
    "flow, a constant after t = 0": {"flow_offset": 0.05},
    "flow, its clock": {"flow_clock": 0.95},
}


@losses
@pytest.mark.parametrize("error", ERRORS)
def test_not_zero_where_one_term_is_wrong(name: str, error: str) -> None:
    """Pyro's losses have no flow; a constant has no variance."""
    pyro_loss = name in ("trajectory balance", "VarGrad")
    blind = (pyro_loss and error.startswith("flow")) or (name == "VarGrad" and error == "log Z")
    loss = float(value(name, replace(Bridge(), **ERRORS[error]), "squared"))
    assert abs(loss) < 1e-8 if blind else loss > 1e-6


# -- balance of trajectories in detail


def detailed(bridge: Bridge, **options: Any) -> DetailedBalance:
    return DetailedBalance(bridge.forward_step, bridge.backward_step, **options)


def wrong() -> tuple[Bridge, Trajectories]:
    bridge = replace(Bridge(), forward_shift=0.1, flow_offset=0.2, backward_sigma=0.5)
    return bridge, off_policy(bridge)


@kinds
@pytest.mark.parametrize("lam", [0.0, 0.5, 1.0, 1e12])  # from detailed to trajectory balance
def test_sub_trajectories_against_a_double_loop(lam: float, kind: Any) -> None:
    bridge, trajectories = wrong()
    r = detailed(bridge).residuals(trajectories, bridge)
    total, weights = torch.zeros((), dtype=float64), 0.0
    for i in range(T):
        for j in range(i + 1, T + 1):
            total = total + lam ** (j - i - 1) * robust_loss(r[i:j].sum(0), kind, 0.7).mean()
            weights += lam ** (j - i - 1)
    sub = SubTrajectoryBalance(bridge.forward_step, bridge.backward_step, kind, 0.7, lam=lam)
    assert torch.allclose(sub(trajectories, bridge), total / weights)
    if lam == 0:
        single = detailed(bridge, loss=kind, delta=0.7)
        assert torch.allclose(single(trajectories, bridge), total / weights)


def test_robust_loss() -> None:
    r = torch.tensor([-30.0, -2.0, -0.5, 0.0, 0.5, 30.0], requires_grad=True)
    huber = robust_loss(r, "huber", delta=2.0)
    assert torch.allclose(huber[1:5], r[1:5].square())
    assert torch.allclose(huber[[0, 5]], torch.tensor([2 * 2.0 * 30 - 4.0] * 2))


def test_discretizer_balance_vanishes_for_the_exact_posterior_alone() -> None:
    """log Z(z, x) + log P(s | z) = log R(s, x) + log N(z; ẑ_s, v) for P(s | z) ∝ R N."""
    z = torch.randn(5, 2, dtype=float64)
    joint = two_token_log_joint(z, 0.09)
    kernel = Normal(EMBEDDINGS, 0.3).log_prob(z[:, None]).sum(-1)
    s = TWO_TOKENS.sentences.double()
    log_pf = TabulatedSentences(joint, TWO_TOKENS).log_prob(s[:, None]).T
    log_z = joint.logsumexp(-1)[:, None]
    residual = discretizer_balance(log_z, log_pf, LOG_REWARDS, kernel)
    assert residual.abs().max() < 1e-9
    assert discretizer_balance(log_z, log_pf, LOG_REWARDS + 0.1, kernel).abs().min() > 0.09
    assert discretizer_balance(log_z, log_pf, LOG_REWARDS, 1.01 * kernel).abs().max() > 1e-3
    moved = discretizer_balance(log_z, log_pf, LOG_REWARDS, kernel, -math.log(2))
    assert torch.allclose(moved, residual + math.log(2))
