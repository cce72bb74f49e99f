"""The onset: where it points, how it fades, and what is known backward, against algebra."""

from __future__ import annotations

import logging

import pytest
import torch
from pyro.distributions import Normal
from torch import Tensor

from plot_attractors.model.onset import PERSISTENCE, Onset

D, AXIS, EPSILON = 3, 1, 0.1


def onset(norm: float = 1.5) -> Onset:
    """Along the second of three axes, with c = 0.3."""
    of = Onset(D, norm, EPSILON).double()
    of.vector[AXIS], of.center[AXIS] = norm, 0.3
    return of


def other(z: Tensor) -> Normal:
    """What dynamics do elsewhere."""
    return Normal(z + 5.0, torch.full_like(z, 2.0))


def states(n: int) -> tuple[Tensor, Tensor, Tensor]:
    return tuple(torch.randn(3, n, D, dtype=torch.float64))  # type: ignore[return-value]


@pytest.mark.parametrize("t", [1.0, 2.0, 7.0, 30.0])
def test_forward_and_backward_steps_have_one_joint_law(t: float) -> None:
    """P(a_t | a_0) P(a_{t+1} | a_t) = P(a_{t+1} | a_0) P(a_t | a_{t+1}, a_0)."""
    of, (z0, z, to) = onset(), states(50)

    def in_axis(law: Normal, value: Tensor) -> Tensor:
        return law.log_prob(value)[:, AXIS]

    assert t < 30 or torch.allclose(of.law(z0, t).scale, torch.tensor(EPSILON).double())
    left = in_axis(of.law(z0, t), z) + in_axis(of.forward_step(other(z), z), to)
    back = of.backward_step(other(to), to, t + 1, z0)
    right = in_axis(of.law(z0, t + 1), to) + in_axis(back, z)
    assert torch.allclose(left, right, atol=1e-8)
    later = in_axis(of.law(z0, t + 2), to) + in_axis(back, z)
    assert t == 30.0 or not torch.allclose(left, later, atol=1e-3)


def test_the_law_begins_with_the_first_step() -> None:
    of, (z0, _, _) = onset(), states(4)
    law, step = of.law(z0, 1), of.forward_step(other(z0), z0 + of.vector)
    assert torch.allclose(law.loc[:, AXIS], step.loc[:, AXIS], atol=1e-12)
    assert torch.allclose(law.scale[:, AXIS], step.scale[:, AXIS], atol=1e-12)


def test_other_axes_are_those_of_the_dynamics() -> None:
    of, (z0, z, _) = onset(), states(4)
    for step in (of.forward_step(other(z), z), of.backward_step(other(z), z, 3.0, z0)):
        assert torch.equal(step.loc[:, [0, 2]], z[:, [0, 2]] + 5.0)
        assert torch.equal(step.scale[:, [0, 2]], torch.full((4, 2), 2.0, dtype=torch.float64))
        assert (step.scale[:, AXIS] <= (1 - PERSISTENCE**2) ** 0.5 * EPSILON + 1e-9).all()


def test_it_points_where_embeddings_do_not_vary(caplog: pytest.LogCaptureFixture) -> None:
    z0, z_hat = torch.randn(2, 500, D)
    z0[:, AXIS], z_hat[:, AXIS] = 0.1 + 0.01 * z0[:, AXIS], 0.3 + 0.01 * z_hat[:, AXIS]
    of = Onset(D, 1.5, EPSILON)
    of.orient(z0, z_hat)
    assert of.vector.tolist() == [0, 1.5, 0]
    assert of.center.tolist() == pytest.approx([0, 0.3, 0], abs=0.01)
    assert of.axis.tolist() == [False, True, False]
    z_hat[:, 0] *= 1e-3
    z_hat[:, AXIS] += 0.2
    of.orient(1e-3 * z0, z_hat)
    assert of.axis.tolist() == [False, True, False], "the axis stays"
    assert of.center.tolist() == pytest.approx([0, 0.5, 0], abs=0.01)
    wide = z_hat + torch.tensor([0, 1.5 * EPSILON, 0]) * torch.randn(500, D)
    of.orient(1e-3 * z0, wide)
    assert of.axis.tolist() == [True, False, False], "embeddings vary in the old one"
    of.orient(z0, torch.randn(500, D))
    assert not of.axis.any()

    none = Onset(D, 0.0, EPSILON)
    none.orient(z0, z_hat)
    assert not none.axis.any()
    for case in ((torch.randn(500, D), z_hat), (z0, wide)):
        full = Onset(D, 1.5, EPSILON)
        with caplog.at_level(logging.WARNING):
            caplog.clear()
            full.orient(*case)
        assert not full.axis.any()
        assert "inputs or embeddings vary in all latent axes" in caplog.text
        z = torch.randn(4, D)
        assert torch.equal(full.forward_step(other(z), z).loc, z + 5.0)
        assert torch.equal(full.backward_step(other(z), z, 2, z).loc, z + 5.0)
