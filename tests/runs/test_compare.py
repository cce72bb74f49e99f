"""Comparison of runs: which settings are shown, the numbers beside them, means over seeds."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import tomlkit
from typer.testing import CliRunner, Result

from plot_attractors import cli
from plot_attractors.cli.runs import markdown
from plot_attractors.runs.compare import compare

NUMBERS = {
    "kl": 0.25, "kl_exact": 0.02, "p": 0.45,
    "tv_geometric": 0.1, "p_negative": 0.05, "kl_held_out": 0.75,
    "p_held_out": 0.41, "mean_d": 1.25, "kl_5T": 0.5, "tv": 0.375,
    "tv_floor": 0.125, "tv_excess": 0.25, "tv_extrapolated": 0.3125, "tv_extrapolated_se": 0.01,
    "tv_held_out": 0.4375, "tv_extrapolated_5T": 0.5625, "k_hat_512": 0.7, "elbo": -9,
    "log_z": -5, "eubo": -3,
    "ess_512": 0.5, "slope": 0.75, "sentences_in_use": 400, "tokens_in_use": 12, "distance": 2,
    "tv_excess_5T": 0.5, "recovery": 0.875, "recovery_control": 0.125,
    "fixed_points": 0.625, "in_basins": 0.75, "in_basins_control": 0.25, "tv_brownian": 0.25,
    "tv_encoder": 0.375, "kl_control": 0.4,
    "minutes": 1.5, "seed": "0",
}  # fmt: skip


TABLES = {
    "information_loss": "split,steps,n,mean,p,kl,p_negative,kl_exact,"
    """kl_clamped,p_clamped,tv_geometric,kl_control
held_out,20,100,2.5,0.41,0.75,0.06,0.35,9,9,9,9
train,100,100,1.75,0.37,0.5,0.07,0.03,9,9,9,9
train,20,100,1.25,0.45,KL,0.05,0.02,0.3,0.5,0.1,0.4
""",
    "calibration": """split,steps,statistic,value,floor
train,20,tv,0.375,0.125\ntrain,20,slope,0.75,0.98\ntrain,20,sentences_in_use,COUNT,500
train,20,ess_512,0.5,1.0\ntrain,20,tokens_in_use,12,12\ntrain,100,tv,0.625,0.125
train,100,ess_512,,1.0\ntrain,100,sentences_in_use,9,9\ntrain,20,distance,2,0.5
train,100,distance,9,0.5\ntrain,20,tv_extrapolated,0.3125,0.0
train,20,tv_extrapolated_se,0.01,0.01\nheld_out,20,tv_extrapolated,0.4375,0.0
train,100,tv_extrapolated,0.5625,0.0\ntrain,20,k_hat_512,0.7,\ntrain,20,elbo,-9,-5
train,20,log_z,-5,-5\ntrain,20,eubo,-3,-5
train,20,tv_brownian_extrapolated,0.25,0\ntrain,20,tv_encoder_extrapolated,0.375,0
""",
    "basins": "attracting,data_at_embeddings,data_control\n0.625,0.75,0.25\n",
    "perturbation": """start,factor,norm,recovered,recovered_control
used,1.0,0,0.97,1\nused,1.5,0.2,0.875,0.125\nsampled,1.0,0,0.98,1\nsampled,1.5,0.3,0.9375,9
""",
}
LANGUAGE = {
    "decodability": """split,feature,kind,source,decoder,value
train,branch1,categorical,sentence,0,0.5\ntrain,mean of 4,categorical,sentence,0,0.75
train,mean of 4,categorical,state,0,0.1\ntrain,mean of 4,categorical,sentence,1,0.25
held_out,colour,categorical,sentence,0,0.25\nheld_out,shape,categorical,sentence,0,0.5
held_out,size,continuous,sentence,0,9\nposition,colour,categorical,sentence,0,0.75
""",
    "composition": """split,feature,kind,source,value
train,mean of 4,categorical,composed,0.875\ntrain,mean of 4,categorical,shuffled,0.5
held_out,colour,categorical,composed,0.625\nheld_out,size,continuous,composed,9
""",
    "language_measures": """measure,split,value
topographic_similarity,train,0.375\ntopographic_similarity,held_out,1
""",
    "diversity": """split,samples,n,k,mean,sigma
