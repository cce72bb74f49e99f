"""Algorithms 1 to 6, one by one: what is sampled, what is kept, what is trained on it."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from pyro import poutine
from torch import Tensor, nn

from plot_attractors.gflownet import DetailedBalance, Trajectories
from plot_attractors.gflownet.replay import rarity_weights
from plot_attractors.language.policy import TabulatedSentences
from plot_attractors.runs import registry

from ..attractors import HBV, D, T, run_to, schedule, tiny, with_data

SHORT = {
    "pretrain": 2, "cycles": 1, "e_updates": 3, "m_updates": 2, "replay": 40, "batch": 8,
    "sleep": 0.2, "explore": 0.3,
}  # fmt: skip
PROGRAM = registry.load("inference", "detailed_balance_em")
PAPER = registry.load("models", "algorithms").PRESETS["paper"]
MODELS: tuple[dict[str, Any], ...] = (
    PAPER,
    {"reward.beta": 0.3},
    {"language.groups": (1,) * 32, "language.max_length": 7, "steps": 1},  # too many to list
)


def build(settings: Any = (), model: Any = None, **inference: Any) -> Any:
    built, data = with_data(HBV | dict(settings), "algorithms")
    return schedule("detailed_balance_em", model or built, data, SHORT | inference)


def still() -> Any:
    """A model whose policy stays at z0, and whose embeddings are further away than any input."""
    model = tiny(name="algorithms")
    with torch.no_grad():
        last = model.forward_dynamics.net[-1]
        last.weight.zero_()
        last.bias.copy_(torch.tensor([1.0] * D + [-12.0] * (D + 1)))
        model.sentence_encoder.mean.bias.fill_(10.0)
    return model


# -- Algorithm 1: who is trained when


@pytest.mark.parametrize("settings", MODELS, ids=str)
def test_each_step_trains_its_own_parameters(settings: dict[str, Any]) -> None:
    model = tiny(settings, "algorithms")
    fit = run_to(build(settings, model), "e_step")
    theta, phi = model.theta, model.phi
    for phase, trained, fixed in (("e_step", theta, phi), ("m_step", phi, theta)):
        run_to(fit, phase)
        model.zero_grad(set_to_none=True)
        before = [p.detach().clone() for p in fixed]
        assert all(map(math.isfinite, fit.step().values()))
        assert all(map(torch.equal, fixed, before))
        assert all(p.grad is None for p in fixed)
        if model.steps > 1:  # a single step starts at z0, which is given: it has no way back
            assert all(p.grad is not None and p.grad.any() for p in trained)
    assert all(map(math.isfinite, fit.summary().values()))


def test_the_phases_end_with_an_e_step() -> None:
    names = [(phase.name, phase.cycle, phase.updates) for phase in build(cycles=2).schedule]
    steps = [("e_step", 0, 3), ("m_step", 0, 2), ("e_step", 1, 3), ("m_step", 1, 2)]
    assert names == [("pretrain", 0, 2), *steps, ("e_step", 2, 3)]


# -- Algorithm 2: what the buffers hold


def test_the_buffer_holds_on_policy_exploring_and_backward_trajectories_by_their_shares(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(PROGRAM, "ALPHA", 1.0)
    model = still()
    fit = run_to(build(model=model, pretrain=0), "e_step")
    fit.phase.begin()
    buffer = fit.state["replay"].entries
    z, s = buffer["z"][..., :D], buffer["s"]
    assert buffer["z"].shape == (40, T + 1, D + 1 + D)
    clock = buffer["z"][..., D] - 10 * 0.8 ** torch.arange(T + 1.0)
    assert clock.abs().max() < 6 * model.epsilon, "memory is not explored"
    kernel = model.terminal_kernel(s)
    backward = ((z[:, -1] - kernel.loc).abs() < 5 * model.epsilon).all(-1)
    dreamt = (z[:, 0] > 4).all(-1)  # z0 ~ P(z0 | ẑ_s), not that of an input
    moved = (z[:, 1:] - z[:, :-1]).norm(dim=-1).amax(1) > 0.02
    assert int(backward.sum()) == 8  # sleep = 0.2
    assert int(dreamt.sum()) == int((dreamt & backward).sum()) == 4  # SLEEP_PRIOR
    assert int(moved.sum()) == 20  # explore = 0.3, and those backward
    assert int((moved & backward).sum()) == 8
    order = backward.tolist()
    assert order != sorted(order), "the oldest are of all ways, so that shares stay"
    assert torch.allclose(buffer["loc"], z[:, 0], atol=1e-4), "P(z0 | x) is that of its own z0"
    assert torch.allclose(buffer["scale"], model.encoder.around(z[:, 0]).scale, atol=1e-4)


def test_a_new_e_step_starts_with_a_new_buffer_of_which_an_eighth_is_renewed() -> None:
    fit = run_to(build(e_updates=150), "e_step")
    fit.step()
    first = fit.state["replay"].entries["z"]
    fit.step()
    assert fit.state["replay"].entries["z"] is first
    fit.position = 100
    fit.step()
    later = fit.state["replay"].entries["z"]
    assert torch.equal(later[:35], first[5:])
    assert not torch.isin(later[35:], first).all((1, 2)).any()
    fit.position = 152  # the M-step changes the reward: all is of another model
    run_to(fit, "e_step", 1).step()
    assert not torch.isin(fit.state["replay"].entries["z"], later).all((1, 2)).any()


def test_labels_come_from_the_policy_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """No step of a label's trajectory is longer than the policy's, however much is explored."""
    monkeypatch.setattr(PROGRAM, "ALPHA", 1.0)
    model = still()
    fit = run_to(build(model=model, e_updates=0), "m_step")
    with poutine.trace() as traced:
        fit.phase.begin()
    node: Any = traced.trace.nodes
    z = torch.stack([node[f"z_{t}"]["value"][..., :D] for t in range(T + 1)])
    assert (z[1:] - z[:-1]).norm(dim=-1).max() < 0.01
    pairs = fit.state["pairs"].entries
    assert torch.equal(pairs["s"], node["s"]["value"])
    assert torch.equal(model.encoder(pairs["x"]).loc, z[0])
    assert len(pairs["s"]) == 40


# -- Algorithms 3 to 5: what is drawn from the buffer


def seen(module: nn.Module) -> list[tuple[Tensor, ...]]:
    """The arguments of every later call of a module."""
    calls: list[tuple[Tensor, ...]] = []
    module.register_forward_hook(lambda _, arguments, __: calls.append(arguments))
    return calls


def test_both_balances_see_states_of_the_buffer() -> None:
    fit = run_to(build(e_updates=20), "e_step")
    of_discretizer, of_flow = seen(fit.model.discretizer), seen(fit.model.flow_correction)
    result = []
    for _ in range(20):
        fit.step()
        buffer = fit.state["replay"].entries["z"][..., :D]
        whole = of_flow[-1][0].transpose(0, 1)
        assert (whole[:, None] == buffer).all((-1, -2)).any(1).all()
        trajectories = [z for z, *_ in of_discretizer if z.dim() == 3]  # drawn and scored
        assert trajectories
        assert all(torch.equal(z, of_flow[-1][0]) for z in trajectories)
        for z, z0, *_ in of_discretizer:
            if z.dim() == 3:
                continue
            own = (z0[:, None, None] == buffer[:, :1]).all(-1)
            same = ((z[:, None, None] == buffer).all(-1) & own).any(1)
            assert same.any(1).all()
            result.append(same.nonzero()[:, 1])
        of_discretizer.clear()
    assert set(torch.cat(result).tolist()) == set(range(1, T + 1)), "at all times but 0"


def test_rare_sentences_are_drawn_more_often() -> None:
    fit = run_to(build(e_updates=40, batch=50), "e_step")
    fit.step()
    buffer = fit.state["replay"].entries
    s = fit.model.sentences[[0] * 36 + [1] * 4]
    fit.state["replay"].load_state_dict({**buffer, "s": s})
    calls, rare = seen(fit.model.flow_correction), []
    while fit.phase.name == "e_step" and fit.phase.cycle == 0:
        fit.step()
        z0 = calls[-1][2]
        rare.append((z0[:, None] == buffer["z"][36:, 0, :D]).all(-1).any(1).float().mean())
    expected = rarity_weights(s)[36:].sum()
    assert expected > 0.85
    assert torch.stack(rare).mean() == pytest.approx(float(expected), abs=0.03)


def test_memory_cancels_from_the_balance() -> None:
    """Residuals are those of latent states: the flow and both steps of memory are in balance."""
    model, z0 = tiny(name="algorithms"), torch.randn(6, D)
    path = Trajectories(model.trajectories(z0), z0)
    z, t, zero = path.z, path.times, SimpleNamespace(log_flow=lambda z, t: z.new_zeros(z.shape[:2]))
    steps = DetailedBalance(model.forward_step, model.backward_step)
    flow = PROGRAM.WithMemory(zero, model, z0)
    expected = model.forward_dynamics(z[:-1], t[:-1]).log_prob(z[1:, :, :D]).sum(-1)
    back = model.backward_dynamics(z[2:], t[2:], z0).log_prob(z[1:-1, :, :D]).sum(-1)
    expected[1:] -= back
    assert torch.allclose(steps.residuals(path, flow), expected, atol=1e-2, rtol=1e-4)
    assert not torch.allclose(steps.residuals(path, zero), expected, atol=1.0)


@pytest.mark.parametrize("settings", [{}, {"reward.decodability": "posterior", "reward.beta": 0.5}])
def test_the_discretizers_loss_vanishes_for_the_exact_one(settings: dict[str, Any]) -> None:
    """P(s | z) ∝ R(z, s; x) N(z; ẑ_s, ε²), and its Z: reward, kernel and prior each enter once."""
    model = tiny({"epsilon": 0.5, "language.length_cost": 0.6, **settings}, "algorithms")

    def log_joint(z: Tensor, z0: Tensor) -> Tensor:
        s = model.sentences
        q = model.encoder.around(z0[..., None, :])
        log_r = model.reward(q, z[..., None, :], s)
        log_kernel = model.terminal_kernel(s).log_prob(z[..., None, :]).sum(-1)
        return (log_r + log_kernel).detach()

    class Exact(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.offset = nn.Parameter(torch.zeros(()))

        def forward(self, z: Tensor, z0: Tensor, explore: float = 0.0) -> TabulatedSentences:
            return TabulatedSentences(log_joint(z[..., :D], z0), model.language)

        def score(self, s: Tensor, z: Tensor, z0: Tensor) -> tuple[Tensor, float]:
            return self(z, z0).log_prob(s) + self.offset, 0.0

    class Partition(nn.Module):
        def forward(self, z: Tensor, z0: Tensor) -> Tensor:
            return log_joint(z, z0).logsumexp(-1)

    model.discretizer, model.log_partition = Exact(), Partition()
    fit = run_to(build(model=model, lr=1e-9, explore=0.8, e_updates=4), "e_step")
    losses = [fit.step()["discretizer_loss"] for _ in range(3)]
    assert max(losses) < 1e-3
    model.discretizer.offset.data.fill_(2.0)
    assert fit.step()["discretizer_loss"] == pytest.approx(4.0, rel=0.01)


@pytest.mark.parametrize("new", [False, True])
def test_both_flows_are_of_the_buffers_sentence_unless_new_ones_are_asked_for(
    new: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Algorithm 3 as printed."""
    fit = run_to(build(**({"flow_sentences": "new"} if new else {})), "e_step")
    kind, given = PROGRAM.gflownet.SampledFlow, list[Any]()
    spy = lambda *of, **more: given.append(more["sentences"]) or kind(*of, **more)  # noqa: E731
    monkeypatch.setattr(PROGRAM.gflownet, "SampledFlow", spy)
    fit.step()
    buffer = fit.state["replay"].entries["s"]
    assert (given[0] is None) is new
    assert new or (given[0][:, None] == buffer).all(-1).any(1).all()
