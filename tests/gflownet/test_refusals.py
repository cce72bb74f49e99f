"""What is refused, in one table: options, programs, and what would be silently wrong."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro import poutine
from pyro.infer.autoguide import AutoDelta, AutoNormalMessenger, AutoStructured
from torch import Tensor

from plot_attractors.gflownet import (
    ForwardKL,
    Replay,
    ReplayBuffer,
    Sleep,
    SubTrajectoryBalance,
    TrajectoryBalance,
    VarGrad,
    simulation_based_calibration,
    temper,
    tempered,
    to_datatree,
)
from plot_attractors.gflownet.trajectories import score_step

from ..problems import DATA, gaussian_guide, gaussian_model

# -- options


def coin() -> None:
    pyro.sample("z", dist.Bernoulli(0.5))


def of_step(name: str, beside: bool) -> None:
    def step(z: Tensor, t: Any, context: Tensor) -> Tensor:
        if beside:
            pyro.sample("speed", dist.Normal(torch.zeros_like(z), 1.0).to_event(1))
        return pyro.sample(name, dist.Normal(z, 1.0).to_event(1))

    score_step(step, torch.zeros(4, 3), torch.zeros(4, 3), 0.0, torch.zeros(0))


OPTIONS: list[tuple[Any, str]] = [
    (lambda: VarGrad(1), "at least 2"),
    (lambda: VarGrad(2, model_gradient="none"), "must be 'wake' or 'objective'"),
    (lambda: VarGrad(2, loss="absolute"), "'squared' or 'huber'"),  # type: ignore[arg-type]
    (lambda: ForwardKL(1), "2 or more"),
    (lambda: SubTrajectoryBalance(print, print, lam=-1.0), "λ must be a finite number"),
    (lambda: TrajectoryBalance(batch_plate="data"), "log Z of its own"),
    (lambda: ReplayBuffer(0), "capacity of at least 1"),
    (lambda: VarGrad(2, batch_plate="rows", replay=Replay()), "the same data at every step"),
    (lambda: tempered(coin, 0.0), "temperature must be a positive number"),
    (lambda: temper(dist.Cauchy(1.0, 1.0), 2.0), r"temper.register\(Cauchy\)"),
    (lambda: of_step("y", False), 'must sample its next state at the site "z"'),
    (lambda: of_step("z", True), "'speed' beside its next state cannot be scored"),
]


@pytest.mark.parametrize(("make", "message"), OPTIONS)
def test_options(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


# -- programs of losses


def two_sites() -> None:
    gaussian_guide()
    pyro.sample("extra", dist.Normal(0.0, 1.0))


def auxiliary_guide() -> None:
    """log Z by its weights is −0.66 for −2.27 of a conjugate pair: q(z) is an integral."""
    a = pyro.sample("extra", dist.Normal(0.0, 1.0), infer={"is_auxiliary": True})
    pyro.sample("z", dist.Normal(a, 1.0))


def subsampled_model() -> None:
    z = pyro.sample("z", dist.Normal(0.0, 2.0))
    with pyro.plate("data", 100, subsample_size=5):
        pyro.sample("x", dist.Normal(z, 1.0), obs=DATA)


def rewarded(reward: float) -> None:
    pyro.sample("z", dist.Normal(0.0, 2.0))
    pyro.factor("reward", torch.tensor(reward))


def depending() -> None:
    a = pyro.sample("z", dist.LogNormal(1.0, 0.5))
    pyro.sample("b", dist.Normal(a, 1.0))


def structured() -> Any:
    return AutoStructured(depending, conditionals="normal", dependencies="linear")


def vectorial() -> Tensor:
    return pyro.sample("z", dist.Normal(torch.zeros(2), 1.0).to_event(1))


def summing() -> None:
    pyro.factor("f", vectorial().sum())


def branching() -> None:
    pyro.factor("f", torch.tensor(1.0 if vectorial()[0] > 0 else 2.0))


COUNTS = torch.tensor([True, False, True])


def masked(counts: Tensor) -> None:
    with pyro.plate("rows", 3):
        pyro.sample("z", dist.Normal(torch.zeros(3, 2), 1.0).to_event(1).mask(counts))


def acting(by: str, model: bool) -> None:
    """Steps whose sum is seen, or of which the guide's later site sees the mean."""
    with pyro.plate("rows", 4):
        z = pyro.sample("z", dist.Normal(0.0, 1.0))
        mean = z.mean(-1, keepdim=True) if by == "guide" and not model else 0.0
        w = pyro.sample("w", dist.Normal(mean, torch.ones(4)))
        if model:
            seen = z.cumsum(-1) if by == "model" else z + w
            pyro.sample("x", dist.Normal(seen, 1.0), obs=torch.tensor(1.0))


