"""A policy of rules, against enumeration."""

from __future__ import annotations

import pyro
import pytest
import torch

from plot_attractors.gflownet import Replay, VarGrad
from plot_attractors.language_of_thought import (
    Grammar,
    ProbabilisticGrammar,
    RulePolicy,
    exact_posterior,
)

GRAMMAR = Grammar({"S": (("a", 0), ("b", 0), ("not S", 0), ("S and S", 0))}, max_rules=4)
RULES = GRAMMAR.derivations
LOG_LIKELIHOOD = 2 * torch.randn(len(RULES), generator=torch.Generator().manual_seed(0))


def program() -> None:
    rules = pyro.sample("expression", ProbabilisticGrammar(GRAMMAR))
    which = (rules[..., None, :] == RULES).all(-1).int().argmax(-1)
    pyro.factor("x", LOG_LIKELIHOOD[which])


def test_a_policy_learns_the_posterior() -> None:
    torch.manual_seed(0)
    policy, p = RulePolicy(GRAMMAR, units=32), exact_posterior(program).log_p.exp()

    def guide() -> None:
        pyro.sample("expression", policy.derivations())

    def distance() -> float:
        return float((policy.derivations().log_prob(RULES).exp().detach() - p).abs().sum() / 2)

    loss = VarGrad(32, replay=Replay(500))
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    assert distance() > 0.4
    for _ in range(150):
        optimizer.zero_grad()
        loss.differentiable_loss(program, guide).backward()
        optimizer.step()
    assert distance() < 0.08


def test_an_amortised_policy_sees_its_input() -> None:
    policy = RulePolicy(GRAMMAR, inputs=3, units=16)
    with pytest.raises(ValueError, match="is given what is seen"):
        policy.derivations()
    p = policy.derivations(torch.randn(5, 3)).log_prob(RULES[:, None]).exp()
    torch.testing.assert_close(p.sum(0), torch.ones(5))
    assert not torch.allclose(p[:, 0], p[:, 1])
