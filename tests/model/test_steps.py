"""Bounded steps stay within their bounds."""

from __future__ import annotations

import torch

from plot_attractors.model.steps import bounded_step


def test_bounded_step_is_bounded() -> None:
    z, out = torch.randn(1000, 3), 30 * torch.randn(1000, 7)
    kernel = bounded_step(z, out, 0.25, (0.001, 0.2))
    size = (kernel.loc - z).norm(dim=-1)
    assert 0.2 < size.max() <= 0.25 + 1e-5
    assert size.min() < 0.05
    assert kernel.scale.min() >= 0.001
    assert 0.19 < kernel.scale.max() <= 0.2 + 1e-7
    along = torch.nn.functional.cosine_similarity(kernel.loc - z, out[:, :3], dim=-1)
    assert along[size > 0.01].min() > 0.999


def test_bounded_step_without_direction_stays_and_has_a_gradient() -> None:
    z, out = torch.randn(2, 3), torch.zeros(2, 7, requires_grad=True)
    kernel = bounded_step(z, out, 0.25, (0.001, 0.2))
    assert torch.equal(kernel.loc, z)
    kernel.log_prob(z + 0.1).sum().backward()
    assert out.grad is not None
    assert torch.isfinite(out.grad).all()
