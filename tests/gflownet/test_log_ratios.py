"""Losses made of log-ratios: their gradients against sums over all trajectories, site by site."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro import poutine
from torch import Tensor, nn

from plot_attractors.gflownet import (
    ForwardKL,
    LogRatioLoss,
    LogRatios,
    Sleep,
    TrajectoryBalance,
    VarGrad,
    tempered,
)

PATHS = torch.cartesian_prod(torch.arange(3), torch.arange(2))  # all (z0, z1)


class Pair(nn.Module):
    """z0 of three, then z1 of two, and a point that both explain; all of it in tables."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(4)
        shapes = {"p0": (3,), "p1": (3, 2), "means": (3, 2), "q0": (3,), "q1": (3, 2)}
        for name, shape in shapes.items():
            setattr(self, name, nn.Parameter(torch.randn(shape)))
        self.x = torch.tensor(0.7)

    def model(self) -> None:
        z0 = pyro.sample("z0", dist.Categorical(logits=self.p0))
        z1 = pyro.sample("z1", dist.Categorical(logits=self.p1[z0]))
        pyro.sample("x", dist.Normal(self.means[z0, z1], 1.0), obs=self.x)

    def guide(self) -> None:
        z0 = pyro.sample("z0", dist.Categorical(logits=self.q0))
        pyro.sample("z1", dist.Categorical(logits=self.q1[z0]))

    def on(self, paths: Tensor) -> LogRatios:
        """Of these trajectories (K, 2)."""
        given = dict(zip(("z0", "z1"), paths.T, strict=True))
        return LogRatioLoss(len(paths), replay=lambda *_: given).log_ratios(self.model, self.guide)

    def tables(self) -> tuple[Tensor, Tensor]:
        """(6,) log p and log q of all trajectories, written out."""
        z0, z1 = PATHS.T
        log_q = self.q0.log_softmax(0)[z0] + self.q1.log_softmax(1)[z0, z1]
        prior = self.p0.log_softmax(0)[z0] + self.p1.log_softmax(1)[z0, z1]
        return prior + dist.Normal(self.means[z0, z1], 1.0).log_prob(self.x), log_q

    def gradient(self, of: Tensor) -> dict[str, Tensor]:
        names, parameters = zip(*self.named_parameters(), strict=True)
        found = torch.autograd.grad(of, parameters, allow_unused=True)
        return {k: torch.zeros(()) if g is None else g for k, g in zip(names, found, strict=True)}


LOSSES: dict[str, tuple[LogRatioLoss, Callable[[Tensor], Tensor]]] = {
    "tb": (TrajectoryBalance(4, log_z=-2.0), lambda r: (r + 2).square().mean()),
    "VarGrad": (VarGrad(4), lambda r: r.var()),
    "own": (LogRatioLoss(4, lambda r: r.total.exp().mean()), lambda r: r.exp().mean()),
}


def posterior() -> tuple[Pair, list[Tensor]]:
    """A pair whose guide is exact, and the gradient of −log p(x) by parameters of the model."""
    pair = Pair()
    joint = pair.tables()[0].reshape(3, 2)
    pair.q0.data, pair.q1.data = joint.detach().logsumexp(1), joint.detach()
    return pair, of_model(pair, -joint.logsumexp((0, 1)))


def of_model(pair: Pair, loss: Tensor) -> list[Tensor]:
    gradients = pair.gradient(loss)
    return [gradients[name] for name in ("p0", "p1", "means")]


def zeros(values: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: torch.zeros_like(value) for name, value in values.items()}


K = 20_000
LEARNED: dict[str, Callable[[Pair], LogRatioLoss]] = {
    "trajectory balance": lambda _: TrajectoryBalance(K),
    "VarGrad, tempered": lambda pair: VarGrad(K, behaviour=tempered(pair.guide, 3.0)),
    "VarGrad, other values": lambda _: VarGrad(K, replay=lambda drawn, _: zeros(drawn.values)),
    "forward KL": lambda _: ForwardKL(K),
}


