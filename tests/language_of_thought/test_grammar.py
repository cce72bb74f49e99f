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


def test_numbers_of_expressions() -> None:
    assert len(paths(6).derivations) == 127
    assert len(paths(6, below_root=True).derivations) == 126
    slots = conjunctions({f"branch{k}": (f"left{k}", f"right{k}") for k in range(6)})
    language = Language((2,) * 6, min_length=0)
    key = language.key(slots.sentence(slots.derivations)).sort().values
    assert torch.equal(key, language.key(language.sentences).sort().values)
    sprites = conjunctions({f"f{n}": [f"v{n}{k}" for k in range(n)] for n in (7, 3, 4)})
    s = sprites.sentence(sprites.derivations)
    assert len(s.unique(dim=0)) == len(s) == 8 * 4 * 5


@pytest.mark.parametrize(
    "distribution",
    [ProbabilisticGrammar, RationalRules, lambda g: Derivations(g, g.log_p)],
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


def test_subtrees_of_a_rule() -> None:
    grammar = rule_grammar(TWO, 12)
    rules = next(r for r in grammar.derivations if grammar.text(r) == "f1=0 ∨ f2=1 ∧ f1=1")
    names = [grammar.rules[r][0] for r in rules.tolist() if r >= 0]
    # D(C(P(F1)) D(C(P(F2) C(P(F1)))))
    assert names == ["D", "C", "P", "F1", "D", "C", "P", "F2", "C", "P", "F1"]
    assert grammar.subtree_ends(rules).tolist() == [11, 4, 4, 4, 11, 11, 8, 8, 11, 11, 11, 0]


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


def test_texts_and_weights() -> None:
    weighted = Grammar({"S": (("a", 1, 3.0), ("b", 2))})
    assert ProbabilisticGrammar(weighted).log_prob(weighted.derivations).exp().tolist() == [
        0.75,
        0.25,
    ]
    grammar = paths(2)
    assert {grammar.text(r) for r in grammar.derivations} == {
        "∅", "left1", "right1", "left1 left2", "left1 right2", "right1 left2", "right1 right2"
    }  # fmt: skip
    assert grammar.tokens == ("left1", "right1", "left2", "right2")


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: Grammar({"S": ("a", "a S")}), "give max_rules"),
        (lambda: Grammar({"S": ("a S",)}, max_rules=5), "S yields no finite expression"),
        (lambda: Grammar({"S": ("A",), "A": ("a",)}, max_rules=1), "as few as max_rules=1"),
        (lambda: rule_grammar(TWO, 8).uniform, "no uniform prior"),
        (lambda: ProbabilisticGrammar(paths(2), torch.zeros(7)), "must sum to 1"),
        (lambda: RationalRules(paths(2), 0.0), "alpha"),
        (lambda: Grammar({"S": ("a",), "T": "even"}), "Alternatives of 'T' are a sequence of"),
        (lambda: Grammar({"S": ("even", 3)}), "Alternatives of 'S' are a sequence of texts"),
        (lambda: Grammar({"S": (("a", 1), ("b", 1, 0.0))}), "'S → b' must be a positive number"),
        (lambda: conjunctions({"red": ("red", "green")}), "'red' is two things"),
        (lambda: conjunctions({"expression": ("red",)}), "'expression' is two things"),
        (lambda: conjunctions({"colour": ("dark red",)}), "'dark red' is two things, or not one"),
        (lambda: literals(["a b", "a_b"], 2), "both be called 'a_b'"),
    ],
)
def test_bad_grammars_are_refused_in_a_sentence(build: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        build()


def test_literals_share_tokens_and_are_all_there() -> None:
    grammar = literals(["has milk", "legs", "fins"], 2)
    assert grammar.tokens == ("has_milk", "¬has_milk", "legs", "¬legs", "fins", "¬fins")
    language = Language((2,) * 3, min_length=0, max_length=2)
    s = grammar.sentence(grammar.derivations)
    key = language.key(s).sort().values
    assert torch.equal(key, language.key(language.sentences).sort().values)
    assert len(s) == 1 + 3 * 2 + 3 * 4
    prior = ProbabilisticGrammar(grammar, grammar.uniform).log_prob(grammar.derivations)
    assert torch.allclose(prior.exp(), torch.full_like(prior, 1 / len(s)))
    of = {
        grammar.text(rules): row.tolist() for rules, row in zip(grammar.derivations, s, strict=True)
    }
    assert of["¬has_milk fins"] == [0, 1, 0, 0, 1, 0]
