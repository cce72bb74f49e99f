"""Every analysis on a run trained for a few updates: its columns, its bounds, its files."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from matplotlib.figure import Figure

from plot_attractors.analysis import sampling, style
from plot_attractors.data import read_table
from plot_attractors.runs import Run, fit, registry, tables
from plot_attractors.runs.analyze import analyze

from ..run_directory import lacking
from ..small import SETTINGS, Untrained, measured, random_decoder, untrained

ELSEWHERE = {"people"}
NAMES = sorted(SETTINGS.keys() - ELSEWHERE | {"data", "training"})


@pytest.fixture(scope="session")
def run_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fit("hbv", preset="smoke", out=tmp_path_factory.mktemp("analyses") / "run", log_every=5)


@pytest.fixture(scope="session")
def results(run_path: Path) -> Path:
    """The folder of all analyses of the smoke run, made with few inputs and draws."""
    others = [name for name in NAMES if name != "perturbation"]
    telling = Run(run_path)  # a few updates teach the decoder one answer to all
    with torch.random.fork_rng():
        torch.manual_seed(0)
        random_decoder(telling)
    settings = {name: SETTINGS[name] for name in others if name in SETTINGS}
    for result in [
        *analyze(run_path, others, settings=settings),
        *analyze(telling, ["perturbation"], settings={"perturbation": SETTINGS["perturbation"]}),
    ]:
        assert result.error is None, f"{result.name}: {result.error!r}"
    return run_path / "analyses"


def test_every_analysis_is_tested() -> None:
    assert set(NAMES) | ELSEWHERE == set(registry.names("analyses"))


def test_the_reference_names_every_file_and_column(results: Path, run_path: Path) -> None:
    assert lacking(run_path) == []
    table = results / "calibration" / "summary.csv"
    before = table.read_text(encoding="utf-8")
    try:
        table.write_text("another," + before, encoding="utf-8")
        (results / "data" / "another.npz").touch()
        expected = ["analyses/calibration/summary.csv: another", "analyses/data/another.npz"]
        assert lacking(run_path) == expected
    finally:
        table.write_text(before, encoding="utf-8")
        (results / "data" / "another.npz").unlink(missing_ok=True)


@pytest.mark.parametrize("name", NAMES)
def test_files_and_captions(results: Path, name: str) -> None:
    program = registry.load("analyses", name)
    assert not pd.read_csv(results / name / "summary.csv").empty
    pictures = {path.stem for path in (results / name).iterdir() if path.suffix in (".png", ".svg")}
    assert bool(pictures) is hasattr(program, "draw")
    assert pictures <= getattr(program, "CAPTIONS", {}).keys()


def test_distributions_of_information_loss_give_back_the_table(results: Path) -> None:
    table = pd.read_csv(results / "information_loss" / "summary.csv").set_index(["split", "steps"])
    distribution = pd.read_csv(results / "information_loss" / "distribution.csv")
    assert list(table.index.get_level_values("steps")) == [20, 40, 100] * 2
    assert table.groupby("split")["kl_exact"].nunique().eq(1).all()  # the control knows no steps
    for key, part in distribution.groupby(["split", "steps"]):
        d, f = part["d"].to_numpy(), part["sampler"].to_numpy()
        assert f.sum() == pytest.approx(1)
        assert part["exact"].sum() == pytest.approx(1)
        assert (d * f).sum() == pytest.approx(table.loc[key, "mean"])
        assert f[d < 0].sum() == pytest.approx(table.loc[key, "p_negative"])
        kept = f[d >= 0] / f[d >= 0].sum()
        k = d[d >= 0][kept > 0]
        kl = (kept[kept > 0] * np.log(kept[kept > 0] * 2.0 ** (k + 1))).sum()
        assert kl == pytest.approx(table.loc[key, "kl"])


def test_calibration_table(results: Path) -> None:
    table = pd.read_csv(results / "calibration" / "summary.csv")
    table, held_out = (table[table["split"] == split] for split in ("train", "held_out"))
    keys = ["steps", "statistic"]
    assert held_out[keys].to_numpy().tolist() == table[keys].to_numpy().tolist()
    wide = table.pivot(index="steps", columns="statistic", values="value")
    assert list(wide.index) == [20, 40, 100]
    needed = (
        "tv slope elbo log_z eubo ess_512 sentences_in_use tokens_in_use k_hat_512 "
        "distance tv_discretizer tv_policy tv_policy_resampled tv_brownian tv_encoder"
    )
    of_tv = [name for name in needed.split() if name.startswith("tv")]
    ends = {f"{name}_extrapolated{se}" for name in of_tv for se in ("", "_se")}
    assert {*needed.split(), *ends} == set(wide.columns)
    once = ["elbo", "eubo", "ess_512", "k_hat_512"]  # at T alone
    once += [*wide.filter(regex="tv_(policy|brownian|encoder)")]
    assert wide.loc[[40, 100], once].isna().all(axis=None)
    first = wide.loc[20]
    assert first[needed.split()].notna().all()  # few draws have nothing to extrapolate from
    assert first["elbo"] < first["log_z"] < first["eubo"]
    assert 1 / 512 <= first["ess_512"] <= 1
    # an untrained sampler is worse than the noise of exact draws
    floor = table[table["steps"] == 20].set_index("statistic")["floor"]
    for name in ("tv", "tv_discretizer", "distance"):
        assert floor[name] < first[name]


def test_perturbation_table(results: Path) -> None:
    table = pd.read_csv(results / "perturbation" / "summary.csv")
    factors = (0, 0.25, 0.5, 0.75, 1, 1.5, 2, 3)
    assert list(zip(table["start"], table["factor"], strict=True)) == [
        (start, factor) for start in ("used", "sampled") for factor in factors
    ]
    shares = table.drop(columns=["start", "factor"])
    assert shares.stack().between(0, 1).all()
    assert (table["recovered"] <= table["settled"]).all()
    assert (table["recovered_control"] <= table["settled_control"]).all()
    assert (shares[table["factor"] == 0].filter(like="control") == 1).all(axis=None)


def test_trajectories_table(results: Path) -> None:
    table = pd.read_csv(results / "trajectories" / "summary.csv")
    assert list(table["t"]) == [*range(101)] * 2
    assert (table[["low", "distance", "high"]].diff(axis=1).iloc[:, 1:] >= 0).all(axis=None)
    assert table["variance1"].between(0, 1).all()
    one = table[(table["panel"] == "B") & (table["t"] == 0)].iloc[0]
    assert one["low"] == pytest.approx(one["high"])  # all start at one z0


def test_sentences_tables(results: Path, run_path: Path) -> None:
    table = pd.read_csv(results / "sentences" / "sentences.csv")
    listed = table.groupby("class", sort=False)
    assert (listed["sampler"].sum() <= 1 + 1e-5).all()
    assert listed["sampler"].apply(lambda p: p.is_monotonic_decreasing).all()
    data, language = Run(run_path).data, Run(run_path).model.language
    assert set(table["sentence"]) <= {language.name(s) for s in language.sentences}
    summary = pd.read_csv(results / "sentences" / "summary.csv")
    assert list(summary["class"]) == list(listed.groups) == list(data.class_names)
    tokens = np.load(results / "sentences" / "classes.npz")["tokens"]
    pairs = tokens.reshape(len(summary), -1, 2)  # tokens of a pair exclude each other
    assert (pairs.sum(-1) <= 1 + 1e-5).all()
    np.testing.assert_allclose(tokens.sum(-1), summary["length"], rtol=1e-4)


def test_training_table_has_a_row_for_every_phase(results: Path, run_path: Path) -> None:
    table, run = pd.read_csv(results / "training" / "summary.csv"), Run(run_path)
    steps = run.metrics().set_index("step")[["phase", "cycle"]]
    assert [*zip(table["phase"], table["cycle"], strict=True)] == [
        phase for phase, _ in itertools.groupby(steps.itertuples(index=False, name=None))
    ]
    assert table["updates"].sum() == run.position[1]


def test_results_depend_on_the_seed_alone(run_path: Path, results: Path) -> None:
    folder = results / "information_loss"
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    torch.manual_seed(123)
    settings = {"information_loss": SETTINGS["information_loss"]}
    (result,) = analyze(run_path, ["information_loss"], settings=settings)
    assert result.error is None
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


# Other data and other models, without training.


@pytest.mark.parametrize("labels", [["family"], []])
def test_tables_with_and_without_labels(tmp_path: Path, labels: list[str]) -> None:
    run = untrained()
    rows = torch.bernoulli(torch.full((30, run.data.bits), 0.5)).int().numpy()
    frame = pd.DataFrame(rows, columns=[f"c{k}" for k in range(rows.shape[1])])
    if labels:
        frame["family"] = [("cats$", "dogs", "birds")[k % 3] for k in range(len(frame))]
    frame.to_csv(tmp_path / "table.csv", index=False)
    run.data = read_table(tmp_path / "table.csv", labels=labels)
    # the others ask nothing of the data but its inputs
    assert "trajectories.json" in measured("trajectories", run, **SETTINGS["trajectories"])
    tables = measured("sentences", run, **SETTINGS["sentences"])
    figures = registry.load("analyses", "sentences").draw(tables)
    assert set(figures) == {"sentences"}
    table = tables["sentences.csv"]
    assert sorted(table["class"].unique()) == (
        ["birds", "cats$", "dogs"] if labels else ["all inputs"]
    )


LARGE = {"language.groups": (2,) * 12}


def calibrated(run: Untrained) -> pd.DataFrame:
    program = registry.load("analyses", "calibration")
    config = program.Config(**{**SETTINGS["calibration"], "draws": 2000})
    table: pd.DataFrame = program.measure(run, config)["summary.csv"]
    return table.set_index(["split", "steps", "statistic"]).sort_index()


CLOSE = {"tv": 0.05, "log_z": 0.1}  # how close what is found without a list is to what is


@pytest.mark.parametrize("most", [1000, 10])
def test_calibration_needs_no_list_of_sentences(
    run_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    run = Run(run_path)
    listed = calibrated(run)
    monkeypatch.setattr(sampling, "MOST_SENTENCES", 10)
    monkeypatch.setattr(sampling, "MOST_SUMMED", most)
    run.model.exact_readout = False
    large = calibrated(run)
    for split in ("train", "held_out"):
        for steps in (20, 100):
            here, there = large.loc[split, steps], listed.loc[split, steps]
            expected = {"tv": there["value"]["tv_discretizer"], "log_z": there["value"]["log_z"]}
            for name, off in CLOSE.items():
                assert here["value"][name] == pytest.approx(expected[name], abs=off)
            assert here["floor"]["tv"] < 0.1
            noise = there["floor"]["distance"]
            assert here["floor"]["distance"] == pytest.approx(noise, rel=0.1)


def test_calibration_of_sentences_that_factor_is_that_of_listed_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at_cost = {"language.length_cost": 2.0}  # at which the posterior is not too narrow
    run = untrained("dsprites", token_axes=True, hold_out=False, **at_cost)

    def anywhere(model: Any, encoding: Any, draws: int, times: list[int]) -> list[torch.Tensor]:
        s = model.language.sentences[torch.randint(model.language.count, (len(encoding.z0), draws))]
        return [model.terminal_kernel(s).sample() for _ in times]

    # whose distributions are neither the posterior nor far from it
    monkeypatch.setattr(sampling, "states_at", anywhere)
    listed = calibrated(run).loc["train"]
    monkeypatch.setattr(sampling, "MOST_SENTENCES", 10)
    factored = calibrated(run).loc["train"]
    assert "slope" in listed.loc[20].index
    assert "slope" not in factored.loc[20].index
    for steps in (20, 100):
        for name, off in {**CLOSE, "tv_discretizer": 0.05}.items():
            expected = listed.loc[(steps, name), "value"]
            assert factored.loc[(steps, name), "value"] == pytest.approx(expected, abs=off)
        assert 0.2 < factored.loc[(steps, "tv"), "value"] < 0.8
        assert (factored.loc[steps]["floor"][["tv", "tv_discretizer"]] < 0.1).all()


@pytest.mark.parametrize("most", [100_000, 10])
def test_attractors_of_images_whether_or_not_sentences_are_listed(
    monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(sampling, "MOST_SENTENCES", most)
    run = untrained("dsprites", readout="discretizer")
    files = {"perturbation": "norms critical", "neighbours": "summary ends pairs"}
    pictures = {"perturbation": {"distances"}, "neighbours": {"neighbours"}}
    for name in files:
        tables = measured(name, run, **SETTINGS[name])
        stems = {file.removesuffix(".csv") for file in tables if file.endswith(".csv")}
        assert stems == set(files[name].split())
        assert registry.load("analyses", name).draw(tables).keys() == pictures[name]


def test_of_a_large_language_sentences_are_left_out_and_information_loss_is_not() -> None:
    run = untrained(**LARGE)
    assert not registry.load("analyses", "sentences").NEEDS.met(run)
    table = measured("information_loss", run, **SETTINGS["information_loss"])["summary.csv"]
    assert table["kl"].notna().all()
    assert table["kl_exact"].isna().all()


def test_a_figure_gives_the_same_bytes_twice(tmp_path: Path) -> None:
    def drawing() -> dict[str, Figure]:
        figures = {"a": Figure(), "b": Figure()}
        for figure in figures.values():
            figure.add_subplot().plot([0, 1], [1, 0], marker="o", clip_on=True)
        return figures

    tables.draw(drawing, tmp_path)
    for suffix in (".png", ".svg"):
        assert (tmp_path / f"a{suffix}").read_bytes() == (tmp_path / f"b{suffix}").read_bytes()


def test_users_text_is_no_formula_in_a_figure() -> None:
    assert style.plain("a$b$") == r"a\$b\$"
    assert style.plain("x" * 30) == "x" * 23 + "…"
