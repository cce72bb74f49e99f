"""The walk: trajectories that are drawn backward, both likelihoods, and where inputs begin."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from plot_attractors.gflownet import Trajectories
from plot_attractors.gflownet.trajectories import score_backward, score_forward
from plot_attractors.training.walk import Walk, backward_walks, sleep_loss, wake_loss

from ..problems import Bridge, T, backward, float64, on_policy

N = 6000


def test_backward_walks_end_at_their_sentence_and_begin_where_inputs_do(build: Any) -> None:
    model = build(axes=False, epsilon=0.05, onset=2.0)
    model.onset.vector[1] = 2.0
    z0, s = torch.randn(1, 3).expand(N, 3), torch.eye(6)[:1].expand(N, 6)
    z = backward_walks(model, z0, s, 4)
    assert z.shape == (5, N, 3)
    assert torch.equal(z[0], z0 + torch.tensor([0.0, 2.0, 0.0]))
    off = z[-1] - model.embed(s).detach()
    assert torch.allclose(off.mean(0), torch.zeros(3), atol=5 * 0.05 / N**0.5)
    assert torch.allclose(off.std(0), torch.full((3,), 0.05), rtol=5 * (0.5 / N) ** 0.5)
    with torch.no_grad():
        for t in (4, 3, 2):
            to = model.onset.backward_step(model.backward_dynamics(z[t], t, z0), z[t], t, z0)
            u = (z[t - 1] - to.mean) / to.stddev
            assert torch.allclose(u.mean(0), torch.zeros(3), atol=5 / N**0.5)
            assert torch.allclose(u.var(0), torch.ones(3), rtol=5 * (2 / N) ** 0.5)


def steps_of(bridge: Any, steps: int = T) -> Any:
    """What the losses ask of a model."""
    return SimpleNamespace(
        forward_step=bridge.forward_step, backward_step=bridge.backward_step, steps=steps
    )


def gradient(loss: Any, at: float, draw: Any, of: str) -> tuple[float, float]:
    """d loss / d shift of one policy, and its standard error, over repeated draws."""
    result = []
    for _ in range(60):
        shift = torch.tensor(at, dtype=float64, requires_grad=True)
        value = loss(Bridge(**{of: shift}), draw(Bridge()))
        result.append(torch.autograd.grad(value, shift)[0])
    each = torch.stack(result)
    return float(each.mean()), float(each.std()) / len(result) ** 0.5


@pytest.mark.parametrize(
    ("of", "draw"), [("forward_shift", backward), ("backward_shift", on_policy)]
)
def test_both_likelihoods_rest_where_forward_and_backward_policy_agree(of: str, draw: Any) -> None:
    """Of a bridge whose exact policies are known; a policy that is off is moved back."""

    def loss(bridge: Bridge, trajectories: Trajectories) -> Tensor:
        model = steps_of(bridge)
        if of == "forward_shift":
            return sleep_loss(model, trajectories)
        return wake_loss(model, trajectories, T)

    torch.manual_seed(0)
    slope, error = gradient(loss, 0.0, draw, of)
    assert abs(slope) < 4 * error
    slope, error = gradient(loss, 0.1, draw, of)
    assert slope > 4 * error


def test_losses_are_scores_of_a_step() -> None:
    torch.manual_seed(0)
    bridge = Bridge(backward_shift=0.05)
    model, trajectories = steps_of(bridge), on_policy(bridge)
    forward = -score_forward(bridge.forward_step, trajectories).sum(0).mean() / T
    assert sleep_loss(model, trajectories) == pytest.approx(float(forward))
    scores = -score_backward(bridge.backward_step, trajectories).sum(0).mean() / (T - 1)
    assert wake_loss(model, trajectories, T) == pytest.approx(float(scores))
    lengths = [trajectories._replace(z=trajectories.z[: h + 1]) for h in range(3, T + 1)]
    each = [float(wake_loss(model, of, 2)) for of in lengths]
    assert sum(each) / len(each) == pytest.approx(float(scores)), "one of them stands for all"


def test_steps_of_a_walk_are_a_share_of_all(build: Any) -> None:
    assert [Walk(share=p).steps(build(steps=10)) for p in (0.01, 0.6, 1.0)] == [1, 6, 10]


# -- where inputs begin, and the noise of a step


def test_trajectories_begin_at_the_onset(build: Any) -> None:
    model = build(axes=False, onset=1.5)
    model.onset.vector[1] = 1.5
    z0 = torch.randn(4, 3)
    assert torch.equal(model.trajectories(z0)[0], z0 + model.onset.vector)
    assert torch.equal(model.trajectories(z0, start=3)[0], z0), "later states are states"


def test_noise_is_that_of_sentences_where_embeddings_vary(build: Any) -> None:
    model = build(axes=False, epsilon=0.02)
    s = model.sentences
    with torch.no_grad():
        model.sentence_encoder.mean.weight.zero_()
        model.sentence_encoder.mean.weight[0] = torch.arange(6.0)
        model.sentence_encoder.mean.weight[1] = 0.01 * torch.arange(6.0)
        sd = model.sentence_encoder(s).scale.median(0).values
    model.set_noise(s, 30)
    spread = float(model.embed(s)[:, 1].detach().std())
    expected = [min(0.05**0.5 * float(sd[0]), 0.3), max(0.05**0.5 * spread, 0.02), 0.02]
    for dynamics in (model.forward_dynamics, model.backward_dynamics):
        assert torch.allclose(dynamics.max_sd, torch.tensor(expected), atol=1e-6)
        greatest = dynamics(100 * torch.randn(200, 3), 1.0, torch.zeros(200, 3)).stddev.amax(0)
        assert (greatest <= dynamics.max_sd + 1e-6).all()


def test_untrained_dynamics_stay_near_z0(build: Any) -> None:
    """They step in much the same direction twenty times."""
    model = build(axes=False, steps=20)
    z0 = torch.randn(100, 3)
    with torch.no_grad():
        mean = z0
        for t in range(20):
            mean = model.forward_dynamics(mean, float(t), z0).mean
    assert float((mean - z0).norm(dim=-1).max()) < 0.2
