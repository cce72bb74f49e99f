"""Scores of tokens, and the best of several restarts, axis by axis."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from scipy.stats import spearmanr
from torch import Tensor
from torch.distributions import Normal

from plot_attractors.language import Language
from plot_attractors.training import ExactSentences
from plot_attractors.training.vocabulary import restarts as module
from plot_attractors.training.vocabulary.restarts import (
    Restarts,
    score,
    similarity_to_states,
    split_error,
)
from plot_attractors.training.vocabulary.tokens import unexplained_variance


def test_similarity_to_states_counts_axes_alike_and_only_those_in_use() -> None:
    bits = torch.randint(2, (500, 4)).float()
    q = Normal(bits * torch.tensor([1.0, 30.0, 2.0, 0.001]), torch.full((500, 4), 0.1))
    whole = similarity_to_states(q, bits[:, :3])
    assert whole > 0.9
    assert similarity_to_states(q, bits) < whole  # nothing is known along the last axis
    shades = (torch.rand(500) < 0.5).float()  # two tokens for one value of the first axis
    split = torch.stack([bits[:, 0] * shades, bits[:, 0] * (1 - shades), bits[:, 1], bits[:, 2]], 1)
    assert similarity_to_states(q, split) < whole - 0.05
    assert similarity_to_states(q, torch.zeros(500, 4)) == 0
    assert similarity_to_states(Normal(torch.zeros(500, 4), torch.ones(500, 4)), bits) == 0
    q, s = (
        Normal(mean := torch.randn(900, 3), 0.1 * torch.ones(900, 3)),
        (mean + torch.randn(900, 3) > 0).float(),
    )
    i, j = torch.triu_indices(900, 900, 1)  # more pairs than are compared
    distances = [(of[i] - of[j]).abs().sum(1) for of in (s, mean / mean.std(0))]
    assert similarity_to_states(q, s) == pytest.approx(spearmanr(*distances).statistic, abs=0.01)


def two_humps(n: int = 4000) -> tuple[Normal, Tensor]:
    """States of two humps along the first axis, few of them between; of one along the second;
    nothing is known along the third.
    """
    high = torch.rand(n) < 0.5
    mean = torch.stack([high + 0.15 * torch.randn(n), torch.randn(n), 0.001 * torch.randn(n)], 1)
    return Normal(mean, torch.tensor([0.05, 0.1, 1.0]).expand(n, 3)), high


def test_a_token_that_reaches_over_from_the_other_hump_errs_about_the_split() -> None:
    q, high = two_humps()
    mu = q.loc[:, 0]

    def embeddings(boundary: float) -> Tensor:
        first = torch.where(mu > boundary, 0.8, torch.where(mu > 0.0, 0.2, -0.2))
        return torch.stack([first, q.loc[:, 1], torch.zeros(len(mu))], 1)

    good, bad = embeddings(0.5), embeddings(0.25)
    assert float(split_error(q, good)[0]) < 0.01
    overlap = float(((mu > 0.5) != high).float().mean())
    found = float(split_error(q, bad)[0])
    expected = 4 * float(((mu > 0.25) & (mu < 0.5)).float().mean())
    assert found == pytest.approx(expected, abs=4 * overlap + 0.01)
    assert found > 0.08
    more = unexplained_variance(q, bad)[0] - unexplained_variance(q, good)[0]
    assert float(more) < found / 3  # the variance hardly tells
    assert split_error(q, bad)[1:].tolist() == [0, 0]
    s, less = high[:, None].float(), unexplained_variance(q, bad) + split_error(q, bad)
    assert score(q, s, bad) == pytest.approx(similarity_to_states(q, s) - float(less.sum()))


def test_split_error_does_not_part_inputs_with_the_same_sentence() -> None:
    mean = torch.tensor([0.0, 0.1, 1.0, 1.1]).repeat(100)[:, None]
    q, z_hat = Normal(mean, torch.full_like(mean, 0.05)), mean.clamp(0, 0.1) * 10
    assert float(split_error(q, z_hat)) == pytest.approx(0.25 / 0.25)
    jitter = torch.randn(400, 1) * 1e-7  # as from sums in another order
    assert float(split_error(q, z_hat + jitter)) == pytest.approx(1.0)
    assert float(split_error(q, torch.zeros_like(mean))) == pytest.approx(2.0)  # half are wrong
    assert float(split_error(q, mean.round())) == 0
    assert float(split_error(q, -mean.round())) > 0  # ẑ is on the side of z, not on the other


def restarts_of(
    build: Any, groups: tuple[int, ...], axes: list[list[int]], worse: int = -1, **options: Any
) -> tuple[Any, Restarts]:
    """A model and restarts, each with tokens right along the axis of its number and wrong along the
    other; those of restart `worse` even more.
    """
    language = Language(groups, max_length=3)
    model, restarts = build(latent=2, language=language, **options), Restarts()
    mean = torch.randint(2, (512, 2)).float() + 0.05 * torch.randn(512, 2)
    q, encoder = Normal(mean, torch.full_like(mean, 0.1)), model.sentence_encoder
    for right, of in enumerate(axes):
        tokens, axis = torch.arange(len(of)), torch.tensor(of)
        for layer in (encoder.mean, encoder.sd):
            layer.place(tokens, axis)
        size = torch.where(axis == right, 1.0, 0.25 if right == worse else 0.5)
        with torch.no_grad():
            encoder.mean.weight[axis, tokens] = size * torch.where(tokens % 2 == 0, 1.0, 0.01)
            encoder.mean.bias.copy_(torch.where(torch.arange(2) == right, 0.0, 0.3))
            encoder.sd.bias.fill_(-2.0 - right)
        assert restarts.add(model, q, ExactSentences(model)) == restarts.scores[-1]
    return model, restarts


def has_tokens(model: Any, of: dict[str, Tensor]) -> bool:
    state = model.sentence_encoder.state_dict()
    return all(torch.equal(part, of[name]) for name, part in state.items())


@pytest.mark.parametrize("first", [0, 1])
def test_of_every_axis_the_tokens_of_the_better_restart_are_kept(build: Any, first: int) -> None:
    axes = [[0, 0, 1, 1], [1, 1, 0, 0]]  # other tokens are on an axis
    model, restarts = restarts_of(build, (1,) * 4, axes, worse=1 - first)
    before = [{name: part.clone() for name, part in of.items()} for of in restarts.tokens]
    assert max(range(2), key=restarts.scores.__getitem__) == first
    assert restarts.combine(model, ExactSentences(model)) > max(restarts.scores) + 0.1
    encoder, place = model.sentence_encoder, torch.tensor(axes)
    assert torch.equal(encoder.mean.axes, place[first])  # tokens stay on their axes
    for axis in (0, 1):  # restart 0 is right along axis 0, restart 1 along axis 1
        own, there = place[first] == axis, place[axis] == axis
        for layer, name in ((encoder.mean, "mean"), (encoder.sd, "sd")):
            expected = restarts.tokens[axis][f"{name}.weight"][:, there]
            assert torch.equal(layer.weight[:, own], expected)
            assert layer.bias[axis] == restarts.tokens[axis][f"{name}.bias"][axis]
    for of, was in zip(restarts.tokens, before, strict=True):
        assert all(torch.equal(part, was[name]) for name, part in of.items())


@pytest.mark.parametrize(
    ("groups", "second"), [((1,) * 4, [0, 1, 1, 1]), ((2, 1, 1), [1, 1, 0, 0])]
)
def test_tokens_are_exchanged_only_for_as_many_that_exclude_each_other_alike(
    build: Any, groups: tuple[int, ...], second: list[int]
) -> None:
    model, restarts = restarts_of(build, groups, [[0, 0, 1, 1], second])
    assert restarts.combine(model, ExactSentences(model)) == pytest.approx(
        max(restarts.scores), abs=0.1
    )
    assert any(has_tokens(model, of) for of in restarts.tokens)


@pytest.mark.parametrize("first", [0, 1])
def test_exchanges_that_do_not_score_higher_together_are_taken_back(
    build: Any, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    axes = [[0, 0, 1, 1]] * 2
    model, restarts = restarts_of(build, (1,) * 4, axes, worse=1 - first, odds_cost=2.0)
    restarts.costs = [torch.tensor([0.1, 0.2, 0.1, 0.2]), torch.tensor([0.2, 0.1, 0.2, 0.1])]
    asked: list[float] = []

    def less_at_last(q: Normal, s: Tensor, z_hat: Tensor) -> float:
        sampled = torch.equal(z_hat, model.embed(s))  # from the model, and not put together
        asked.append(score(q, s, z_hat) - 2.0 * (sampled and len(asked) >= 2))
        return asked[-1]

    monkeypatch.setattr(module, "score", less_at_last)
    assert restarts.combine(model, ExactSentences(model)) == asked[first] == max(asked[:2])
    assert max(asked[2:]) > asked[first], "tokens were exchanged"
    assert asked[-1] < asked[first]
    assert torch.equal(model.prior.token_costs, restarts.costs[first])
    assert has_tokens(model, restarts.tokens[first])


def test_all_are_scored_on_the_first_inputs_and_cost_what_shares_say(build: Any) -> None:
    model, restarts = restarts_of(build, (1,) * 4, [[0, 0, 1, 1]] * 2, odds_cost=2.0)
    q = Normal(torch.randn(9, 2), torch.ones(9, 2))
    restarts.add(model, q, ExactSentences(model))
    assert len(restarts.q[0]) == 512
    assert restarts.scores[2] == pytest.approx(restarts.scores[1], abs=0.1)
    assert len(set(restarts.costs[0].tolist())) > 1
    assert not torch.equal(restarts.costs[0], restarts.costs[1])
