"""First embeddings of tokens, the place of the empty sentence, and tokens that start anew."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from pyro.distributions import Normal

from plot_attractors.language import Language
from plot_attractors.training.vocabulary.tokens import (
    clusters,
    densest,
    place_empty_sentence,
    reset_tokens,
    spread_pairs,
    spread_tokens,
    unexplained_variance,
)

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


def test_tokens_start_along_one_used_axis_each_as_many_on_every_one(build: Any) -> None:
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


def test_pairs_start_around_what_is_densest_on_the_axes_that_tell_most(build: Any) -> None:
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


@pytest.mark.parametrize(
    ("values", "sd", "tokens", "longest", "far"),
    [
        (3, 0.1, 8, 2, True),
        (2, 0.1, 8, 2, False),  # there or not
        (3, 0.1, 4, 2, False),  # two tokens for three clusters
        (3, 0.1, 8, 1, False),  # sentences of one token, and two axes
        (3, 0.3, 8, 2, True),
        (3, 0.36, 8, 2, False),  # tokens of two clusters would tell the same
    ],
)
def test_every_cluster_of_an_axis_has_a_token(
    build: Any, values: int, sd: float, tokens: int, longest: int, far: bool
) -> None:
    model = build(sd=(sd, 0.1, 0.9), language=free(tokens, longest))
    x = torch.randn(3000, 3) * torch.tensor([0.0, 1.0, 0.0])
    x[:, 0] = 0.5 + torch.arange(3000) % values + 0.1 * torch.randn(3000)
    spread_pairs(model, x)
    base = model.sentence_encoder.mean.bias.detach()
    offsets = along(model)[model.sentence_encoder.mean.axes == 0]
    assert bool((base[0] - x[:, 0]).abs().min() > 1) == far
    if far:
        assert torch.allclose(base[0] + offsets[:3], torch.arange(3) + 0.5, atol=0.1)
        assert (offsets - offsets[0] - offsets[1]).abs().min() > 0.4  # two do not add up to a third
    assert base[1].abs() < 0.5


def test_clusters_are_parted_by_a_deep_valley_and_are_more_than_a_few() -> None:
    two, noise = torch.arange(20_000) % 2, torch.randn(20_000)
    assert len(clusters(4 * two + noise)) == 1  # the valley has a third of a peak
    far = torch.tensor([0.0, 5.0])
    assert torch.allclose(clusters(5 * two + noise), far, atol=0.2)  # and here a seventh
    for rare, found in ((440, 2), (300, 1)):  # three standard deviations from the mean
        x = torch.cat([torch.zeros(4000), torch.full((rare,), 5.0)])
        assert len(clusters(x + 0.05 * torch.randn(len(x)))) == found


def three_clusters(n: int = 3000) -> torch.Tensor:
    """States in three clusters along the first axis."""
    x = torch.randn(n, 3) * torch.tensor([0.0, 1.0, 0.0])
    x[:, 0] = torch.tensor([0.0, 1.0, 2.5])[torch.arange(n) % 3] + 0.1 * torch.randn(n)
    return x


@pytest.mark.parametrize(
    ("base", "moves"), [(-0.5, False), (-0.75, True), (3.0, False), (3.3, True)]
)
def test_the_empty_sentence_moves_from_half_a_distance_beyond_the_clusters(
    build: Any, base: float, moves: bool
) -> None:
    model, places = build(sd=NARROW, language=free(4, 2)), torch.tensor([-0.4, 2.9, -0.9, 3.4])
    set_tokens(model, [0] * 4, (places - base).tolist())
    layer = model.sentence_encoder.mean
    with torch.no_grad():
        layer.bias[0] = base
    one, empty = torch.eye(4), torch.zeros(4)
    before, beyond = model.sentence_encoder(one), model.sentence_encoder(empty)
    place_empty_sentence(model, model.encoder(three_clusters()))
    after, between = model.sentence_encoder(one), model.sentence_encoder(empty)
    assert torch.equal(between.loc[1:], beyond.loc[1:])
    assert torch.allclose(after.scale[:2], before.scale[:2], atol=1e-5)
    sd = 0.1 / 4 if moves else beyond.scale[0].item()
    assert between.scale[0].item() == pytest.approx(sd, rel=1e-4)
    moved = layer.bias[0].item() - base
    assert moved == pytest.approx(1.75 - base if moves else 0.0, abs=0.1)
    expected = places + torch.tensor([0.0, 0.0, moved, moved])  # the last two keep their offsets
    assert torch.allclose(layer.bias[0] + along(model), expected, atol=1e-5)


def test_unexplained_variance_is_a_share_of_what_varies_and_is_known() -> None:
    mean = torch.tensor([-1.0, 1.0]).repeat(500)[:, None] * torch.tensor([1.0, 2.0, 3.0, 4.0, 0.01])
    q = Normal(mean, torch.tensor([0.1, 0.2, 0.3, 0.1, 1.0]).expand(1000, 5))
    found = unexplained_variance(q, mean * torch.tensor([1.0, 0.5, 0.95, 0.0, 0.0]))
    expected = torch.tensor([0.0, (1.0 - 0.04) / 4, 0.0, (16 - 0.01) / 16, 0.0])
    assert torch.allclose(found, expected, atol=2e-3)


def test_tokens_that_start_anew_share_what_is_unexplained(build: Any) -> None:
    """A token takes three quarters of it, and the signs of such tokens take turns."""
    model = build(sd=0.01)
    set_tokens(model, [2] * 6, [0.0] * 6)
    x = torch.tensor([-1.0, 1.0]).repeat(500)[:, None] * torch.ones(3)
    model.sentence_encoder.mean.bias.data.copy_(torch.tensor([0.0, 2**0.5, 9**0.5]))
    assert reset_tokens(model, model.encoder(x), torch.zeros(1000, 6)) == 6  # shares 1, 3, 10
    assert model.sentence_encoder.mean.axes.tolist() == [2, 1, 2, 0, 1, 2]
    expected = [10**0.5, -(3**0.5), 10**0.5, -1.0, 3**0.5, -(10**0.5)]
    assert along(model).tolist() == pytest.approx(expected, rel=1e-4)


def test_tokens_that_tell_what_another_tells_start_anew(build: Any) -> None:
    model = build(sd=0.1, language=free(5, 2))
    x, s = torch.randn(50, 3) * torch.tensor([1.0, 1.0, 9.0]), torch.zeros(50, 5)
    model.sentence_encoder.mean.bias.data[2] = 9.0  # most is unexplained along the last axis
    set_tokens(model, [0, 0, 0, 1, 0], [1.0, -1.0, 1.31, 1.0, 1.62])
    assert reset_tokens(model, model.encoder(x), s) == 0
    set_tokens(model, [0, 0, 0, 1, 0], [1.0, -1.0, 1.2, 1.0, 1.45])  # the last is near to the third
    assert reset_tokens(model, model.encoder(x), s) == 1
    assert model.sentence_encoder.mean.axes.tolist() == [0, 0, 2, 1, 0]


def test_tokens_of_an_exclusive_group_share_an_axis(build: Any) -> None:
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


def test_a_token_stays_where_sentences_would_not_factor_without_it(build: Any) -> None:
    """13 tokens on an axis have more than 4,096 subsets."""
    model = build(sd=0.1, language=free(15, 15))
    set_tokens(model, [0] * 12 + [1] * 3, [float(k) for k in range(1, 13)] + [0.0, 1.0, 2.0])
    x = torch.randn(100, 3) + torch.tensor([50.0, 0.0, 0.0])
    assert reset_tokens(model, model.encoder(x), torch.zeros(100, 15)) == 1
    assert model.sentence_encoder.mean.axes.tolist() == [0] * 12 + [1] * 3
    assert model.posterior.factored


def test_tokens_start_on_more_axes_where_sentences_would_not_factor(build: Any) -> None:
    x = torch.randn(50, 3) * torch.tensor([0.0, 1.0, 0.1])
    for spread, axes in ((spread_tokens, [1, 2]), (spread_pairs, [1, 1, 2, 2])):
        model = build(sd=(0.9, 0.1, 0.9), language=free(15, 15))
        spread(model, x)
        assert model.sentence_encoder.mean.axes.tolist() == (axes * 8)[:15]
        assert model.posterior.factored
