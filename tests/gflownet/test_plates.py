"""Plates, masks and mini-batches: what each element's score is multiplied by, and what counts."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Iterator
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
from torch import Tensor, nn

from plot_attractors.gflownet import (
    LocalSearch,
    LogRatioLoss,
    Replay,
    TrajectoryBalance,
    VarGrad,
    tempered,
)
from plot_attractors.gflownet.programs import FixedValues

# -- a coin g for all, and a coin z for each of two elements


class Coins(nn.Module):
    def __init__(self, size: int = 2, subsample: int | None = None) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.size, self.subsample = size, subsample
        self.p = torch.randn(2, 2)  # log p(x_i | z, g), up to a constant
        self.q_g = nn.Parameter(torch.randn(2))
        self.q_z = nn.Parameter(torch.randn(size, 2, 2))
        self.x = torch.randn(size)
        self.annealed = 1.0

    def plate(self) -> pyro.plate:
        return pyro.plate("elements", self.size, subsample_size=self.subsample)

    def model(self) -> None:
        g = pyro.sample("g", dist.Categorical(torch.tensor([0.3, 0.7])))
        with self.plate() as index:
            z = pyro.sample("z", dist.Categorical(logits=self.p[g]))
            pyro.sample("x", dist.Normal(2.0 * z - g, 1.0), obs=self.x[index])
        pyro.factor("reward", 0.3 * g)

    def guide(self) -> None:
        with poutine.scale(scale=self.annealed):
            g = pyro.sample("g", dist.Categorical(logits=self.q_g))
            with self.plate() as index:
                g = g.expand(torch.broadcast_shapes(g.shape, index.shape))
                pyro.sample("z", dist.Categorical(logits=self.q_z[index, g]))

    def tables(self) -> tuple[Tensor, Tensor]:
        """(2, 2, 2) log p and log q of (g, z_1, z_2), written out."""
        log_p, log_q = torch.zeros(2, 2, 2), []
        for g, z1, z2 in itertools.product(range(2), repeat=3):
            log_p[g, z1, z2] = torch.tensor([0.3, 0.7]).log()[g] + 0.3 * g
            q = self.q_g.log_softmax(0)[g]
            for i, z in enumerate((z1, z2)):
                of = dist.Normal(2.0 * z - g, 1.0).log_prob(self.x[i])
                log_p[g, z1, z2] += self.p[g].log_softmax(0)[z] + of
                q = q + self.q_z[i, g].log_softmax(0)[z]
            log_q.append(q)
        return log_p, torch.stack(log_q).reshape(2, 2, 2)

    def states(self, particles: int) -> Iterator[tuple[float, dict[str, Tensor]]]:
        """All tuples of so many states of (g, z), and their probabilities; half of the elements."""
        log_q = self.tables()[1].detach().flatten()
        single = list(itertools.product(range(2), repeat=3))
        subsets = [torch.tensor([i]) for i in range(2)] if self.subsample else [torch.arange(2)]
        for chosen in itertools.product(range(8), repeat=particles):
            probability = float(log_q[list(chosen)].sum().exp())
            g = torch.tensor([single[k][0] for k in chosen])
            z = torch.tensor([single[k][1:] for k in chosen])
            for index in subsets:
                values = {"g": g[:, None], "z": z[:, index], "elements": index}
                if particles == 1:
                    values |= {"g": g[0], "z": z[0, index]}
                yield probability / len(subsets), values

    def expected(self, make: Callable[..., LogRatioLoss], particles: int) -> list[Tensor]:
        """E[∇ loss] over all that may be drawn."""
        loss = make(particles, max_plate_nesting=1, vectorize_particles=particles > 1)
        sums = [torch.zeros(2), torch.zeros(2, 2, 2)]
        for probability, values in self.states(particles):
            with FixedValues(values):
                value = loss.differentiable_loss(self.model, self.guide)
            found = torch.autograd.grad(value, [self.q_g, self.q_z])
            sums = [total + probability * g for total, g in zip(sums, found, strict=True)]
        return sums

    def gradient(self, of: Tensor) -> tuple[Tensor, ...]:
        return torch.autograd.grad(of, [self.q_g, self.q_z])


def divergence(coins: Coins) -> Tensor:
    log_p, log_q = coins.tables()
    return (log_q.exp() * (coins.annealed * log_q - log_p)).sum()


@pytest.mark.parametrize("subsample", [None, 1])
@pytest.mark.parametrize("annealed", [1.0, 0.4])
def test_gradients_are_right_in_expectation(subsample: int | None, annealed: float) -> None:
    """Twice that of the divergence, of mini-batches, too."""
    coins = Coins(subsample=subsample)
    coins.annealed = annealed
    expected = coins.gradient(divergence(coins))
    for result, exact in zip(coins.expected(VarGrad, 2), expected, strict=True):
        assert exact.abs().max() > 0.02
        torch.testing.assert_close(result, 2 * exact, atol=1e-5, rtol=1e-4)


def test_what_a_site_may_act_upon() -> None:
    """z_i: its own factors, and those of g; other elements are left out."""
    coins = Coins()
    r = VarGrad(5).log_ratios(coins.model, coins.guide)
    assert r.elements is not None
    plates = r.elements[1]["z"].plates
    assert {name for name, _ in plates} == {"elements"}
    alone, all_of_it = r.downstream(plates), r.downstream(frozenset())
    assert (alone.shape, all_of_it.shape) == ((5, 2), (5, 1))
    torch.testing.assert_close(all_of_it[:, 0], r.total.detach())
    outside = r.log_p["g"] + r.log_p["reward"] - r.log_q["g"]
    torch.testing.assert_close((alone - outside[:, None]).sum(1), (r.total - outside).detach())


def test_mini_batches_run_at_once_and_other_losses_refuse_them() -> None:
    coins, loss = Coins(8, subsample=2), VarGrad(4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            loss.differentiable_loss(coins.model, coins.guide).backward()
    assert loss.vectorize_particles
    for refused in (
        TrajectoryBalance(4),
        VarGrad(4, loss="huber"),
        VarGrad(4, off_policy=LocalSearch(1)),
        VarGrad(4, behaviour=tempered(coins.guide, 2.0)),
    ):
        with pytest.raises(ValueError, match="subsampled plate 'elements'"):
            refused.differentiable_loss(coins.model, coins.guide)
    with pytest.raises(ValueError, match="nor in a weight: use the whole"):
        loss.log_weights(coins.model, coins.guide)


# -- elements that act on each other


class Acting(nn.Module):
    """Two coins in a plate, and two more: by the model, the guide, or what all have in common."""

    def __init__(self, how: str) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.how, self.a, self.b = how, nn.Parameter(torch.randn(2)), torch.randn(2)

    def logits(self, z: Tensor, g: Tensor) -> Tensor:
        if self.how == "model":
            return self.b.expand(z.shape)
        return self.b + 2 * (g if self.how == "common" else z.mean(-1, keepdim=True)) - 1

    def model(self) -> None:
        with pyro.plate("coins", 2):
            z = pyro.sample("z", dist.Bernoulli(0.5))
            w = pyro.sample("w", dist.Bernoulli(0.3))
            seen = 3 * z.cumsum(-1) - w if self.how == "model" else z + w
            pyro.sample("x", dist.Normal(seen, 1.0), obs=torch.tensor([0.2, 1.5]))
        if self.how == "common":
            pyro.sample("g", dist.Bernoulli(0.5))

    def guide(self) -> None:
        plate = pyro.plate("coins", 2)
        with plate:
            z = pyro.sample("z", dist.Bernoulli(logits=self.a))
        g = z[..., :1]
        if self.how == "common":
            mean = z.mean(-1, keepdim=z.ndim > 1)
            g = pyro.sample("g", dist.Bernoulli(0.1 + 0.8 * mean))
        with plate:
            pyro.sample("w", dist.Bernoulli(logits=self.logits(z, g)))


@pytest.mark.parametrize("how", ["model", "guide", "common"])
def test_elements_that_act_on_each_other_are_scored_by_all_of_them(how: str) -> None:
    """The gradient of the divergence, by enumeration; split by elements it is another."""
    coins = Acting(how)
    names = ["z", "w", *(["g"] if how == "common" else [])]
    states = [[torch.tensor(s[:2]), torch.tensor(s[2:4]), torch.tensor(s[4:]).squeeze(-1)]
              for s in itertools.product((0.0, 1.0), repeat=4 + (how == "common"))]  # fmt: skip
    loss = LogRatioLoss(1)
    exact, weights = torch.zeros(()), []
    for state in states:
        with FixedValues(dict(zip(names, state, strict=False))):
            r = loss.log_ratios(coins.model, coins.guide)
        weights.append(r.of_guide.squeeze().exp())
        exact = exact - weights[-1] * r.total.squeeze()
    (expected,) = torch.autograd.grad(exact, coins.a)
    vargrad, total = VarGrad(2, vectorize_particles=True), torch.zeros(2)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for one, other in itertools.product(range(len(states)), repeat=2):
            pair = zip(states[one], states[other], strict=True)
            values = dict(zip(names, map(torch.stack, map(list, pair)), strict=False))
            if how == "common":
                values["g"] = values["g"].reshape(2, 1)
            with FixedValues(values):
                value = vargrad.differentiable_loss(coins.model, coins.guide)
            weight = float((weights[one] * weights[other]).detach())
            total += weight * torch.autograd.grad(value, coins.a)[0]
    torch.testing.assert_close(total, 2 * expected, atol=1e-5, rtol=1e-4)
    assert ["'coins' act on each other" in str(one.message) for one in said] == [True]


def test_a_walk_of_gaussian_steps_has_the_best_factors_of_its_posterior() -> None:
    """Where sd = 1 / √(diagonal of the precision), 0.20 to 0.45, no gradient is left."""
    n, y = 6, torch.linspace(-1, 2, 6)
    sums = torch.ones(n, n).tril()
    precision = torch.eye(n) + 4 * sums.T @ sums
    loc = torch.linalg.solve(precision, 4 * sums.T @ y).requires_grad_()
    log_sd = (-0.5 * precision.diagonal().log()).requires_grad_()

    def model() -> None:
        with pyro.plate("steps", n):
            e = pyro.sample("e", dist.Normal(0.0, 1.0))
            pyro.sample("y", dist.Normal(e.cumsum(-1), 0.5), obs=y)

    def guide() -> None:
        with pyro.plate("steps", n):
            pyro.sample("e", dist.Normal(loc, log_sd.exp()))

    torch.manual_seed(0)
    loss = VarGrad(20_000)
    with pytest.warns(UserWarning, match="act on each other"):
        value = loss.differentiable_loss(model, guide)
    for gradient in torch.autograd.grad(value, [loc, log_sd]):
        assert gradient.abs().max() < 0.5


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
