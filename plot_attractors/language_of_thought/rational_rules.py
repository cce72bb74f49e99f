"""Rational rules: Boolean concepts in disjunctive normal form, and the 5-4 categories."""

from __future__ import annotations

import math
from typing import NamedTuple

import pyro
import torch
from torch import Tensor

from plot_attractors.language_of_thought.concepts import labels
from plot_attractors.language_of_thought.derivations import RationalRules
from plot_attractors.language_of_thought.enumeration import exact_posterior
from plot_attractors.language_of_thought.grammar import Grammar

__all__ = ["FIVE_FOUR", "FiveFour", "program", "rule_grammar", "rule_posterior"]


class FiveFour(NamedTuple):
    """The 5-4 categories: 16 stimuli of four binary features, in the order A1-A5, B1-B4, T1-T7.

    - ``names``: of the stimuli; ``stimuli``: (16, 4) 0 or 1;
    - ``category``: (16,) 1 for A, 0 for B, −1 for transfer stimuli, whose category is never shown;
    - ``human``: (16,) share of people's answers "A" after training.
    """

    names: tuple[str, ...]
    stimuli: Tensor
    category: Tensor
    human: Tensor


_TABLE = (  # stimulus, features, category, share of "A" answers
    ("A1", "0001", 1, 0.77), ("A2", "0101", 1, 0.78), ("A3", "0100", 1, 0.83),
    ("A4", "0010", 1, 0.64), ("A5", "1000", 1, 0.61), ("B1", "0011", 0, 0.39),
    ("B2", "1001", 0, 0.41), ("B3", "1110", 0, 0.21), ("B4", "1111", 0, 0.15),
    ("T1", "0110", -1, 0.56), ("T2", "0111", -1, 0.41), ("T3", "0000", -1, 0.82),
    ("T4", "1101", -1, 0.40), ("T5", "1010", -1, 0.32), ("T6", "1100", -1, 0.53),
    ("T7", "1011", -1, 0.20),
)  # fmt: skip

# Categories of Medin and Schaffer (1978), *Context theory of classification learning*,
# Psychological Review 85, 207-238; answers of Nosofsky, Palmeri and McKinley (1994),
# *Rule-plus-exception model of classification learning*, Psychological Review 101, 53-79. Both as
# quoted by N. D. Goodman's demonstrations (forestdb.org/models/rational-rules.html, probmods.org);
# the articles were not at hand.
FIVE_FOUR = FiveFour(
    tuple(name for name, *_ in _TABLE),
    torch.tensor([[int(bit) for bit in bits] for _, bits, *_ in _TABLE]),
    torch.tensor([category for *_, category, _ in _TABLE]),
    torch.tensor([human for *_, human in _TABLE]),
)


def rule_grammar(stimuli: Tensor = FIVE_FOUR.stimuli, max_rules: int = 20) -> Grammar:
    """Disjunctive normal form over the binary features f1, f2, … of stimuli (n, features): D of
    conjunctions C of predicates P. An expression's value (n,) is whether each stimulus obeys it.

    >>> grammar = rule_grammar(torch.tensor([[0, 0], [0, 1]]), max_rules=8)
    >>> rules = grammar.derivations[-1]
    >>> grammar.text(rules), grammar.value(rules).tolist()
    ('f2=1 ∨ f2=1', [False, True])
    """
    features = {f"F{k}": column for k, column in enumerate(stimuli.T, 1)}
    return Grammar(
        {
            "D": (("C", None), ("C ∨ D", torch.logical_or)),
            "C": (("P", None), ("P ∧ C", torch.logical_and)),
            "P": tuple(features),
            **{
                name: tuple((f"{name.lower()}={bit}", column == bit) for bit in (0, 1))
                for name, column in features.items()
            },
        },
        max_rules=max_rules,
    )


def program(grammar: Grammar, outlier: float = 1.0, alpha: float = 1.0) -> None:
    r"""Rational rules of the 5-4 categories as a Pyro program: each training stimulus that a rule
    gets wrong costs b nats, P(labels | rule) ∝ e^{−b · mistakes} (Goodman et al. 2008).

    b is `outlier`, and `alpha` the pseudo-count of every rule.
    """
    if outlier < 0:
        raise ValueError(f"outlier, the cost of a mistake, must not be negative, not {outlier}.")
    shown = FIVE_FOUR.category >= 0
    rules = pyro.sample("expression", RationalRules(grammar, alpha))
    law = labels(
        grammar.value(rules)[..., shown], noise=2 * math.exp(-outlier) / (1 + math.exp(-outlier))
    )
    pyro.sample("labels", law, obs=FIVE_FOUR.category[shown])


def rule_posterior(
    grammar: Grammar, outlier: float = 1.0, alpha: float = 1.0
) -> tuple[Tensor, Tensor]:
    """(16,) P(stimulus obeys the rule | training), and (E,) log P(rule | training), exactly."""
    log_p = exact_posterior(program, grammar, outlier, alpha).log_p
    return log_p.exp() @ grammar.value(grammar.derivations).double(), log_p
