"""Feature decoders: what they learn, how their answers are scored, and how sure the scores are."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from plot_attractors.analysis.probes import (
    DecoderTraining,
    Prediction,
    chance,
    feature_decoders,
    leading_levels,
    train_decoder,
)
from plot_attractors.data import Feature, HierarchicalBinaryVectors
from plot_attractors.language import Language

from ..fakes import Bags
from ..small import Untrained

COLOUR, SIZE = Feature("colour", ("red", "green", "blue")), Feature("size")
NAN = math.nan


def prediction() -> Prediction:
    """P(red, green, blue) = (0.2, 0.5, 0.3) and a size one standard deviation (2) above its mean
    (10).
    """
    outputs = torch.tensor([[0.2, 0.5, 0.3, math.e]]).log()
    return Prediction((COLOUR, SIZE), outputs, torch.tensor([0.0, 10.0]), torch.tensor([1.0, 2.0]))


def first_branch(x: Tensor) -> Tensor:
    """(n, 2) token A or B for the first branch of inputs, and nothing for the rest of it."""
    half = x.shape[-1] // 2
    left = (x[:, :half].sum(-1) > x[:, half:].sum(-1)).float()
    return torch.stack([left, 1 - left], -1)


def run_of(sentence: Any, seed: int = 0) -> Any:
    data = HierarchicalBinaryVectors(depth=2, bits=16)
    return Untrained(Bags(Language((2,)), sentence), data, seed)


def test_a_prediction_in_numbers() -> None:
    p = prediction()
    torch.testing.assert_close(p.parts[0], torch.tensor([[0.2, 0.5, 0.3]]))
    torch.testing.assert_close(p.parts[1], torch.tensor([[12.0]]))
    torch.testing.assert_close(p.points, torch.tensor([[0.2, 0.5, 0.3, 12.0]]))
    torch.testing.assert_close(p.values, torch.tensor([[1.0, 12.0]]))


def test_losses_and_scores_in_numbers() -> None:
    values = torch.tensor([[[0.0, 9.0], [1.0, NAN], [NAN, 12.0]]])  # against one prediction
    loss = torch.tensor([[[-math.log(0.2), 1.5**2], [-math.log(0.5), NAN], [NAN, 0.0]]])
    score = torch.tensor([[[0.0, 9.0], [1.0, NAN], [NAN, 0.0]]])
    torch.testing.assert_close(prediction().loss(values), loss, equal_nan=True)
    torch.testing.assert_close(prediction().score(values), score, equal_nan=True, atol=1e-5, rtol=0)


def known(n: int = 400) -> tuple[Tensor, Tensor]:
    z = torch.rand(n, 2) * 2 - 1
    return z, torch.stack([(z[:, 0] > -0.3).float() + (z[:, 0] > 0.3), 5 + 40 * z[:, 1]], -1)


def test_a_decoder_learns_categories_and_numbers_and_leaves_missing_values_out() -> None:
    z, values = known()
    values[::3, 0] = NAN
    values[1::3, 1] = NAN
    decoder = train_decoder(z, values, (COLOUR, SIZE), seed=1, updates=120)
    z, values = known()
    score = decoder(z).score(values).mean(0)
    assert score[0] > 0.93
    assert score[1].sqrt() < 4  # of a standard deviation of 23
    assert not any(p.requires_grad for p in decoder.parameters())


def test_two_decoders_of_a_run_are_unlike_and_trained_once() -> None:
    training = DecoderTraining(decoder_inputs=500, decoder_updates=60)
    run = run_of(first_branch)
    before = torch.get_rng_state()
    first, second = feature_decoders(run, training)
    assert torch.equal(torch.get_rng_state(), before)
    assert feature_decoders(run, training)[0] is first
    again = feature_decoders(run_of(first_branch), training)
    batch = run.data.batch(300)
    z = first_branch(batch.x)
    torch.testing.assert_close(again[0](z).outputs, first(z).outputs)
    assert not torch.allclose(first(z).outputs, second(z).outputs)
    for decoder in (first, second):
        accuracy = decoder(z).score(run.data.feature_values(batch)).mean(0)
        assert accuracy[0] > 0.95
        assert accuracy[1] < 0.6  # left, right and none: it was not told


def test_decoders_learn_from_inputs_of_their_own() -> None:
    """Not from those that an analysis draws, which starts from the seed after the run's."""
    training = DecoderTraining(decoder_inputs=50, decoder_updates=2)
    seen: list[Tensor] = []

    def watched(x: Tensor) -> Tensor:
        seen.append(x)
        return first_branch(x)

    for seed in (1, 2):
        feature_decoders(run_of(watched, seed), training)
    for seed in range(6):
        torch.manual_seed(seed)
        seen.append(run_of(watched).data.batch(50).x)
    assert not any(torch.equal(x, y) for k, x in enumerate(seen) for y in seen[:k])


def test_levels_that_are_summed_up() -> None:
    assert leading_levels(HierarchicalBinaryVectors(depth=6, bits=64)) == 4
    assert leading_levels(HierarchicalBinaryVectors(depth=2, bits=4)) == 2
    assert leading_levels(SimpleNamespace(features=(COLOUR, SIZE), ordered=True)) == 0


def test_chance_without_a_look() -> None:
    unknown = Feature("unknown", ("a",))
    values = torch.tensor([[0.0, 1.0, NAN], [2.0, 3.0, NAN], [2.0, NAN, NAN], [NAN, NAN, NAN]])
    result = chance(values, (COLOUR, SIZE, unknown))
    torch.testing.assert_close(
        result, torch.tensor([2 / 3, 1.0, NAN], dtype=torch.float64), equal_nan=True
    )


def test_places_of_outcomes_stand_for_their_probabilities() -> None:
    colour = Feature("colour", ("black", "red", "yellow"), ((0, 0), (1, 0), (1, 1)))
    size = Feature("size")
    outputs = torch.tensor([[0.5, 0.25, 0.25]]).log()
    prediction = Prediction(
        (colour, size),
        torch.cat([outputs, torch.tensor([[2.0]])], -1),
        *torch.tensor([[0.0, 1], [1, 3]]),
    )
    assert prediction.points.tolist() == [[0.5, 0.25, 7.0]]