MODEL, GUIDE = gaussian_model, gaussian_guide
PROGRAMS: list[tuple[Any, Any, dict[str, Any], str]] = [
    (MODEL, lambda: None, {}, "The model samples 'z' and the guide does not"),
    (MODEL, two_sites, {}, "The guide samples 'extra', no latent site of the model"),
    (MODEL, auxiliary_guide, {}, "'extra', no latent site of the model, .* an integral"),
    (MODEL, AutoNormalMessenger(MODEL), {}, "GuideMessenger"),
    (MODEL, AutoDelta(MODEL), {}, "a value of 'z' that is no sample"),
    (depending, structured(), {}, "or depends on parameters"),
    (MODEL, GUIDE, {"behaviour": lambda: None}, "the behaviour policy does not"),
    (subsampled_model, GUIDE, {}, "'x' lies in the subsampled plate 'data'"),
    (MODEL, GUIDE, {"batch_plate": "data", "log_z": 0.0}, "'z' lies outside .* plate 'data'"),
    (partial(rewarded, -math.inf), GUIDE, {}, "log p - log q is infinite .* site 'reward'"),
    (partial(rewarded, math.nan), GUIDE, {}, "log p - log q is not a number"),
    (partial(masked, COUNTS), partial(masked, torch.tensor(True)), {}, "'z' is not masked alike"),
    (summing, vectorial, {}, r"at once \(particles score differently when run alone\): write"),
    (branching, vectorial, {}, r"at once \(Boolean value of .+ torch.where for if"),
]


@pytest.mark.parametrize(("model", "guide", "options", "message"), PROGRAMS)
def test_programs(model: Any, guide: Any, options: Any, message: str) -> None:
    loss = TrajectoryBalance(3, **options)
    for _ in range(2):  # again where it is tried again
        with pyro.validation_enabled(False), pytest.raises(ValueError, match=message):
            loss.loss_and_grads(model, guide)


@pytest.mark.parametrize("reward", [math.nan, math.inf])
def test_what_is_no_number_is_refused_in_weights_too(reward: float) -> None:
    with pyro.validation_enabled(False), pytest.raises(ValueError, match="infinite"):
        ForwardKL(4).loss_and_grads(partial(rewarded, reward), gaussian_guide)


@pytest.mark.parametrize("by", ["model", "guide"])
def test_elements_of_a_batch_plate_that_act_on_each_other(by: str) -> None:
    programs = partial(acting, by, True), partial(acting, by, False)
    with pytest.raises(ValueError, match="the plate 'rows' act on each other"):
        VarGrad(4, batch_plate="rows").differentiable_loss(*programs)


# -- simulations and tables of draws


def x_guide(x: Tensor) -> None:
    pyro.sample("z", dist.Normal(0.0, 2.0))


def factored(x: Tensor) -> None:
    gaussian_model(x)
    pyro.factor("reward", torch.tensor(1.0))


def scaled(x: Tensor) -> None:
    with poutine.scale(scale=0.5):
        gaussian_model(x)


def no_plate(x: Tensor) -> None:
    pyro.sample("x", dist.Normal(pyro.sample("z", dist.Normal(0.0, 2.0)), 1.0), obs=x)


def subsampled(x: Tensor) -> None:
    z = pyro.sample("z", dist.Normal(0.0, 1.0))
    with pyro.plate("n", len(x), subsample_size=3) as i:
        pyro.sample("x", dist.Normal(z, 1.0), obs=x[i])


def unobserved(x: Tensor) -> None:
    pyro.sample("z", dist.Normal(0.0, 1.0))


def comes_and_goes(x: Tensor) -> None:
    if pyro.sample("k", dist.Bernoulli(0.5)) > 0:
        pyro.sample("z", dist.Normal(0.0, 1.0))
    pyro.sample("x", dist.Normal(0.0, 1.0).expand([len(x)]).to_event(1), obs=x)


def masked_z(x: Tensor) -> None:
    with poutine.mask(mask=False):
        gaussian_model(x)


def half_line(x: Tensor) -> None:
    pyro.sample("z", dist.HalfNormal(1.0))


def sleep(model: Any, guide: Any, x: Tensor) -> None:
    Sleep(8).loss(model, guide, x)


TREE, SBC = partial(to_datatree, draws=20), partial(simulation_based_calibration, draws=1)
COMES = comes_and_goes, poutine.block(comes_and_goes, hide=["x"])


@pytest.mark.parametrize(
    ("run", "programs", "message"),
    [
        (TREE, (no_plate, x_guide), r"'x' observes values of shape \(5,\) and draws values"),
        (TREE, (subsampled, x_guide), "'n' is subsampled, anew in every run"),
        (TREE, COMES, r"at once \(Boolean value of Tensor .+\): write"),
        (SBC, (MODEL, None), "neither was given"),
        (partial(SBC, fit=lambda x: x_guide), (MODEL, x_guide), "both was given"),
        (SBC, (unobserved, x_guide), "observes nothing"),
        (SBC, (factored, x_guide), "The model has the factor 'reward'"),
        (SBC, (scaled, x_guide), "has a scale, as of poutine.scale"),
        (SBC, (no_plate, x_guide), "put it into a plate"),
        (SBC, COMES, r"at once \(their sites differ between runs\): write"),
        (SBC, (masked_z, masked_z), "masks latent sites, which have no truth"),
        (sleep, (MODEL, lambda x: two_sites()), "The guide samples 'extra', no latent site of"),
        (sleep, (MODEL, half_line), "infinite"),
    ],
)
def test_simulations_and_tables(run: Any, programs: Any, message: str) -> None:
    torch.manual_seed(1)
    with pyro.validation_enabled(False), pytest.raises(ValueError, match=message):
        run(*programs, DATA)
