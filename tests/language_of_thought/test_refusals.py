"""What is no grammar, no meaning, and no program of expressions is refused in a sentence."""

from __future__ import annotations

from typing import Any

import pyro
import pyro.distributions as dist
import pytest
import torch

from plot_attractors.language_of_thought import (
    Grammar,
    MetropolisHastings,
    ProbabilisticGrammar,
    conjunctions,
    exact_posterior,
    examples,
    labels,
    literals,
    paths,
)

PRIOR = ProbabilisticGrammar(paths(2))
FIVE = torch.ones(5, dtype=torch.bool)


def two_latents() -> None:
    pyro.sample("expression", PRIOR)
    pyro.sample("z", dist.Normal(0.0, 1.0))


def shared() -> None:
    pyro.sample("expression", PRIOR)
    pyro.factor("one", torch.zeros(3))


def in_a_plate() -> None:
    with pyro.plate("copies", 3):
        pyro.sample("expression", PRIOR)


def impossible() -> None:
    rules = pyro.sample("expression", PRIOR)
    pyro.factor("x", torch.full(rules.shape[:-1], -torch.inf))


def meant(**alternatives: Any) -> Any:
    grammar = Grammar(alternatives, max_rules=3)
    return grammar.value(grammar.derivations)


REFUSED: dict[str, Any] = {
    "give max_rules": lambda: Grammar({"S": ("a", "a S")}),
    "no uniform prior": lambda: Grammar({"S": ("a", "a S")}, max_rules=5).uniform,
    "must sum to 1": lambda: ProbabilisticGrammar(paths(2), torch.zeros(7)),
    "Alternatives of 'T' are a sequence of": lambda: Grammar({"S": ("a",), "T": "even"}),
    "'S → b' must be a positive number": lambda: Grammar({"S": (("a", 1), ("b", 1, 0.0))}),
    "'dark red' is two things, or not one": lambda: conjunctions({"colour": ("dark red",)}),
    "both be called 'a_b'": lambda: literals(["a b", "a_b"], 2),
    "rules have no meanings: give": lambda: meant(S=("a", "b")),
    "'S → b' must be a value, .* not None": lambda: meant(S=(("a", 1), "b")),
    "'S → not T' must be a value, as the nonterminals are S, not <": lambda: meant(
        S=(("a", True), ("not T", torch.logical_not))
    ),
    r"'S → S or S' cannot be .*torch.where for if": lambda: meant(
        S=(("a", [True, False]), ("S or S", lambda a, b: a or b))
    ),
    r"has shape \(3,\), others of 'S'": lambda: meant(S=(("a", [1, 2]), ("b", [1, 2, 3]))),
    "Only whole derivations have a value": lambda: Grammar({"S": (("a", 1),)}).value(
        torch.tensor([[-1]])
    ),
    "samples 'z' besides 'expression'": lambda: MetropolisHastings(two_latents).setup(0),
    "must follow a distribution over derivations": lambda: MetropolisHastings(
        two_latents, "z"
    ).setup(0),
    "is in a plate, whose elements may": lambda: MetropolisHastings(in_a_plate, chains=4).setup(0),
    "is in a plate: sum over expressions": lambda: exact_posterior(in_a_plate),
    r"'one' has log-probabilities of shape \(3,\), not": lambda: exact_posterior(shared),
    "No expression explains the data": lambda: exact_posterior(impossible),
    "5 numbers from 0 to 1 were asked for": lambda: labels(FIVE).log_prob(torch.ones(1)),
    r"not \[0, 1, 2": lambda: labels(FIVE).log_prob(torch.tensor([0, 1, 2, 0, 0])),
    "3 numbers from 0 to 4 were asked for": lambda: examples(FIVE, 3).log_prob(torch.ones(1)),
    r"not \[0, 1, 5\]": lambda: examples(FIVE, 3).log_prob(torch.tensor([0, 1, 5])),
    r"not \[-1, 1, 2\]": lambda: examples(FIVE, 3).log_prob(torch.tensor([-1, 1, 2])),
    r"true or false of objects, not torch\.float32": lambda: labels(FIVE.float()),
    "noise is a share, from 0 to 1, not 2": lambda: labels(FIVE, noise=2),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_what_does_not_fit_is_refused_in_a_sentence(sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        REFUSED[sentence]()
