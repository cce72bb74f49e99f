"""Trajectory balance and VarGrad with Pyro: guides, plates, optimizers, gradients, mistakes."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro import poutine
from pyro.infer import SVI
from pyro.infer.autoguide import AutoMultivariateNormal, AutoNormal, AutoStructured
from pyro.nn import PyroModule, PyroParam
from torch import Tensor, nn

from plot_attractors.gflownet import LogRatios, TrajectoryBalance, VarGrad
from plot_attractors.gflownet.programs import FixedValues

from ..problems import LOG_EVIDENCE, POSTERIOR_MEAN, POSTERIOR_SD, gaussian_guide, gaussian_model

positive = dist.constraints.positive


def fit(model: Any, guide: Any, loss: Any, steps: int, lr: float = 0.02, *args: Any) -> float:
    svi = SVI(model, guide, pyro.optim.Adam({"lr": lr}), loss)
    return [svi.step(*args) for _ in range(steps)][-1]


class ModuleGuide(PyroModule):
    """A plain parameter, a constrained one and a torch module."""

    def __init__(self) -> None:
        super().__init__()
        self.loc = nn.Parameter(torch.tensor(0.0))
        self.scale = PyroParam(torch.tensor(1.0), constraint=positive)
        self.net = nn.Linear(1, 1)

    def forward(self) -> Tensor:
        return pyro.sample("z", dist.Normal(self.loc + self.net(torch.ones(1))[0], self.scale))


def check_gaussian(guide: Any) -> None:
    """At the exact posterior every weight is the evidence."""
    weights = VarGrad(1000).log_ratios(gaussian_model, guide).total.detach()
    assert weights.std() < 0.03
    assert float(weights.mean()) == pytest.approx(LOG_EVIDENCE, abs=0.02)
    with torch.no_grad(), pyro.plate("n", 20000, dim=-2):
        z = poutine.trace(guide).get_trace().nodes["z"]["value"]
    assert float(z.mean()) == pytest.approx(POSTERIOR_MEAN, abs=0.02)
    assert float(z.std()) == pytest.approx(POSTERIOR_SD, abs=0.02)


def broad() -> None:
    """Off-policy samples, whatever the guide has learned."""
    pyro.sample("z", dist.Normal(2.0, 2.0))


@pytest.mark.parametrize(
    ("make", "local", "behaviour"),
    [
        (lambda: gaussian_guide, False, broad),
        (ModuleGuide, True, None),
        (lambda: AutoMultivariateNormal(gaussian_model), False, None),
    ],
)
def test_gaussian_with_every_kind_of_guide(make: Any, local: bool, behaviour: Any) -> None:
    pyro.settings.set(module_local_params=local)
    loss, program = TrajectoryBalance(num_particles=16, behaviour=behaviour), make()
    fit(gaussian_model, program, loss, 400, 0.05)
    assert float(loss.log_z.detach()) == pytest.approx(LOG_EVIDENCE, abs=0.05)
    check_gaussian(program)
    assert any("log_z" in name for name in pyro.get_param_store()) != local


@pytest.mark.parametrize("local", [False, True], ids=["store", "local"])
def test_a_torch_optimizer_finds_all_parameters(local: bool) -> None:
    pyro.settings.set(module_local_params=local)
    module = TrajectoryBalance(16)(gaussian_model, ModuleGuide())
    module().backward()
    parameters = dict(module.named_parameters())
    assert "elbo.log_z_over_scale" in parameters
    assert len(parameters) == 5
    assert all(p.grad is not None for p in parameters.values())


def test_model_and_guide_share_a_random_subsample() -> None:
    x = torch.randn(50)

    def model() -> None:
        with pyro.plate("data", 50, subsample_size=4) as index:
            z = pyro.sample("z", dist.Normal(0.0, 1.0))
            pyro.sample("x", dist.Normal(z, 0.5), obs=x[index])

    def guide() -> None:
        with pyro.plate("data", 50, subsample_size=4) as index:
            pyro.sample("z", dist.Normal(0.8 * x[index], 0.2**0.5))

    objective = VarGrad(5, batch_plate="data")
    first, second = (objective.log_ratios(model, guide).total.detach() for _ in range(2))
    assert first.std(0).max() < 1e-5  # the exact posterior of each element, whichever they are
    assert not torch.equal(first, second)


# -- scales, one run of all particles


def test_poutine_scale_tempers() -> None:
    def model() -> None:
        z = pyro.sample("z", dist.Normal(0.0, 1.0))
        with poutine.scale(scale=0.5):
            pyro.sample("x", dist.Normal(z, 1.0), obs=torch.tensor(2.0))

    def guide() -> None:
        pyro.sample("z", dist.Normal(2 / 3, (2 / 3) ** 0.5))

    assert VarGrad(8).loss(model, guide) < 1e-10


@pytest.mark.parametrize("particles", [1, 3])
def test_particles_score_as_when_they_are_run_alone(particles: int) -> None:
    """On fixed values of a behaviour policy, in nested plates, of events of two dimensions."""
    values = torch.linspace(-1, 1, 24).reshape(3, 2, 4), torch.linspace(-2, 2, 6).reshape(2, 3)

    def program(kind: str) -> None:
        learned = pyro.param("scale", torch.tensor(1.5), constraint=positive)
        scale = learned if kind == "guide" else 1.0
        with pyro.plate("a", 3, dim=-1):
            z: Any = dist.Normal(torch.zeros(2, 4), scale).to_event(2)
            z = pyro.sample("z", dist.Delta(values[0], event_dim=2) if kind == "fixed" else z)
            with pyro.plate("b", 2, dim=-2):
                mean = z.sum((-1, -2)) if kind == "model" else 0.0
                w: Any = dist.Normal(mean, scale)
                pyro.sample("w", dist.Delta(values[1]) if kind == "fixed" else w)

    model, guide, fixed = (partial(program, kind) for kind in ("model", "guide", "fixed"))
    loss = TrajectoryBalance(particles, log_z=1.0, behaviour=fixed)
    value = loss.differentiable_loss(model, guide)
    alone: Any = [FixedValues(dict(zip("zw", values, strict=True)))(of) for of in (model, guide)]
    log_p, log_q = (poutine.trace(of).get_trace().log_prob_sum() for of in alone)
    expected = (1.0 + log_q - log_p.detach()).square()
    torch.testing.assert_close(value, expected)
    scale = pyro.param("scale").unconstrained()
    torch.testing.assert_close(*(torch.autograd.grad(of, scale) for of in (value, expected)))


# -- log Z as a parameter


def test_every_loss_has_a_log_z_and_a_learning_rate_of_its_own() -> None:
    one, two = TrajectoryBalance(16), TrajectoryBalance(16)
    start = float(one.log_ratios(gaussian_model, gaussian_guide).total.detach().mean())
    # within the spread of log-weights, where it moves by the optimizer alone
    one.load_state_dict({"log_z_over_scale": torch.tensor(start / one.log_z_scale)})
    optimizer = pyro.optim.Adam(lambda name: {"lr": 0.0 if "log_z" in name else 0.1})
    SVI(gaussian_model, gaussian_guide, optimizer, one).step()
    fit(gaussian_model, gaussian_guide, two, 3)
    assert float(one.log_z.detach()) == pytest.approx(start) != float(two.log_z.detach())
    assert float(pyro.param("loc").detach()) != 0
    assert {name for name in pyro.get_param_store() if "log_z" in name} == {
        "trajectory_balance.log_z_over_scale",
        "trajectory_balance_1.log_z_over_scale",
    }


def test_log_z_starts_at_the_first_batch_and_is_saved(tmp_path: Any) -> None:
    loss = TrajectoryBalance(16)
    torch.manual_seed(1)
    loss.loss(gaussian_model, gaussian_guide)
    torch.manual_seed(1)
    weights = loss.log_ratios(gaussian_model, gaussian_guide).total.detach()
    assert float(loss.log_z.detach()) == pytest.approx(float(weights.mean()), rel=1e-5)
    torch.save(loss.state_dict(), tmp_path / "loss.pt")
    copy = TrajectoryBalance(16)
    copy.load_state_dict(torch.load(tmp_path / "loss.pt", weights_only=True))
    copy.loss(gaussian_model, gaussian_guide)
    assert float(copy.log_z.detach()) == float(loss.log_z.detach())


def test_a_batch_that_is_no_number_does_not_set_log_z() -> None:
    loss = TrajectoryBalance(4)
    ratios = VarGrad(4).log_ratios(gaussian_model, gaussian_guide)
    none = {name: torch.full_like(log_p, math.nan) for name, log_p in ratios.log_p.items()}
    loss.objective(replace(ratios, log_p=none))
    assert math.isfinite(float(loss.objective(ratios).detach()))
    assert float(loss.log_z.detach()) == pytest.approx(float(ratios.total.detach().mean()))


def test_a_log_z_for_each_element_of_the_batch() -> None:
    zeros = torch.zeros(4, 2)
    ratios = LogRatios({}, {"x": zeros}, {"z": zeros})
    loss = TrajectoryBalance(4, batch_plate="rows", log_z=torch.tensor([1.0, 3.0]))
    assert float(loss.objective(ratios)) == pytest.approx((1 + 9) / 2)
    with pytest.raises(ValueError, match=r"shape \(3,\) where \(2,\) is wanted"):
        TrajectoryBalance(4, batch_plate="rows", log_z=torch.zeros(3)).objective(ratios)


def test_the_behaviour_policy_is_not_trained() -> None:
    behaviour, guide = ModuleGuide(), PyroModule("outer")
    guide.inner = ModuleGuide()
    loss = TrajectoryBalance(4, behaviour=behaviour)
    assert [name for name, _ in loss.named_parameters()] == ["log_z_over_scale"]
    fit(gaussian_model, lambda: guide.inner(), loss, 2)
    assert float(guide.inner.loc.detach()) != 0
    assert all(parameter.grad is None for parameter in behaviour.parameters())
    assert float(behaviour.loc.detach()) == 0


def test_a_delta_next_to_a_value_gives_its_own() -> None:
    for value, log_q in ((1.0 + 1e-6, 0.0), (1.1, -math.inf)):
        fixed = FixedValues({"z": torch.tensor(value)})(
            lambda: pyro.sample("z", dist.Delta(torch.ones(())))
        )
        assert float(poutine.trace(fixed).get_trace().log_prob_sum()) == log_q
    structured = AutoStructured(gaussian_model, conditionals="normal", dependencies="linear")
    with torch.no_grad():  # no loss trains it
        assert VarGrad(5).log_ratios(gaussian_model, structured).total.isfinite().all()


# -- a learned log Z that is far away

POINTS = torch.linspace(-2, 2, 200)


def regression() -> None:
    slope = pyro.sample("slope", dist.Normal(0.0, 10.0))
    with pyro.plate("points", len(POINTS)):
        pyro.sample("y", dist.Normal(slope * POINTS, 0.5), obs=2 * POINTS)


@pytest.mark.parametrize("particles", [1, 16])
def test_a_learned_log_z_follows_a_guide_for_hundreds_of_nats(particles: int) -> None:
    loss, guide = TrajectoryBalance(particles), AutoNormal(regression, init_scale=0.5)
    svi = SVI(regression, guide, pyro.optim.Adam({"lr": 0.03}), loss)
    svi.step()
    start = float(loss.log_z.detach())
    for _ in range(400):
        svi.step()
    weights = VarGrad(1000).log_ratios(regression, guide).total.detach()
    elbo, spread = float(weights.mean()), float(weights.std())
    assert abs(float(loss.log_z.detach()) - elbo) < spread
    assert elbo - start > 300
