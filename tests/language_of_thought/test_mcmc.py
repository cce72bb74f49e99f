"""Subtree regeneration: acceptance by hand, detailed balance, and agreement with enumeration."""

from __future__ import annotations

import math
import warnings

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro.infer import MCMC
from torch import Tensor

from plot_attractors.language_of_thought import (
    Grammar,
    ProbabilisticGrammar,
    RationalRules,
    SubtreeRegeneration,
)
from plot_attractors.language_of_thought.mcmc import last_states, log_joint, regenerate
from plot_attractors.language_of_thought.rational_rules import mistakes, program, rule_grammar

# three expressions: a (1 rule), b and c (2 rules)
THREE = Grammar({"S": ("a", "B"), "B": ("b", "c")})
PROPOSAL = torch.tensor([0.2, 0.8, 0.3, 0.7]).log()
WEIGHTS = torch.tensor([0.5, 1.0, 3.0])  # of a, b and c beside the prior


def three(copies: int = 1) -> None:
    with pyro.plate("copies", copies):
        rules = pyro.sample("expression", ProbabilisticGrammar(THREE))
        pyro.factor("weight", WEIGHTS.log()[number(rules)])


def number(rules: Tensor) -> Tensor:
    """0, 1, 2 for a, b, c."""
    return (rules[..., None, :] == THREE.derivations[order()]).all(-1).int().argmax(-1)


def order() -> list[int]:
    texts = [THREE.text(r) for r in THREE.derivations]
    return [texts.index(t) for t in "abc"]


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
    prior = torch.tensor([0.5, 0.25, 0.25], dtype=torch.float64)
    p = prior * WEIGHTS.double()
    return p / p.sum()


def test_the_kernel_is_in_detailed_balance_and_makes_these_transitions() -> None:
    matrix, p = transitions(target()), target()
    flow = p[:, None] * matrix
    assert torch.allclose(flow, flow.T)
    n = 20000
    kernel = SubtreeRegeneration(three, log_p=PROPOSAL)
    for i, place in enumerate(order()):
        start = THREE.derivations[place].expand(n, -1)
        kernel.initial_params = {"expression": start}
        kernel.setup(0, n)
        after = number(kernel.sample({"expression": start})["expression"])
        share = torch.bincount(after, minlength=3) / n
        assert ((share - matrix[i]).abs() <= 4.5 * (matrix[i] * (1 - matrix[i]) / n).sqrt()).all()


def test_log_ratios_of_proposals_by_hand() -> None:
    a, _, c = THREE.derivations[order()]
    torch.manual_seed(0)
    proposal = regenerate(THREE, PROPOSAL, a.expand(500, -1))
    to_c = number(proposal.rules) == 2
    assert to_c.any()
    # 1 rule, subtree of probability 0.2; 2 rules, subtree of probability 0.8 · 0.7
    expected = torch.tensor(math.log(1 * 0.2 / (2 * 0.8 * 0.7)))
    assert torch.allclose(proposal.log_ratio[to_c], expected)
    back = regenerate(THREE, PROPOSAL, c.expand(500, -1))
    to_a = number(back.rules) == 0
    assert torch.allclose(back.log_ratio[to_a], torch.tensor(math.log(2 * 0.8 * 0.7 / 0.2)))


def test_only_the_likelihood_and_the_lengths_count_where_proposals_come_from_the_prior() -> None:
    grammar = rule_grammar(4, 30)

    def rules_given_labels(copies: int) -> None:
        with pyro.plate("copies", copies):
            rules = pyro.sample("expression", ProbabilisticGrammar(grammar))
            pyro.factor("labels", -1.5 * mistakes(grammar, rules))

    old = ProbabilisticGrammar(grammar).sample((300,))
    proposal = regenerate(grammar, grammar.indifferent, old)
    fits, new = ~proposal.log_ratio.isinf(), proposal.rules
    worse = mistakes(grammar, new) - mistakes(grammar, old)
    expected = -1.5 * worse + (grammar.length(old) / grammar.length(new)).log()
    after, before = (log_joint(rules_given_labels, "expression", r, 300) for r in (new, old))
    assert fits.float().mean() > 0.5
    result = after - before + proposal.log_ratio
    assert torch.allclose(result[fits], expected[fits], atol=1e-4)


