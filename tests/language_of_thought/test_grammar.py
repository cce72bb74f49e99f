"""Grammars: derivations, subtrees, and priors against hand-computed values."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from plot_attractors.language import Language
from plot_attractors.language_of_thought import (
    Derivations,
    Grammar,
    ProbabilisticGrammar,
    RationalRules,
    conjunctions,
    literals,
    paths,
)
from plot_attractors.language_of_thought.rational_rules import rule_grammar

TWO = torch.cartesian_prod(torch.arange(2), torch.arange(2))  # all values of two features
GRAMMARS = {
    "paths": paths(3),
    "below_root": paths(3, below_root=True),
    "slots": conjunctions({f"branch{k}": (f"left{k}", f"right{k}") for k in range(3)}),
    "rules": rule_grammar(TWO, 12),
}


@pytest.mark.parametrize("name", GRAMMARS)
def test_derivations_are_distinct_complete_and_as_long_as_allowed(name: str) -> None:
    grammar = GRAMMARS[name]
    rules = grammar.derivations
    assert len(rules.unique(dim=0)) == len(rules)
    ends = grammar.subtree_ends(rules)
    assert torch.equal(ends[:, 0], grammar.length(rules))  # the first subtree is everything
    assert (grammar.length(rules) <= grammar.max_rules).all()
    assert ((ends == 0) == (rules < 0)).all()


@pytest.mark.parametrize(
    ("grammar", "language"),
    [
        (
            conjunctions({f"f{k}": (f"left{k}", f"right{k}") for k in range(6)}),
            Language((2,) * 6, min_length=0),
        ),
        (
            conjunctions({f"f{n}": [f"v{n}{k}" for k in range(n)] for n in (7, 3, 4)}),
            Language((7, 3, 4), min_length=0),
        ),
        (literals(["has milk", "legs", "fins"], 2), Language((2,) * 3, min_length=0, max_length=2)),
    ],
)
def test_sentences_are_those_of_a_language(grammar: Grammar, language: Language) -> None:
    key = language.key(grammar.sentence(grammar.derivations)).sort().values
    assert torch.equal(key, language.key(language.sentences).sort().values)


def test_names_of_columns_and_their_negations_are_tokens() -> None:
    grammar = literals(["has milk", "legs", "fins"], 2)
    assert grammar.tokens == ("has_milk", "¬has_milk", "legs", "¬legs", "fins", "¬fins")
    rules = next(r for r in grammar.derivations if grammar.text(r) == "¬has_milk fins")
    assert grammar.sentence(rules).tolist() == [0, 1, 0, 0, 1, 0]


@pytest.mark.parametrize(
    "distribution", [ProbabilisticGrammar, RationalRules, lambda g: Derivations(g, g.log_p)]
)
def test_what_is_no_derivation_has_no_probability(distribution: Any) -> None:
    grammar = paths(2)
    whole = grammar.derivations
    assert distribution(grammar).log_prob(whole).isfinite().all()
    nothing = torch.full_like(whole[:1], -1)
    unfinished, from_below = whole[-1:].clone(), whole[-1:].roll(-1, -1)
    unfinished[0, grammar.length(whole[-1]) - 1] = -1
    from_below[0, -1] = -1
    rows = torch.cat([nothing, unfinished, from_below])
    assert (distribution(grammar).log_prob(rows) == -torch.inf).all()


def test_rules_of_disjunctive_normal_form_are_counted_by_hand() -> None:
    """With two features, k literals in m conjunctions: 4^k · C(k − 1, m − 1), of m + 3k rules."""
    fits = [(k, m) for k in range(1, 5) for m in range(1, k + 1) if m + 3 * k <= 12]
    expected = sum(4**k * math.comb(k - 1, m - 1) for k, m in fits)
    assert len(GRAMMARS["rules"].derivations) == expected


@pytest.mark.parametrize("name", ["paths", "below_root", "slots"])
def test_the_uniform_prior_gives_every_expression_the_same_probability(name: str) -> None:
    grammar = GRAMMARS[name]
    log_p = ProbabilisticGrammar(grammar, grammar.uniform).log_prob(grammar.derivations)
    assert torch.allclose(log_p, torch.tensor(-math.log(len(grammar.derivations))), atol=1e-5)


def test_the_rational_rules_prior_by_hand() -> None:
    grammar = rule_grammar(max_rules=12)
    rules = {grammar.text(r): r for r in grammar.derivations}
    prior = RationalRules(grammar)
    # D→C 1/2, C→P 1/2, P→F1 1/4, F1→f1=0 1/2
    assert torch.isclose(prior.log_prob(rules["f1=0"]).exp(), torch.tensor(1 / 32))
    # D→C 1/2; C: B(2,2)/B(1,1) = 1/6; P: 1·2/(4·5); F1: 1·2/(2·3)
    names = ("f1=0 ∧ f1=0", "f1=0 ∧ f2=0")
    twice, other = (prior.log_prob(rules[name]).exp() for name in names)
    assert torch.isclose(twice, torch.tensor(1 / 2 / 6 / 10 / 3))
    # P: 1·1/(4·5); F1 and F2: 1/2 each
    assert torch.isclose(other, torch.tensor(1 / 2 / 6 / 20 / 4))
    assert twice > ProbabilisticGrammar(grammar).log_prob(rules["f1=0 ∧ f1=0"]).exp()


@pytest.mark.parametrize("name", GRAMMARS)
@pytest.mark.parametrize("kind", [ProbabilisticGrammar, RationalRules])
def test_closed_forms_equal_the_product_rule_by_rule(name: str, kind: type[Derivations]) -> None:
    rules = GRAMMARS[name].derivations[::3]
    prior = kind(GRAMMARS[name])
    assert torch.allclose(prior.log_prob(rules), Derivations.log_prob(prior, rules), atol=1e-5)


@pytest.mark.parametrize("name", GRAMMARS)
@pytest.mark.parametrize("depends", [True, False])
def test_a_masked_distribution_sums_to_one_and_its_draws_follow_it(
    name: str, depends: bool
) -> None:
    grammar = GRAMMARS[name]
    weights = torch.randn(len(grammar.rules), len(grammar.rules))
    of = (lambda partial: grammar.counts(partial.rules) @ weights) if depends else weights[0]
    masked = Derivations(grammar, of)
    p = masked.log_prob(grammar.derivations).exp()
    assert torch.isclose(p.sum(), torch.tensor(1.0), atol=1e-4)
    n = 4000
    rules, count = masked.sample((n,)).unique(dim=0, return_counts=True)
    share = count / n
    expected = masked.log_prob(rules).exp()
    assert ((share - expected).abs() <= 5 * (expected * (1 - expected) / n).sqrt() + 1 / n).all()


def test_draws_of_a_truncated_grammar_follow_its_prior() -> None:
    grammar = rule_grammar(TWO, 8)
    prior = RationalRules(grammar)
    p = prior.log_prob(grammar.derivations).softmax(-1)
    n = 4000
    drawn = prior.sample((n,))
    share = (drawn[:, None] == grammar.derivations).all(-1).double().mean(0)
    assert torch.isclose(share.sum(), torch.tensor(1.0).double())
    assert ((share - p).abs() <= 5 * (p * (1 - p) / n).sqrt() + 1 / n).all()


def test_weights_of_rules_are_shares() -> None:
    weighted = Grammar({"S": (("a", 1, 3.0), ("b", 2))})
    p = ProbabilisticGrammar(weighted).log_prob(weighted.derivations).exp()
    assert p.tolist() == [0.75, 0.25]
