"""Networks: shapes of layers, the kernel of Fourier features, features of time."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from plot_attractors.model.nn import (
    Fourier,
    FourierFeatures,
    ImageEncoder,
    ImageGenerator,
    MaskedLinear,
    time_features,
)


def test_masked_layers_keep_to_their_axes() -> None:
    layer = MaskedLinear(4, 6)
    assert layer.axes.tolist() == [0, 1, 2, 3]
    assert layer.unused.tolist() == [4, 5]
    layer.place(torch.tensor([0, 3]), torch.tensor([5, 5]))
    assert layer.axes.tolist() == [5, 1, 2, 5]
    assert layer.unused.tolist() == [0, 3, 4]
    x = torch.eye(4) @ torch.diag(torch.tensor([1.0, 1, 1, 1]))
    nn.init.ones_(layer.weight)
    assert torch.equal((layer(x) - layer.bias).argmax(-1), layer.axes)
    layer(x).sum().backward()
    assert layer.weight.grad is not None
    assert torch.equal(layer.weight.grad != 0, layer.mask == 1)


def test_fourier_features_approximate_a_gaussian_kernel() -> None:
    """Mean of √2 cos(w·a + b) √2 cos(w·c + b) over w ~ N(0, σ²) and b is exp(−σ²‖a − c‖²/2)."""
    scale, n = 2.0, 100_000
    features = FourierFeatures(3, n, scale)
    z = torch.randn(6, 3) * 0.4
    f = features(z)
    assert torch.equal(f[:, :3], z)
    expected = torch.exp(-0.5 * scale**2 * torch.cdist(z, z).square())
    assert torch.allclose(f[:, 3:] @ f[:, 3:].T / n, expected, atol=5 / n**0.5)


def test_fourier_features_may_see_one_axis_each() -> None:
    """Every axis is seen by as many, and a shift along one changes no feature of another."""
    features = FourierFeatures(3, 12, 2.0, axes=True)
    assert (features.frequencies != 0).sum(0).tolist() == [1] * 12
    assert (features.frequencies != 0).sum(1).tolist() == [4] * 3
    z = torch.randn(5, 3)
    moved = features(z + torch.tensor([0.0, 0.3, 0.0])) != features(z)
    assert torch.equal(moved[:, 3:].any(0), features.frequencies[1] != 0)


def test_fourier_features_are_saved_and_not_trained() -> None:
    a, b = Fourier(16, 1.0).of(3), Fourier(16, 1.0).of(3)
    z = torch.randn(5, 3)
    assert list(a.parameters()) == []
    assert not torch.allclose(a(z), b(z))
    b.load_state_dict(a.state_dict())
    assert torch.equal(a(z), b(z))
    assert torch.equal(Fourier().of(3)(z), z)


@pytest.mark.parametrize("side", [8, 16, 64])
def test_images_grow_from_a_grid_that_every_state_is_broadcast_to(side: int) -> None:
    """Two places exchange when their coordinates do: nothing else tells them apart."""
    net = ImageGenerator(4, (3, side, side), units=8)
    z = torch.randn(2, 5, 4)
    before = net(z)
    assert before.shape == (2, 5, 3, side, side)
    assert torch.allclose(before[1, 2], net(z[1, 2][None])[0], atol=1e-5)
    net.grid = net.grid.transpose(0, 1)
    for part in net.growth:
        if isinstance(part, nn.ConvTranspose2d):
            part.weight.data = part.weight.data.transpose(2, 3)
    assert torch.allclose(net(z), before.transpose(-1, -2), atol=1e-5)


@pytest.mark.parametrize(
    ("network", "shape"),
    [(ImageEncoder((3, 8, 8), 2, units=8), (3, 8, 8)), (ImageGenerator(4, (3, 8, 8), 8), (4,))],
)
def test_many_images_are_seen_a_few_at_a_time_without_gradients(
    network: nn.Module, shape: tuple[int, ...]
) -> None:
    x, rows = torch.randn(700, *shape), list[int]()
    layer = next(part for part in network.modules() if isinstance(part, nn.Linear))
    layer.register_forward_hook(lambda _, seen, __: rows.append(len(seen[0])))
    whole = network(x)
    with torch.no_grad():
        assert torch.allclose(network(x), whole, atol=1e-6)
    assert rows == [700, 512, 188]


def test_time_features() -> None:
    f = time_features(torch.tensor([[0.0], [5.0], [10.0]]), steps=10)
    expected = torch.tensor(
        [[0, 0, 0, 0, 1, 1, 1], [0.5, 1, 0, -1, 0, -1, 0], [1, 0, 0, 0, -1, 1, -1]]
    )
    assert torch.allclose(f, expected, atol=1e-6)
