"""Sentences by the reward alone follow the exact posterior, and nothing is listed or factored."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from pyro.distributions import Normal
from torch import Tensor

from plot_attractors.language import Language
from plot_attractors.language.factored import FactoredSentences
from plot_attractors.language.policy import TabulatedSentences
from plot_attractors.training import ExactSentences, SampledSentences, Sampling
from plot_attractors.training.sentences import pareto_shape, temperatures


@contextmanager
def nothing_exact() -> Iterator[None]:
    """No sentences can be listed, and no sums over them taken."""

    def refused(*_: Any, **__: Any) -> None:
        raise AssertionError("a sum over all sentences")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Language, "sentences", property(refused))
        for kind in (FactoredSentences, TabulatedSentences):
            patch.setattr(kind, "__init__", refused)
        yield


def sampled(model: Any, *config: int) -> SampledSentences:
    return SampledSentences(model, model.add_sentence_policy(), Sampling(*config))


def inputs(n: int = 1) -> Normal:
    """Three inputs, n times."""
    loc = torch.tensor([[0.5, -0.2, 0.1], [-0.4, 0.6, 0.0], [0.0, 0.0, 0.9]])
    loc = loc.repeat_interleave(n, 0)
    return Normal(loc, torch.full_like(loc, 0.3))


def frequency(language: Language, s: Tensor) -> Tensor:
    """(3, count) of sentences s (3 n, width)."""
    row = language.row(s).reshape(3, -1)
    return torch.stack([torch.bincount(r, minlength=language.count) for r in row]) / row.shape[1]


def test_draws_of_another_language(build: Any) -> None:
    model, longer = build(sd=0.3), Language((1,) * 6, min_length=1, max_length=4, length_cost=0.5)
    sentences = sampled(model, 32, 6)
    assert sentences.can_speak(longer)
    assert not sampled(model, 32, 1).can_speak(longer)
    with nothing_exact():
        s = sentences.draw(inputs(2000), language=longer)
    p = ExactSentences(model).draw(inputs(20_000), language=longer)
    tv = 0.5 * (frequency(longer, s) - frequency(longer, p)).abs().sum(-1)
    assert tv.max() < 0.08


@pytest.mark.parametrize("axes", [True, False])
def test_the_nearest_sentence_of_a_state(build: Any, axes: bool) -> None:
    model = build(axes=axes, epsilon=0.02)
    s = model.sentences[torch.randint(22, (200,))]
    z = model.embed(s).detach() + 0.3 * torch.randn(200, 3)
    with nothing_exact():
        result = sampled(model, 8, 4).nearest(z)
    best = torch.cdist(z, model.embeddings()).min(-1).values
    distance = (z - model.embed(result)).norm(dim=-1)
    assert float((distance <= best + 1e-4).float().mean()) > 0.97


def test_powers_rise_in_equal_ratios() -> None:
    assert temperatures(1, 16.0) == [16.0]
    assert temperatures(3) == pytest.approx([0.01, 0.1, 1.0])
    assert temperatures(3, 16.0) == pytest.approx([0.01, 0.1, 1.0, 10.0, 16.0])


@pytest.mark.parametrize("k", [0.3, 0.9])
def test_the_shape_of_a_pareto_tail(k: float) -> None:
    log_w = torch.distributions.Exponential(1 / k).sample((8, 20_000))
    result = [pareto_shape(w) for w in log_w]
    assert sum(result) / 8 == pytest.approx(k, abs=0.1)
    assert pareto_shape(torch.zeros(100)) == 0
    assert math.isfinite(pareto_shape(200 * torch.randn(256)))


def test_a_policy_needs_candidates_to_tell_apart() -> None:
    with pytest.raises(ValueError, match=r"set sentences\.candidates"):
        Sampling(1, 1)
