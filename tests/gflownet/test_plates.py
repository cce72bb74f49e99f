"""Plates and masks: what counts, and what is a trajectory of its own."""

from __future__ import annotations

import itertools
import math
import warnings
from functools import partial
from typing import Any

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro import poutine
from pyro.infer import SVI
from pyro.infer.autoguide import (
    AutoMultivariateNormal,
    AutoNormal,
)
from torch import Tensor

from plot_attractors.gflownet import (
    Replay,
    TrajectoryBalance,
    VarGrad,
)
from plot_attractors.gflownet.programs import FixedValues

# -- masks


def ragged(x: Tensor, counts: Tensor) -> None:
    """Rows of steps, of which the first few count; latent steps are masked in the model alone."""
    with pyro.plate("rows", len(x), dim=-2), pyro.plate("steps", x.shape[1], dim=-1):
        with poutine.mask(mask=counts):
            z = pyro.sample("z", dist.Normal(0.0, 1.0))
            pyro.sample("x", dist.Normal(z, 1.0), obs=x)


X = torch.tensor([[0.3, -9.0, 1.0], [2.0, 0.1, 5.0]])
COUNTS = torch.tensor([[True, False, True], [True, True, False]])


def ragged_guide(x: Tensor, counts: Tensor) -> None:
    with pyro.plate("rows", len(x), dim=-2), pyro.plate("steps", x.shape[1], dim=-1):
        pyro.sample("z", dist.Normal(x / 2, 0.5**0.5))


@pytest.mark.parametrize("vectorize", [None, False])
def test_a_mask_of_the_model_holds_for_the_guide(vectorize: bool | None) -> None:
    exact = dist.Normal(0.0, 2**0.5).log_prob(X)[COUNTS].sum()
    loss = VarGrad(5, vectorize_particles=vectorize)
    weights = loss.log_weights(ragged, ragged_guide, X, COUNTS)
    torch.testing.assert_close(weights, exact.expand(5))
    both = poutine.mask(ragged_guide, mask=COUNTS)
    torch.testing.assert_close(loss.log_weights(ragged, both, X, COUNTS), exact.expand(5))


def test_half_observed_data_and_an_automatic_guide() -> None:
    seen = torch.tensor([True, False, True])
    x = torch.tensor([0.3, 7.0, 1.0])

    def model() -> None:
        z = pyro.sample("z", dist.Normal(0.0, 1.0))
        with pyro.plate("data", 3):
            pyro.sample("x", dist.Normal(z, 1.0), obs=x, obs_mask=seen)

    covariance = torch.eye(2) + 1
    log_z = float(dist.MultivariateNormal(torch.zeros(2), covariance).log_prob(x[seen]))
    exact = log_z + 0.5 * math.log(1 - 1 / 4)  # less what independent z and x_2 lose, ρ² = 1/4
    guide = AutoNormal(model)
    loss = VarGrad(32)
    svi = SVI(model, guide, pyro.optim.Adam({"lr": 0.05}), loss)
    for _ in range(200):
        svi.step()
    weights = VarGrad(2000).log_weights(model, guide)
    assert float(weights.mean()) == pytest.approx(exact, abs=0.04)


# -- one run or many


def test_checks_leave_the_random_stream_alone() -> None:
    def program() -> None:
        pyro.sample("z", dist.Normal(0.0, 1.0))

    streams = []
    for vectorize in (None, True):
        loss = VarGrad(4, vectorize_particles=vectorize)
        torch.manual_seed(0)
        for _ in range(3):
            loss.log_weights(program, program)
        streams.append(torch.rand(3))
    assert torch.equal(*streams)


@pytest.mark.parametrize("vectorize", [None, True])
def test_a_second_pair_with_deeper_plates(vectorize: bool | None) -> None:
    """K equals the plate's size: particles must not be paired with data."""
    k, x = 4, torch.tensor([0.0, 1.0, 2.0, 3.0])

    def shallow() -> None:
        pyro.sample("z", dist.Normal(0.0, 1.0))

    def deep() -> None:
        z = pyro.sample("z", dist.Normal(0.0, 1.0))
        with pyro.plate("data", k):
            pyro.sample("x", dist.Normal(z, 1.0), obs=x)

    loss = TrajectoryBalance(k, log_z=0.0, vectorize_particles=vectorize)
    loss.loss(shallow, shallow)
    r = loss.log_ratios(deep, shallow)
    z = r.values["z"].flatten()
    expected = dist.Normal(z[:, None], 1.0).log_prob(x).sum(1)
    torch.testing.assert_close(r.total, expected)
    assert loss.vectorize_particles


# -- automatic guides over a simplex


def mixed() -> None:
    weight = pyro.sample("weight", dist.Dirichlet(torch.tensor([2.0, 1.0, 1.5])))
    with pyro.plate("words", 4):
        pyro.sample("word", dist.Categorical(weight), obs=torch.tensor([0, 1, 1, 2]))


@pytest.mark.parametrize("make", [AutoNormal, AutoMultivariateNormal])
def test_automatic_guides_over_a_simplex(make: Any) -> None:
    guide = make(mixed, init_scale=0.2)
    loss = VarGrad(16, off_policy=Replay(100))
    svi = SVI(mixed, guide, pyro.optim.Adam({"lr": 0.03}), loss)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(120):
            svi.step()
    assert loss.vectorize_particles
    exact = dist.DirichletMultinomial(torch.tensor([2.0, 1.0, 1.5]), 4)
    log_z = float(exact.log_prob(torch.tensor([1.0, 2.0, 1.0]))) - float(torch.tensor(12.0).log())
    weights = VarGrad(4000).log_weights(mixed, guide)
    assert float(weights.logsumexp(0)) - 8.294 == pytest.approx(log_z, abs=0.05)


def test_a_batch_plate_with_plates_inside() -> None:
    """Two rows of two coins: the mean over rows of the gradient of each, by enumeration."""
    q = torch.tensor([[0.3, -0.8], [1.1, 0.2]], requires_grad=True)
    p = torch.tensor([[-0.5, 0.4], [0.9, -1.2]])

    def program(logits: Tensor) -> None:
        with pyro.plate("rows", 2, dim=-2), pyro.plate("coins", 2, dim=-1):
            pyro.sample("z", dist.Bernoulli(logits=logits))

    exact = torch.distributions.kl_divergence(
        torch.distributions.Bernoulli(logits=q), torch.distributions.Bernoulli(logits=p)
    )
    expected = torch.autograd.grad(exact.sum(1).mean(), q)[0]
    options = {"max_plate_nesting": 2, "vectorize_particles": True}
    loss, total = VarGrad(2, batch_plate="rows", **options), torch.zeros(2, 2)
    law = dist.Bernoulli(logits=q.detach())
    programs = [partial(program, logits) for logits in (p, q)]
    for bits in itertools.product((0.0, 1.0), repeat=8):
        z = torch.tensor(bits).reshape(2, 2, 2)
        with FixedValues({"z": z}):
            value = loss.differentiable_loss(*programs)
        weight = float(law.log_prob(z).sum().exp())
        total += weight * torch.autograd.grad(value, q)[0]
    torch.testing.assert_close(total, 2 * expected)
    assert expected.abs().max() > 0.02
