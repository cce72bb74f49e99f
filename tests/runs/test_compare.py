"""Comparison of runs: which settings are shown, the numbers beside them, means over seeds, and the
command.
"""

from __future__ import annotations

import io
import json
import logging
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import tomlkit
from rich.console import Console
from typer.testing import CliRunner, Result

from plot_attractors.runs import analyze as analysis
from plot_attractors import cli
from plot_attractors.runs.analyze import AnalysisResult
from plot_attractors.runs.compare import HEADLINES, compare, to_markdown, to_tables

LOSS = "split,steps,n,mean,p,p_low,p_high,kl,kl_low,kl_high,p_zero,p_negative,kl_exact"


def write_loss(run: Path, kl: float) -> None:
    folder = run / "analyses" / "information_loss"
    folder.mkdir(parents=True)
    rows = [
        f"held_out,20,100,2.5,0.41,0,1,{kl + 0.5},0,1,0.4,0.06,0.35",
        f"train,100,100,1.75,0.37,0,1,{kl + 0.25},0,1,0.4,0.07,0.03",  # steps in no order
        f"train,20,100,1.25,0.45,0,1,{kl},0,1,0.5,0.05,0.02",
    ]
    (folder / "summary.csv").write_text("\n".join([LOSS, *rows]) + "\n")


def write_calibration(run: Path, tv: float, sentences: int) -> None:
    folder = run / "analyses" / "calibration"
    folder.mkdir(parents=True)
    rows = [f"20,tv,{tv},0.125", "20,slope,0.75,0.98", f"20,sentences_in_use,{sentences},500", "20,ess,0.5,1.0"]
    rows += ["20,tokens_in_use,12,12", f"100,tv,{tv + 0.25},0.125", "100,ess,,1.0", "100,sentences_in_use,9,9"]
    rows += ["20,distance_to_embedding,0.75,0.5", "100,distance_to_embedding,9,0.5"]
    (folder / "summary.csv").write_text("\n".join(["steps,statistic,value,floor", *rows]) + "\n")


def write_perturbation(run: Path) -> None:
    folder = run / "analyses" / "perturbation"
    folder.mkdir(parents=True)
    rows = ["used,0.0,0,0.97", "used,1.0,0.2,0.875", "used,2.0,0.4,0.5", "sampled,0.0,0,0.98", "sampled,1.0,0.3,0.9375"]
    (folder / "summary.csv").write_text("\n".join(["start,factor,norm,recovered", *rows]) + "\n")


def make(
    folder: Path,
    *,
    program: str = "hbv",
    inference: str = "gflownet_em",
    preset: str = "full",
    seed: int = 0,
    model: dict[str, Any] | None = None,
    settings: dict[str, Any] | None = None,
    numbers: tuple[float, float, int] | None = (0.25, 0.375, 400),
    seconds: float = 90.0,
    log_every: int = 100,
) -> Path:
    """A directory as `fit` and `analyze` leave it, without a checkpoint."""
    folder.mkdir(parents=True)
    run = {"program": program, "inference": inference, "preset": preset, "seed": seed, "log_every": log_every}
    config = {
        "run": run,
        "model": {"depth": 6, "bits": 128, "latent": 9, "epsilon": 0.125, **(model or {})},
        "inference": {"lr": 0.001, "tokens": [1, 2], **(settings or {})},
    }
    (folder / "config.toml").write_text(tomlkit.dumps(config))
    environment = {"started": "2026-01-01T00:00:00+00:00", "ended": "2026-01-01T01:00:00+00:00", "seconds": seconds}
    (folder / "environment.json").write_text(json.dumps(environment))
    if numbers is not None:
        kl, tv, sentences = numbers
        write_loss(folder, kl)
        write_calibration(folder, tv, sentences)
        write_perturbation(folder)
    return folder


def settings_of(table: pd.DataFrame) -> list[str]:
    columns = list(table.columns)
    return columns[2 : columns.index("kl")]


def of_kind(table: pd.DataFrame, kind: str) -> pd.DataFrame:
    return table[table["kind"] == kind]


def call(arguments: Iterable[str | Path]) -> Result:
    return CliRunner().invoke(cli.app, ["compare", *map(str, arguments)])