def test_too_long_proposals_are_never_accepted() -> None:
    grammar = rule_grammar(2, 7)
    rules = RationalRules(grammar).sample((400,))
    proposal = regenerate(grammar, grammar.indifferent, rules)
    refused = proposal.log_ratio.isinf()
    assert refused.any()
    assert torch.equal(proposal.rules[refused], rules[refused])
    assert (grammar.subtree_ends(proposal.rules)[:, 0] == grammar.length(proposal.rules)).all()


def tolerated(p: Tensor, n: int) -> float:
    """The total variation that n independent draws stay below 399 times in 400."""
    shares = torch.distributions.Multinomial(n, p).sample((400,)) / n
    return float(((shares - p).abs().sum(-1) / 2).quantile(0.9975))


@pytest.mark.parametrize("alpha", [0.5, 1.0])
def test_chains_agree_with_enumeration(alpha: float) -> None:
    """Last states of independent chains on the 5-4 categories, against the listed posterior."""
    grammar, n = rule_grammar(4, 8), 800
    rules = grammar.derivations
    p = (RationalRules(grammar, alpha).log_prob(rules) - mistakes(grammar, rules)).softmax(-1)
    kernel = SubtreeRegeneration(lambda copies: program(grammar, 1.0, alpha, copies))
    last = last_states(kernel, 40, n)
    index = (last[:, None] == rules).all(-1).int().argmax(-1)
    share = torch.bincount(index, minlength=len(rules)) / n
    assert (share - p).abs().sum() / 2 < tolerated(p, n)


def test_several_chains_in_pyro() -> None:
    """Two runs of a plate; the error is that between the 2 × 64 chains, each with its own draws."""
    kernel = SubtreeRegeneration(three, log_p=PROPOSAL)
    settings = {"warmup_steps": 10, "num_chains": 2, "disable_progbar": True, "mp_context": "fork"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pyro says that processors are too few for the chains
        mcmc = MCMC(kernel, 30, **settings)
        mcmc.run(64)
    draws = mcmc.get_samples(group_by_chain=True)["expression"]
    assert draws.shape == (2, 30, 64, 2)
    shares = torch.nn.functional.one_hot(number(draws), 3).double().mean(1).flatten(0, 1)
    error = shares.std(0) / math.sqrt(len(shares))
    assert ((shares.mean(0) - target()).abs() < 4 * error).all()
    moved = 1 - float((target() * transitions(target()).diagonal()).sum())
    for rate in mcmc._diagnostics:  # accepted, if only to stay where they were
        assert moved - 0.05 < rate["acceptance rate"] <= 1


def test_programs_that_do_not_fit_are_refused_in_a_sentence() -> None:
    def two_latents() -> None:
        pyro.sample("expression", ProbabilisticGrammar(THREE))
        pyro.sample("z", dist.Normal(0.0, 1.0))

    def no_grammar() -> None:
        pyro.sample("expression", dist.Normal(0.0, 1.0))

    with pytest.raises(ValueError, match="samples 'z' besides 'expression'"):
        SubtreeRegeneration(two_latents).setup(0)
    with pytest.raises(ValueError, match="must follow a distribution over derivations"):
        SubtreeRegeneration(no_grammar).setup(0)
    with pytest.raises(ValueError, match="no site 'rule'"):
        SubtreeRegeneration(three, "rule").setup(0)

    def shared() -> None:
        pyro.sample("expression", ProbabilisticGrammar(THREE).expand([3]))
        pyro.factor("one", torch.zeros(()))

    with pytest.raises(ValueError, match=r"of shape \(\), not \(3,\)"):
        log_joint(shared, "expression", THREE.derivations)
