"""Samples of runs in ArviZ's layout: shapes and names, identities, and what is refused."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import arviz as az
import numpy as np
import pandas as pd
import pytest
import tomlkit
import torch
import xarray as xr

from plot_attractors.analysis.arviz import predictive_check, sample_run
from plot_attractors.analysis.sampling import path_log_weight
from plot_attractors.data import Batch, HierarchicalBinaryVectors, read_table
from plot_attractors.measures.information_loss import correct_bits
from plot_attractors.pareto import psis
from plot_attractors.runs import Run, fit, registry
from plot_attractors.runs.analyze import analyze
from plot_attractors.runs.store import load_checkpoint, save_checkpoint

from ..small import untrained

SUMMARY = "input y info_loss length log_reward log_weight pareto_k ess"
SMALL = {"pretrain": 2, "warm_up": 2, "cycles": 1, "e_updates": 2, "final_e_updates": 2}


@pytest.fixture(scope="session")
def run_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("diagnostics") / "run"
    return fit("hbv", preset="smoke", out=out, settings=SMALL)


def reseeded(run: Path, out: Path, seed: int) -> Path:
    """A copy of the run that claims another seed."""
    shutil.copytree(run, out)
    config = tomlkit.parse((out / "config.toml").read_text(encoding="utf-8")).unwrap()
    config["run"]["seed"] = seed
    checkpoint = load_checkpoint(out)
    (out / "config.toml").write_text(tomlkit.dumps(config), encoding="utf-8")
    save_checkpoint(out, checkpoint, config)
    return out


@pytest.fixture(scope="session")
def tree(run_path: Path) -> xr.DataTree:
    return sample_run(Run(run_path), inputs=5, draws=30, states=True)


# The layout.


def test_groups_shapes_and_coordinates(tree: xr.DataTree, run_path: Path) -> None:
    each = {"chain": 1, "draw": 30, "input": 5}
    expected = {
        "posterior": {
            "z": each | {"step": 21, "latent": 8},
            "tokens": each | {"token": 6},
            "info_loss": each,
        },
        "sample_stats": dict.fromkeys(["log_q", "log_reward", "log_weight", "length"], each),
        "log_likelihood": {"x": each},
        "posterior_predictive": {"x": each | {"bit": 16}, "ones": each},
        "observed_data": {"x": {"input": 5, "bit": 16}, "ones": {"input": 5}},
        "constant_data": {
            "y": {"input": 5},
            "name": {"input": 5},
            "labels": {"input": 5, "label": 3},
        },
    }
    result = {
        name: {variable: dict(array.sizes) for variable, array in tree[name].data_vars.items()}
        for name in tree.children
    }
    assert result == expected
    assert tree["posterior"]["chain"].values.tolist() == [0]
    assert tree["posterior"]["token"].values.tolist() == list("ABCDEF")
    assert tree["posterior"]["step"].values.tolist() == list(range(21))
    assert tree["constant_data"]["label"].values.tolist() == ["branch1", "branch2", "branch3"]
    data = HierarchicalBinaryVectors(3, 16)
    y = tree["constant_data"]["y"].values
    assert tree["constant_data"]["name"].values.tolist() == [data.class_names[k] for k in y]
    np.testing.assert_array_equal(tree["constant_data"]["labels"], data.paths[y])
    config = tomlkit.parse(tree.attrs["config"]).unwrap()
    assert all(config[table] == Run(run_path).config[table] for table in ("model", "inference"))
    thin = sample_run(Run(run_path), inputs=5, draws=30)  # without `states`
    xr.testing.assert_identical(thin["posterior"]["z"], tree["posterior"]["z"].sel(step=[0, 20]))


def test_runs_see_the_same_inputs_and_make_draws_of_their_own(
    tree: xr.DataTree, run_path: Path, tmp_path: Path
) -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    twin = sample_run(Run(reseeded(run_path, tmp_path / "seven", 7)), inputs=5, draws=30)
    assert torch.equal(before, torch.get_rng_state())
    assert twin["observed_data"].to_dataset().equals(tree["observed_data"].to_dataset())
    # the two are of the same weights, but not of the same draws
    z, other = (of["posterior"]["z"].isel(step=-1) for of in (tree, twin))
    assert not np.isclose(z, other).any()
    other = sample_run(Run(run_path), inputs=5, draws=30, seed=1, split="held_out")
    assert {*other["constant_data"]["y"].values} <= {*Run(run_path).data.held_out_classes.tolist()}


def test_an_ordered_language_has_positions(run_path: Path) -> None:
    run = Run(run_path)
    run.model = untrained(
        "sequences", **{"language.groups": (2, 2), "language.max_length": 2}
    ).model
    tree = sample_run(run, inputs=3, draws=4)
    tokens = tree["posterior"]["tokens"]
    assert dict(tokens.sizes) == {"chain": 1, "draw": 4, "input": 3, "position": 2, "token": 4}
    assert (tokens.sum("token") <= 1).all()
    assert ((tokens.sum("token") == 1).sum("position") == tree["sample_stats"]["length"]).all()


def test_names_of_rows(run_path: Path, tmp_path: Path) -> None:
    rows = torch.bernoulli(torch.full((30, 16), 0.5)).int().numpy()
    frame = pd.DataFrame(rows, columns=[f"c{k}" for k in range(16)])
    frame.assign(animal=[f"animal {k}" for k in range(30)]).to_csv(tmp_path / "table.csv")
    run = Run(run_path)
    run.data = read_table(tmp_path / "table.csv", names="animal")
    tree = sample_run(run, inputs=9, draws=2)
    known = tree["constant_data"]
    assert {*known.data_vars} == {"name", "y"}
    assert known["name"].values.tolist() == [f"animal {k}" for k in known["y"].values]
    assert tree["observed_data"]["bit"].values.tolist() == list(frame.columns)
    np.testing.assert_array_equal(tree["observed_data"]["x"], rows[known["y"].values])


# Identities.


@torch.no_grad()
def test_numbers_follow_from_the_stored_states(tree: xr.DataTree, run_path: Path) -> None:
    model = Run(run_path).model
    x = torch.tensor(tree["observed_data"]["x"].values).float()
    encoding = model.encode(x)
    posterior = tree["posterior"].to_dataset().isel(chain=0)
    stats = tree["sample_stats"].to_dataset().isel(chain=0)
    c0 = correct_bits(model.decoder(encoding.distribution.loc).logits, x)
    for draw in (0, 29):
        z = torch.tensor(posterior["z"].isel(draw=draw).transpose("step", "input", "latent").values)
        s = torch.tensor(posterior["tokens"].isel(draw=draw).values).float()
        torch.testing.assert_close(z[0], encoding.z0 + model.onset.vector)
        at = stats.isel(draw=draw)
        log_w = path_log_weight(model, encoding, z, s)
        np.testing.assert_allclose(at["log_weight"], log_w, rtol=1e-4, atol=1e-3)
        np.testing.assert_array_equal(at["length"], s.sum(-1))
        log_r = model.reward(encoding.distribution, None, s)
        np.testing.assert_allclose(at["log_reward"], log_r, rtol=1e-4, atol=1e-4)
        log_q = model.readout(z[-1], encoding.z0).log_prob(s)
        for t in range(model.steps):
            log_q = log_q + model.forward_dynamics(z[t], float(t), encoding.z0).log_prob(
                z[t + 1]
            ).sum(-1)
        np.testing.assert_allclose(at["log_q"], log_q, rtol=1e-4, atol=1e-3)
        decoder = model.decoder(z[-1])
        loss = c0 - correct_bits(decoder.logits, x)
        np.testing.assert_array_equal(posterior["info_loss"].isel(draw=draw), loss)
        log_p = tree["log_likelihood"]["x"].isel(chain=0, draw=draw)
        np.testing.assert_allclose(log_p, decoder.log_prob(x).sum(-1), rtol=1e-4)
    for group in ("posterior_predictive", "observed_data"):
        np.testing.assert_array_equal(tree[group]["x"].sum("bit"), tree[group]["ones"])


def test_a_predictive_check_by_hand(tree: xr.DataTree) -> None:
    ones, x = (
        tree[group]["ones"].values.sum(-1) for group in ("posterior_predictive", "observed_data")
    )
    expected = (ones < x).mean(1) + 0.5 * (ones == x).mean(1)
    np.testing.assert_allclose(predictive_check(tree)["p_total"], expected)


def test_a_predictive_check_finds_inputs_that_the_decoder_cannot_make(run_path: Path) -> None:
    run = Run(run_path)
    data = run.data
    run.data = Flipped(data)
    p = predictive_check(sample_run(run, inputs=20, draws=40))["p_total"]
    assert (p > 0.99).all()


class Flipped:
    """Inputs of nothing but 1s, which no trained decoder expects."""

    def __init__(self, data: Any) -> None:
        self.bits, self.label_names, self.splits, self.data = data.bits, (), data.splits, data

    def batch(self, n: int, split: str = "train") -> Batch:
        batch = self.data.batch(n, split)
        return batch._replace(x=torch.ones_like(batch.x))


# ArviZ is slow to import.


def test_neither_the_package_nor_the_command_imports_arviz() -> None:
    code = "import sys, plot_attractors.cli; print(*{'arviz', 'xarray'} & {*sys.modules})"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert not result.stdout.split()


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


@pytest.mark.parametrize("factored", [True, False])
def test_the_analysis_of_sprites(run_path: Path, factored: bool) -> None:
    tokens = {"language.groups": (1,) * 24, "language.max_length": 7}
    sprites, run = untrained("dsprites", token_axes=factored, **tokens), Run(run_path)
    run.data, run.model = sprites.data, sprites.model
    assert run.model.posterior.factored == factored
    program = registry.load("analyses", "diagnostics")
    tables = program.measure(run, program.Config(inputs=3, draws=30))
    assert list(tables["summary.csv"]) == [k for k in SUMMARY.split() if k != "info_loss"]
    assert np.isfinite(tables["summary.csv"].drop(columns="pareto_k")).all(axis=None)
    assert tables["summary.csv"]["pareto_k"].notna().all()  # infinite, as nothing is trained
    assert tables["summary.csv"]["ess"].between(1, 30).all()
    assert len(program.draw(tables)["diagnostics"].axes) == 1


def test_the_how_to_runs(run_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (Path(__file__).parents[2] / "docs" / "how-to" / "diagnose.md").read_text(
        encoding="utf-8"
    )
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    for seed in range(10, 15):
        reseeded(run_path, tmp_path / "runs" / f"hbv-{seed}", seed)
    monkeypatch.chdir(tmp_path)
    scope: dict[str, Any] = {}
    for block in blocks:
        exec(block, scope)
