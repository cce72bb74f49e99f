"""Importance weights of known tails, and of none."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from plot_attractors.gflownet import psis


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
    np.testing.assert_allclose(result["pareto_k"].mean("chain"), k, atol=0.2)
    assert (result["ess"].diff("input") < 0).all()
    assert (psis(made(-log_weight))["pareto_k"] < 0.15).all()


NO_TAIL = {
    "of an exact guide": 1e-6 * normal(1, 100, 4),
    "one outweighs all": np.where(np.arange(100)[:, None] == 7, 100.0, 1e-6 * normal(1, 100, 4)),
    "24 draws": normal(1, 24, 4),
    "few values": 0.5 * np.random.default_rng(0).binomial(2, 0.2, size=(1, 1000, 4)),
    "clipped": np.minimum(normal(1, 1000, 4), 0.8),
}


@pytest.mark.parametrize("kind", NO_TAIL)
def test_weights_without_a_tail_stay_as_they_are(kind: str) -> None:
    """And k̂ is not ∞ or −∞ by where the tail happens to begin."""
    with pytest.warns(UserWarning, match=r"NaN for 4 of 4 inputs: \d+ draws of each have no tail"):
        result = psis(made(NO_TAIL[kind])).isel(chain=0)
    assert result["pareto_k"].isnull().all()
    w = np.exp(NO_TAIL[kind][0])
    np.testing.assert_allclose(result["ess"], w.sum(0) ** 2 / (w**2).sum(0))
    np.testing.assert_allclose(result["log_z"], np.log(w.mean(0)), atol=1e-9)


def test_weights_that_recur_and_are_many_have_a_tail() -> None:
    log_weight = 0.03 * np.round(normal(1, 1000, 4) / 0.03)
    result, smooth = (psis(made(log_weight + s * normal(1, 1000, 4, seed=1))) for s in (0, 1e-4))
    np.testing.assert_allclose(result["pareto_k"], smooth["pareto_k"], atol=0.2)


def test_weights_that_are_no_numbers() -> None:
    log_weight = normal(1, 100, 4)
    log_weight[0, :4, 0] = np.nan, np.inf, np.nan, np.inf
    log_weight[0, 99, 1], log_weight[..., 2] = np.nan, np.inf
    with pytest.warns(UserWarning, match="are NaN for 3 of 4 inputs: log-weights are NaN or inf"):
        numbers = psis(made(log_weight)).isel(chain=0).to_dataarray()
    assert numbers[:, :3].isnull().all()
    assert numbers[:, 3].notnull().all()


def test_the_evidence_and_how_much_it_scatters() -> None:
    """Of weights 1 / U^0.3, of mean 1 / 0.7, and where 30 % of the draws are impossible, 1."""
    random = np.random.default_rng(0)
    log_weight = 700 + 0.3 * random.exponential(size=(200, 1000, 2))
    log_weight[..., 1][random.uniform(size=(200, 1000)) < 0.3] = -np.inf
    result = psis(made(log_weight))
    off = result["log_z"] - 700 + np.log([0.7, 1.0])
    assert (abs(off.mean("chain")) < 0.005).all()
    np.testing.assert_allclose(off.std("chain"), result["log_z_error"].mean("chain"), rtol=0.25)
    off = result["elbo"][:, 0] - 700.3
    assert abs(float(off.mean())) < 0.005
    np.testing.assert_allclose(off.std(), result["elbo_error"][:, 0].mean(), rtol=0.25)
    assert (result["elbo"][:, 1] == -np.inf).all()
    assert (result["pareto_k"] < 0.7).all()
