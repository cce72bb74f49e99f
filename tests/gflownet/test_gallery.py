"""Programs of Pyro's gallery with discrete latents, beside TraceEnum_ELBO and exact posteriors."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro.infer import SVI, TraceEnum_ELBO, config_enumerate
from torch import Tensor, nn

from plot_attractors.gflownet import ReverseKL, SiteBalance, TrajectoryBalance, VarGrad


def fit(model: Any, guide: Any, loss: Any, steps: int, lr: float) -> None:
    optimizer = pyro.optim.ClippedAdam({"lr": lr, "lrd": 0.01 ** (1 / steps)})
    svi = SVI(model, guide, optimizer, loss)
    for _ in range(steps):
        svi.step()


# -- a mixture of Gaussians: an assignment of each point

POINTS = torch.tensor([-2.1, -0.4, 0.1, 0.7, 1.9, 2.6])
LOCS, WEIGHTS = torch.tensor([-1.5, 0.5, 2.0]), torch.tensor([0.2, 0.5, 0.3])


def mixture() -> None:
    with pyro.plate("points", len(POINTS)):
        k = pyro.sample("k", dist.Categorical(WEIGHTS))
        pyro.sample("x", dist.Normal(LOCS[k], 0.8), obs=POINTS)


def assignments() -> None:
    logits = pyro.param("logits", torch.zeros(len(POINTS), 3))
    with pyro.plate("points", len(POINTS)):
        pyro.sample("k", dist.Categorical(logits=logits))


@pytest.mark.parametrize("loss", [VarGrad, ReverseKL])
def test_mixture(loss: Callable[..., Any]) -> None:
    objective = loss(32, batch_plate="points")
    fit(mixture, assignments, objective, 500, 0.1)
    joint = WEIGHTS.log() + dist.Normal(LOCS, 0.8).log_prob(POINTS[:, None])
    fitted = pyro.param("logits").softmax(1).detach()
    torch.testing.assert_close(fitted, joint.softmax(1), atol=0.03, rtol=0)
    bound = loss(2000, batch_plate="points").log_weights(mixture, assignments).mean(0).sum()
    evidence = joint.logsumexp(1).sum()
    assert float(bound) == pytest.approx(float(evidence), abs=0.06)


# -- a hidden Markov model: balance along its sites

T, STATES = 5, 3
START = torch.tensor([0.6, 0.3, 0.1])
MOVE = torch.tensor([[0.8, 0.15, 0.05], [0.2, 0.6, 0.2], [0.1, 0.3, 0.6]])
SEEN = torch.tensor([0.3, -0.8, 1.4, 2.2, 0.4])
MEANS = torch.tensor([-1.0, 0.5, 2.0])


def chain() -> None:
    z: Any = None
    for t in range(T):
        p = START if t == 0 else MOVE[z]
        z = pyro.sample(f"z{t}", dist.Categorical(p))
        pyro.sample(f"x{t}", dist.Normal(MEANS[z], 0.9), obs=SEEN[t])


class Smoother(nn.Module):
    """q(z_t | z_{t−1}) in tables, and flows that know the state."""

    def __init__(self) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(T, STATES, STATES))
        self.message = nn.Parameter(torch.zeros(T, STATES))

    def guide(self) -> None:
        pyro.module("smoother", self)
        z = torch.tensor(0)
        for t in range(T):
            z = pyro.sample(f"z{t}", dist.Categorical(logits=self.logits[t][z]))

    def flow(self, prefix: dict[str, Tensor]) -> Tensor:
        """log p(x_{t:} | z_{t−1}), 10 times the table, for single steps of one learning rate."""
        t = len(prefix)
        return 10 * self.message[t][prefix[f"z{t - 1}"] if t else 0]


def messages() -> Tensor:
    """(T, states) log p(x_{t:} | z_{t−1}) by the backward recursion; row 0 is log p(x)."""
    result = torch.zeros(T + 1, STATES)
    for t in range(T - 1, -1, -1):
        p = START.expand(STATES, STATES) if t == 0 else MOVE
        likelihood = dist.Normal(MEANS, 0.9).log_prob(SEEN[t])
        result[t] = (p.log() + likelihood + result[t + 1]).logsumexp(1)
    return result[:T]


def smoothed() -> Tensor:
    """(T, states, states) P(z_t | z_{t−1}, x)."""
    back = torch.cat([messages(), torch.zeros(1, STATES)])
    p = torch.stack([START.expand(STATES, STATES), *[MOVE] * (T - 1)])
    likelihood = dist.Normal(MEANS, 0.9).log_prob(SEEN[:, None])
    return (p.log() + (likelihood + back[1:])[:, None]).softmax(-1)


@pytest.mark.parametrize("lam", [0.0, 0.9], ids=["detailed balance", "SubTB"])
def test_hidden_markov_model(lam: float) -> None:
    net = Smoother()
    fit(chain, net.guide, SiteBalance(net.flow, 32, lam=lam), 1000, 0.05)
    back = messages()
    enumerated = TraceEnum_ELBO(max_plate_nesting=0).loss(config_enumerate(chain), lambda: None)
    assert float(back[0, 0]) == pytest.approx(-enumerated, abs=1e-3)
    assert 10 * float(net.message[0, 0].detach()) == pytest.approx(float(back[0, 0]), abs=0.05)
    joint = smoothed()
    marginal, flows = joint[0, 0], []
    for t in range(1, T):
        error = (net.logits[t].detach().softmax(-1) - joint[t]).abs().amax(-1)
        assert (error[marginal > 0.05] < 0.05).all()
        flows.append((10 * net.message[t].detach() - back[t])[marginal > 0.05])
        marginal = marginal @ joint[t]
    assert torch.cat(flows).abs().max() < 0.1
    weights = VarGrad(2000).log_weights(chain, net.guide)
    assert float(weights.mean()) == pytest.approx(float(back[0, 0]), abs=0.1)


# -- latent Dirichlet allocation, small: topics of a document, a topic of each word

TOPICS = torch.tensor([[0.5, 0.3, 0.1, 0.1], [0.05, 0.15, 0.4, 0.4]])
WORDS = torch.tensor([[0, 0, 1, 2, 0], [2, 3, 3, 1, 2], [0, 3, 1, 2, 0]])
ALPHA = 0.8


def documents() -> None:
    with pyro.plate("documents", len(WORDS), dim=-1):
        share = pyro.sample("share", dist.Beta(ALPHA, ALPHA))
        for i in range(WORDS.shape[1]):
            topic = pyro.sample(f"topic{i}", dist.Bernoulli(share))
            pyro.sample(f"word{i}", dist.Categorical(TOPICS[topic.long()]), obs=WORDS[:, i])


def reader(topics: bool = True) -> None:
    """q(share) is a Beta, and q(topic | share) the exact one; or without what Pyro enumerates."""
    a, b = (
        pyro.param(name, torch.full((len(WORDS),), 1.0), constraint=dist.constraints.positive)
        for name in "ab"
    )
    with pyro.plate("documents", len(WORDS), dim=-1):
        share = pyro.sample("share", dist.Beta(a, b))
        for i in range(WORDS.shape[1] if topics else 0):
            one, zero = TOPICS[1, WORDS[:, i]] * share, TOPICS[0, WORDS[:, i]] * (1 - share)
            pyro.sample(f"topic{i}", dist.Bernoulli(one / (one + zero)))


def topics_of(words: list[int]) -> tuple[float, float]:
    """log p(words) and E[share], by all assignments of topics to words."""
    weights, shares = [], []
    n, prior = len(words), torch.tensor([ALPHA, ALPHA])
    for z in itertools.product((0, 1), repeat=n):
        counts = prior + torch.tensor([sum(z), n - sum(z)])
        log_p = torch.lgamma(counts).sum() - torch.lgamma(counts.sum())
        log_p = log_p - torch.lgamma(prior).sum() + torch.lgamma(prior.sum())
        log_p = log_p + sum(TOPICS[k, w].log() for k, w in zip(z, words, strict=True))
        weights.append(log_p)
        shares.append(counts[0] / counts.sum())
    of = torch.stack(weights)
    return float(of.logsumexp(0)), float((of.softmax(0) * torch.stack(shares)).sum())


def test_latent_dirichlet_allocation() -> None:
    log_z = nn.Parameter(torch.zeros(len(WORDS)))
    loss = TrajectoryBalance(16, batch_plate="documents", log_z=lambda: 10 * pyro.param("z", log_z))
    fit(documents, reader, loss, 400, 0.08)
    exact = torch.tensor([topics_of(words) for words in WORDS.tolist()])
    torch.testing.assert_close(10 * log_z.detach(), exact[:, 0], atol=0.05, rtol=0)
    weights = VarGrad(4000, batch_plate="documents").log_weights(documents, reader)
    torch.testing.assert_close(weights.logsumexp(0) - torch.tensor(4000.0).log(), exact[:, 0],
                               atol=0.03, rtol=0)  # fmt: skip
    a, b = pyro.param("a").detach(), pyro.param("b").detach()
    torch.testing.assert_close(a / (a + b), exact[:, 1], atol=0.03, rtol=0)
    by_gradient = weights.mean(0).sum()  # the ELBO, beside Pyro's, of the same family of guides
    pyro.clear_param_store()
    only_shares = partial(reader, topics=False)
    elbo = TraceEnum_ELBO(max_plate_nesting=1, num_particles=16, vectorize_particles=True)
    fit(config_enumerate(documents), only_shares, elbo, 300, 0.08)
    loss_of = TraceEnum_ELBO(max_plate_nesting=1, num_particles=4000, vectorize_particles=True)
    pyros = -loss_of.loss(config_enumerate(documents), only_shares)
    assert float(by_gradient) == pytest.approx(pyros, abs=0.03)
