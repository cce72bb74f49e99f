"""Moves over expressions: acceptance by hand, detailed balance, agreement with enumeration."""

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
    exact_posterior,
    labels,
    log_joint,
)
from plot_attractors.language_of_thought.mcmc import Best, last_states
from plot_attractors.language_of_thought.moves import (
    Piece,
    Proposal,
    insert_or_delete,
    joined,
    regenerate,
    swap,
)
from plot_attractors.language_of_thought.rational_rules import FIVE_FOUR, program, rule_grammar

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
    prior = torch.tensor([0.5, 0.25, 0.25], dtype=torch.float64)
    p = prior * WEIGHTS.double()
    return p / p.sum()


def test_the_kernel_is_in_detailed_balance_and_makes_these_transitions() -> None:
    matrix, p = transitions(target()), target()
    flow = p[:, None] * matrix
    assert torch.allclose(flow, flow.T)
    n = 20000
    kernel = MetropolisHastings(three, log_p=PROPOSAL, moves=[regenerate])
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
    grammar = rule_grammar(max_rules=30)

    def rules_given_labels(copies: int) -> None:
        with pyro.plate("copies", copies):
            rules = pyro.sample("expression", ProbabilisticGrammar(grammar))
            pyro.factor("labels", -1.5 * mistakes(grammar, rules))

    old = ProbabilisticGrammar(grammar).sample((300,))
    proposal = regenerate(grammar, grammar.log_p, old)
    fits, new = ~proposal.log_ratio.isinf(), proposal.rules
    worse = mistakes(grammar, new) - mistakes(grammar, old)
    expected = -1.5 * worse + (grammar.length(old) / grammar.length(new)).log()
    after, before = (log_joint(rules_given_labels, "expression", r, 300) for r in (new, old))
    assert fits.float().mean() > 0.5
    result = after - before + proposal.log_ratio
    assert torch.allclose(result[fits], expected[fits], atol=1e-4)


# a rule with two and one with three subtrees of its own kind, and one of another kind inside
NESTED = Grammar(
    {
        "S": (("a", 0, 3.0), ("b", 0), ("not S", 0), ("S and S", 0, 0.5), ("S N S S", 0, 0.3)),
        "N": ("1", "2"),
    },
    max_rules=6,
)
MOVES = {"regenerate": regenerate, "insert or delete": insert_or_delete, "swap": swap}


def flows(move: Any, log_target: Tensor, n: int = 400_000) -> tuple[Tensor, Tensor]:
    """(E, E) how many of n chains, that start from the target, went from each expression to each
    other one, and whether their flows there and back differ by more than chance.
    """
    rules = NESTED.derivations
    index = log_target.softmax(0).multinomial(n, replacement=True)
    proposal = move(NESTED, NESTED.log_p, rules[index])
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


@pytest.mark.parametrize("name", MOVES)
def test_moves_are_in_detailed_balance(name: str) -> None:
    torch.manual_seed(1)
    log_target = torch.randn(len(NESTED.derivations))
    count, unbalanced = flows(MOVES[name], log_target)
    assert count.fill_diagonal_(0).sum() > 10_000
    assert not unbalanced

    def wrong(*given: Any) -> Proposal:
        """A way back that depends on what is proposed by more than it should."""
        proposal = MOVES[name](*given)
        return proposal._replace(log_ratio=proposal.log_ratio + 0.1 * proposal.rules[..., 1])

    assert flows(wrong, log_target)[1]


def test_insertion_and_deletion_lead_where_they_should() -> None:
    grammar = Grammar({"S": ("a", "not S", "( S and S )")}, max_rules=5)
    rules = {grammar.text(r): r for r in grammar.derivations}
    torch.manual_seed(0)
    for start, ends in {
        "not a": {"a", "not not a", "( not a and a )", "( a and not a )", "not ( a and a )"},
        "( a and a )": {"a", "( not a and a )", "( a and not a )", "not ( a and a )"},
    }.items():
        proposal = insert_or_delete(grammar, grammar.log_p, rules[start].expand(2000, -1))
        moved = ~proposal.log_ratio.isinf()
        texts = {grammar.text(r) for r in proposal.rules[moved].unique(dim=0)}
        assert texts >= ends
        assert all(abs(len(t.split()) - len(start.split())) >= 1 for t in texts)


def test_swap_exchanges_subtrees_of_one_kind() -> None:
    rules = {NESTED.text(r): r for r in NESTED.derivations}
    torch.manual_seed(0)
    proposal = swap(NESTED, NESTED.log_p, rules["a and not b"].expand(500, -1))
    assert {NESTED.text(r) for r in proposal.rules} == {"a and not b", "not b and a", "b and not a"}
    assert set(proposal.log_ratio.tolist()) == {0.0, -math.inf}


def test_joined_pieces() -> None:
    row = torch.tensor([[5, 6, 7, 8, -1]])
    ends = [torch.tensor([k]) for k in range(5)]
    pieces = [Piece(row, ends[a], ends[b]) for a, b in ((2, 4), (0, 0), (0, 2))]
    new, length = joined(pieces)
    assert new.tolist() == [[7, 8, 5, 6, -1]]
    assert length.tolist() == [4]


