"""Independent components become the latent axes, and tokens begin, and begin anew, along them."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from pyro.distributions import Normal

from plot_attractors.language import Language
from plot_attractors.training.vocabulary.rotate import (
    axis_information,
    independent_components,
    inverse_sd,
    rotate_axes,
    used_axes,
)
from plot_attractors.training.vocabulary.tokens import (
    densest,
    reset_tokens,
    spread_pairs,
    spread_tokens,
    unexplained_variance,
)

from .models import build_model as build


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
def test_rotation_changes_axes_but_not_what_is_decoded(shape: tuple[int, ...]) -> None:
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


NARROW = (0.1, 0.1, 0.9)  # sd of an encoder that tells something along two of three axes


def free(tokens: int, longest: int) -> Language:
    return Language((1,) * tokens, min_length=0, max_length=longest)


def along(model: Any) -> torch.Tensor:
    """(tokens,) how far each token moves its axis."""
    layer = model.sentence_encoder.mean
    return layer.weight[layer.axes, torch.arange(len(layer.axes))].detach()


def set_tokens(model: Any, axes: list[int], offsets: list[float]) -> None:
    layer, tokens = model.sentence_encoder.mean, torch.arange(len(axes))
    with torch.no_grad():
        layer.place(tokens, torch.tensor(axes))
        model.sentence_encoder.sd.place(tokens, torch.tensor(axes))
        layer.weight[axes, tokens] = torch.tensor(offsets)


def test_tokens_start_along_one_used_axis_each_as_many_on_every_one() -> None:
    model = build(sd=NARROW, language=free(8, 3))
    x = torch.randn(100, 3) * torch.tensor([1.0, 2.0, 0.1]) + 3
    spread_tokens(model, x)
    layer = model.sentence_encoder.mean
    assert layer.axes.tolist() == [0, 1] * 4
    assert model.sentence_encoder.sd.axes.tolist() == [0, 1] * 4
    assert torch.equal(layer.mask, (layer.weight != 0).float())
    assert torch.allclose(layer.bias, x.mean(0))
    first = along(model)[::2] / x[:, 0].std()
    assert torch.allclose(first, torch.tensor([0.6, -0.6, 0.36, -0.36]), atol=1e-4)


def test_pairs_start_around_what_is_densest_on_the_axes_that_tell_most() -> None:
    model = build(latent=4, sd=(0.2, 0.1, 0.3, 0.9), language=free(8, 5))
    x = torch.randn(2000, 4) * torch.tensor([1.0, 1.0, 1.0, 0.0])
    x[:, 0] = (torch.rand(2000) < 0.4).float() * 3 + 0.3 * torch.randn(2000)  # there or not
    spread_pairs(model, x)
    layer = model.sentence_encoder.mean
    assert layer.axes.tolist() == [1, 1, 0, 0, 2, 2, 1, 1]
    expected = torch.tensor([0.87, -0.87] * 3 + [0.435, -0.435])
    assert torch.allclose(along(model) / x.std(0)[layer.axes], expected, atol=1e-4)
    assert abs(layer.bias[0].item()) < 0.4  # its mean is 1.2
    assert torch.allclose(layer.bias[1:], x[:, 1:].mean(0), atol=0.5)
    assert torch.equal(layer.bias[:3], densest(x[:, :3]))


def test_unexplained_variance_is_a_share_of_what_varies_and_is_known() -> None:
    mean = torch.tensor([-1.0, 1.0]).repeat(500)[:, None] * torch.tensor([1.0, 2.0, 3.0, 4.0, 0.01])
    q = Normal(mean, torch.tensor([0.1, 0.2, 0.3, 0.1, 1.0]).expand(1000, 5))
    result = unexplained_variance(q, mean * torch.tensor([1.0, 0.5, 0.95, 0.0, 0.0]))
    expected = torch.tensor([0.0, (1.0 - 0.04) / 4, 0.0, (16 - 0.01) / 16, 0.0])
    assert torch.allclose(result, expected, atol=2e-3)


def test_tokens_that_start_anew_share_what_is_unexplained() -> None:
    """A token takes three quarters of it, and the signs of such tokens take turns."""
    model = build(sd=0.01)
    set_tokens(model, [2] * 6, [0.0] * 6)
    x = torch.tensor([-1.0, 1.0]).repeat(500)[:, None] * torch.ones(3)
    model.sentence_encoder.mean.bias.data.copy_(torch.tensor([0.0, 2**0.5, 9**0.5]))
    assert reset_tokens(model, model.encoder(x), torch.zeros(1000, 6)) == 6  # shares 1, 3, 10
    assert model.sentence_encoder.mean.axes.tolist() == [2, 1, 2, 0, 1, 2]
    expected = [10**0.5, -(3**0.5), 10**0.5, -1.0, 3**0.5, -(10**0.5)]
    assert along(model).tolist() == pytest.approx(expected, rel=1e-4)


def test_tokens_that_tell_what_another_tells_start_anew() -> None:
    model = build(sd=0.1, language=free(5, 2))
    x, s = torch.randn(50, 3) * torch.tensor([1.0, 1.0, 9.0]), torch.zeros(50, 5)
    model.sentence_encoder.mean.bias.data[2] = 9.0  # most is unexplained along the last axis
    set_tokens(model, [0, 0, 0, 1, 0], [1.0, -1.0, 1.31, 1.0, 1.62])
    assert reset_tokens(model, model.encoder(x), s) == 0
    set_tokens(model, [0, 0, 0, 1, 0], [1.0, -1.0, 1.2, 1.0, 1.45])  # the last is near to the third
    assert reset_tokens(model, model.encoder(x), s) == 1
    assert model.sentence_encoder.mean.axes.tolist() == [0, 0, 2, 1, 0]


def test_tokens_of_an_exclusive_group_share_an_axis() -> None:
    language = Language((2, 3, 1, 1, 2), min_length=0, max_length=3)
    model, x = build(latent=4, sd=0.1, language=language), torch.randn(100, 4)
    spread_tokens(model, x)
    layer = model.sentence_encoder.mean
    assert layer.axes.tolist() == [0, 0, 1, 1, 1, 2, 3, 0, 0]
    expected = torch.tensor([0.6, -0.6, 0.36, -0.36]) * x[:, 0].std()
    assert torch.allclose(along(model)[[0, 1, 7, 8]], expected, atol=1e-4)
    with torch.no_grad():
        layer.bias[3] = 9.0
        layer.weight.zero_()
    assert reset_tokens(model, model.encoder(x), torch.zeros(100, 9)) == 9
    assert layer.axes.tolist() == [0, 0, 1, 1, 1, 3, 3, 0, 0]
    assert model.posterior.factored