@pytest.mark.parametrize("name", LEARNED)
def test_at_the_exact_posterior_a_model_is_trained_by_its_likelihood(name: str) -> None:
    pair, expected = posterior()
    loss = LEARNED[name](pair).differentiable_loss(pair.model, pair.guide)
    for one, other in zip(of_model(pair, loss), expected, strict=True):
        assert other.abs().max() > 0.02
        torch.testing.assert_close(one, other, atol=0.01, rtol=0)


def test_balance_alone_has_nothing_to_teach_the_model_there() -> None:
    """The known wrong thing: at an exact posterior log-ratios are alike, whatever the model."""
    pair, _ = posterior()
    loss = VarGrad(K, model_gradient="objective").differentiable_loss(pair.model, pair.guide)
    assert all(gradient.abs().max() < 1e-3 for gradient in of_model(pair, loss))


@pytest.mark.parametrize("name", LOSSES)
def test_losses_are_their_formulas_of_log_ratios(name: str) -> None:
    pair, chosen = Pair(), torch.tensor([0, 3, 3, 5])
    log_p, log_q = pair.tables()
    loss, formula = LOSSES[name]
    value, expected = loss.objective(pair.on(PATHS[chosen])), formula((log_p - log_q)[chosen])
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(pair.gradient(value), pair.gradient(expected))


def test_forward_kl_weighs_what_the_guide_draws() -> None:
    """Six trajectories, one each: the weights are the posterior's, over those of the guide."""
    pair = Pair()
    log_p, log_q = pair.tables()
    value = ForwardKL(6).objective(pair.on(PATHS))
    weight = (log_p - log_q).detach().softmax(0)
    torch.testing.assert_close(value, -(weight * log_q).sum())
    both = -(weight * (log_p + log_q)).sum()  # the model's parameters as well
    torch.testing.assert_close(pair.gradient(value), pair.gradient(both))


def test_sleep_is_the_expectation_over_the_models_own_data() -> None:
    log_a, shift = torch.tensor(0.3, requires_grad=True), torch.tensor(0.2, requires_grad=True)
    m = torch.tensor(0.0, requires_grad=True)  # of the model
    n = 50_000
    seen = torch.ones(n)

    def model() -> None:
        with pyro.plate("rows", n):
            z = pyro.sample("z", dist.Normal(0.0, 1.0))
            pyro.sample("x", dist.Normal(z + m, 1.0), obs=seen)

    def guide(x: Tensor) -> None:
        with pyro.plate("rows", n):
            pyro.sample("z", dist.Normal(log_a.exp() * x + shift, 1.0))

    loss = Sleep(batch_plate="rows")
    value = loss.differentiable_loss(model, guide)
    result = torch.autograd.grad(value, [log_a, shift, m])
    # x ~ N(0, 2), E[z x] = 1: E[(z − a x − b)²] / 2 = (1 − 2 a + 2 a² + b²) / 2
    a, b = float(log_a.detach().exp()), 0.2
    assert float(value.detach()) == pytest.approx(
        (1 - 2 * a + 2 * a * a + b * b) / 2 + 0.919, abs=0.03
    )
    assert float(result[0]) == pytest.approx(a * (2 * a - 1), abs=0.1)
    assert float(result[1]) == pytest.approx(b, abs=0.03)
    # the wake step, where x = 1: −E_q[x − z]
    assert float(result[2]) == pytest.approx(a + b - 1, abs=0.03)


# -- sites


