"""Feature-wise composition in languages whose tokens are known."""

from __future__ import annotations

import itertools
import math

import torch
from torch import Tensor

from plot_attractors.analysis.probes import Prediction
from plot_attractors.data import Feature
from plot_attractors.language import Language
from plot_attractors.measures.composition import combinations, compose, shuffled

NAN = math.nan
PAIRS = (Feature("f", ("a", "b")), Feature("g", ("a", "b")), Feature("h", ("a", "b")))
ALL = torch.tensor(list(itertools.product((0.0, 1.0), repeat=3)))
ORDER = torch.arange(3).expand(8, -1)


def spelling(z: Tensor) -> Prediction:
    """A listener of bags of three pairs: each token raises the odds of its outcome of one feature
    by e⁴.
    """
    outputs = torch.cat([(4 * pair).log_softmax(-1) for pair in z.split(2, -1)], -1)
    return Prediction(PAIRS, outputs, torch.zeros(3), torch.ones(3))


def same(s: Tensor) -> Tensor:
    return s


def test_a_token_for_each_outcome_is_found_in_any_order() -> None:
    language = Language((2, 2, 2))
    for order in itertools.permutations(range(3)):
        rows = torch.tensor(order).expand(8, -1)
        result = compose(language, same, spelling, ALL, rows)
        assert torch.equal(result, torch.stack([1 - ALL, ALL], -1).flatten(1))


def test_missing_features_take_no_token() -> None:
    language = Language((2, 2, 2), min_length=0)
    values = torch.tensor([[0.0, NAN, 1.0], [NAN, NAN, NAN]])
    result = compose(language, same, spelling, values, ORDER[:2])
    assert [language.name(s) for s in result] == ["A·F", "∅"]


def test_each_feature_takes_a_token_even_where_that_has_more_loss() -> None:
    language = Language((2, 2, 2), min_length=0)

    def first_only(z: Tensor) -> Prediction:  # every token but A and B confuses it
        nothing = torch.zeros_like(z[..., :4])
        outputs = torch.cat([(4 * z[..., :2]).log_softmax(-1), nothing], -1)
        outputs = outputs - z[..., 2:].sum(-1, keepdim=True)
        return Prediction(PAIRS, outputs, torch.zeros(3), torch.ones(3))

    result = compose(language, same, first_only, ALL[:1], ORDER[:1])
    assert language.name(result[0]) == "A·C·E"


def test_sentences_keep_to_the_language() -> None:
    short = compose(Language((2, 2, 2), max_length=2), same, spelling, ALL, ORDER)
    assert torch.equal(short[:, 4:], torch.zeros(8, 2))
    few = compose(Language((2, 2, 2), min_length=3), same, spelling, ALL, ORDER[:, :1])
    assert (few.sum(-1) == 3).all()
    assert torch.equal(few[:, 1], ALL[:, 0])


def test_equal_combinations_are_found_with_missing_values() -> None:
    values = torch.tensor([[1.0, NAN], [0.0, 2.0], [1.0, NAN], [1.0, 0.0], [0.0, 2.0]])
    distinct, row = combinations(values)
    assert len(distinct) == 3
    torch.testing.assert_close(distinct[row], values, equal_nan=True)


def test_shuffled_languages_say_the_same_things_with_other_tokens() -> None:
    language = Language((2, 2, 2))
    embed = shuffled(language, same)
    table = embed(language.sentences)
    assert not torch.equal(table, language.sentences)
    assert torch.equal(table.sum(-1), language.sentences.sum(-1))  # of the same length
    assert len(table.unique(dim=0)) == language.count
    torch.testing.assert_close(embed(language.sentences[None, 3:5]), table[None, 3:5])

    def understood(embed: object) -> float:
        result = compose(language, embed, spelling, ALL, ORDER)  # type: ignore[arg-type]
        return float(spelling(embed(result)).score(ALL).mean())  # type: ignore[operator]

    assert understood(same) == 1
    assert sum(understood(shuffled(language, same)) for _ in range(20)) / 20 < 0.9