def test_numbers_of_one_run(tmp_path: Path) -> None:
    table = compare(make(tmp_path / "a"))
    assert table.shape == (1, 23)
    assert settings_of(table) == []
    expected = {
        "kl": 0.25, "kl_exact": 0.02, "p": 0.45, "p_negative": 0.05, "kl_held_out": 0.75, "p_held_out": 0.41,
        "mean_d": 1.25, "kl_5T": 0.5,
        "mean_d_5T": 1.75, "tv": 0.375, "tv_floor": 0.125, "tv_excess": 0.25, "ess": 0.5, "slope": 0.75,
        "sentences_in_use": 400, "tokens_in_use": 12, "distance": 2, "tv_excess_5T": 0.5, "recovery": 0.875,
        "recovery_sampled": 0.9375, "minutes": 1.5,
    }  # fmt: skip
    assert table.iloc[0].to_dict() == {"kind": "run", "run": "a", **expected}


def test_numbers_of_language(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run = make(tmp_path / "a")
    tables = {
        "decodability": "split,feature,kind,source,decoder,value\n"
        "train,branch1,categorical,sentence,0,0.5\ntrain,mean of 4,categorical,sentence,0,0.75\n"
        "train,mean of 4,categorical,state,0,0.1\ntrain,mean of 4,categorical,sentence,1,0.25\n"
        "held_out,colour,categorical,sentence,0,0.25\nheld_out,shape,categorical,sentence,0,0.5\n"
        "held_out,size,continuous,sentence,0,9\nposition,colour,categorical,sentence,0,0.75\n",
        "composition": "split,feature,kind,source,value\ntrain,mean of 4,categorical,composed,0.875\n"
        "train,mean of 4,categorical,shuffled,0.5\nheld_out,colour,categorical,composed,0.625\n"
        "held_out,size,continuous,composed,9\n",
        "similarity": "measure,split,value\nposdis,train,0.25\ntopographic_similarity,train,0.375\nposdis,held_out,1\n",
        "diversity": "split,samples,mean,sigma\ntrain,exact,3,4\ntrain,model,-inf,0\ntrain,model,-8,1\n"
        "held_out,model,-9.5,0.5\nheld_out,model,-99,0.5\nposition,model,-10.5,0.5\n",
    }
    for name, text in tables.items():
        (run / "analyses" / name).mkdir()
        (run / "analyses" / name / "summary.csv").write_text(text)
    before = compare(run, topic="language")
    assert before[["diversity_16", "diversity_16_sigma"]].isna().all(axis=None)
    (run / "analyses" / "diversity" / "dependence.csv").write_text(
        "split,samples,n,k,temperature,points,mean,sigma\nheld_out,model,16,10,1.0,probabilities,-1,1\n"
        "train,exact,16,10,1.0,probabilities,-2,1\ntrain,model,256,10,1.0,probabilities,-3,1\n"
        "train,model,16,1,1.0,probabilities,-4,1\ntrain,model,16,10,2.0,probabilities,-5,1\n"
        "train,model,16,10,1.0,log-probabilities,-6,1\ntrain,model,16,10,1.0,probabilities,-7,0.125\n"
    )
    row = compare(run, topic="language").iloc[0]
    assert caplog.messages == []
    expected = {
        "accuracy": 0.5, "accuracy_held_out": 0.5, "composed": 0.875, "composed_held_out": 0.625, "shuffled": 0.5,
        "topographic_similarity": 0.375, "posdis": 0.25, "diversity": -math.inf, "diversity_sigma": 0,
        "diversity_held_out": -10, "diversity_16": -7, "diversity_16_sigma": 0.125, "minutes": 1.5,
    }  # fmt: skip
    assert row[list(expected)].to_dict() == expected
    assert row[["bosdis", "mutual_information"]].isna().all()
    shown = to_markdown(compare(run, topic="language")).splitlines()[0]
    assert "posdis" in shown
    assert "bosdis" not in shown  # of which nothing is known
    of_one = pd.DataFrame({"run": ["a", "b"], "kind": "run", "posdis": 1.0, "bosdis": [1.0, math.nan]})
    assert "| posdis | bosdis |" in to_markdown(of_one)
    of_features = compare(run, topic="features")
    beside = ["colour (held_out)", "shape (held_out)", "size (held_out)", "colour (position)"]
    values = of_features.iloc[0][["branch1", *beside]]
    assert values.tolist() == [0.5, 0.25, 0.5, 9, 0.75]
    assert list(of_features.columns) == ["kind", "run", *values.index, "minutes"]
    assert "| 0.500 | 0.250 | 0.500 | 9.000 | 0.750 |" in to_markdown(of_features)
    assert "| −∞ |" in to_markdown(compare(run, topic="language"))
    assert math.isnan(compare(make(tmp_path / "b"), topic="language").iloc[0]["accuracy"])
    assert caplog.messages[0].endswith(
        "lacks decodability, composition, similarity and diversity: plot-attractors analyze "
        f"{tmp_path / 'b'} decodability composition similarity diversity"
    )
    with pytest.raises(ValueError, match=r"the topic of a comparison is dynamics, language or features, not 'sound'"):
        compare(run, topic="sound")


def test_only_settings_that_differ_are_shown(tmp_path: Path) -> None:
    a = make(tmp_path / "a", settings={"lr": 0.01, "tokens": [1, 3]})
    b = make(tmp_path / "b", settings={"lr": 0.002}, preset="demo", log_every=7)
    table = compare([a, b])
    assert settings_of(table) == ["preset", "lr", "tokens"]
    assert table[["run", "preset", "lr", "tokens"]].values.tolist() == [
        ["b", "demo", 0.002, "1,2"],
        ["a", "full", 0.01, "1,3"],
    ]


def test_a_setting_of_another_program_is_no_difference(tmp_path: Path) -> None:
    a = make(tmp_path / "a", settings={"alpha": 2})
    b = make(tmp_path / "b", inference="exact_em", settings={"rate": 0.5})
    assert settings_of(compare([a, b])) == ["inference"]
    c = make(tmp_path / "c", settings={"alpha": 3})
    table = compare([a, b, c])
    assert settings_of(table) == ["inference", "alpha"]
    assert table["alpha"].tolist() == [None, 2, 3]  # whole numbers stay whole
    # A run from before a program had a setting differs from a run that has it.
    d = make(tmp_path / "d")
    assert settings_of(compare([a, d])) == ["alpha"]


def test_a_setting_named_like_a_number_has_a_column_of_its_own(tmp_path: Path) -> None:
    table = compare([make(tmp_path / name, model={"kl": name}) for name in "ab"])
    assert table["kl (model)"].tolist() == ["a", "b"]
    assert table["kl"].tolist() == [0.25, 0.25]


def test_programs_and_runs_are_named_by_their_last_part_unless_two_share_it(tmp_path: Path) -> None:
    a = make(tmp_path / "x" / "run", program="/one/mine.py")
    b = make(tmp_path / "y" / "run", program="/two/theirs.py")
    table = compare([a, b])
    assert table["program"].tolist() == ["mine", "theirs"]
    assert table["run"].tolist() == [str(a.resolve()), str(b.resolve())]
    c = make(tmp_path / "c", program="/three/mine.py")
    assert compare([a, c])["program"].tolist() == ["/one/mine.py", "/three/mine.py"]


def test_runs_that_differ_in_the_seed_have_a_mean_and_a_standard_deviation(tmp_path: Path) -> None:
    paths = [
        make(tmp_path / f"a{seed}", seed=seed, numbers=(kl, 0.375, sentences), log_every=100 + seed)
        for seed, kl, sentences in [(0, 0.1, 300), (1, 0.2, 310), (10, 0.6, 320)]
    ]
    # alone: no mean
    paths.append(make(tmp_path / "b", seed=1, settings={"lr": 0.5}, numbers=(0.9, 0.5, 1)))
    table = compare(paths)
    assert table["kind"].tolist() == ["run", "run", "run", "mean", "sd", "run"]
    assert table["run"].tolist() == ["a0", "a1", "a10", "3 seeds", "3 seeds", "b"]
    assert table["seed"].tolist() == [0, 1, 10, pd.NA, pd.NA, 1]
    assert table["lr"].tolist() == [0.001] * 5 + [0.5]
    mean, sd = of_kind(table, "mean").iloc[0], of_kind(table, "sd").iloc[0]
    assert mean["kl"] == pytest.approx(0.3)
    assert sd["kl"] == pytest.approx(math.sqrt((0.04 + 0.01 + 0.09) / 2))
    assert (mean["sentences_in_use"], sd["sentences_in_use"]) == (310, 10)
    assert (mean["tv_excess"], sd["tv_excess"]) == (0.25, 0)


def test_a_mean_over_fewer_runs_than_it_says_is_missing(tmp_path: Path) -> None:
    paths = [make(tmp_path / "a"), make(tmp_path / "b", seed=1, numbers=None, seconds=30)]
    mean = of_kind(compare(paths), "mean").iloc[0]
    assert math.isnan(mean["kl"])
    assert mean["minutes"] == 1


def test_the_same_seed_twice_is_not_two_seeds(tmp_path: Path) -> None:
    a, again = make(tmp_path / "a"), make(tmp_path / "b")
    # and a directory given twice is one run
    assert compare([a, again, a])["kind"].tolist() == ["run", "run"]
    assert compare([a, again, make(tmp_path / "c", seed=1)])["run"].tolist()[3] == "3 runs of 2 seeds"


def test_the_order_of_arguments_does_not_matter(tmp_path: Path) -> None:
    paths = [
        make(tmp_path / f"{program}-{beta}-{seed}", program=program, seed=seed, settings={"beta": beta})
        for program in ("table", "hbv")
        for beta in (10, 9, 0.5)
        for seed in (11, 2)
    ]
    table = compare(paths)
    pd.testing.assert_frame_equal(table, compare(paths[::-1]))
    of_runs = of_kind(table, "run")
    # by value, not as text
    assert of_runs["run"].tolist()[:4] == ["hbv-0.5-2", "hbv-0.5-11", "hbv-9-2", "hbv-9-11"]
    assert of_kind(table, "mean")["beta"].tolist() == [0.5, 9, 10] * 2


def test_a_missing_analysis_leaves_cells_empty_and_says_how_to_make_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = make(tmp_path / "my run", numbers=None)
    write_loss(run, 0.25)
    write_perturbation(run)
    with caplog.at_level(logging.WARNING, "plot_attractors"):
        row = compare(run).iloc[0]
    assert caplog.messages == [f"{run} lacks calibration: plot-attractors analyze '{run}' calibration"]
    assert (row["kl"], row["recovery"]) == (0.25, 0.875)
    assert row[[name for name, cell in HEADLINES["dynamics"].items() if cell.analysis == "calibration"]].isna().all()


def test_an_analysis_that_has_no_summary_of_a_model_is_not_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As that of perturbations, where meanings cannot be compared."""
    run = make(tmp_path / "a")
    (run / "analyses" / "perturbation" / "summary.csv").rename(run / "analyses" / "perturbation" / "norms.csv")
    monkeypatch.setattr(analysis, "analyze", None)
    row = compare(run, analyze=True).iloc[0]
    assert caplog.messages == []
    assert row["kl"] == 0.25
    assert row[["recovery", "recovery_sampled"]].isna().all()


def test_analyses_that_are_missing_are_made_when_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[list[str]] = []

    def analyze(path: Path, names: list[str]) -> list[AnalysisResult]:
        asked.append(names)
        write_calibration(path, 0.5, 7)
        return [AnalysisResult("information_loss", path, 0.0, ValueError("no\ndynamics"))]

    monkeypatch.setattr(analysis, "analyze", analyze)
    paths = [make(tmp_path / "a", numbers=None), make(tmp_path / "b", seed=1)]
    table = compare(paths, analyze=True)
    assert asked == [["information_loss", "calibration", "perturbation"]]
    assert table["sentences_in_use"].tolist()[:2] == [7, 400]
    assert math.isnan(table["kl"][0])
    assert f"information_loss of {paths[0]} failed: no dynamics" in caplog.messages


def test_a_run_that_is_not_fitted_yet_keeps_its_row(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run = make(tmp_path / "a", numbers=None)
    (run / "environment.json").write_text(json.dumps({"ended": None, "seconds": 0.0}))
    row = compare(run, analyze=True).iloc[0]
    assert math.isnan(row["minutes"])
    assert any("has no checkpoint yet" in message for message in caplog.messages)


def test_summaries_without_a_held_out_split_or_a_statistic(tmp_path: Path) -> None:
    run = make(tmp_path / "a")
    summary = run / "analyses" / "information_loss" / "summary.csv"
    kept = [line for line in summary.read_text().splitlines() if not line.startswith("held_out")]
    summary.write_text("\n".join(kept))
    (run / "analyses" / "calibration" / "summary.csv").write_text("steps,statistic,value,floor\n20,ess,0.5,1.0\n")
    (run / "analyses" / "perturbation" / "summary.csv").write_text("start,factor,recovered\nsampled,1,0.5\n")
    row = compare(run).iloc[0]
    assert row[["kl_held_out", "tv", "tv_excess", "distance", "tv_excess_5T", "recovery"]].isna().all()
    assert (row["kl"], row["ess"], row["recovery_sampled"]) == (0.25, 0.5, 0.5)


@pytest.mark.parametrize("model", [{"epsilon": "none"}, {"epsilon": 0.0}, {"latent": "none"}])
def test_distance_needs_its_unit(tmp_path: Path, model: dict[str, Any]) -> None:
    assert math.isnan(compare(make(tmp_path / "a", model=model))["distance"][0])


def test_markdown(tmp_path: Path) -> None:
    paths = [
        make(tmp_path / f"a|{seed}", seed=seed, model={"wide": bool(seed % 2)}, numbers=(0.1 + seed, 0.375, 300 + seed))
        for seed in (0, 1, 3)
    ]
    head, rule, *rows = to_markdown(compare(paths)).splitlines()
    assert head.startswith("| run | wide | seed | kl | kl_exact | p |")
    assert rule.startswith("|:----|-----:|")
    assert len({line.replace("\\|", "").count("|") for line in (head, rule, *rows)}) == 1
    assert rows[0].startswith("| a\\|0 | false | 0 | 0.100 | 0.020 | 0.450 |")
    assert rows[0].endswith("| 300 | 12 | 2.000 | 0.500 | 0.875 | 0.938 | 1.5 |")
    assert rows[3].startswith("| mean ± sd (2 seeds) | true |  | 2.100 ± 1.414 | 0.020 ± 0.000 |")
    assert rows[3].endswith("| 0.500 ± 0.000 | 0.875 ± 0.000 | 0.938 ± 0.000 | 1.5 ± 0.0 |")
    assert "| 302.0 ± 1.4 | 12.0 ± 0.0 | 2.000 ± 0.000 |" in rows[3]


def test_the_terminal_shows_every_number_in_100_columns(tmp_path: Path) -> None:
    paths = [
        make(tmp_path / f"a-run-with-a-rather-long-name-{seed}", seed=seed, numbers=(seed, 0.375, 400))
        for seed in range(8)
    ]

    def lines(table: pd.DataFrame, width: int) -> list[str]:
        screen = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
        for part in to_tables(table, width):
            screen.print(part)
        assert isinstance(screen.file, io.StringIO)
        return screen.file.getvalue().splitlines()

    table = compare(paths)
    narrow = lines(table, 100)
    assert max(map(len, narrow)) <= 100
    kl = [float(word) for line in narrow if line.startswith("kl ") for word in line.split()[1:] if word != "±"]
    assert kl == [*range(8), 3.5, 2.449]
    wide = lines(table, 360)  # a row a run where there is room, long names folded
    assert len(wide) == 1 + 2 * 8 + 1
    assert wide[0].split()[:3] == ["run", "seed", "kl"]


def test_the_command_writes_markdown_csv_and_hints_apart(tmp_path: Path) -> None:
    paths = [make(tmp_path / "a", settings={"lr": 0.5}), make(tmp_path / "b", numbers=None)]
    shown = call(paths)
    assert shown.exit_code == 0, shown.output
    assert shown.stdout == to_markdown(compare(paths))
    hint = f"{paths[1]} lacks information_loss, calibration and perturbation: plot-attractors analyze {paths[1]} "
    assert shown.stderr == hint + "information_loss calibration perturbation\n"
    for name in ("out/table.md", "out/table.csv"):
        written = call([*paths, "-o", tmp_path / name])
        assert written.exit_code == 0
        assert written.stdout == f"{tmp_path / name}\n"
    assert (tmp_path / "out/table.md").read_text(encoding="utf-8") == shown.stdout
    table = pd.read_csv(tmp_path / "out/table.csv")
    assert table["lr"].tolist() == [0.001, 0.5]
    assert table["tv_excess"].isna().tolist() == [True, False]


def test_errors_are_one_sentence(tmp_path: Path) -> None:
    run = make(tmp_path / "a")
    (tmp_path / "other").mkdir()
    cases: list[tuple[list[str | Path], str]] = [
        (
            [run, tmp_path / "other"],
            f"Error: {tmp_path / 'other'} is not the directory of a run: it has no config.toml",
        ),
        ([run, "-o", "table.xlsx"], "Error: a table of comparisons is a .md or .csv file, and table.xlsx is neither"),
    ]
    for arguments, sentence in cases:
        result = call(arguments)
        assert (result.exit_code, result.stderr.strip()) == (2, sentence)
        assert result.stdout == ""
    summary = run / "analyses" / "calibration" / "summary.csv"
    summary.write_text("steps,value,floor\n20,1,1\n")
    with pytest.raises(ValueError, match=r"lacks the column 'statistic': make the analysis calibration again"):
        compare(run)
    summary.write_text("")
    with pytest.raises(ValueError, match="cannot be read as a table"):
        compare(run)
    with pytest.raises(ValueError, match="one run at least"):
        compare([])
