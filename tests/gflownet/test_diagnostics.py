"""Diagnostics of any Pyro fit: layout, log-weights, evidence, and simulation-based calibration."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import arviz as az
import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch
import xarray as xr
from pyro import poutine
from pyro.infer.autoguide import AutoNormal
from pyro.infer.reparam import LocScaleReparam
from scipy.stats import binom
from torch import Tensor

from plot_attractors.gflownet import Sleep, psis, simulation_based_calibration, to_datatree
from plot_attractors.gflownet.diagnostics import p_adjusted, randomised_rank
from plot_attractors.gflownet.programs import sample_sites
from plot_attractors.gflownet.simulation import simulated

from ..problems import DATA, POSTERIOR_MEAN, POSTERIOR_SD
from ..problems import gaussian_model as model

# -- programs with known posteriors: z ~ N(0, 2), x_i ~ N(z, 1); rows of it; a label and a point


def guide(x: Tensor, shift: float = 0.0, scale: float = 1.0) -> None:
    """The posterior, but for a shift and a factor of the scale, in standard deviations of it."""
    sd = (1 / 4 + len(x)) ** -0.5
    pyro.sample("z", dist.Normal(x.sum() * sd**2 + shift * sd, scale * sd))


def rows_model(x: Tensor) -> None:
    with pyro.plate("rows", len(x)):
        z = pyro.sample("z", dist.Normal(torch.zeros(2), 1.0).to_event(1))
        pyro.sample("x", dist.Normal(z, 0.5).to_event(1), obs=x)


def rows_guide(x: Tensor, scale: float = 1.0) -> None:
    with pyro.plate("rows", len(x)):
        pyro.sample("z", dist.Normal(0.8 * x, scale * 0.2**0.5).to_event(1))


def drawn(tree: xr.DataTree, name: str) -> np.ndarray:
    return tree["sample_stats"][name].values[0]


# -- layout


def test_weights_and_replicates_are_those_of_the_draws() -> None:
    """x − z is standard normal, whatever z."""
    tree = to_datatree(model, partial(guide, shift=1.0, scale=1.3), DATA, draws=300)
    z = torch.from_numpy(tree["posterior"]["z"].values[0])
    loc = POSTERIOR_MEAN + POSTERIOR_SD
    log_q = dist.Normal(loc, 1.3 * POSTERIOR_SD).log_prob(z)
    log_p = dist.Normal(0.0, 2.0).log_prob(z) + dist.Normal(z[:, None], 1.0).log_prob(DATA).sum(-1)
    np.testing.assert_allclose(drawn(tree, "log_q"), log_q, atol=1e-4)
    np.testing.assert_allclose(drawn(tree, "log_p"), log_p, atol=1e-4)
    np.testing.assert_allclose(drawn(tree, "log_weight"), log_p - log_q, atol=1e-4)
    rest = tree["posterior_predictive"]["x"] - tree["posterior"]["z"]
    assert abs(float(rest.mean())) < 0.1
    assert abs(float(rest.std()) - 1) < 0.1


def test_arviz_reads_the_file(tmp_path: Path) -> None:
    wide = partial(rows_guide, scale=1.2)
    tree = to_datatree(rows_model, wide, torch.ones(3, 2), draws=40, batch_plate="rows")
    posterior = tree["posterior"]["z"]
    assert posterior.dims == ("chain", "draw", "z_dim_0", "z_dim_1")
    assert posterior.shape == tree["posterior_predictive"]["x"].shape == (1, 40, 3, 2)
    assert tree["sample_stats"]["log_weight"].dims == ("chain", "draw", "rows")
    assert tree["observed_data"]["x"].dims == ("x_dim_0", "x_dim_1")
    tree.to_netcdf(tmp_path / "fit.nc", engine="h5netcdf")
    data = az.from_netcdf(tmp_path / "fit.nc")
    assert (data.attrs["sampling_seed"], data.attrs["draws"]) == (0, 40)
    for name, group in tree.children.items():
        read = data[name]
        result = read.to_dataset() if isinstance(read, xr.DataTree) else read
        xr.testing.assert_identical(result.load(), group.to_dataset())
    assert list(az.summary(data, kind="stats").index)[:2] == ["z[0, 0]", "z[0, 1]"]
    xr.testing.assert_allclose(psis(data), psis(tree))


def test_seeds_repeat_and_the_callers_random_state_stays() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    first, again, other = (to_datatree(model, guide, DATA, draws=5, seed=s) for s in (1, 1, 2))
    simulation_based_calibration(model, guide, DATA, simulations=2, draws=3)
    assert torch.equal(torch.rand(3), expected)
    xr.testing.assert_identical(first, again)
    assert not first["posterior"].equals(other["posterior"])


def test_auto_guides_count_the_jacobian() -> None:
    """A lognormal guide of a positive site, by its own density."""

    def positive() -> None:
        sd = pyro.sample("sd", dist.Gamma(2.0, 2.0))
        pyro.sample("x", dist.Normal(0.0, sd), obs=torch.tensor(1.0))

    auto = AutoNormal(positive)
    tree = to_datatree(positive, auto, draws=30)
    assert set(tree["posterior"].data_vars) == {"sd"}  # and no auxiliary site
    sd = torch.from_numpy(tree["posterior"]["sd"].values[0])
    log_q = dist.LogNormal(auto.locs.sd, auto.scales.sd).log_prob(sd)
    log_p = dist.Gamma(2.0, 2.0).log_prob(sd) + dist.Normal(0.0, sd).log_prob(torch.tensor(1.0))
    np.testing.assert_allclose(drawn(tree, "log_weight"), (log_p - log_q).detach(), atol=1e-4)


def test_deterministic_and_reparametrised_sites_are_those_of_the_draws() -> None:
    def hierarchy(x: Tensor) -> None:
        scale = pyro.sample("scale", dist.LogNormal(0.0, 0.5))
        with pyro.plate("rows", len(x)):
            z = pyro.sample("z", dist.Normal(0.0, scale))
            pyro.deterministic("rest", x - z)
            pyro.sample("x", dist.Normal(z, 1.0), obs=x)
        pyro.deterministic("both", torch.stack([scale, scale**2], -1))

    reparametrised = poutine.reparam(hierarchy, {"z": LocScaleReparam(0.0)})
    tree = to_datatree(reparametrised, AutoNormal(reparametrised), DATA, draws=20)
    posterior = tree["posterior"]
    for group in ("observed_data", "posterior_predictive"):
        assert set(tree[group].data_vars) == {"x"}
    expected = posterior["scale"].values[..., None] * posterior["z_decentered"].values
    np.testing.assert_allclose(posterior["z"].values, expected, rtol=1e-4)
    np.testing.assert_allclose(posterior["rest"], DATA.numpy() - posterior["z"].values, rtol=1e-5)
    np.testing.assert_allclose(posterior["both"][..., 1], posterior["scale"] ** 2, rtol=1e-5)


# -- weights and the evidence


def test_a_collapsed_guide_is_not_reported_as_exact() -> None:
    """Two labels of equal posterior of three: TV 0.42 and one weight, as an exact guide has."""

    def labels() -> None:
        k = pyro.sample("k", dist.Categorical(torch.ones(3)))
        pyro.factor("reward", torch.tensor([0.29, 0.29, 0.42]).log()[k] + np.log(3))

    def collapsed() -> None:
        pyro.sample("k", dist.Categorical(torch.tensor([0.5, 0.5, 0.0])))

    tree = to_datatree(labels, collapsed)
    assert set(tree.children) == {"posterior", "sample_stats"}, "a factor is no observation"
    with pytest.warns(UserWarning, match="compare log_z with the evidence"):
        result = psis(tree).isel(chain=0)
    assert np.isnan(result["pareto_k"])
    np.testing.assert_allclose(result["log_z"], np.log(1 - 0.42), atol=1e-5)  # not log 1


def test_every_row_of_a_batch_has_its_evidence() -> None:
    x = torch.tensor([[0.0, 0.5], [1.0, -1.0], [3.0, 2.0]])
    tree, whole = (
        to_datatree(rows_model, rows_guide, x, batch_plate=plate, draws=50)
        for plate in ("rows", None)
    )
    expected = dist.Normal(0.0, 1.25**0.5).log_prob(x).sum(-1)
    np.testing.assert_allclose(drawn(tree, "log_weight"), expected.expand(50, 3), atol=1e-4)
    np.testing.assert_allclose(drawn(whole, "log_weight"), expected.sum().expand(50), atol=1e-4)


# -- calibration


def test_exact_guides_pass_and_wrong_ones_fail() -> None:
    run = partial(simulation_based_calibration, rows_model, simulations=80)
    result = run(rows_guide, torch.zeros(3, 2))
    assert result["calibrated"].all()
    names = [f"z[{i}, {j}]" for i in range(3) for j in range(2)]
    assert result["latent"].values.tolist() == names
    assert result["rank"].shape == (80, 6)
    assert (abs(result["coverage"] - result["level"]) < 0.15).all()
    result = run(partial(rows_guide, scale=0.6), torch.zeros(3, 2))
    assert not result["calibrated"].any()
    assert (result["coverage"].sel(level=0.95) < 0.92).all()


def test_ranks_by_hand() -> None:
    drawn = torch.tensor([0.0, 1.0, 1.0, 1.0, 4.0])[:, None].expand(-1, 3000)
    for value, ranks in ((-1.0, {0}), (0.5, {1}), (1.0, {1, 2, 3, 4}), (9.0, {5})):
        counts = randomised_rank(torch.full((3000,), value), drawn).bincount(minlength=6)
        assert {*counts.nonzero().flatten().tolist()} == ranks
        assert counts[counts > 0].min() > 0.85 * 3000 / len(ranks), "ties, all alike"


def test_a_p_value_is_that_of_enumeration() -> None:
    """Of three ranks on 0, 1, 2: all 27 samples, by their least tail probability."""
    samples = np.array(list(itertools.product(range(3), repeat=3)))
    below = (samples[..., None] < np.array([1, 2])).sum(1)  # (27, 2)
    law = binom(3, np.array([1, 2]) / 3)
    least = np.minimum(law.cdf(below), law.sf(below - 1)).min(-1)
    exact = (least <= least[:, None] + 1e-12).mean(1)
    result = [p_adjusted(sample[:, None], 2)[0] for sample in samples]
    np.testing.assert_allclose(result, exact, atol=0.02)
    ranks = np.random.default_rng(1).integers(0, 100, (200, 50))
    ranks[:, 7] = ranks[:, 7] ** 2 // 99
    assert np.flatnonzero(p_adjusted(ranks, 99) < 0.05).tolist() == [7], "times their number"
    assert p_adjusted(np.zeros((200, 1)), 99)[0] == 1 / 10_001, "of 10,000 and the sample itself"


def test_the_guide_gets_what_data_makes_and_the_model_its_own_arguments() -> None:
    x = torch.linspace(-2, 2, 8)

    def line(x: Tensor, y: Tensor) -> None:
        slope = pyro.sample("slope", dist.Normal(0.0, 1.0))
        with pyro.plate("data", len(x)):
            pyro.sample("y", dist.Normal(slope * x, 1.0), obs=y)

    def by_sum(total: Tensor) -> None:
        precision = 1 + x.square().sum()
        pyro.sample("slope", dist.Normal(total / precision, precision**-0.5))

    def data(observed: dict[str, Tensor]) -> tuple[Tensor]:
        return ((x * observed["y"]).sum(),)

    y = torch.zeros(8)
    result = simulation_based_calibration(line, by_sum, x, y, data=data, simulations=60)
    assert result["calibrated"].all()


def test_fits_to_every_simulated_data_set() -> None:
    """By a step of Newton's method from where each fit starts; the caller's parameters stay."""

    def fit(x: Tensor) -> Callable[..., Any]:
        loc: Any = pyro.param("loc", torch.tensor(0.0))
        log_p = dist.Normal(0.0, 2.0).log_prob(loc) + dist.Normal(loc, 1.0).log_prob(x).sum()
        (slope,) = torch.autograd.grad(log_p, loc)
        with torch.no_grad():
            loc += POSTERIOR_SD**2 * slope
        return lambda x: pyro.sample("z", dist.Normal(loc, POSTERIOR_SD))

    pyro.param("loc", torch.tensor(7.0))
    result = simulation_based_calibration(model, None, DATA, fit=fit, simulations=60)
    assert result["calibrated"].all()
    assert float(pyro.param("loc").detach()) == 7.0


# -- models that take observed values from their arguments


def fed(y: Any, value: Callable[[Any], Tensor] = torch.as_tensor, drawn: bool = False) -> None:
    """An autoregression, whose `prev` is what was drawn or not."""
    a = pyro.sample("a", dist.Normal(0.0, 1.0))
    prev = torch.tensor(0.0)
    for t in range(len(y)):
        x = pyro.sample(f"y_{t}", dist.Normal(a * prev, 1.0), obs=value(y[t]))
        prev = x if drawn else value(y[t])


drawn_on = partial(fed, drawn=True)


def lagged(prev: Tensor, y: Tensor) -> None:
    a = pyro.sample("a", dist.Normal(0.0, 1.0))
    with pyro.plate("n", len(y)):
        pyro.sample("y", dist.Normal(a * prev, 1.0), obs=y)


def counts(y: Tensor) -> None:
    a = pyro.sample("a", dist.Normal(0.0, 0.3))
    with pyro.plate("n", len(y) - 1):
        rate = (a + 0.1 * y[:-1]).exp()
        pyro.sample("y", dist.Poisson(rate), obs=y[1:].float())


def exact_guide(*y: Tensor) -> None:
    """Of the slope of `drawn_on`."""
    now, before = torch.stack(y)[1:], torch.stack(y)[:-1]
    precision = 1 + before.square().sum()
    pyro.sample("a", dist.Normal((now * before).sum() / precision, precision**-0.5))


SERIES = torch.linspace(-1, 2, 6)
FED: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "numbers": (fed, (SERIES.tolist(),)),
    "computed": (fed, (SERIES, lambda y: (y - 1) / 2)),
    "lagged": (lagged, (SERIES[:-1], SERIES[1:])),
    "counts": (counts, (torch.tensor([1, 2, 0, 3, 1, 5]),)),
}


@pytest.mark.parametrize("name", FED)
def test_models_that_take_observed_values_from_elsewhere_are_refused(name: str) -> None:
    """The draws would have no effect, and the exact guide of the slope would fail."""
    of, args = FED[name]
    for run in (partial(simulation_based_calibration, simulations=2), Sleep().loss):
        with pytest.raises(ValueError, match=r"write prev = pyro|computes anew"):
            run(of, exact_guide, *args)


def test_what_is_drawn_stands_where_it_is_observed_for_as_long_as_it_is_simulated() -> None:
    """`prev = y[t]` is then what `pyro.sample` returns."""
    y = SERIES.clone()
    runs = [
        simulation_based_calibration(of, exact_guide, y, simulations=20) for of in (fed, drawn_on)
    ]
    xr.testing.assert_identical(*runs)
    assert torch.equal(y, SERIES)
    for args in ((y,), ([*y.clone()],)):
        seen = []
        for program in (fed, drawn_on):
            torch.manual_seed(2)
            with simulated(program, args, {}) as (*_, trace):
                trace.compute_log_prob()
                seen.append({k: v["log_prob"] for k, v in sample_sites(trace).items()})
        assert all(torch.equal(v, seen[1][k]) for k, v in seen[0].items())
    loss, result = Sleep(), []
    for of in (fed, drawn_on, drawn_on):  # with the look at what is observed and without
        torch.manual_seed(1)
        result.append(loss.loss(of, exact_guide, y))
    assert len({*result}) == 1

    def fails(y: Tensor) -> None:
        fed(y)
        raise KeyError

    with pytest.raises(KeyError), simulated(fails, (y,), {}):
        pass
    assert torch.equal(y, SERIES)


def test_arguments_that_share_memory_are_copied_together() -> None:
    def model(y: Tensor, x: Tensor) -> None:
        a = pyro.sample("a", dist.Normal(0.0, 1.0))
        for t in range(1, len(y)):
            pyro.sample(f"y_{t}", dist.Normal(a * x[t - 1], 1.0), obs=y[t])

    def of_slope(*y: Tensor) -> None:
        exact_guide(SERIES[0], *y)

    y = SERIES.clone()
    result = simulation_based_calibration(model, of_slope, y, y, simulations=50)
    assert result["calibrated"].all()
    assert torch.equal(y, SERIES), "as it was, and never written"
