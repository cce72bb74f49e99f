"""A policy of rules, against enumeration."""

from __future__ import annotations

import pyro
import pytest
import torch
from torch import Tensor

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


def number(rules: Tensor) -> Tensor:
    return (rules[..., None, :] == RULES).all(-1).int().argmax(-1)


def program() -> None:
    rules = pyro.sample("expression", ProbabilisticGrammar(GRAMMAR))
    pyro.factor("x", LOG_LIKELIHOOD[number(rules)])


P = exact_posterior(program).log_p.exp().float()


def test_a_policy_learns_the_posterior() -> None:
    torch.manual_seed(0)
    policy = RulePolicy(GRAMMAR, units=32)

    def guide() -> None:
        pyro.sample("expression", policy.derivations())

    loss = VarGrad(32, replay=Replay(500))
    optimizer = torch.optim.Adam(policy.parameters(), lr=5e-3)
    distance = []
    for k in range(300):
        if k in (0, 299):
            q = policy.derivations().log_prob(RULES).exp().detach()
            assert float(q.sum()) == pytest.approx(1.0, abs=1e-4)
            distance.append(float((q - P).abs().sum() / 2))
        optimizer.zero_grad()
        loss.differentiable_loss(program, guide).backward()
        optimizer.step()
    assert distance[0] > 0.4
    assert distance[1] < 0.08


def test_an_amortised_policy_sees_its_input() -> None:
    policy = RulePolicy(GRAMMAR, inputs=3, units=16)
    law = policy.derivations(torch.randn(5, 3))
    assert law.batch_shape == (5,)
    with pytest.raises(ValueError, match="is given what is seen"):
        policy.derivations()
    p = law.log_prob(RULES[:, None]).exp()
    torch.testing.assert_close(p.sum(0), torch.ones(5))
    assert not torch.allclose(p[:, 0], p[:, 1])
