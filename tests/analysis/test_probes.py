"""Feature decoders: what they learn, how their answers are scored, and how sure the scores are."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from plot_attractors.analysis.probes import (
    DecoderTraining,
    Prediction,
    chance,
    feature_decoders,
    is_described,
    leading_levels,
    train_decoder,
)
from plot_attractors.data import Feature, HierarchicalBinaryVectors
from plot_attractors.language import Language
from plot_attractors.model.protocols import Description

COLOUR, SIZE = Feature("colour", ("red", "green", "blue")), Feature("size")
NAN = math.nan


def prediction() -> Prediction:
    """P(red, green, blue) = (0.2, 0.5, 0.3) and a size one standard deviation (2) above its mean
    (10).
    """
    outputs = torch.tensor([[0.2, 0.5, 0.3, math.e]]).log()
    return Prediction((COLOUR, SIZE), outputs, torch.tensor([0.0, 10.0]), torch.tensor([1.0, 2.0]))


class Teller(nn.Module):
    """Says the first branch of an input by token A or B, and the rest of it by nothing."""

    language, latent = Language((2,)), 2

    def describe(self, x: Tensor, draws: int = 1) -> Description:
        half = x.shape[-1] // 2
        left = (x[:, :half].sum(-1) > x[:, half:].sum(-1)).float()
        s = torch.stack([left, 1 - left], -1)[:, None].expand(-1, draws, -1)
        return Description(s + 0.01 * torch.randn(s.shape), s)

    def embed(self, s: Tensor) -> Tensor:
        return s


class Run:
    def __init__(self, model: Any, data: Any, seed: int = 0) -> None:
        self.model, self.data, self.seed = model, data, seed


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


def data(n: int = 400) -> tuple[Tensor, Tensor]:
    z = torch.rand(n, 2) * 2 - 1
    return z, torch.stack([(z[:, 0] > -0.3).float() + (z[:, 0] > 0.3), 5 + 40 * z[:, 1]], -1)


def test_a_decoder_learns_categories_and_numbers_and_leaves_missing_values_out() -> None:
    z, values = data()
    values[::3, 0] = NAN
    values[1::3, 1] = NAN
    decoder = train_decoder(z, values, (COLOUR, SIZE), seed=1, updates=120)
    z, values = data()
    score = decoder(z).score(values).mean(0)
    assert score[0] > 0.93
    assert score[1].sqrt() < 4  # of a standard deviation of 23
    assert not any(p.requires_grad for p in decoder.parameters())


def test_a_decoder_depends_on_its_seed_alone() -> None:
    z, values = data(50)
    values[:, 1] = NAN  # a feature that is never known breaks nothing
    before = torch.get_rng_state()
    same = [
        train_decoder(z, values, (COLOUR, SIZE), seed, updates=5)(z).outputs for seed in (1, 1, 2)
    ]
    assert torch.equal(torch.get_rng_state(), before)
    assert same[0].isfinite().all()
    torch.testing.assert_close(same[0], same[1], rtol=0, atol=0)
    assert not torch.allclose(same[0], same[2])


def test_two_decoders_of_a_run_are_unlike_and_trained_once() -> None:
    training = DecoderTraining(decoder_inputs=500, decoder_updates=60)
    tree = HierarchicalBinaryVectors(depth=2, bits=16)
    run = Run(Teller(), tree)
    before = torch.get_rng_state()
    first, second = feature_decoders(run, training)
    assert torch.equal(torch.get_rng_state(), before)
    assert feature_decoders(run, training)[0] is first
    again = feature_decoders(Run(Teller(), tree), training)
    batch = tree.batch(300)
    z = run.model.embed(run.model.describe(batch.x).s[:, 0])
    torch.testing.assert_close(again[0](z).outputs, first(z).outputs)
    assert not torch.allclose(first(z).outputs, second(z).outputs)
    for decoder in (first, second):
        accuracy = decoder(z).score(tree.feature_values(batch)).mean(0)
        assert accuracy[0] > 0.95
        assert accuracy[1] < 0.6  # left, right and none: it was not told


def test_decoders_learn_from_inputs_of_their_own() -> None:
    """Not from those that an analysis draws, which starts from the seed after the run's."""
    training = DecoderTraining(decoder_inputs=50, decoder_updates=2)
    tree = HierarchicalBinaryVectors(depth=2, bits=16)
    seen: list[Tensor] = []

    class Watched(Teller):
        def describe(self, x: Tensor, draws: int = 1) -> Description:
            seen.append(x)
            return super().describe(x, draws)

    for seed in (1, 2):
        feature_decoders(Run(Watched(), tree, seed), training)
    for seed in range(6):
        torch.manual_seed(seed)
        seen.append(tree.batch(50).x)
    assert not any(torch.equal(x, y) for k, x in enumerate(seen) for y in seen[:k])


def test_what_is_described() -> None:
    tree = HierarchicalBinaryVectors(depth=1, bits=4)
    unlabelled = SimpleNamespace(features=(), ordered=False, feature_values=None)
    assert is_described(Run(Teller(), tree))
    for model, inputs in ((nn.Linear(1, 1), tree), (Teller(), unlabelled), (Teller(), None)):
        assert not is_described(Run(model, inputs))


def test_levels_that_are_summed_up() -> None:
    assert leading_levels(HierarchicalBinaryVectors(depth=6, bits=64)) == 4
    assert leading_levels(HierarchicalBinaryVectors(depth=2, bits=4)) == 2
    assert leading_levels(SimpleNamespace(features=(COLOUR,), ordered=False)) == 0
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
