"""Regeneration of subtrees: detailed balance, and agreement with enumeration."""

from __future__ import annotations

from functools import partial
from typing import Any

import pyro
import torch
from pyro.infer import MCMC
from torch import Tensor

from plot_attractors.language_of_thought import (
    Grammar,
    MetropolisHastings,
    ProbabilisticGrammar,
    exact_posterior,
    labels,
)
from plot_attractors.language_of_thought.mcmc import Proposal, regenerate
from plot_attractors.language_of_thought.rational_rules import FIVE_FOUR, program, rule_grammar

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


def last_states(kernel: MetropolisHastings, steps: int) -> Tensor:
    quiet: dict[str, Any] = {"disable_progbar": True, "disable_validation": None}
    mcmc = MCMC(kernel, num_samples=1, warmup_steps=steps - 1, **quiet)
    mcmc.run()
    rules: Tensor = mcmc.get_samples()["expression"][0]
    return rules


def test_chains_agree_with_enumeration() -> None:
    """Last states of independent chains on the 5-4 categories, against the listed posterior: a
    total variation that as many independent draws stay below 399 times in 400.
    """
    grammar, n, alpha = rule_grammar(max_rules=8), 800, 0.5
    rules = grammar.derivations
    p = exact_posterior(program, grammar, 1.0, alpha).log_p.exp()
    kernel = MetropolisHastings(partial(program, grammar, 1.0, alpha), chains=n)
    last = last_states(kernel, 100)
    index = (last[:, None] == rules).all(-1).int().argmax(-1)
    share = torch.bincount(index, minlength=len(rules)) / n
    drawn = torch.distributions.Multinomial(n, p).sample((400,)) / n
    tolerated = ((drawn - p).abs().sum(-1) / 2).quantile(0.9975)
    assert (share - p).abs().sum() / 2 < tolerated


def test_chains_leave_what_is_impossible() -> None:
    """Labels that few rules explain, without noise."""
    grammar = rule_grammar(FIVE_FOUR.stimuli[:, :2], 8)
    told = FIVE_FOUR.stimuli[:, 0] * FIVE_FOUR.stimuli[:, 1]

    def program(y: Tensor = told) -> None:
        rules = pyro.sample("expression", ProbabilisticGrammar(grammar))
        pyro.sample("y", labels(grammar.value(rules)), obs=y)

    last = last_states(MetropolisHastings(program, chains=40), 200)
    assert (grammar.value(last) == told.bool()).all()
