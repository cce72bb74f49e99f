"""Samples of runs in ArviZ's layout: identities, the analysis and the page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import arviz as az
import numpy as np
import pandas as pd
import pytest
import torch
import xarray as xr

from plot_attractors import runs
from plot_attractors.analysis.arviz import predictive_check, sample_run
from plot_attractors.analysis.sampling import path_log_weight
from plot_attractors.gflownet import psis
from plot_attractors.measures.information_loss import correct_bits
from plot_attractors.runs import Run, fit
from plot_attractors.runs.analyze import analyze

SUMMARY = "input y info_loss length log_reward log_weight pareto_k ess"
SMALL = {"pretrain": 2, "warm_up": 2, "cycles": 1, "e_updates": 2, "final_e_updates": 2}


@pytest.fixture(scope="session")
def run_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("diagnostics") / "run"
    return fit("hbv", preset="smoke", out=out, settings=SMALL)


def reseeded(path: Path, seed: int) -> Run:
    """The run, which claims another seed."""
    run = Run(path)
    run.config["run"]["seed"] = seed
    return run


@pytest.fixture(scope="session")
def tree(run_path: Path) -> xr.DataTree:
    return sample_run(Run(run_path), inputs=5, draws=30)


def test_runs_see_the_same_inputs_and_make_draws_of_their_own(
    tree: xr.DataTree, run_path: Path
) -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    twin = sample_run(reseeded(run_path, 7), inputs=5, draws=30)
    assert torch.equal(before, torch.get_rng_state())
    assert twin["observed_data"].to_dataset().equals(tree["observed_data"].to_dataset())
    # the two are of the same weights, but not of the same draws
    z, other = (of["posterior"]["z"].isel(step=-1) for of in (tree, twin))
    assert not np.isclose(z, other).any()


# Identities.


@torch.no_grad()
def test_numbers_follow_from_the_stored_states(tree: xr.DataTree, run_path: Path) -> None:
    model = Run(run_path).model
    x = torch.tensor(tree["observed_data"]["x"].values).float()
    encoding = model.encode(x)
    c0 = correct_bits(model.decoder(encoding.distribution.loc).logits, x)
    for draw in (0, 29):
        at = {g: tree[g].to_dataset().isel(chain=0, draw=draw)
              for g in ("posterior", "sample_stats", "log_likelihood")}  # fmt: skip
        posterior, stats = at["posterior"], at["sample_stats"]
        z = torch.tensor(posterior["z"].transpose("step", "input", "latent").values)
        s = torch.tensor(posterior["tokens"].values).float()
        torch.testing.assert_close(z[0], encoding.z0)
        np.testing.assert_array_equal(stats["length"], s.sum(-1))
        log_r = model.reward(encoding.distribution, None, s)
        np.testing.assert_allclose(stats["log_reward"], log_r, rtol=1e-4, atol=1e-4)
        decoder = model.decoder(z[-1])
        loss = c0 - correct_bits(decoder.logits, x)
        np.testing.assert_array_equal(posterior["info_loss"], loss)
        log_p = at["log_likelihood"]["x"]
        np.testing.assert_allclose(log_p, decoder.log_prob(x).sum(-1), rtol=1e-4)
    for group in ("posterior_predictive", "observed_data"):
        np.testing.assert_array_equal(tree[group]["x"].sum("bit"), tree[group]["ones"])


@torch.no_grad()
def test_densities_of_paths(run_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, drawn = Run(run_path), []
    model, simulated = run.model, run.model.trajectories

    def trajectories(*given: Any, **options: Any) -> torch.Tensor:
        drawn.append(simulated(*given, **options))
        return drawn[-1]

    monkeypatch.setattr(model, "trajectories", trajectories)
    tree = sample_run(run, inputs=3, draws=2)
    z = drawn[0].unflatten(1, (3, 2))[:, :, 1]  # of the second draw
    encoding = model.encode(torch.tensor(tree["observed_data"]["x"].values).float())
    stats = tree["sample_stats"].to_dataset().isel(chain=0, draw=1)
    s = torch.tensor(tree["posterior"]["tokens"].values)[0, 1].float()
    log_q = model.readout(z[-1], encoding.z0).log_prob(s)
    for t in range(model.steps):
        step = model.transition(z[t], float(t), encoding.z0)
        log_q = log_q + step.log_prob(z[t + 1]).sum(-1)
    np.testing.assert_allclose(stats["log_q"], log_q, rtol=1e-4, atol=1e-3)
    log_w = path_log_weight(model, encoding, z, s)
    np.testing.assert_allclose(stats["log_weight"], log_w, rtol=1e-4, atol=1e-3)


def test_a_predictive_check_by_hand(tree: xr.DataTree) -> None:
    ones, x = (
        tree[group]["ones"].values.sum(-1) for group in ("posterior_predictive", "observed_data")
    )
    expected = (ones < x).mean(1) + 0.5 * (ones == x).mean(1)
    np.testing.assert_allclose(predictive_check(tree)["p_total"], expected)


# The analysis, and the how-to.


def test_the_analysis_tabulates_what_its_file_holds(run_path: Path) -> None:
    small = {"inputs": 4, "draws": 30}
    (result,) = analyze(run_path, ["diagnostics"], settings={"diagnostics": small})
    assert result.error is None
    data = az.from_netcdf(result.out / "posterior.nc")
    loss = data["posterior"]["info_loss"]
    assert dict(loss.sizes) == {"chain": 1, "draw": 30, "input": 4}
    table = pd.read_csv(result.out / "summary.csv")
    assert list(table) == SUMMARY.split()
    np.testing.assert_allclose(table["info_loss"], loss.mean(["chain", "draw"]))
    np.testing.assert_allclose(table["ess"], psis(data)["ess"][0])
    check = pd.read_csv(result.out / "checks.csv").iloc[0]
    for name, value in predictive_check(data).isel(chain=0).items():
        np.testing.assert_allclose(check[name], value, rtol=1e-6)


def test_the_how_to_runs(run_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (Path(__file__).parents[2] / "docs" / "how-to" / "diagnose.md").read_text(
        encoding="utf-8"
    )
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    monkeypatch.setattr(runs, "Run", lambda name: reseeded(run_path, int(name[-2:])))
    monkeypatch.chdir(tmp_path)
    scope: dict[str, Any] = {}
    for block in blocks:
        exec(block, scope)
