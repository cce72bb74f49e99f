"""Beam search, against listed sentences."""

from __future__ import annotations

import pytest
import torch

from plot_attractors.analysis.beam import beam_search
from plot_attractors.language import Language

LANGUAGES = [
    Language((1,) * 6, max_length=3),
    Language((2, 2, 2)),
    Language((2, 1, 3), min_length=0),
    Language((1,) * 4, min_length=2, max_length=3),
    Language((2, 2), ordered=True),
]


@pytest.mark.parametrize("language", LANGUAGES)
def test_with_enough_beams_every_sentence_is_visited_once_and_in_order(language: Language) -> None:
    weight = torch.randn(3, 1, language.width)

    def log_reward(s: torch.Tensor) -> torch.Tensor:
        return (s * weight).sum(-1)

    result = beam_search(log_reward, language, 3, beams=200, keep=500)
    listed = log_reward(language.sentences.expand(3, -1, -1))
    finite, n = result.log_reward.isfinite(), language.count
    assert finite.sum(1).tolist() == [n] * 3
    assert torch.allclose(result.log_reward[:, :n], listed.sort(1, descending=True).values)
    assert all(len(row.unique()) == n for row in language.key(result.s[:, :n]))
    assert torch.allclose(log_reward(result.s)[finite], result.log_reward[finite])


def test_it_finds_the_nearest_sum_of_tokens_among_millions() -> None:
    torch.manual_seed(1)
    language = Language((1,) * 32, max_length=7)
    token = torch.randn(32, 32) / 32**0.5
    rows = [torch.zeros(32).index_fill(0, torch.randperm(32)[:7], 1.0) for _ in range(50)]
    right = torch.stack(rows)
    x = (right @ token)[:, None]
    reward = lambda s: -50 * (s @ token - x).square().sum(-1)  # noqa: E731
    result = beam_search(reward, language, 50, beams=16, keep=4)
    assert (result.s[:, 0] == right).all(-1).float().mean() > 0.9
