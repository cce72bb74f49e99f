"""Rational rules: Boolean concepts in disjunctive normal form, and the 5-4 categories."""

from __future__ import annotations

from typing import NamedTuple

import pyro
import torch
from torch import Tensor

from plot_attractors.language_of_thought.derivations import RationalRules
from plot_attractors.language_of_thought.enumeration import posterior
from plot_attractors.language_of_thought.grammar import Grammar

__all__ = [
    "FIVE_FOUR", "FiveFour", "classifies", "mistakes", "program", "rule_grammar", "rule_posterior",
]  # fmt: skip


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


def rule_grammar(features: int = 4, max_rules: int = 20) -> Grammar:
    """Disjunctive normal form over binary features f1, f2, …: D of conjunctions C of predicates P.

    >>> grammar = rule_grammar(2, max_rules=8)
    >>> grammar.text(grammar.derivations[-1])
    'f2=1 ∨ f2=1'
    """
    names = [f"F{k}" for k in range(1, features + 1)]
    return Grammar(
        {
            "D": ("C", "C ∨ D"),
            "C": ("P", "P ∧ C"),
            "P": tuple(names),
            **{f"F{k}": (f"f{k}=0", f"f{k}=1") for k in range(1, features + 1)},
        },
        max_rules=max_rules,
    )


def classifies(grammar: Grammar, rules: Tensor, stimuli: Tensor) -> Tensor:
    """(…, n) bool, whether n stimuli (n, features) obey the rules of derivations (…, max_rules).

    Read from left to right: a literal narrows the conjunction at hand; the last literal of a
    conjunction, one that follows C → P, adds it to the disjunction.
    """
    numbers = {rule: k for k, rule in enumerate(grammar.rules)}
    closing = numbers["C", ("P",)]
    # stimuli that each rule allows
    literal = torch.ones(len(grammar.rules), len(stimuli), dtype=torch.bool)
    ends = torch.zeros(len(grammar.rules) + 1, dtype=torch.bool)  # by rule number; the last for −1
    for k, (left, _) in enumerate(grammar.rules):
        if left.startswith("F"):
            feature, value = grammar.rules[k][1][0].removeprefix("f").split("=")
            literal[k], ends[k] = stimuli[:, int(feature) - 1] == int(value), True
    shape = (*rules.shape[:-1], len(stimuli))
    truth = torch.zeros(shape, dtype=torch.bool)
    conjunction = torch.ones(shape, dtype=torch.bool)
    last = torch.zeros(rules.shape[:-1], dtype=torch.bool)
    for rule in rules.unbind(-1):
        conjunction = conjunction & literal[rule]
        last = last | (rule == closing)
        complete = (last & ends[rule])[..., None]
        truth = truth | (complete & conjunction)
        conjunction = conjunction | complete
        last = last & ~complete[..., 0]
    return truth


def mistakes(grammar: Grammar, rules: Tensor, data: FiveFour = FIVE_FOUR) -> Tensor:
    """(…) how many of the training stimuli the rules put into the wrong category."""
    shown = data.category >= 0
    return (classifies(grammar, rules, data.stimuli[shown]) != data.category[shown].bool()).sum(-1)


def program(grammar: Grammar, outlier: float = 1.0, alpha: float = 1.0, copies: int = 1) -> None:
    r"""Rational rules as a Pyro program: each training stimulus it gets wrong costs b nats,
    P(labels | rule) ∝ e^{−b · mistakes} (Goodman et al. 2008).

    b is `outlier`, and `alpha` the pseudo-count of every rule; a plate has independent `copies`.
    """
    with pyro.plate("copies", copies):
        rules = pyro.sample("expression", RationalRules(grammar, alpha))
        pyro.factor("labels", -outlier * mistakes(grammar, rules))


def rule_posterior(
    grammar: Grammar, outlier: float = 1.0, alpha: float = 1.0
) -> tuple[Tensor, Tensor]:
    """(16,) P(stimulus obeys the rule | training), and (E,) log P(rule | training), exactly."""
    rules = grammar.derivations
    log_prior = RationalRules(grammar, alpha).log_prob(rules).double()
    log_p = posterior(log_prior, -outlier * mistakes(grammar, rules).double()).log_p
    return log_p.exp() @ classifies(grammar, rules, FIVE_FOUR.stimuli).double(), log_p
