"""Regeneration of subtrees: acceptance by hand, detailed balance, agreement with enumeration."""

from __future__ import annotations

import math
import warnings
from functools import partial
from typing import Any

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro.infer import MCMC
from torch import Tensor

from plot_attractors.language_of_thought import (
    Grammar,
    MetropolisHastings,
    ProbabilisticGrammar,
    RationalRules,
    labels,
)
from plot_attractors.language_of_thought.enumeration import log_parts
from plot_attractors.language_of_thought.mcmc import Proposal, last_states, regenerate
from plot_attractors.language_of_thought.rational_rules import FIVE_FOUR, program, rule_grammar

# three expressions, proposed by their weights: a (1 rule), b and c (2 rules)
THREE = Grammar({"S": (("a", 0, 0.2), ("B", None, 0.8)), "B": (("b", 0, 0.3), ("c", 0, 0.7))})
PRIOR = ProbabilisticGrammar(THREE, torch.full((4,), 0.5).log())
FACTOR = torch.tensor([0.5, 1.0, 3.0])  # of a, b and c beside the prior
ROWS = sorted(THREE.derivations, key=THREE.text)


def number(rules: Tensor) -> Tensor:
    """0, 1, 2 for a, b, c."""
    return (rules[..., None, :] == torch.stack(ROWS)).all(-1).int().argmax(-1)


def three(copies: int = 1) -> None:
    with pyro.plate("copies", copies):
        rules = pyro.sample("expression", PRIOR)
        pyro.factor("weight", FACTOR.log()[number(rules)])


def mistakes(grammar: Grammar, rules: Tensor) -> Tensor:
    """(…) training stimuli of the 5-4 categories that rules put into the wrong one."""
    shown = FIVE_FOUR.category >= 0
    return (grammar.value(rules)[..., shown] != FIVE_FOUR.category[shown].bool()).sum(-1)


def transitions(target: Tensor) -> Tensor:
    """The kernel's exact transition matrix over a, b, c: every way of every proposal."""
    p = {"a": 0.2, "b": 0.8 * 0.3, "c": 0.8 * 0.7}  # of a whole expression
    n = {"a": 1, "b": 2, "c": 2}
    matrix = torch.zeros(3, 3, dtype=torch.float64)
    for i, old in enumerate("abc"):
        for j, new in enumerate("abc"):
            # at the root
            ratio = n[old] * p[old] / (n[new] * p[new])
            matrix[i, j] += p[new] / n[old] * min(1.0, float(target[j] / target[i]) * ratio)
            # at B
            if old != "a" and new != "a":
                q = {"b": 0.3, "c": 0.7}
                ratio = q[old] / q[new]
                matrix[i, j] += q[new] / n[old] * min(1.0, float(target[j] / target[i]) * ratio)
    matrix[range(3), range(3)] += 1 - matrix.sum(-1)
    return matrix


def target() -> Tensor:
    p = torch.tensor([0.5, 0.25, 0.25], dtype=torch.float64) * FACTOR.double()
    return p / p.sum()


def test_the_kernel_is_in_detailed_balance_and_makes_these_transitions() -> None:
    matrix, p = transitions(target()), target()
    flow = p[:, None] * matrix
    assert torch.allclose(flow, flow.T)
    n = 20000
    kernel = MetropolisHastings(three)
    for i, row in enumerate(ROWS):
        start = row.expand(n, -1)
        kernel.initial_params = {"expression": start}
        kernel.setup(0, n)
        after = number(kernel.sample({"expression": start})["expression"])
        share = torch.bincount(after, minlength=3) / n
        assert ((share - matrix[i]).abs() <= 4.5 * (matrix[i] * (1 - matrix[i]) / n).sqrt()).all()


def test_log_ratios_of_proposals_by_hand() -> None:
    a, _, c = ROWS
    torch.manual_seed(0)
    proposal = regenerate(THREE, a.expand(500, -1))
    to_c = number(proposal.rules) == 2
    assert to_c.any()
    # 1 rule, subtree of probability 0.2; 2 rules, subtree of probability 0.8 · 0.7
    expected = torch.tensor(math.log(1 * 0.2 / (2 * 0.8 * 0.7)))
    assert torch.allclose(proposal.log_ratio[to_c], expected)
    back = regenerate(THREE, c.expand(500, -1))
    to_a = number(back.rules) == 0
    assert torch.allclose(back.log_ratio[to_a], -expected)


# a rule with two and one with three subtrees of its own kind, and one of another kind inside
NESTED = Grammar(
    {
        "S": (("a", 0, 3.0), ("b", 0), ("not S", 0), ("S and S", 0, 0.5), ("S N S S", 0, 0.3)),
        "N": ("1", "2"),
    },
    max_rules=6,
)


def flows(move: Any, log_target: Tensor, n: int = 200_000) -> tuple[Tensor, Tensor]:
    """(E, E) how many of n chains, that start from the target, went from each expression to each
    other one, and whether their flows there and back differ by more than chance.
    """
    rules = NESTED.derivations
    index = log_target.softmax(0).multinomial(n, replacement=True)
    proposal = move(NESTED, rules[index])
    keys = rules @ (len(NESTED.rules) + 1) ** torch.arange(rules.shape[1])
    order = keys.sort()
    new = proposal.rules @ (len(NESTED.rules) + 1) ** torch.arange(rules.shape[1])
    to = order.indices[torch.searchsorted(order.values, new)]
    assert torch.equal(rules[to], proposal.rules), "all proposals are derivations"
    ratio = log_target[to] - log_target[index] + proposal.log_ratio
    to = torch.where(torch.rand(n).log() < ratio, to, index)
    count = torch.zeros(len(rules), len(rules)).index_put_(
        (index, to), torch.ones(n), accumulate=True
    )
    difference, both = count - count.T, count + count.T
    some = (both >= 10).triu(1)
    z = difference[some] / both[some].sqrt()
    return count, z.square().mean() > 1 + 5 * (2 / len(z)) ** 0.5


