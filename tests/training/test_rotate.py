"""Independent components of the latent space, and tokens that start along them."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from plot_attractors.runs import registry
from plot_attractors.training.vocabulary.rotate import (
    axis_information,
    clusters,
    independent_components,
    restart_tokens,
    settle_silence,
    share_missed,
    spread_tokens,
    turn_axes,
)

SMALL = {"latent": 6, "units": 16, "auxiliary_units": 16, "fourier_features": 8}


def built(name: str, **settings: Any) -> tuple[Any, Any]:
    torch.manual_seed(0)
    program = registry.load("models", name)
    config = program.Config(**{**program.PRESETS["smoke"], **SMALL, **settings})
    data = program.load_data(config)
    return program.build(config, data), data


def test_mixed_sources_are_found_again() -> None:
    torch.manual_seed(0)
    sources = torch.stack(
        [
            torch.rand(8000),
            torch.randint(2, (8000,)).float(),
            torch.randn(8000).sign().cumsum(0) % 3,
        ],
        1,
    )
    mixed = sources @ torch.randn(3, 3) + 5
    found = (mixed - mixed.mean(0)) @ independent_components(mixed).T
    assert torch.allclose(found.std(0), torch.ones(3), atol=0.01)
    match = torch.corrcoef(torch.cat([found, sources], 1).T)[:3, 3:].abs()
    assert match.amax(0).min() > 0.99
    assert match.amax(1).min() > 0.99


def test_of_several_starts_the_components_furthest_from_gaussians_are_taken() -> None:
    torch.manual_seed(0)
    mixed = torch.rand(4000, 8) @ torch.randn(8, 8)
    gaussian = torch.randn(1_000_000).cosh().log().mean()

    def contrast(starts: int) -> float:
        few = independent_components(
            mixed, iterations=2, starts=starts
        )  # no fixed point yet: starts differ
        y = (mixed - mixed.mean(0)) @ few.T
        return float((y.cosh().log().mean(0) - gaussian).square().sum())

    alone, best = sorted(contrast(1) for _ in range(20)), sorted(contrast(16) for _ in range(5))
    assert alone[-1] > 2 * alone[0]
    assert best[0] > alone[15]


@pytest.mark.parametrize("name", ["hbv", "dsprites"])
def test_turning_changes_axes_but_not_what_is_decoded(name: str) -> None:
    model, data = built(name)
    x = data.batch(300).x
    with torch.no_grad():
        for layer in (model.encoder.mean, model.encoder.sd):  # an encoder that tells something
            last = [m for m in layer.modules() if isinstance(m, torch.nn.Linear)][-1]
            last.weight.mul_(200 if layer is model.encoder.mean else 0.1)
            last.bias.sub_(3)
        before = model.encoder(x)
        decoded = model.decoder(before.loc).mean
        used = turn_axes(model, x)
        after = model.encoder(x)
        assert 1 < len(used) <= 6
        assert torch.allclose(model.decoder(after.loc).mean, decoded, atol=1e-4)
    assert not torch.allclose(after.loc, before.loc, atol=0.1)
    assert torch.allclose(after.loc[:, used].mean(0), torch.zeros(len(used)), atol=1e-3)
    assert torch.allclose(after.loc[:, used].T.cov(correction=0), torch.eye(len(used)), atol=1e-2)
    rest = torch.tensor([i for i in range(6) if i not in used.tolist()], dtype=torch.long)
    assert torch.allclose(after.loc[:, rest], before.loc[:, rest], atol=1e-4)
    assert torch.allclose(
        axis_information(after.loc, after.scale).sum(),
        axis_information(before.loc, before.scale).sum(),
        rtol=0.5,
    )


def test_an_encoder_that_tells_nothing_is_left_alone() -> None:
    model, data = built("hbv")
    with torch.no_grad():
        model.encoder.mean[-1].weight.zero_()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    assert not len(turn_axes(model, data.batch(50).x))
    spread_tokens(model, data.batch(50).x)
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())


def test_tokens_start_along_one_axis_each_and_as_many_on_every_one() -> None:
    model, data = built("dsprites", groups=(1,) * 20, max_length=5)
    x = data.batch(100).x
    mean = torch.randn(100, 6) * torch.tensor([1.0, 1.0, 1.0, 1.0, 2.0, 0.0]) + 3
    sd = torch.tensor([0.1, 0.1, 0.1, 0.01, 0.1, 0.9]).expand(100, 6)
    model.encoder.forward = lambda x: torch.distributions.Normal(mean, sd)
    spread_tokens(model, x)
    weight, bias = (
        model.sentence_encoder.mean.weight.detach(),
        model.sentence_encoder.mean.bias.detach(),
    )
    assert torch.allclose(bias, mean.mean(0))
    assert ((weight != 0).sum(0) == 1).all()
    count = (weight != 0).sum(1)
    assert count.tolist() == [4, 4, 4, 4, 4, 0]
    layer = model.sentence_encoder.mean
    assert torch.equal(layer.mask, (weight != 0).float())
    first = weight[0][weight[0] != 0] / mean[:, 0].std()
    assert torch.allclose(first[:3], torch.tensor([0.6, -0.6, 0.36]), atol=1e-4)


def test_pairs_of_tokens_start_around_what_is_densest_on_the_axes_that_tell_most() -> None:
    model, data = built("dsprites", groups=(1,) * 12, max_length=5)
    torch.manual_seed(1)
    mean = torch.randn(2000, 6) * torch.tensor([1.0, 1.0, 1.0, 1.0, 2.0, 0.0])
    mean[:, 1] = (torch.rand(2000) < 0.4).float() * 3 + 0.3 * torch.randn(2000)  # there or not
    sd = torch.tensor([0.1, 0.2, 0.3, 0.01, 0.5, 0.9]).expand(2000, 6)
    model.encoder.forward = lambda x: torch.distributions.Normal(mean, sd)
    spread_tokens(model, data.batch(10).x, reach=0.8, ratio=0.5, pairs=True)
    layer = model.sentence_encoder.mean
    assert layer.axes.tolist() == [3, 3, 0, 0, 1, 1, 4, 4, 2, 2, 3, 3]
    along = layer.weight[layer.axes, torch.arange(12)] / mean.std(0)[layer.axes]
    assert torch.allclose(along, torch.tensor([0.8, -0.8] * 5 + [0.4, -0.4]), atol=1e-4)
    assert abs(float(layer.bias.detach()[1])) < 0.4  # its mean is 1.2
    assert torch.allclose(layer.bias[[0, 2, 3, 4]], mean[:, [0, 2, 3, 4]].mean(0), atol=0.5)


@pytest.mark.parametrize(
    ("values", "named", "language", "far"),
    [
        (3, 3, {}, True),
        (3, 0, {}, False),  # nothing is named
        (2, 3, {}, False),  # there or not
        (3, 3, {"groups": (1,) * 4}, False),  # two tokens for three clusters
        (3, 3, {"max_length": 1}, False),  # sentences of one word, and two axes
        (
            3,
            3,
            {"ordered": True},
            False,
        ),  # sequences, in which a word means something else at each place
        (3, 3, {"token_axes": False}, False),  # words that may come to point anywhere
    ],
)
def test_every_cluster_of_an_axis_has_a_word(
    values: int, named: int, language: dict[str, Any], far: bool
) -> None:
    model, data = built(
        "dsprites", **{"groups": (1,) * 8, "max_length": 2, "odds_cost": 0.0, **language}
    )
    torch.manual_seed(1)
    mean = torch.randn(3000, 6) * torch.tensor([0.0, 1.0, 0.0, 0.0, 0.0, 0.0])
    mean[:, 0] = 0.5 + torch.arange(3000) % values + 0.1 * torch.randn(3000)
    sd = torch.tensor([0.1, 0.1, 0.9, 0.9, 0.9, 0.9]).expand(3000, 6)
    model.encoder.forward = lambda x: torch.distributions.Normal(mean, sd)
    spread_tokens(model, data.batch(10).x, pairs=True, clusters_named=named)
    layer = model.sentence_encoder.mean
    base, words = layer.bias[0].detach(), layer.weight[0][layer.weight[0] != 0].detach()
    assert bool((base - mean[:, 0]).abs().min() > 1) == far
    if far:
        assert torch.allclose(base + words[:values], torch.arange(values) + 0.5, atol=0.1)
        assert (words - words[0] - words[1]).abs().min() > 0.4  # two do not say a third
    assert layer.bias[1].abs() < 0.5


@pytest.mark.parametrize(("sd", "far"), [(0.3, True), (0.36, False)])
def test_clusters_whose_words_would_be_synonyms_have_none(sd: float, far: bool) -> None:
    model, data = built("dsprites", groups=(1,) * 8, max_length=2, odds_cost=0.0)
    mean = torch.zeros(3000, 6)
    mean[:, 0] = torch.arange(3000) % 3 + 0.1 * torch.randn(3000)
    q = torch.distributions.Normal(
        mean, torch.tensor([sd, 0.9, 0.9, 0.9, 0.9, 0.9]).expand(3000, 6)
    )
    model.encoder.forward = lambda x: q
    spread_tokens(model, data.batch(10).x, pairs=True, clusters_named=3)
    assert bool(model.sentence_encoder.mean.bias[0] < -1) == far


@pytest.mark.parametrize("number", [1, -1])
def test_a_single_cluster_has_no_word(number: int) -> None:
    model, data = built("dsprites")
    with pytest.raises(
        ValueError, match=f"clusters_named must be 2 or more, or 0 for none, not {number}"
    ):
        spread_tokens(model, data.batch(10).x, pairs=True, clusters_named=number)


@pytest.mark.parametrize(
    ("spread", "few", "peaks"),
    [(0.05, 400, [0, 1, 2, 3, 5]), (0.05, 20, [0, 1, 2, 3]), (0.4, 20, None)],
)
def test_clusters_lie_apart_and_are_more_than_a_few(
    spread: float, few: int, peaks: list[int] | None
) -> None:
    torch.manual_seed(1)
    x = torch.cat([torch.arange(4000) % 4, torch.full((few,), 5.0)]) + spread * torch.randn(
        4000 + few
    )
    found = clusters(x)
    if peaks is None:
        assert len(found) == 1
    else:
        assert torch.allclose(found, torch.tensor(peaks).float(), atol=0.1)


def test_clusters_are_parted_by_a_valley_and_may_lie_far_out() -> None:
    torch.manual_seed(1)
    two, noise = torch.arange(20_000) % 2, torch.randn(20_000)
    assert len(clusters(4 * two + noise)) == 1  # the valley has a third of a peak
    assert torch.allclose(
        clusters(5 * two + noise), torch.tensor([0.0, 5.0]), atol=0.2
    )  # and here a seventh
    rare = torch.cat(
        [torch.zeros(4000), torch.full((440,), 5.0)]
    )  # three standard deviations from the mean
    assert torch.allclose(
        clusters(rare + 0.05 * torch.randn(4440)), torch.tensor([0.0, 5.0]), atol=0.1
    )


@pytest.mark.parametrize(
    ("base", "settles"), [(-0.5, False), (-0.75, True), (3.0, False), (3.3, True)]
)
def test_silence_settles_from_half_a_distance_beyond_the_clusters(
    base: float, settles: bool
) -> None:
    model, _ = built("dsprites", groups=(1,) * 4, max_length=2, odds_cost=0.0)
    torch.manual_seed(1)
    mean = torch.zeros(3000, 6)
    mean[:, 0] = torch.tensor([0.0, 1.0, 2.5])[torch.arange(3000) % 3] + 0.1 * torch.randn(3000)
    q = torch.distributions.Normal(
        mean, torch.tensor([0.1, 0.9, 0.9, 0.9, 0.9, 0.9]).expand(3000, 6)
    )
    layer, says = model.sentence_encoder.mean, torch.tensor([-0.4, 2.9, -0.9, 3.4])
    layer.place(torch.arange(4), torch.zeros(4, dtype=torch.long))
    with torch.no_grad():
        layer.bias[0] = base
        layer.weight[0] = says - base
    settle_silence(model, q)
    moved = float(layer.bias.detach()[0]) - base
    assert moved == pytest.approx(1.75 - base if settles else 0.0, abs=0.1)
    with_word = (layer.bias[0] + layer.weight[0]).detach()
    expected = says + torch.tensor(
        [0.0, 0.0, moved, moved]
    )  # the last two are no words of their own: offsets
    assert torch.allclose(with_word, expected, atol=1e-5)


@pytest.mark.parametrize("named", [3, 0])
def test_silence_settles_between_clusters_and_words_say_what_they_said(named: int) -> None:
    model, data = built("dsprites", groups=(1,) * 10, max_length=2, odds_cost=0.0)
    torch.manual_seed(1)
    mean = torch.randn(3000, 6) * torch.tensor([0.0, 1.0, 0.0, 0.0, 0.0, 0.0])
    mean[:, 0] = torch.tensor([0.0, 1.0, 2.5])[torch.arange(3000) % 3] + 0.1 * torch.randn(3000)
    q = torch.distributions.Normal(
        mean, torch.tensor([0.1, 0.1, 0.9, 0.9, 0.9, 0.9]).expand(3000, 6)
    )
    model.encoder.forward = lambda x: q
    spread_tokens(model, data.batch(10).x, pairs=True, clusters_named=named)
    encoder = model.sentence_encoder
    first = (encoder.mean.axes == 0).nonzero()[:, 0].tolist()
    words, shade = first[:3], first[3]
    with torch.no_grad():
        encoder.mean.weight[0, shade] = 0.1  # of a word
        encoder.sd.weight[0, words] = torch.tensor([0.3, -0.2, 0.4])
    one = torch.eye(10)
    said = torch.cat(
        [one[words], one[words] + one[shade], one[words[0]] + one[encoder.mean.axes == 1]]
    )
    before, silence = encoder(said), encoder(0 * one[0])
    settle_silence(model, q)
    after, settled = encoder(said), encoder(0 * one[0])
    assert torch.allclose(after.loc, before.loc, atol=1e-5)
    assert torch.allclose(after.scale, before.scale, atol=1e-5)
    assert torch.equal(settled.loc[1:], silence.loc[1:])
    if named:
        assert abs(float(settled.loc[0]) - 1.75) < 0.1
        assert float(settled.scale[0]) == pytest.approx(0.025)
    assert bool(silence.loc[0] < -1) == bool(named)
    assert torch.equal(settled.loc, silence.loc) == (not named)
    settle_silence(model, q)
    assert torch.equal(encoder(said).loc, after.loc)


def test_tokens_stay_on_their_axes_in_training() -> None:
    model, data = built("dsprites")
    em = registry.load("inference", "gflownet_em_sampled")
    inference = em.build(
        model, data, em.Config(**{**em.PRESETS["smoke"], "pretrain": 30, "pretrain_turned": 30})
    )
    while inference.phase.name != "e_step":
        inference.step()
    layer = model.sentence_encoder.mean
    assert (layer.mask.sum(0) == 1).all()
    for j in range(model.language.width):
        moved = (model.embed(torch.eye(model.language.width)[j]) - layer.bias).abs() > 0
        assert torch.equal(moved.float(), layer.mask[:, j])


def test_tokens_that_say_nothing_start_anew_where_most_is_lost() -> None:
    model, _ = built("dsprites")
    layer = model.sentence_encoder.mean
    q = torch.distributions.Normal(
        torch.randn(50, 6) * torch.tensor([1.0, 1.0, 3.0, 1.0, 1.0, 1.0]), 0.1
    )
    with torch.no_grad():
        layer.weight.fill_(1.0)
        layer.bias.copy_(torch.tensor([0.0, 0, 5, 0, 0, 0]))
        layer.weight[:, 4] = 0.09
    before, s = (layer.weight * layer.mask).clone(), torch.zeros(50, model.language.width)
    q.scale = q.scale.expand(50, 6)
    assert restart_tokens(model, q, s) == 1
    after = layer.weight * layer.mask
    others = torch.arange(model.language.width) != 4
    assert torch.equal(after[:, others], before[:, others])
    assert layer.mask[:, 4].tolist() == [0, 0, 1, 0, 0, 0]
    assert torch.isclose(after[2, 4], (q.loc[:, 2] - 5).square().mean().sqrt())
    assert restart_tokens(model, q, s) == 0


def test_where_nothing_is_missed_no_token_starts_anew() -> None:
    model, _ = built("dsprites")
    n, d = 400, model.latent
    s = torch.zeros(n, model.language.width)
    z_hat = model.sentence_encoder(s).loc.detach()
    known = torch.distributions.Normal(torch.randn(n, d), torch.full((n, d), 0.1))
    assert restart_tokens(model, known, s) > 0
    told = torch.distributions.Normal(z_hat, torch.full((n, d), 0.1))
    assert restart_tokens(model, told, s) == 0


def test_what_the_encoder_does_not_know_draws_no_token() -> None:
    model, _ = built("dsprites")
    layer = model.sentence_encoder.mean
    mean = torch.tensor([-1.0, 1.0]).repeat(25)[:, None] * torch.tensor(
        [1.0, 1.0, 2.0, 1.0, 1.0, 1.0]
    )
    sd = torch.tensor([0.1, 0.1, 1.1, 0.1, 0.1, 0.1]).expand(50, 6)
    q = torch.distributions.Normal(mean, sd)
    with torch.no_grad():
        layer.weight.fill_(3.0)
        layer.weight[:, 4] = 0.0
        layer.bias.copy_(
            torch.tensor([0.0, 0.3, 0.8, 0, 0, 0])
        )  # most is left of the third axis, least of it is known
    assert restart_tokens(model, q, torch.zeros(50, model.language.width), apart=0.0) == 1
    assert layer.mask[:, 4].tolist() == [0, 1, 0, 0, 0, 0]


def test_what_is_missed_is_a_share_of_what_varies_and_is_known() -> None:
    mean = torch.tensor([-1.0, 1.0]).repeat(500)[:, None] * torch.tensor([1.0, 2.0, 3.0, 4.0, 0.01])
    q = torch.distributions.Normal(mean, torch.tensor([0.1, 0.2, 0.3, 0.1, 1.0]).expand(1000, 5))
    z_hat = mean * torch.tensor([1.0, 0.5, 0.95, 0.0, 0.0])
    found = share_missed(q, z_hat)
    expected = [
        0.0,
        (1.0 - 0.04) / 4,
        0.0,
        (16 - 0.01) / 16,
        0.0,
    ]  # nothing is missed where nothing is known
    assert torch.allclose(found, torch.tensor(expected), atol=2e-3)


def test_tokens_that_say_what_another_says_start_anew() -> None:
    model, _ = built("dsprites", groups=(1,) * 5)
    layer = model.sentence_encoder.mean
    mean = torch.randn(50, 6) * torch.tensor([1.0, 1.0, 9.0, 1.0, 1.0, 1.0])
    q = torch.distributions.Normal(mean, torch.full((50, 6), 0.1))
    with torch.no_grad():
        layer.place(torch.arange(5), torch.tensor([0, 0, 0, 1, 0]))
        layer.weight.zero_()
        layer.bias.copy_(torch.tensor([0.0, 0, 9, 0, 0, 0]))
        layer.weight[[0, 0, 0, 1, 0], range(5)] = torch.tensor([1.0, -1.0, 1.4, 1.0, 1.8])
    s = torch.zeros(50, 5)
    assert restart_tokens(model, q, s) == 0
    assert (
        restart_tokens(model, q, s, apart=5) == 1
    )  # the last is as far from one that has started anew as it may be
    assert layer.axes.tolist() == [0, 0, 2, 1, 0]


def test_tokens_of_an_exclusive_group_stay_on_one_axis() -> None:
    model, data = built("dsprites", groups=(2, 3, 1, 1, 2, 2, 2, 2), max_length=3)
    mean = torch.randn(100, 6)
    q = torch.distributions.Normal(mean, torch.full((100, 6), 0.1))
    model.encoder.forward = lambda x: q
    spread_tokens(model, data.batch(100).x)
    layer = model.sentence_encoder.mean
    assert layer.axes.tolist() == [0, 0, 1, 1, 1, 2, 3, 4, 4, 5, 5, 0, 0, 1, 1]
    along = layer.weight[layer.axes, torch.arange(15)] / mean.std(0)[layer.axes]
    assert torch.allclose(along[[0, 1, 11, 12]], torch.tensor([0.6, -0.6, 0.36, -0.36]), atol=1e-4)
    with torch.no_grad():
        layer.bias[5] = 9.0  # the axis that is explained least
        layer.weight.zero_()
    assert restart_tokens(model, q, torch.zeros(100, 15)) == 15
    assert layer.axes.tolist() == [0, 0, 1, 1, 1, 5, 5, 4, 4, 5, 5, 0, 0, 1, 1]
    assert model.factored
