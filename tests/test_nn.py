"""Networks: shapes of layers, the kernel of Fourier features, features of time."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from plot_attractors.nn import MLP, FourierFeatures, time_features


@pytest.mark.parametrize("layers", [1, 2, 3, 5])
def test_layers_are_linear_layers(layers: int) -> None:
    net = MLP(4, 2, units=8, layers=layers)
    assert sum(isinstance(part, nn.Linear) for part in net) == layers
    assert isinstance(net[-1], nn.Linear)
    assert net(torch.randn(3, 5, 4)).shape == (3, 5, 2)


def test_no_layers() -> None:
    with pytest.raises(ValueError, match="layers must be at least 1"):
        MLP(4, 2, layers=0)


def test_fourier_features_approximate_a_gaussian_kernel() -> None:
    """Mean of √2 cos(w·a + b) √2 cos(w·c + b) over w ~ N(0, σ²) and b is exp(−σ²‖a − c‖²/2)."""
    scale, n = 2.0, 100_000
    features = FourierFeatures(3, n, scale)
    z = torch.randn(6, 3) * 0.4
    f = features(z)
    assert torch.equal(f[:, :3], z)
    kernel = f[:, 3:] @ f[:, 3:].T / n
    expected = torch.exp(-0.5 * scale**2 * torch.cdist(z, z).square())
    assert torch.allclose(kernel, expected, atol=5 / n**0.5)


def test_fourier_features_are_saved_and_not_trained() -> None:
    a, b = FourierFeatures(3, 16, 1.0), FourierFeatures(3, 16, 1.0)
    assert list(a.parameters()) == []
    z = torch.randn(5, 3)
    assert not torch.allclose(a(z), b(z))
    b.load_state_dict(a.state_dict())
    assert torch.equal(a(z), b(z))


def test_time_features() -> None:
    f = time_features(torch.tensor([[0.0], [5.0], [10.0]]), steps=10)
    expected = torch.tensor([[0, 0, 0, 0, 1, 1, 1], [0.5, 1, 0, -1, 0, -1, 0], [1, 0, 0, 0, -1, 1, -1]])
    assert torch.allclose(f, expected, atol=1e-6)
    assert len(torch.unique((time_features(torch.arange(21.0)[:, None], 20) * 1e4).round(), dim=0)) == 21
