"""Independent components of the encoder's states, which become the latent axes."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from pyro.distributions import Normal

from plot_attractors.training.vocabulary.rotate import (
    axis_information,
    independent_components,
    inverse_sd,
    rotate_axes,
    used_axes,
)


def test_an_axis_is_used_where_it_tells_a_bit() -> None:
    mean = torch.tensor([-1.0, 1.0]).repeat(5000)[:, None] * torch.tensor([1.0, 2.0, 0.5])
    q = Normal(mean, torch.tensor([1.0, 0.5, 2.0]).expand(10_000, 3))
    expected = torch.tensor([0.5 * math.log(1 + ratio) for ratio in (1, 16, 1 / 16)])
    assert torch.allclose(axis_information(q), expected, atol=1e-3)
    assert used_axes(q).tolist() == [1]
    wide = torch.tensor([0.05, 0.5, 0.9])
    assert torch.allclose(0.01 + 0.99 * inverse_sd(wide).sigmoid(), wide)


def test_mixed_sources_are_found_again() -> None:
    kinds = torch.rand(8000), torch.randint(2, (8000,)), torch.randn(8000).sign().cumsum(0) % 3
    sources = torch.stack([kind.float() for kind in kinds], 1)
    mixed = sources @ torch.randn(3, 3) + 5
    result = (mixed - mixed.mean(0)) @ independent_components(mixed).T
    assert torch.allclose(result.std(0), torch.ones(3), atol=0.01)
    match = torch.corrcoef(torch.cat([result, sources], 1).T)[:3, 3:].abs()
    assert match.amax(0).min() > 0.99
    assert match.amax(1).min() > 0.99


@pytest.mark.parametrize("shape", [(8,), (3, 8, 8)], ids=["bits", "images"])
def test_rotation_changes_axes_but_not_what_is_decoded(build: Any, shape: tuple[int, ...]) -> None:
    model, x = build(latent=4, shape=shape), torch.rand(300, *shape)
    with torch.no_grad():
        for layer, factor in ((model.encoder.mean, 200), (model.encoder.sd, 0.1)):
            last = [m for m in layer.modules() if isinstance(m, torch.nn.Linear)][-1]
            last.weight.mul_(factor)
            last.bias.sub_(3)
            last.weight[0] *= 1e-3 if factor == 200 else 1  # nothing is told along the first axis
        before = model.encoder(x)
        decoded = model.decoder(before.loc).mean
        used = rotate_axes(model, x)
        after = model.encoder(x)
        assert 1 < len(used) < 4
        assert torch.allclose(model.decoder(after.loc).mean, decoded, atol=1e-4)
    assert not torch.allclose(after.loc, before.loc, atol=0.1)
    assert torch.allclose(after.loc[:, used].mean(0), torch.zeros(len(used)), atol=1e-3)
    assert torch.allclose(after.loc[:, used].T.cov(correction=0), torch.eye(len(used)), atol=1e-2)
    rest = [i for i in range(4) if i not in used.tolist()]
    assert torch.allclose(after.loc[:, rest], before.loc[:, rest], atol=1e-4)
    a, b = (before.loc - before.loc.mean(0))[:, used], after.loc[:, used]
    rotation = torch.linalg.lstsq(a, b).solution  # (k, k), b = a rotation
    sd = (before.scale[:, used].square().mean(0) @ rotation.square()).sqrt()
    assert torch.allclose(after.scale[:, used], sd.clamp(0.011, 1.0).expand(300, -1), rtol=1e-2)


def test_an_encoder_that_tells_nothing_is_left_alone(build: Any) -> None:
    model = build()
    torch.nn.init.zeros_(model.encoder.mean[-1].weight)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    assert not len(rotate_axes(model, torch.rand(50, 8)))
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
