"""Samples of runs in ArviZ's layout: shapes and names, the way through a file, identities, and what
is refused.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import arviz as az
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import tomlkit
import torch
import xarray as xr
from pyro.distributions import Normal
from torch import Tensor, nn

from plot_attractors.data import Batch, HierarchicalBinaryVectors, read_table
from plot_attractors.evaluation import arviz as diagnostics
from plot_attractors.evaluation.arviz import (
    label_free,
    label_free_rhat,
    predictive_checks,
    psis,
    save,
    to_datatree,
    to_inferencedata,
)
from plot_attractors.evaluation.metrics import correct_bits, effective_sample_share, pareto_k
from plot_attractors.evaluation.sampling import path_log_weight
from plot_attractors.language import Language
from plot_attractors.model.attractor import SentenceEncoder
from plot_attractors.runs import Run, fit, registry

SMALL = {
    "pretrain": 2,
    "warm_up": 2,
    "cycles": 1,
    "e_updates": 2,
    "m_updates": 2,
    "final_e_updates": 2,
}


@pytest.fixture(scope="session")
def run_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("diagnostics") / "run"
    return fit("hbv", preset="smoke", out=out, settings=SMALL)


def reseeded(run: Path, out: Path, seed: int, **changes: Any) -> Path:
    """A copy of the run that claims another seed, and other settings."""
    shutil.copytree(run, out)
    config = tomlkit.parse((out / "config.toml").read_text(encoding="utf-8")).unwrap()
    config["run"]["seed"] = seed
    for key, value in changes.items():
        table = next(table for table in ("run", "model", "inference") if key in config[table])
        config[table][key] = value
    (out / "config.toml").write_text(tomlkit.dumps(config), encoding="utf-8")
    return out


@pytest.fixture(scope="session")
def seeds(run_path: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("seeds")
    return [run_path, reseeded(run_path, folder / "seven", 7)]


@pytest.fixture(scope="session")
def tree(seeds: list[Path]) -> xr.DataTree:
    return to_datatree(seeds, inputs=5, draws=30, states=True)


# The layout.


def test_groups_shapes_and_coordinates(tree: xr.DataTree) -> None:
    each = {"chain": 2, "draw": 30, "input": 5}
    expected = {
        "posterior": {
            "z": each | {"step": 21, "latent": 8},
            "tokens": each | {"token": 6},
            "info_loss": each,
        },
        "sample_stats": dict.fromkeys(["log_q", "log_reward", "log_weight", "length"], each),
        "log_likelihood": {"x": each},
        "posterior_predictive": {
            "x": each | {"bit": 16},
            "ones": each,
            "correct": each,
            "log_likelihood": each,
        },
        "observed_data": {"x": {"input": 5, "bit": 16}, "ones": {"input": 5}},
        "constant_data": {
            "c0": {"chain": 2, "input": 5},
            "split": {"input": 5},
            "y": {"input": 5},
            "class_name": {"input": 5},
            "labels": {"input": 5, "label": 3},
        },
    }
    found = {
        name: {variable: dict(array.sizes) for variable, array in tree[name].data_vars.items()}
        for name in tree.children
    }
    assert found == expected
    assert tree["posterior"]["chain"].values.tolist() == [0, 7]
    assert tree["posterior"]["token"].values.tolist() == list("ABCDEF")
    assert tree["posterior"]["step"].values.tolist() == list(range(21))
    assert tree["constant_data"]["label"].values.tolist() == ["branch1", "branch2", "branch3"]
    assert set(tree["constant_data"]["split"].values) == {"train"}
    data = HierarchicalBinaryVectors(3, 16)
    y = tree["constant_data"]["y"].values
    assert tree["constant_data"]["class_name"].values.tolist() == [data.class_names[k] for k in y]
    np.testing.assert_array_equal(tree["constant_data"]["labels"], data.paths[y])


def test_states_are_thinned_unless_asked_for(tree: xr.DataTree, seeds: list[Path]) -> None:
    thin = to_datatree(seeds, inputs=5, draws=30)
    assert thin["posterior"]["step"].values.tolist() == [0, 20]
    xr.testing.assert_identical(thin["posterior"]["z"], tree["posterior"]["z"].sel(step=[0, 20]))
    xr.testing.assert_identical(
        thin["sample_stats"].to_dataset(), tree["sample_stats"].to_dataset()
    )


def test_attributes_say_where_the_samples_are_from(tree: xr.DataTree, run_path: Path) -> None:
    run = Run(run_path)
    config = tomlkit.parse(tree.attrs["config"]).unwrap()
    assert config["model"] == run.config["model"]
    assert config["inference"] == run.config["inference"]
    assert config["run"] == {"program": "hbv", "inference": "gflownet_em"}
    assert json.loads(tree.attrs["seeds"]) == [0, 7]
    assert json.loads(tree.attrs["versions"])[0] == run.environment["versions"]
    assert json.loads(tree.attrs["commits"]) == [run.environment.get("commit", "")] * 2
    assert tree.attrs["inference_library"] == "plot_attractors"
    assert all(
        group.attrs["inference_library"] == "plot_attractors" for group in tree.children.values()
    )


def test_runs_see_the_same_inputs_and_make_draws_of_their_own(
    tree: xr.DataTree, run_path: Path
) -> None:
    alone = to_datatree(Run(run_path), inputs=5, draws=30, states=True)
    xr.testing.assert_equal(alone["observed_data"].to_dataset(), tree["observed_data"].to_dataset())
    for group in (
        "posterior",
        "sample_stats",
        "posterior_predictive",
    ):  # whatever other chains there are
        xr.testing.assert_equal(alone[group].to_dataset(), tree[group].to_dataset().sel(chain=[0]))
    z = tree["posterior"]["z"].isel(
        step=-1
    )  # the two chains are of the same weights, but not of the same draws
    assert not np.isclose(z.sel(chain=0), z.sel(chain=7)).any()
    torch.manual_seed(5)
    before = torch.get_rng_state()
    other = to_datatree(run_path, inputs=5, draws=30, seed=1)
    assert torch.equal(before, torch.get_rng_state())
    assert not np.array_equal(other["observed_data"]["x"], alone["observed_data"]["x"])


def test_held_out_inputs(run_path: Path) -> None:
    run = Run(run_path)
    tree = to_datatree(run, inputs=6, draws=2, split="held_out")
    assert set(tree["constant_data"]["y"].values) <= set(run.data.held_out_classes.tolist())
    assert set(tree["constant_data"]["split"].values) == {"held_out"}


def test_an_ordered_language_has_positions(run_path: Path) -> None:
    run = Run(run_path)
    model = run.model
    model.language = Language((2, 2), min_length=2, ordered=True)
    model.sentence_encoder = SentenceEncoder(model.language, model.latent)
    tree = to_datatree(run, inputs=3, draws=4)
    tokens = tree["posterior"]["tokens"]
    assert dict(tokens.sizes) == {"chain": 1, "draw": 4, "input": 3, "position": 2, "token": 4}
    assert (tokens.sum("token") == 1).all()
    assert (tree["sample_stats"]["length"] == 2).all()


def test_tables_without_labels(run_path: Path, tmp_path: Path) -> None:
    rows = torch.bernoulli(torch.full((30, 16), 0.5)).int().numpy()
    frame = pd.DataFrame(rows, columns=[f"c{k}" for k in range(16)])
    frame.to_csv(tmp_path / "table.csv", index=False)
    run = Run(run_path)
    run.data = read_table(tmp_path / "table.csv")
    tree = to_datatree(run, inputs=4, draws=2)
    assert tree["observed_data"]["bit"].values.tolist() == list(frame.columns)
    assert set(tree["constant_data"].data_vars) == {"c0", "split", "y"}
    y = tree["constant_data"]["y"].values
    np.testing.assert_array_equal(tree["observed_data"]["x"], rows[y])


# Identities.


@torch.no_grad()
def test_numbers_follow_from_the_stored_states(tree: xr.DataTree, run_path: Path) -> None:
    model = Run(run_path).model
    x = torch.tensor(tree["observed_data"]["x"].values).float()
    encoding = model.encode(x)
    posterior = tree["posterior"].to_dataset().isel(chain=0)
    stats = tree["sample_stats"].to_dataset().isel(chain=0)
    c0 = correct_bits(model.decoder(encoding.distribution.loc).logits, x)
    np.testing.assert_array_equal(tree["constant_data"]["c0"].isel(chain=0), c0)
    for draw in (0, 29):
        z = torch.tensor(posterior["z"].isel(draw=draw).transpose("step", "input", "latent").values)
        s = torch.tensor(posterior["tokens"].isel(draw=draw).values).float()
        torch.testing.assert_close(z[0], encoding.z0)
        at = stats.isel(draw=draw)
        log_w = path_log_weight(model, encoding, z, s)
        np.testing.assert_allclose(at["log_weight"], log_w, rtol=1e-4, atol=1e-3)
        np.testing.assert_array_equal(at["length"], s.sum(-1))
        log_r = model.log_reward(encoding.distribution, s)
        np.testing.assert_allclose(at["log_reward"], log_r, rtol=1e-4, atol=1e-4)
        log_q = model.sentence_given_state(z[-1], encoding.context).log_prob(s)
        for t in range(model.steps):
            log_q = log_q + model.forward_dynamics(z[t], float(t), encoding.context).log_prob(
                z[t + 1]
            ).sum(-1)
        np.testing.assert_allclose(at["log_q"], log_q, rtol=1e-4, atol=1e-3)
        decoder = model.decoder(z[-1])
        loss = c0 - correct_bits(decoder.logits, x)
        np.testing.assert_array_equal(posterior["info_loss"].isel(draw=draw), loss)
        log_p = tree["log_likelihood"]["x"].isel(chain=0, draw=draw)
        np.testing.assert_allclose(log_p, decoder.log_prob(x).sum(-1), rtol=1e-4)
        replicate = tree["posterior_predictive"].to_dataset().isel(chain=0, draw=draw)
        y = torch.tensor(replicate["x"].values).float()
        np.testing.assert_array_equal(replicate["correct"], correct_bits(decoder.logits, y))
        np.testing.assert_allclose(
            replicate["log_likelihood"], decoder.log_prob(y).sum(-1), rtol=1e-4
        )
    np.testing.assert_array_equal(
        tree["posterior_predictive"]["x"].sum("bit"), tree["posterior_predictive"]["ones"]
    )
    np.testing.assert_array_equal(
        tree["observed_data"]["x"].sum("bit"), tree["observed_data"]["ones"]
    )


class Wide(nn.Module):
    """Dynamics that forget the state and reach all embeddings."""

    def forward(self, z: Tensor, t: Tensor | float, context: Tensor | None = None) -> Normal:
        return Normal(torch.zeros_like(z), 0.6)


@torch.no_grad()
def test_mean_weight_is_the_evidence(run_path: Path) -> None:
    """E[w] = Z(x) = Σ_s R(s; x), whatever the dynamics; the weights of one wide step have little
    spread.
    """
    run = Run(run_path)
    model = run.model
    model.steps, model.epsilon, model.forward_dynamics = 1, 0.5, Wide()
    model.sentence_encoder.mean.weight.mul_(0.1)
    tree = to_datatree(run, inputs=4, draws=4000)
    x = torch.tensor(tree["observed_data"]["x"].values).float()
    log_z = model.log_reward(model.encode(x).distribution).logsumexp(-1)
    w = np.exp(
        tree["sample_stats"]["log_weight"].isel(chain=0).astype(float).transpose("draw", "input")
        - log_z.numpy()
    )
    error = w.std("draw") / np.sqrt(w.sizes["draw"])
    assert (error < 0.05).all()
    assert (abs(w.mean("draw") - 1) < 4 * error).all()


# The way through a file.


def test_arviz_reads_back_every_group_and_attribute(tree: xr.DataTree, tmp_path: Path) -> None:
    path = save(tree, tmp_path / "posterior.nc")
    assert path == tmp_path / "posterior.nc"
    assert [file.name for file in tmp_path.iterdir()] == ["posterior.nc"]
    data = az.from_netcdf(path)
    assert data.attrs == tree.attrs
    assert set(data.groups()) == set(tree.children)
    for name, group in tree.children.items():
        read = data[name].load()
        xr.testing.assert_identical(read, group.to_dataset())
        for variable, array in group.data_vars.items():
            if array.dtype.kind != "U":  # text comes back as objects
                assert read[variable].dtype == array.dtype
    save(tree, path)  # over a file that may be open
    again = to_inferencedata(tree)
    assert isinstance(again, az.InferenceData)
    assert again.attrs == tree.attrs
    xr.testing.assert_identical(again.posterior, tree["posterior"].to_dataset())
    for diagnose in (psis, label_free_rhat, predictive_checks):
        xr.testing.assert_allclose(diagnose(data), diagnose(tree))


def test_inferencedata_of_runs(run_path: Path) -> None:
    data = to_inferencedata(run_path, inputs=3, draws=4)
    assert dict(data.posterior["info_loss"].sizes) == {"chain": 1, "draw": 4, "input": 3}


# What is diagnosed.


def made(**variables: np.ndarray) -> xr.DataTree:
    """A tree of label-free quantities (chain, draw, input); those that are not given vary at
    random.
    """
    rng = np.random.default_rng(0)
    shape = next(iter(variables.values())).shape
    coords = {dim: np.arange(n) for dim, n in zip(("chain", "draw", "input"), shape, strict=True)}
    groups: dict[str, xr.Dataset] = {}
    for name, (group, variable) in diagnostics.LABEL_FREE.items():
        array = (("chain", "draw", "input"), variables.get(name, rng.normal(size=shape)))
        groups[group] = groups.get(group, xr.Dataset(coords=coords)).assign({variable: array})
    return xr.DataTree.from_dict(groups)


def test_rhat_is_one_for_equal_seeds_and_not_for_a_shifted_one() -> None:
    rng = np.random.default_rng(1)
    loss = rng.geometric(0.5, (4, 200, 6)) - 1.0
    weight = rng.normal(size=(4, 200, 6))
    weight[2, :, 3:] += 3
    rhat = label_free_rhat(made(info_loss=loss, log_weight=weight))
    assert set(rhat.data_vars) == set(diagnostics.LABEL_FREE)
    assert rhat["info_loss"].dims == ("input",)
    assert (rhat["info_loss"] < 1.02).all()
    assert (rhat["log_weight"][:3] < 1.02).all()
    assert (rhat["log_weight"][3:] > 1.1).all()


def test_rhat_of_one_seed_is_nan_and_says_why() -> None:
    with pytest.warns(UserWarning, match="two or more training seeds"):
        rhat = label_free_rhat(made(info_loss=np.random.default_rng(0).normal(size=(1, 50, 3))))
    assert rhat.to_dataarray().isnull().all()
    assert dict(rhat.sizes) == {"input": 3}


def test_rhat_of_what_never_varies_is_nan_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rhat = label_free_rhat(made(length=np.full((2, 50, 3), 6.0)))
    assert rhat["length"].isnull().all()
    assert rhat["info_loss"].notnull().all()


def test_codes_are_not_among_the_label_free(tree: xr.DataTree) -> None:
    assert set(label_free(tree).data_vars) == {
        "info_loss",
        "length",
        "log_reward",
        "log_weight",
        "log_likelihood",
    }


def test_psis_knows_the_tail_of_the_weights() -> None:
    """Weights with tail P(w > t) = t^(−1/k) have shape k; the sign of the logarithm is that of the
    weight.
    """
    k = np.array([0.2, 0.5, 1.0])
    log_weight = k * np.random.default_rng(0).exponential(size=(2, 4000, 3))
    found = psis(made(log_weight=log_weight))
    assert found["pareto_k"].dims == found["ess"].dims == ("chain", "input")
    np.testing.assert_allclose(found["pareto_k"].mean("chain"), k, atol=0.2)
    assert (found["ess"].diff("input") < 0).all()
    logs = torch.tensor(log_weight).transpose(1, 2)
    np.testing.assert_allclose(found["pareto_k"].values.ravel(), pareto_k(logs).numpy().ravel())
    raw = 4000 * effective_sample_share(logs).numpy()
    np.testing.assert_allclose(
        found["ess"].values[:, 0], raw[:, 0], rtol=0.01
    )  # a light tail stays as it is
    assert (
        psis(made(log_weight=-log_weight))["pareto_k"] < 0.15
    ).all()  # bounded weights have no tail


def test_psis_of_equal_weights_and_of_one_that_outweighs_all() -> None:
    rng = np.random.default_rng(0)
    log_weight = 1e-6 * rng.normal(size=(1, 100, 2))
    log_weight[0, 7, 1] = 2000
    ess = psis(made(log_weight=log_weight))["ess"].values[0]
    np.testing.assert_allclose(ess, [100, 1], rtol=1e-3)


def test_psis_of_few_draws_is_nan_and_says_why() -> None:
    with pytest.warns(UserWarning, match="NaN for 24 draws"):
        found = psis(made(log_weight=np.random.default_rng(0).normal(size=(2, 24, 3))))
    assert found["pareto_k"].isnull().all()
    assert found["ess"].notnull().all()


def test_predictive_checks_by_hand(tree: xr.DataTree) -> None:
    checks = predictive_checks(tree)
    assert dict(checks["p_value"].sizes) == {"statistic": 3, "chain": 2, "input": 5}
    ones = tree["posterior_predictive"]["ones"].values
    observed = tree["observed_data"]["ones"].values
    expected = (ones < observed).mean(1) + 0.5 * (ones == observed).mean(1)
    np.testing.assert_allclose(checks["p_value"].sel(statistic="ones"), expected)
    total = (ones.sum(2) < observed.sum()).mean(1) + 0.5 * (ones.sum(2) == observed.sum()).mean(1)
    np.testing.assert_allclose(checks["p_total"].sel(statistic="ones"), total)
    c_t = tree["constant_data"]["c0"] - tree["posterior"]["info_loss"]
    np.testing.assert_allclose(
        checks["observed"].sel(statistic="correct"), c_t.mean(["draw", "input"])
    )
    np.testing.assert_allclose(
        checks["replicated"].sel(statistic="log_likelihood"),
        tree["posterior_predictive"]["log_likelihood"].mean(["draw", "input"]),
        rtol=1e-6,
    )


def test_predictive_checks_find_inputs_that_the_decoder_cannot_make(run_path: Path) -> None:
    run = Run(run_path)
    data = run.data
    run.data = Flipped(data)
    p = predictive_checks(to_datatree(run, inputs=20, draws=40))["p_total"]
    assert (p.sel(statistic="ones") > 0.99).all()
    assert (p.sel(statistic="log_likelihood") < 0.01).all()


class Flipped:
    """Inputs of nothing but 1s, which no trained decoder expects."""

    def __init__(self, data: Any) -> None:
        self.bits, self.label_names, self.splits, self.data = data.bits, (), data.splits, data

    def batch(self, n: int, split: str = "train") -> Batch:
        batch = self.data.batch(n, split)
        return batch._replace(x=torch.ones_like(batch.x))


@pytest.mark.parametrize("kind", ["u_value", "p_value"])
def test_arviz_draws_predictive_checks(tree: xr.DataTree, kind: str) -> None:
    data = to_inferencedata(tree)
    az.plot_ppc(data, kind="cumulative", var_names=["ones"])
    az.plot_bpv(data, kind=kind, var_names=["ones"])
    plt.close("all")


# What is refused.


def test_runs_that_are_not_chains_of_one_model(run_path: Path, tmp_path: Path) -> None:
    twin = reseeded(run_path, tmp_path / "twin", 0)
    other = reseeded(run_path, tmp_path / "other", 1, kl_weight=0.1)
    wide = reseeded(run_path, tmp_path / "wide", 2, epsilon=0.1)
    exact = reseeded(run_path, tmp_path / "exact", 3, inference="exact_em")
    same = reseeded(run_path, tmp_path / "same", 4, preset="full", log_every=7)
    to_datatree([run_path, same], inputs=2, draws=2)  # what a preset stands for is written out
    for runs, sentence in [
        ([], "no runs"),
        ([run_path, twin], "both have the training seed 0"),
        (
            [run_path, other],
            r"kl_weight is 0.6 in .* and 0.1 in .*other: chains must be runs that differ",
        ),
        ([run_path, wide], "epsilon is 0.035 in .* and 0.1 in .*wide"),
        ([run_path, exact], "inference is 'gflownet_em' in .* and 'exact_em' in"),
        (tmp_path, "not the directory of a run"),
    ]:
        with pytest.raises(ValueError, match=sentence):
            to_datatree(runs, inputs=2, draws=2)


def test_runs_on_other_data_or_of_another_language(seeds: list[Path]) -> None:
    first, second = map(Run, seeds)
    second.data = HierarchicalBinaryVectors(3, 16, hold_out_seed=1)
    with pytest.raises(ValueError, match=r"the data of .* differ"):
        to_datatree([first, second], inputs=20, draws=2)
    second = Run(seeds[1])
    second.model.language = Language((2, 2, 2), min_length=0)
    with pytest.raises(ValueError, match="speak different languages"):
        to_datatree([first, second], inputs=2, draws=2)


def test_a_model_without_trajectories(run_path: Path) -> None:
    run = Run(run_path)
    run.model = nn.Linear(1, 1)
    with pytest.raises(ValueError, match="holds a Linear, which has no trajectories"):
        to_datatree(run)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"draws": 0}, "draws for each input must be a positive whole number, not 0"),
        ({"inputs": 0}, "inputs to draw must be a positive whole number, not 0"),
        ({"split": "test"}, "unknown split 'test'"),
    ],
)
def test_mistakes_in_options(run_path: Path, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        to_datatree(run_path, **{"inputs": 2, "draws": 2, **options})


# ArviZ is slow to import.


def test_neither_the_package_nor_the_command_imports_arviz() -> None:
    code = "import sys, plot_attractors, plot_attractors.cli; print('arviz' in sys.modules, 'xarray' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["False", "False"]


# The analysis, and the how-to.


def test_the_analysis_tabulates_what_its_file_holds(
    run_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = registry.load("analyses", "diagnostics")
    for name, value in {"INPUTS": 4, "DRAWS": 30, "WIDE_INPUTS": 20}.items():
        monkeypatch.setattr(program, name, value)
    run = Run(run_path)
    assert program.applies(run)
    program.analyze(run, tmp_path)
    data = az.from_netcdf(tmp_path / "posterior.nc")
    assert dict(data.posterior["info_loss"].sizes) == {"chain": 1, "draw": 30, "input": 4}
    table = pd.read_csv(tmp_path / "summary.csv")
    assert ",".join(table.columns) == (
        "input,y,info_loss,length,log_weight,pareto_k,ess,p_ones,p_correct,p_log_likelihood"
    )
    np.testing.assert_allclose(
        table["info_loss"], data.posterior["info_loss"].mean(["chain", "draw"])
    )
    np.testing.assert_allclose(table["ess"], psis(data)["ess"][0])
    checks = pd.read_csv(tmp_path / "checks.csv", index_col="statistic")
    found = predictive_checks(data)
    for name in ("observed", "replicated", "p_total"):
        np.testing.assert_allclose(checks[name], found[name].isel(chain=0), rtol=1e-6)
    assert {path.stem for path in tmp_path.glob("*.png")} == program.CAPTIONS.keys()


def test_the_how_to_runs(run_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (Path(__file__).parents[2] / "docs" / "how-to" / "diagnose.md").read_text(
        encoding="utf-8"
    )
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert len(blocks[0].strip().splitlines()) <= 10
    for seed in range(10, 15):
        reseeded(run_path, tmp_path / "runs" / f"hbv-{seed}", seed)
    monkeypatch.chdir(tmp_path)
    scope: dict[str, Any] = {}
    for block in blocks:
        exec(block, scope)
    assert plt.get_fignums()
    plt.close("all")
