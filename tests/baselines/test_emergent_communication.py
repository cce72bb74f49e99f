"""Emergent communication: gradients against exact ones, the game's known answers, and runs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from plot_attractors.baselines.emergent_communication import (
    Candidates,
    Receiver,
    SlotSentences,
    choose,
    draw_candidates,
)
from plot_attractors.language import Language

from ..attractors import schedule, with_data

LANGUAGES = {
    "pairs": Language((2, 2, 2)),
    "with the empty sentence": Language((2, 2, 2), min_length=0),
    "full": Language((2, 3, 2), min_length=3),
    "free tokens, two or three": Language((1,) * 6, min_length=2, max_length=3),
    "short": Language((2, 2), length_cost=0.7),
}
languages = pytest.mark.parametrize("language", LANGUAGES.values(), ids=LANGUAGES.keys())


@pytest.fixture
def double() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def network(language: Language, width: int) -> nn.Module:
    outputs = language.width + len(language.groups)
    return nn.Sequential(nn.Linear(width, 7), nn.Tanh(), nn.Linear(7, outputs))


# -- the distribution of sentences


@languages
def test_without_a_network_sentences_follow_the_prior(language: Language) -> None:
    outputs = language.width + len(language.groups)
    policy = SlotSentences(lambda partial: torch.zeros(*partial.shape[:-1], outputs), language)
    s = language.sentences
    expected = language.log_prior(s).float()
    torch.testing.assert_close(policy.log_prob(s), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.usefixtures("double")
@languages
def test_straight_through_gradient_is_that_of_the_relaxation_at_the_whole_sentence(
    language: Language,
) -> None:
    """Against central differences in three random directions."""
    net, square = network(language, width=1), torch.randn(language.width, language.width)
    parameters, ones = list(net.parameters()), torch.ones(4, 1)
    policy = SlotSentences(lambda _: net(ones), language, (4,))
    torch.manual_seed(3)
    whole = policy.relaxed_sample(0.8)
    assert set(whole.unique().tolist()) == {0.0, 1.0}
    gradients = torch.autograd.grad((whole @ square * whole).sum(), parameters)
    found = torch.cat([g.flatten() for g in gradients])
    assert found.abs().max() > 0.1
    at_whole = (whole @ (square + square.T)).detach()

    def objective() -> Tensor:
        torch.manual_seed(3)
        hard, total = torch.zeros(4, language.width), torch.zeros(())
        for slot in range(policy.slots):
            prior = policy.prior(hard, slot)
            gumbel = -torch.empty_like(prior).exponential_().log()
            y = ((net(ones) + prior + gumbel) / 0.8).softmax(-1)
            total = total + (y[:, : language.width] * at_whole).sum()
            hard = hard + (y.argmax(-1, keepdim=True) == torch.arange(language.width))
        return total

    start = nn.utils.parameters_to_vector(parameters).detach()
    step = 1e-6
    for direction in torch.randn(3, len(start)):
        ends = []
        for sign in (1, -1):
            nn.utils.vector_to_parameters(start + sign * step * direction, parameters)
            with torch.random.fork_rng(), torch.no_grad():
                ends.append(objective())
        difference = (ends[0] - ends[1]) / (2 * step)
        torch.testing.assert_close(found @ direction, difference, atol=1e-6, rtol=1e-5)


# -- the game


def games(s: Tensor, x: Tensor, receiver: Receiver, repeats: int = 10) -> float:
    scores = receiver(s, x)
    rights = [choose(scores, draw_candidates(x, 49)).right.mean().item() for _ in range(repeats)]
    return float(np.mean(rights))


class Viewer(nn.Module):
    """Beside the identity as a reader, scores are |s|²/2 − |s − x|²/2, highest at x = s."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, -x.sum(-1, keepdim=True) / 2], -1)


def test_a_copied_code_is_found_and_a_shuffled_one_by_chance() -> None:
    x = Language((2,) * 6).sentences
    receiver = Receiver(reader=nn.ConstantPad1d((0, 1), 1.0), viewer=Viewer())
    assert games(x, x, receiver) == 1
    assert games(x[torch.randperm(len(x))], x, receiver) == pytest.approx(1 / 50, abs=0.008)


def test_candidates_are_the_target_and_distinct_others() -> None:
    x = torch.bernoulli(torch.full((128, 30), 0.5))
    rows, present = draw_candidates(x, 49)
    assert present.all()
    assert (rows[:, 0] == torch.arange(128)).all()
    assert all(len(set(row)) == 50 for row in rows.tolist())
    draws = [draw_candidates(x, 49).rows[:, 1:].flatten() for _ in range(20)]
    times = torch.bincount(torch.cat(draws))
    assert (times - 20 * 49).abs().max() < 6 * (20 * 49 * 0.61) ** 0.5  # all are drawn alike


def test_copies_of_the_target_are_no_distractors() -> None:
    x = torch.eye(30).repeat(2, 1)
    rows, present = draw_candidates(x, 49)
    assert present.all()
    assert (rows[:, 1:] % 30 != torch.arange(60)[:, None] % 30).all()
    rows, present = draw_candidates(x, 59)
    assert present[:, 1:].sum(-1).eq(58).all()


def test_a_choice_by_hand() -> None:
    present = torch.tensor([[True] * 3, [True, True, False]])
    candidates = Candidates(torch.tensor([[0, 1, 2], [1, 2, 0]]), present)
    scores = torch.tensor([[2.0, 2.0, 0.0], [9.0, 1.0, 0.0]])
    loss, right = choose(scores, candidates)
    assert right.tolist() == [0.5, 1.0]  # a tie, and the best of those present
    e = np.exp(1)
    expected = [np.log((2 * e**2 + 1) / e**2), np.log((e + 1) / e)]
    np.testing.assert_allclose(loss, expected, rtol=1e-6)


# -- programs


def test_the_reported_accuracy_is_the_share_of_targets_found() -> None:
    """A receiver that sees nothing shares every target with nine distractors."""
    name = "emergent_communication"
    fit = schedule(name, *with_data({"bits": 32}, name), {})
    for parameter in fit.model.receiver.viewer.parameters():
        parameter.data.zero_()
    numbers = fit.summary()
    for split in ("train", "held_out"):
        assert numbers[f"receiver_accuracy_{split}"] == pytest.approx(0.1)
