"""What tokens are worth, and the best of several trials of them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.distributions import Normal

from plot_attractors.runs import registry
from plot_attractors.training.vocabulary.restarts import (
    combine,
    sides_missed,
    similarity_to_states,
    worth,
)
from plot_attractors.training.vocabulary.rotate import share_missed


def test_similarity_to_states_counts_axes_alike_and_only_those_in_use() -> None:
    torch.manual_seed(0)
    bits = torch.randint(2, (500, 4)).float()
    mean = bits * torch.tensor([1.0, 30.0, 2.0, 0.001])
    q = Normal(mean, torch.full((500, 4), 0.1))
    assert similarity_to_states(q, bits[:, :3]) > 0.9
    assert similarity_to_states(q, bits) < similarity_to_states(
        q, bits[:, :3]
    )  # nothing is known along the last axis
    shades = (torch.rand(500) < 0.5).float()  # two words for one value of the first axis
    split = torch.stack([bits[:, 0] * shades, bits[:, 0] * (1 - shades), bits[:, 1], bits[:, 2]], 1)
    assert similarity_to_states(q, split) < similarity_to_states(q, bits[:, :3]) - 0.05
    assert similarity_to_states(q, torch.zeros(500, 4)) == 0
    assert similarity_to_states(Normal(torch.zeros(500, 4), torch.ones(500, 4)), bits) == 0


def two_humps(n: int = 4000) -> tuple[Normal, torch.Tensor]:
    """States of two humps along the first axis, few of them between; of one along the second;
    nothing is known along the third.
    """
    torch.manual_seed(0)
    high = torch.rand(n) < 0.5
    mean = torch.stack([high + 0.15 * torch.randn(n), torch.randn(n), 0.001 * torch.randn(n)], 1)
    return Normal(mean, torch.tensor([0.05, 0.1, 1.0]).expand(n, 3)), high


def test_a_side_is_missed_where_a_word_reaches_over_from_the_other_hump() -> None:
    q, high = two_humps()
    mu = q.loc[:, 0]

    def said(boundary: float) -> torch.Tensor:
        words = torch.where(mu > boundary, 0.8, torch.where(mu > 0.0, 0.2, -0.2))
        return torch.stack([words, q.loc[:, 1], torch.zeros(len(mu))], 1)

    good, bad = said(0.5), said(0.25)
    assert float(sides_missed(q, good)[0]) < 0.01
    r = float(
        ((mu > 0.5) & ~high | (mu < 0.5) & high).float().mean()
    )  # the humps themselves overlap that much
    found, expected = (
        float(sides_missed(q, bad)[0]),
        4 * float(((mu > 0.25) & (mu < 0.5)).float().mean()),
    )
    assert found == pytest.approx(expected, abs=4 * r + 0.01)
    assert found > 0.08
    assert (
        float(share_missed(q, bad)[0] - share_missed(q, good)[0]) < found / 3
    )  # what is missed in all tells less
    assert sides_missed(q, bad)[1:].tolist() == [
        0,
        0,
    ]  # all is said along the second axis, nothing known of the third


def test_sides_missed_does_not_part_inputs_with_the_same_sentence() -> None:
    mean = torch.tensor([0.0, 0.1, 1.0, 1.1]).repeat(100)[:, None]
    q = Normal(mean, torch.full_like(mean, 0.05))
    word = torch.tensor([0.0, 1.0, 1.0, 1.0]).repeat(100)[:, None]
    assert float(sides_missed(q, word)) == pytest.approx(0.25 / 0.25)
    jitter = (
        torch.randn(400, 1, generator=torch.Generator().manual_seed(0)) * 1e-7
    )  # as from sums in another order
    assert float(sides_missed(q, word + jitter)) == pytest.approx(1.0)
    assert float(sides_missed(q, torch.zeros_like(mean))) == pytest.approx(
        2.0
    )  # one side said of all: half are wrong
    assert float(sides_missed(q, mean.round())) == 0
    assert float(sides_missed(q, -mean.round())) > 0  # ẑ is on the side of z, not on the other


def test_worth_is_similarity_less_what_is_missed() -> None:
    q, high = two_humps()
    s = high.float()[:, None]
    z_hat = torch.stack([s[:, 0], torch.zeros(len(s)), torch.zeros(len(s))], 1)
    missed = float(share_missed(q, z_hat).sum()) + float(sides_missed(q, z_hat).sum())
    assert worth(q, s, z_hat) == pytest.approx(similarity_to_states(q, s) - missed)
    assert missed > 1


def trials_of(
    groups: tuple[int, ...], axes: list[list[int]], **settings: Any
) -> tuple[Any, Normal, list[Any]]:
    """A model, states, and trials whose tokens tell of one axis each, `right` there and wrong
    elsewhere.
    """
    torch.manual_seed(0)
    program = registry.load("models", "dsprites")
    chosen = {"latent": 2, "groups": groups, "length_cost": 0.0, **settings}
    config = program.Config(**{**program.PRESETS["smoke"], **chosen})
    model = program.build(config, program.load_data(config))
    mean = torch.randint(2, (512, 2)).float() + 0.05 * torch.randn(512, 2)
    q = Normal(mean, torch.full_like(mean, 0.1))
    encoder, found = model.sentence_encoder, []
    for right, of in enumerate(axes):
        tokens = torch.arange(len(of))
        encoder.mean.place(tokens, torch.tensor(of))
        encoder.sd.place(tokens, torch.tensor(of))
        with torch.no_grad():
            size = torch.where(torch.tensor(of) == right, 1.0, 0.5) * torch.where(
                tokens % 2 == 0, 1.0, 0.01
            )
            encoder.mean.weight[torch.tensor(of), tokens] = size
            encoder.mean.bias.copy_(torch.where(torch.arange(2) == right, 0.0, 0.3))
            encoder.sd.bias.fill_(-2.0 - right)
        found.append({name: part.clone() for name, part in encoder.state_dict().items()})
    return model, q, found


@pytest.mark.parametrize("first", [0, 1])
def test_of_every_axis_the_words_of_the_better_trial_are_kept(first: int) -> None:
    model, q, trials = trials_of(
        (1,) * 4, [[0, 0, 1, 1], [1, 1, 0, 0]]
    )  # other tokens stand on an axis
    with torch.no_grad():
        trials[1 - first]["mean.weight"][first] *= (
            0.5  # worse than the other trial where it is worse anyway
        )
    before = [{name: part.clone() for name, part in trial.items()} for trial in trials]
    alone = []
    for trial in trials:
        model.sentence_encoder.load_state_dict(trial)
        s = model.posterior(q).sample()
        alone.append(worth(q, s, model.embed(s)))
    assert max(range(2), key=alone.__getitem__) == first
    value = combine(model, q, trials)
    assert value > max(alone) + 0.1
    encoder = model.sentence_encoder
    axes = trials[first]["mean.mask"].argmax(0)
    assert torch.equal(encoder.mean.axes, axes)  # tokens stay on their axes
    for axis in (0, 1):  # trial 0 is right along axis 0, trial 1 along axis 1
        own = (axes == axis).nonzero()[:, 0]
        there = (trials[axis]["mean.mask"].argmax(0) == axis).nonzero()[:, 0]
        for layer, name in ((encoder.mean, "mean"), (encoder.sd, "sd")):
            assert torch.equal(layer.weight[:, own], trials[axis][f"{name}.weight"][:, there])
            assert layer.bias[axis] == trials[axis][f"{name}.bias"][axis]
    for trial, was in zip(trials, before, strict=True):  # which are left as they are
        assert all(torch.equal(part, was[name]) for name, part in trial.items())


def test_words_are_exchanged_only_for_as_many_that_exclude_each_other_alike() -> None:
    for groups, second in (((1,) * 4, [0, 1, 1, 1]), ((2, 1, 1), [1, 1, 0, 0])):
        model, q, trials = trials_of(groups, [[0, 0, 1, 1], second])
        combine(model, q, trials)
        state = model.sentence_encoder.state_dict()
        assert any(
            all(torch.equal(part, trial[name]) for name, part in state.items()) for trial in trials
        )


def test_trials_that_do_not_factor_are_left_out() -> None:
    """An exclusive group on two axes has sentences that do not factor."""
    model, q, trials = trials_of((2, 1, 1), [[0, 0, 1, 1], [0, 1, 1, 0]], max_length=2)
    model.sentence_encoder.load_state_dict(trials[1])
    assert not model.factored
    combine(model, q, trials)
    assert all(
        torch.equal(part, trials[0][name])
        for name, part in model.sentence_encoder.state_dict().items()
    )


def test_exchanges_that_are_not_worth_more_together_are_taken_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, q, trials = trials_of((1,) * 4, [[0, 0, 1, 1], [0, 0, 1, 1]], odds_cost=2.0)
    costs = [torch.tensor([0.1, 0.2, 0.1, 0.2]), torch.tensor([0.2, 0.1, 0.2, 0.1])]
    asked: list[float] = []

    def less_at_last(q: Normal, s: torch.Tensor, z_hat: torch.Tensor) -> float:
        asked.append(worth(q, s, z_hat))
        exact = torch.equal(z_hat, model.embed(s))  # what is really said, and not put together
        return asked[-1] - 2.0 * (exact and len(asked) > 2)

    monkeypatch.setattr("plot_attractors.training.vocabulary.restarts.worth", less_at_last)
    value = combine(model, q, trials, costs)
    best = asked.index(max(asked[:2]))
    assert torch.equal(model.token_costs, costs[best])
    assert model.language.token_costs == tuple(costs[best].tolist())
    assert value == asked[best]
    assert asked[-1] > value  # words were exchanged
    assert all(
        torch.equal(part, trials[best][name])
        for name, part in model.sentence_encoder.state_dict().items()
    )
