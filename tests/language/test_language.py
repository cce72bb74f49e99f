"""The language: how many sentences there are, which may be built, and their prior."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from plot_attractors.language import Language
from plot_attractors.language.factored import FactoredSentences, factors
from plot_attractors.language.policy import draw_prior, prior_policy

LANGUAGES = {
    "pairs": Language((2, 2, 2)),
    "uneven": Language((1, 3, 2)),
    "with the empty sentence": Language((2, 2, 2), min_length=0),
    "full length only": Language((2, 2, 2), min_length=3),
    "two tokens at most": Language((1, 2, 2, 2), max_length=2),
    "Gricean, two or three tokens": Language((2, 1, 2, 2), 2, 3, length_cost=1.3),
}
languages = pytest.mark.parametrize("language", LANGUAGES.values(), ids=LANGUAGES.keys())


@pytest.mark.parametrize(
    ("language", "count"),
    [
        (Language((2,) * 6), 728),  # the paper's 6 pairs: 3⁶ − 1, not 6³ = 216
        (Language((2,) * 6, min_length=0), 729),
        (Language((1,) * 32, max_length=7), 4_514_872),
    ],
)
def test_count_without_listing(language: Language, count: int) -> None:
    assert language.count == count


@languages
def test_chunks_are_all_sentences_once_shortest_first(language: Language) -> None:
    parts = list(language.chunks(7))
    assert max(len(part) for part in parts) <= 7
    s = torch.cat(parts)
    assert (s.sum(-1).diff() >= 0).all()
    assert torch.equal(
        language.key(s).sort().values, language.key(language.sentences).sort().values
    )


def test_prior_of_a_language_too_large_to_list_is_exact() -> None:
    cost, language = 0.3, Language((1,) * 32, max_length=7, length_cost=0.3)
    normaliser = sum(math.comb(32, k) * math.exp(-cost * k) for k in range(1, 8))
    s = torch.zeros(32)
    s[:5] = 1
    assert float(language.log_prior(s)) == pytest.approx(-5 * cost - math.log(normaliser), abs=1e-5)


@languages
@pytest.mark.parametrize("canonical", [True, False])
def test_no_building_order_has_a_dead_end(language: Language, canonical: bool) -> None:
    """From the empty sentence, whatever allowed tokens are taken, something is allowed, and the end
    is a sentence.
    """
    valid = {tuple(s.tolist()) for s in language.sentences}
    frontier, ended = [torch.zeros(language.width)], set()
    while frontier:
        partial = frontier.pop()
        allowed = language.allowed(partial, canonical)
        assert allowed.any(), f"stuck after {language.name(partial)}"
        if allowed[-1]:
            ended.add(tuple(partial.tolist()))
        for j in allowed[:-1].nonzero().flatten():
            assert partial[j] == 0
            frontier.append(partial + torch.nn.functional.one_hot(j, language.width))
    assert ended == valid
    assert len(valid) == language.count == len(language.sentences)


def test_names_and_keys() -> None:
    language = Language((2,) * 6)
    assert [language.name(language.sentences[k]) for k in (0, -1)] == ["A", "B·D·F·H·J·L"]
    assert language.name(torch.zeros(12)) == "∅"
    assert Language((1,) * 60, max_length=2).token_name(59) == "w59"
    assert len(set(language.key(language.sentences).tolist())) == 728


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"groups": (2, 2), "max_length": 3}, "<= min_length <= max_length <= 2 groups"),
        ({"groups": (2, 2), "min_length": -1}, "Lengths must satisfy"),
    ],
)
def test_impossible_languages(arguments: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        Language(**arguments)  # type: ignore[arg-type]


@dataclass(frozen=True)
class TwoTokens(Language):
    """Sentences of two tokens are likeliest."""

    def log_weight(self, length: Tensor) -> Tensor:
        return -2.0 * (length - 2).square()


OWN = [TwoTokens((1,) * 5, 0), TwoTokens((2, 2, 1), 1), TwoTokens((1,) * 4, 1, 3)]


def expected(language: Language, power: float = 1.0) -> Tensor:
    length = language.sentences.sum(-1).double()
    return (power * language.log_weight(length)).softmax(-1)


@pytest.mark.parametrize("language", [*OWN, *LANGUAGES.values()])
@pytest.mark.parametrize("power", [1.0, 0.3])
def test_whatever_knows_the_prior_knows_it(language: Language, power: float) -> None:
    of, p = language.power(power), expected(language, power)
    s = language.sentences.double()
    torch.testing.assert_close(of.log_prior(s).exp(), p)
    for dtype in (torch.bool, torch.int64):  # however sentences are kept
        torch.testing.assert_close(of.log_prior(s.to(dtype)).exp(), p.float())
    policy = prior_policy(of, (len(s),))
    torch.testing.assert_close(policy.log_prob(s).double(), p.log(), atol=1e-5, rtol=1e-5)
    split = factors(of, tuple(language.token_group.tolist()))
    assert split is not None
    flat = torch.zeros(sum(len(f.subsets) for f in split), dtype=torch.float64)
    torch.testing.assert_close(FactoredSentences(of, split, flat).log_prob(s).exp(), p)
    twice = FactoredSentences(language, split, flat).power(power)
    torch.testing.assert_close(twice.log_prob(s).exp(), p)
    more = of.log_prior_of_additions(s)
    torch.testing.assert_close(more[0], of.log_prior_of_length(s.sum(-1) + 1))
    torch.testing.assert_close(more[-1], of.log_prior(s))


@pytest.mark.parametrize("language", [*OWN, TwoTokens((2, 2, 2), 1, 2)])
def test_independent_draws_follow_it(language: Language) -> None:
    torch.manual_seed(0)
    s = draw_prior(language, 20_000)
    drawn = torch.bincount(language.row(s), minlength=language.count) / len(s)
    assert torch.equal(language.sentences[language.row(s)], s)
    assert (drawn - expected(language)).abs().sum() / 2 < 0.02