def test_particles_that_the_model_excludes_have_no_weight_in_forward_kl() -> None:
    support = torch.tensor([0.0, 0.0, -torch.inf])

    def model() -> None:
        k = pyro.sample("k", dist.Categorical(torch.tensor([0.2, 0.3, 0.5])))
        pyro.factor("constraint", support[k])

    def guide() -> None:
        logits = pyro.param("logits", torch.zeros(3))
        pyro.sample("k", dist.Categorical(logits=logits))

    loss = ForwardKL(20_000).differentiable_loss(model, guide)
    (gradient,) = torch.autograd.grad(loss, pyro.param("logits").unconstrained())
    expected = torch.full((3,), 1 / 3) - torch.tensor([0.4, 0.6, 0.0])  # q − p
    torch.testing.assert_close(gradient, expected, atol=0.02, rtol=0)
    assert bool(loss.isfinite())
    support[:] = -torch.inf
    with pytest.raises(ValueError, match="All 2 particles are impossible"):
        ForwardKL(2).loss(model, guide)


# -- masks


def ragged(x: Tensor, counts: Tensor) -> None:
    """Rows of steps, of which the first few count; latent ones and observed ones."""
    with pyro.plate("rows", len(x), dim=-2), pyro.plate("steps", x.shape[1], dim=-1):
        with poutine.mask(mask=counts):
            z = pyro.sample("z", dist.Normal(0.0, 1.0))
            pyro.sample("x", dist.Normal(z, 1.0), obs=x)


X = torch.tensor([[0.3, -9.0, 1.0], [2.0, 0.1, 5.0]])
COUNTS = torch.tensor([[True, False, True], [True, True, False]])


def ragged_guide(x: Tensor, counts: Tensor) -> None:
    with pyro.plate("rows", len(x), dim=-2), pyro.plate("steps", x.shape[1], dim=-1):
        pyro.sample("z", dist.Normal(x / 2, 0.5**0.5))


def test_what_both_programs_mask_does_not_count() -> None:
    exact = dist.Normal(0.0, 2**0.5).log_prob(X)[COUNTS].sum()
    masked = poutine.mask(ragged_guide, mask=COUNTS)
    total = VarGrad(5).log_ratios(ragged, masked, X, COUNTS).total
    torch.testing.assert_close(total.detach(), exact.expand(5))


# -- one run of all particles


def test_checks_leave_the_random_stream_alone() -> None:
    def program() -> None:
        pyro.sample("z", dist.Normal(0.0, 1.0))

    loss, streams = VarGrad(4), []
    for _ in range(2):  # the first of which looks whether the programs vectorise
        torch.manual_seed(0)
        loss.log_ratios(program, program)
        streams.append(torch.rand(3))
    assert torch.equal(*streams)


def test_a_second_pair_with_deeper_plates() -> None:
    """K equals the plate's size: particles must not be paired with data."""
    k, x = 4, torch.tensor([0.0, 1.0, 2.0, 3.0])

    def shallow() -> None:
        pyro.sample("z", dist.Normal(0.0, 1.0))

    def deep() -> None:
        z = pyro.sample("z", dist.Normal(0.0, 1.0))
        with pyro.plate("data", k):
            pyro.sample("x", dist.Normal(z, 1.0), obs=x)

    loss = TrajectoryBalance(k, log_z=0.0)
    loss.loss(shallow, shallow)
    r = loss.log_ratios(deep, shallow)
    z = r.values["z"].flatten()
    expected = dist.Normal(z[:, None], 1.0).log_prob(x).sum(1)
    torch.testing.assert_close(r.total, expected)


def test_a_batch_plate_with_plates_inside() -> None:
    """Three rows of two coins: a log-ratio of a row is a sum over its coins."""
    laws = [dist.Bernoulli(logits=torch.randn(3, 2)) for _ in range(2)]

    def program(law: Any) -> None:
        with pyro.plate("rows", 3, dim=-2), pyro.plate("coins", 2, dim=-1):
            pyro.sample("z", law)

    r = VarGrad(5, batch_plate="rows").log_ratios(*(partial(program, law) for law in laws))
    p, q = (law.log_prob(r.values["z"]).sum(-1) for law in laws)
    torch.testing.assert_close(r.total, p - q)
    assert r.total.shape == (5, 3)