train,exact,256,1,3,4\ntrain,model,256,1,-inf,0\ntrain,model,256,1,-8,1
held_out,model,16,10,-1,1\ntrain,exact,16,10,-2,1\ntrain,model,256,10,-3,1
train,model,16,1,-4,1\ntrain,model,16,10,-7,0.125
""",
}


def add(run: Path, name: str, text: str) -> Path:
    """The summary of an analysis."""
    file = run / "analyses" / name / "summary.csv"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def make(
    folder: Path,
    *,
    model: dict[str, Any] | None = None,
    settings: dict[str, Any] | None = None,
    numbers: tuple[float, int] | None = (0.25, 400),
    seconds: float = 90.0,
    **changed: Any,
) -> Path:
    """A directory as `fit` and `analyze` leave it, without a checkpoint."""
    folder.mkdir(parents=True)
    run = {"data": "hbv", "program": "attractor", "inference": "gflownet_em"}
    config = {
        "run": {**run, "preset": "full", "seed": 0, "log_every": 100, **changed},
        "data": {"depth": 6, "bits": 128},
        "model": {"latent": 9, "epsilon": 0.125, **(model or {})},
        "inference": {"lr": 0.001, "tokens": [1, 2], **(settings or {})},
    }
    (folder / "config.toml").write_text(tomlkit.dumps(config))
    environment = {"ended": "2026-01-01T01:00:00+00:00", "seconds": seconds}
    (folder / "environment.json").write_text(json.dumps(environment))
    for name, text in TABLES.items() if numbers else ():
        kl, count = map(str, numbers or ())
        add(folder, name, text.replace("KL", kl).replace("COUNT", count))
    return folder


def settings_of(table: pd.DataFrame) -> list[str]:
    columns = list(table.columns)
    return columns[1 : columns.index("seed")]


def call(arguments: Iterable[str | Path]) -> Result:
    return CliRunner().invoke(cli.app, ["compare", *map(str, arguments)])


def test_numbers_of_one_run(tmp_path: Path) -> None:
    table = compare(make(tmp_path / "a"))
    assert settings_of(table) == []
    assert table.iloc[0].to_dict() == {"run": "a", **NUMBERS}


def test_numbers_of_language(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run = make(tmp_path / "a")
    for name, text in LANGUAGE.items():
        add(run, name, text)
    row = compare(run, topic="language").iloc[0]
    assert caplog.messages == []
    expected = {
        "accuracy": 0.5, "accuracy_held_out": 0.5, "composed": 0.875, "composed_held_out": 0.625,
        "shuffled": 0.5, "topographic_similarity": 0.375, "diversity": -math.inf,
        "diversity_sigma": 0, "diversity_16": -7,
        "minutes": 1.5,
    }  # fmt: skip
    assert row[list(expected)].to_dict() == expected
    assert math.isnan(row["receiver_accuracy"])
    shown = markdown(compare(run, topic="language"))
    assert "topographic_similarity" in shown
    assert "receiver_accuracy" not in shown  # of which nothing is known
    assert "| −∞ |" in shown
    with pytest.raises(ValueError, match=r"is dynamics or language, not 'sound'"):
        compare(run, topic="sound")


def test_settings_that_differ_in_all_programs_that_have_them_are_shown(tmp_path: Path) -> None:
    sleep = {"sleep": {"steps": 8, "walk": 1}}
    a = make(tmp_path / "a", settings={"lr": 0.01, "tokens": [1, 3], **sleep})
    b = make(tmp_path / "b", settings={"sleep": {"steps": 4, "walk": 1}}, preset="demo")
    c = make(tmp_path / "c", settings={"rate": 0.5}, inference="other_em")
    table = compare([a, b, c])
    shown = ["inference", "preset", "lr", "tokens", "sleep.steps"]
    assert settings_of(table) == shown
    assert table[["run", *shown]].values.tolist() == [
        ["a", "gflownet_em", "full", "0.01", "1,3", "8"],
        ["b", "gflownet_em", "demo", "0.001", "1,2", "4"],
        ["c", "other_em", "full", "0.001", "1,2", ""],
    ]


def test_runs_that_differ_in_the_seed_have_a_mean_and_a_standard_deviation(tmp_path: Path) -> None:
    paths = [
        make(tmp_path / f"a{seed}", seed=seed, numbers=(kl, sentences), log_every=100 + seed)
        for seed, kl, sentences in [(0, 0.1, 300), (1, 0.2, 310), (10, 0.6, 320)]
    ]
    paths.append(make(tmp_path / "b", seed=1, settings={"lr": 0.5}))  # alone: no mean
    table = compare(paths)
    both = ["mean of 3 seeds", "sd of 3 seeds"]
    assert table["run"].tolist() == ["a0", "a1", "a10", *both, "b"]
    assert table["seed"].tolist() == ["0", "1", "10", "", "", "1"]
    mean, sd = table.iloc[3], table.iloc[4]
    assert (mean["kl"], sd["kl"]) == pytest.approx((0.3, math.sqrt(0.14 / 2)))
    assert (mean["sentences_in_use"], sd["sentences_in_use"]) == (310, 10)
    again = make(tmp_path / "again", seed=10, numbers=None, seconds=30)
    table = compare([*paths[:3], again, again])  # a directory that is given twice is one run
    assert table["run"].tolist()[4] == "mean of 4 seeds"
    assert math.isnan(table["kl"][4])  # one of them lacks it
    assert table["minutes"][4] == 1.25


def test_missing_analyses_leave_cells_empty_and_the_command_that_makes_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = make(tmp_path / "my run", numbers=None)
    summary = add(run, "information_loss", TABLES["information_loss"].replace("KL", "0.25"))
    kept = [line for line in summary.read_text().splitlines() if not line.startswith("held_out")]
    summary.write_text("\n".join(kept))
    # without a summary an analysis may still have been made: of some models it has none
    (run / "analyses" / "perturbation").mkdir()
    with caplog.at_level(logging.WARNING, "plot_attractors"):
        row = compare(run).iloc[0]
    command = f"plot-attractors analyze '{run}' calibration basins --missing"
    assert caplog.messages == [f"{run} lacks calibration, basins: {command}"]
    assert row["kl"] == 0.25
    assert row[["kl_held_out", "tv", "tv_excess", "distance", "recovery"]].isna().all()


def test_the_command_writes_markdown_csv_and_hints_apart(tmp_path: Path) -> None:
    paths = [make(tmp_path / "a", settings={"lr": 0.5}), make(tmp_path / "b", numbers=None)]
    shown = call(paths)
    assert (shown.exit_code, shown.stdout) == (0, markdown(compare(paths)))
    assert shown.stderr.startswith(f"{paths[1]} lacks information_loss, calibration, perturbation")
    for name in ("out/table.md", "out/table.csv"):
        assert call([*paths, "-o", tmp_path / name]).exit_code == 0
    assert (tmp_path / "out/table.md").read_text(encoding="utf-8") == shown.stdout
    assert pd.read_csv(tmp_path / "out/table.csv")["lr"].tolist() == [0.5, 0.001]