def test_regeneration_is_in_detailed_balance() -> None:
    torch.manual_seed(1)
    log_target = torch.randn(len(NESTED.derivations))
    count, unbalanced = flows(regenerate, log_target)
    assert count.fill_diagonal_(0).sum() > 10_000
    assert not unbalanced

    def wrong(*given: Any) -> Proposal:
        """A way back that depends on what is proposed by more than it should."""
        proposal = regenerate(*given)
        return proposal._replace(log_ratio=proposal.log_ratio + 0.3 * proposal.rules[..., 1])

    assert flows(wrong, log_target)[1]


def test_too_long_proposals_are_never_accepted() -> None:
    grammar = rule_grammar(FIVE_FOUR.stimuli[:, :2], 7)
    rules = RationalRules(grammar).sample((400,))
    proposal = regenerate(grammar, rules)
    refused = proposal.log_ratio.isinf()
    assert refused.any()
    assert torch.equal(proposal.rules[refused], rules[refused])
    assert (grammar.subtree_ends(proposal.rules)[:, 0] == grammar.length(proposal.rules)).all()


@pytest.mark.parametrize("alpha", [0.5, 1.0])
def test_chains_agree_with_enumeration(alpha: float) -> None:
    """Last states of independent chains on the 5-4 categories, against the listed posterior: a
    total variation that as many independent draws stay below 399 times in 400.
    """
    grammar, n = rule_grammar(max_rules=8), 800
    rules = grammar.derivations
    p = (RationalRules(grammar, alpha).log_prob(rules) - mistakes(grammar, rules)).softmax(-1)
    kernel = MetropolisHastings(partial(program, grammar, 1.0, alpha), chains=n)
    last = last_states(kernel, 100)
    index = (last[:, None] == rules).all(-1).int().argmax(-1)
    share = torch.bincount(index, minlength=len(rules)) / n
    drawn = torch.distributions.Multinomial(n, p).sample((400,)) / n
    tolerated = ((drawn - p).abs().sum(-1) / 2).quantile(0.9975)
    assert (share - p).abs().sum() / 2 < tolerated


def test_several_chains_in_pyro() -> None:
    """Two runs of a plate; the error is that between the 2 × 64 chains, each with its own draws."""
    settings = {"warmup_steps": 10, "num_chains": 2, "disable_progbar": True, "mp_context": "fork"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pyro says that processors are too few for the chains
        mcmc = MCMC(MetropolisHastings(three), 30, **settings)
        mcmc.run(64)
    draws = mcmc.get_samples(group_by_chain=True)["expression"]
    assert draws.shape == (2, 30, 64, 2)
    shares = torch.nn.functional.one_hot(number(draws), 3).double().mean(1).flatten(0, 1)
    error = shares.std(0) / math.sqrt(len(shares))
    assert ((shares.mean(0) - target()).abs() < 4 * error).all()
    moved = 1 - float((target() * transitions(target()).diagonal()).sum())
    for rate in mcmc._diagnostics:  # accepted, if only to stay where they were
        assert moved - 0.05 < rate["acceptance rate"] <= 1


def two_latents() -> None:
    pyro.sample("expression", PRIOR)
    pyro.sample("z", dist.Normal(0.0, 1.0))


def shared() -> None:
    pyro.sample("expression", PRIOR.expand([3]))
    pyro.factor("one", torch.zeros(()))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: MetropolisHastings(two_latents).setup(0), "samples 'z' besides 'expression'"),
        (
            lambda: MetropolisHastings(two_latents, "z").setup(0),
            "must follow a distribution over derivations",
        ),
        (
            lambda: MetropolisHastings(three, chains=4).setup(0, 64),
            "is in a plate, whose elements may have data of their",
        ),
        (lambda: MetropolisHastings(three, "rule").setup(0), "no site 'rule'"),
        (lambda: log_parts(shared, "expression", THREE.derivations), r"of shape \(\), not \(3,\)"),
    ],
)  # fmt: skip
def test_programs_that_do_not_fit_are_refused_in_a_sentence(call: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        call()


def test_chains_leave_what_is_impossible_or_say_so() -> None:
    """Labels that few rules explain, without noise: no draw is impossible."""
    grammar = rule_grammar(FIVE_FOUR.stimuli[:, :2], 10)
    told = FIVE_FOUR.stimuli[:, 0] * FIVE_FOUR.stimuli[:, 1]

    def program(y: Tensor = told) -> None:
        rules = pyro.sample("expression", ProbabilisticGrammar(grammar))
        pyro.sample("y", labels(grammar.value(rules)), obs=y)

    last = last_states(MetropolisHastings(program, chains=40), 300)
    assert (grammar.value(last) == told.bool()).all()
    with pytest.raises(ValueError, match="of 40 chains found no expression that explains"):
        last_states(MetropolisHastings(program, chains=40), 1)
