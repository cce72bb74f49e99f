"""Importance weights of known tails, and what weights say of themselves that have none."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from plot_attractors.pareto import psis


def made(log_weight: np.ndarray) -> xr.DataTree:
    """A tree of log-weights (chain, draw, input)."""
    stats = xr.Dataset({"log_weight": (("chain", "draw", "input"), log_weight)})
    return xr.DataTree.from_dict({"sample_stats": stats})


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def test_psis_knows_the_tail_of_the_weights() -> None:
    """Weights with P(w > t) = t^(−1/k) have shape k; the sign of the logarithm is the weight's."""
    k = np.array([0.2, 0.5, 1.0])
    log_weight = k * np.random.default_rng(0).exponential(size=(2, 4000, 3))
    result = psis(made(log_weight))
    assert result["pareto_k"].dims == result["ess"].dims == ("chain", "input")
    np.testing.assert_allclose(result["pareto_k"].mean("chain"), k, atol=0.2)
    assert (result["ess"].diff("input") < 0).all()
    w = np.exp(log_weight[..., 0])
    raw = w.sum(1) ** 2 / (w**2).sum(1)
    np.testing.assert_allclose(result["ess"][:, 0], raw, rtol=0.01)  # a light tail stays as it is
    bounded = psis(made(-log_weight))["pareto_k"]
    assert (bounded < 0.15).all()


def test_psis_of_equal_weights_of_one_that_outweighs_all_and_of_few() -> None:
    log_weight = 1e-6 * normal(1, 100, 2)
    log_weight[0, 7, 1] = 2000
    with pytest.warns(
        UserWarning, match="NaN for 2 of 2 inputs: 100 draws of each, with 1 to 2 diff"
    ):
        result = psis(made(log_weight))
    np.testing.assert_allclose(result["ess"][0], [100, 1], rtol=1e-3)
    assert result["pareto_k"].isnull().all()
    assert result["distinct"].values.tolist() == [[1, 2]]
    with pytest.warns(UserWarning, match="24 draws of each"):
        result = psis(made(normal(2, 24, 3)))
    assert result["pareto_k"].isnull().all()
    assert result["ess"].notnull().all()


def test_psis_of_few_values_is_nan_in_every_draw_of_them() -> None:
    """Not ∞ or −∞ by where the tail happens to begin, and the rest is that of the plain weights."""
    values, p = [0.0, 0.5, 1.0], [0.8, 0.1, 0.1]
    log_weight = np.random.default_rng(0).choice(values, size=(1, 1000, 20), p=p)
    with pytest.warns(UserWarning, match="NaN for 20 of 20 inputs"):
        result = psis(made(log_weight))
    assert result["pareto_k"].isnull().all()
    w = np.exp(log_weight[0])
    np.testing.assert_allclose(result["ess"][0], w.sum(0) ** 2 / (w**2).sum(0))
    np.testing.assert_allclose(result["log_z"][0], np.log(w.mean(0)))


def test_psis_of_weights_that_recur_and_are_many() -> None:
    """One of many values is told apart by its 200 values; clipped weights have no tail."""
    with pytest.warns(UserWarning, match="NaN for 4 of 4 inputs"):
        assert psis(made(np.minimum(normal(1, 1000, 4), 0.8)))["pareto_k"].isnull().all()
    log_weight = 0.03 * np.round(normal(1, 1000, 4) / 0.03)
    result = psis(made(log_weight))
    smooth = psis(made(log_weight + 1e-4 * normal(1, 1000, 4, seed=1)))
    assert (result["distinct"] < 250).all()
    np.testing.assert_allclose(result["pareto_k"], smooth["pareto_k"], atol=0.2)


def test_psis_of_weights_that_are_no_numbers() -> None:
    log_weight = normal(1, 100, 2)
    log_weight[0, :4, 0] = np.nan, np.inf, np.nan, np.inf
    with pytest.warns(UserWarning, match="are NaN for 1 of 2 inputs: log-weights are NaN or inf"):
        result = psis(made(log_weight)).isel(chain=0)
    numbers = result.drop_vars("distinct").to_dataarray()
    assert numbers[:, 0].isnull().all()
    assert numbers[:, 1].notnull().all()


def test_psis_of_draws_that_are_impossible() -> None:
    """Of weight 0: log Z is that of the others, times their share."""
    log_weight = normal(1, 1000, 1)
    log_weight[0, :700] = -np.inf
    result = psis(made(log_weight)).isel(chain=0, input=0)
    assert result["elbo"] == -np.inf
    raw = np.exp(log_weight).mean()
    np.testing.assert_allclose(result["log_z"], np.log(raw), atol=0.03)
    assert result["pareto_k"] < 0.7


def test_psis_needs_no_inputs() -> None:
    """And tells the evidence of weights 1 / U^0.3, of mean 1 / 0.7, and how much it scatters."""
    log_weight = 700 + 0.3 * np.random.default_rng(0).exponential(size=(200, 1000))
    stats = xr.Dataset({"log_weight": (("chain", "draw"), log_weight)})
    result = psis(xr.DataTree.from_dict({"sample_stats": stats}))
    assert all(array.dims == ("chain",) for array in result.values())
    off = result["log_z"] - 700 + np.log(0.7)
    assert abs(float(off.mean())) < 0.005
    np.testing.assert_allclose(off.std(), result["log_z_error"].mean(), rtol=0.25)
    off = result["elbo"] - 700.3
    np.testing.assert_allclose(off.std(), result["elbo_error"].mean(), rtol=0.25)