def test_tempered_chains_agree_with_enumeration_where_plain_ones_do_not() -> None:
    """Two expressions, ten nats above what lies between them; chains start at the worse one."""
    grammar = Grammar({"S": ("a", ("not S", None, 2.0))}, max_rules=6)
    order = grammar.length(grammar.derivations).argsort()
    rules = grammar.derivations[order]
    log_likelihood = torch.tensor([10.0, 0, 0, 0, 0, 12.0])

    def program() -> None:
        drawn = pyro.sample("expression", ProbabilisticGrammar(grammar))
        pyro.factor("x", log_likelihood[grammar.length(drawn) - 1])

    p = (ProbabilisticGrammar(grammar).log_prob(rules) + log_likelihood).softmax(0)
    ladder = (1.0, 2.0, 4.0, 16.0)
    distance = {}
    for temperatures in ((1.0,), ladder):
        torch.manual_seed(0)
        kernel = MetropolisHastings(
            program,
            chains=(n := 300 * len(temperatures)),
            moves=[insert_or_delete],
            temperatures=temperatures,
            best=Best(5),
        )
        kernel.initial_params = {"expression": rules[0].expand(n, -1)}
        last = last_states(kernel, 400)[kernel.cold]
        share = torch.bincount(grammar.length(last) - 1, minlength=6) / len(last)
        distance[len(temperatures)] = float((share - p).abs().sum() / 2)
    assert distance[4] < tolerated(p, 300)
    assert distance[1] > 0.2
    joint = ProbabilisticGrammar(grammar).log_prob(rules) + log_likelihood
    assert kernel.best is not None
    torch.testing.assert_close(kernel.best.log_joint, joint.sort(descending=True).values[:5])
    assert torch.equal(kernel.best.rules, rules[joint.argsort(descending=True)[:5]])


def test_too_long_proposals_are_never_accepted() -> None:
    grammar = rule_grammar(FIVE_FOUR.stimuli[:, :2], 7)
    rules = RationalRules(grammar).sample((400,))
    proposal = regenerate(grammar, grammar.log_p, rules)
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
    grammar, n = rule_grammar(max_rules=8), 800
    rules = grammar.derivations
    p = (RationalRules(grammar, alpha).log_prob(rules) - mistakes(grammar, rules)).softmax(-1)
    kernel = MetropolisHastings(partial(program, grammar, 1.0, alpha), chains=n)
    last = last_states(kernel, 150)
    index = (last[:, None] == rules).all(-1).int().argmax(-1)
    share = torch.bincount(index, minlength=len(rules)) / n
    assert (share - p).abs().sum() / 2 < tolerated(p, n)


def test_several_chains_in_pyro() -> None:
    """Two runs of a plate; the error is that between the 2 × 64 chains, each with its own draws."""
    kernel = MetropolisHastings(three, log_p=PROPOSAL, moves=[regenerate])
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

    def alone() -> None:
        pyro.sample("expression", ProbabilisticGrammar(THREE))

    def no_grammar() -> None:
        pyro.sample("expression", dist.Normal(0.0, 1.0))

    with pytest.raises(ValueError, match="samples 'z' besides 'expression'"):
        MetropolisHastings(two_latents).setup(0)
    with pytest.raises(ValueError, match="must follow a distribution over derivations"):
        MetropolisHastings(no_grammar).setup(0)
    with pytest.raises(ValueError, match="65 chains are no multiple of 2 temperatures"):
        MetropolisHastings(alone, chains=65, temperatures=(1, 2)).setup(0)
    for given in ({"temperatures": (1, 2)}, {"best": Best(3)}, {"chains": 4}):
        with pytest.raises(
            ValueError, match="is in a plate, whose elements may have data of their"
        ):
            MetropolisHastings(three, **given).setup(0, 64)
    with pytest.raises(ValueError, match="one move or more"):
        MetropolisHastings(three, moves=())
    with pytest.raises(ValueError, match="log_p must be finite"):
        MetropolisHastings(three, log_p=torch.tensor([0.0, -math.inf, 0, -math.inf])).setup(0, 4)
    with pytest.raises(ValueError, match="temperatures are 1 and greater ones in their order"):
        MetropolisHastings(three, temperatures=(2, 1))
    with pytest.raises(ValueError, match="no site 'rule'"):
        MetropolisHastings(three, "rule").setup(0)

    def shared() -> None:
        pyro.sample("expression", ProbabilisticGrammar(THREE).expand([3]))
        pyro.factor("one", torch.zeros(()))

    with pytest.raises(ValueError, match=r"of shape \(\), not \(3,\)"):
        log_joint(shared, "expression", THREE.derivations)


def test_chains_leave_what_is_impossible_or_say_so() -> None:
    """Labels that few rules explain, without noise: no draw is impossible."""
    grammar = rule_grammar(FIVE_FOUR.stimuli[:, :2], 10)
    told = FIVE_FOUR.stimuli[:, 0] * FIVE_FOUR.stimuli[:, 1]

    def program(y: Tensor = told) -> None:
        rules = pyro.sample("expression", ProbabilisticGrammar(grammar))
        pyro.sample("y", labels(grammar.value(rules)), obs=y)

    last = last_states(MetropolisHastings(program, chains=50), 600)
    assert (grammar.value(last) == told.bool()).all()
    with pytest.raises(ValueError, match="of 50 chains found no expression that explains"):
        last_states(MetropolisHastings(program, chains=50), 1)


def test_a_store_is_of_the_data_of_its_last_run() -> None:
    grammar = Grammar({"bit": (("0", [False, True]), ("1", [True, False]))})

    def program(y: Tensor) -> None:
        rules = pyro.sample("expression", ProbabilisticGrammar(grammar))
        pyro.sample("y", labels(grammar.value(rules), noise=0.1), obs=y)

    best = Best(2)
    kernel = MetropolisHastings(program, chains=8, best=best)
    for y in ([1.0, 0.0], [0.0, 1.0]):
        last_states(kernel, 10, torch.tensor(y))
        posterior = exact_posterior(program, torch.tensor(y)).log_p
        order = posterior.argsort(descending=True)
        assert torch.equal(best.rules, grammar.derivations[order])
        torch.testing.assert_close(best.log_joint.log_softmax(0).double(), posterior[order])
