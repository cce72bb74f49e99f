"""The paper in one command: the map names what exists, nothing is done twice, what fails is told,
and the page shows the numbers of the analyses.
"""

from __future__ import annotations

import dataclasses
import os
import re
import signal
import subprocess
import sys
import time
from html import unescape
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner, Result

from plot_attractors import cli
from plot_attractors.measures.registry import HELD_OUT, LARGEST
from plot_attractors.paper import fits, make_paper, plan, results
from plot_attractors.report.tables import fixed
from plot_attractors.runs import Run, fit, registry, settings
from plot_attractors.runs import run as programs
from plot_attractors.runs.analyze import analyze

ROOT = Path(__file__).parents[2]


def call(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli.app, ["paper", *map(str, arguments)])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything of the preset smoke: what .ci/run has made, or else made in this process."""
    if there := os.environ.get("PLOT_ATTRACTORS_PAPER"):
        return Path(there)
    out, preset = tmp_path_factory.mktemp("paper") / "paper", fits.PRESETS["smoke"]
    for run in plan.plan(out, "smoke", [0], plan.Selection()):
        program = fits.MODELS[run.model].programs[run.data]
        fit(program, data=run.data, preset="smoke", out=run.path)
        sizes = {name: preset.sizes[name] for name in run.analyses}
        draw = run.model == fits.ATTRACTORS
        results = analyze(run.path, run.analyses, settings=sizes, missing=True, draw=draw)
        assert [result.error for result in results] == [None] * len(results)
    return out


@pytest.fixture(scope="module")
def page(made: Path) -> str:
    """The page, of which everything is there already."""
    result = call("--out", made, "--preset", "smoke", "--only", "page")
    assert result.exit_code == 0, result.output
    return (made / "index.html").read_text(encoding="utf-8")


def table_of(made: Path, data: str, model: str, metric: results.Metric) -> pd.DataFrame:
    folder = made / "runs" / f"{data}-{model}-0" / "analyses" / metric.analysis
    return pd.read_csv(folder / f"{metric.table}.csv")


NUMBERS = [number for result in results.RESULTS for number in result.numbers]


def test_the_map_names_analyses_files_and_columns_that_exist(made: Path) -> None:
    for number in NUMBERS:
        metric = number.metric
        for model in number.models:
            if not (made / "runs" / f"{number.data}-{model}-0/analyses" / metric.analysis).is_dir():
                program = registry.load("analyses", metric.analysis)
                run = Run(made / "runs" / f"{number.data}-{model}-0")
                assert not program.NEEDS.met(run)  # some smoke tree has no two meanings
                continue
            table = table_of(made, number.data, model, metric)
            assert {*metric.column.split("-"), *metric.where} <= {*table.columns}, number.name
            for column, value in metric.where.items():
                assert value in (HELD_OUT, LARGEST) or (table[column] == value).any(), number.name
    for result in results.RESULTS:
        for data, analysis, stem in result.shown:
            folder = made / "runs" / f"{data}-attractors-0/analyses" / analysis
            assert (folder / f"{stem}.svg").is_file() or not folder.is_dir()
            assert stem in registry.load("analyses", analysis).CAPTIONS


def test_nothing_is_done_twice(made: Path, page: str) -> None:
    patterns = "runs/*/checkpoint.pt", "runs/*/analyses/*/*.csv"
    files = [file for pattern in patterns for file in made.glob(pattern)]
    before = {file: file.stat().st_mtime_ns for file in files}
    assert len(before) > 60
    made_again = make_paper(made, "smoke", only=["dsprites", "hbv"])
    assert made_again.failed == []
    assert {file: file.stat().st_mtime_ns for file in files} == before
    everything = plan.plan(made, "smoke", [0], plan.Selection())
    assert plan.work(everything, "smoke", plan.KINDS) == []


def test_the_page_has_every_section_and_the_numbers_of_the_analyses(made: Path, page: str) -> None:
    text = " ".join(unescape(re.sub(r"<style>.*?</style>|<[^>]+>", " ", page, flags=re.S)).split())
    for result in results.RESULTS:
        assert f'<article id="{result.key}">' in page
        assert f"{result.place}: {result.title}" in text
        assert result.reading in text
    for model, column, row in (
        ("attractors", "p", {"split": "train", "steps": 20}),
        ("attractors", "kl", {"split": "held_out", "steps": 20}),
    ):
        loss = pd.read_csv(made / f"runs/hbv-{model}-0/analyses/information_loss/summary.csv")
        for name, value in row.items():
            loss = loss[loss[name] == value]
        number = column if row["split"] == "train" else f"{column}_held_out"
        shown = pd.read_csv(made / "tables/information_loss.csv").set_index("number")
        assert shown["median"][number] == pytest.approx(loss[column].item(), abs=1e-12)
        assert fixed(loss[column].item(), ".3f") in text
    similarity = pd.read_csv(made / "tables/similarity.csv").set_index("model")
    for model, title in (("vqvae", "VQ-VAE"), ("attractors", "attractor model")):
        folder = made / f"runs/dsprites-{model}-0/analyses/language_measures"
        table = pd.read_csv(folder / "summary.csv")
        chosen = (table["measure"] == "topographic_similarity") & (table["split"] == "train")
        value = table[chosen]["value"].item()
        assert similarity["median"][title] == pytest.approx(value, abs=1e-12)
        assert f"{fixed(value, '.3f')} paper: {similarity['paper'][title]}" in text
    assert "No number of it means anything" in text
    seeds = pd.read_csv(made / "tables/seeds.csv")
    assert {*seeds["result"]} >= {r.key for r in results.RESULTS} - {"perturbation"}
    assert (made / "figures/side_by_side.svg").is_file()


def test_the_papers_own_values_stand_once_in_the_overview(page: str) -> None:
    overview = page[page.index('<section id="numbers">') : page.index('<section id="model">')]
    for value in ("0.480", "0.041", "0.621", "0.183", "0.525", "0.156", "0.314"):
        assert overview.count(f"<small>paper: {value}</small>") == 1
    assert "<small>paper: −173.660 [−218.620, −62.666]</small>" in overview


def test_a_column_for_each_model_or_the_papers_beside_ours(page: str) -> None:
    heads = [re.findall(r"<th[^>]*>([^<]*)</th>", table) for table in page.split("<table>")[1:]]
    assert ["", "paper", "ours, median"] in heads
    assert ["", *(model.title for model in fits.MODELS.values())] in heads


def test_the_command_prints_the_map() -> None:
    assert call("--map").stdout == results.to_markdown()


# Failures and interruptions, with processes.


def test_a_step_that_fails_is_named_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = fits.MODELS[fits.VQVAE]
    program = (
        registry.find("models", "vqvae").read_text().replace("return VQVAE", "raise ValueError")
    )
    (tmp_path / "broken.py").write_text(program)
    broken = dataclasses.replace(model, programs={"hbv": str(tmp_path / "broken.py")})
    monkeypatch.setitem(fits.MODELS, fits.VQVAE, broken)
    chosen = ["--only", "hbv", "--only", fits.VQVAE, "--only", fits.CEILING, "--only", "fit"]
    result = call("--out", tmp_path, "--preset", "smoke", "--jobs", "2", *chosen)
    assert result.exit_code == 1
    assert re.search(r"hbv-vqvae-0 failed: ", result.stderr)
    assert "hbv-fully_compositional-0: done" in result.stdout
    assert plan.finished(tmp_path / "runs/hbv-fully_compositional-0")
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "Failed: hbv-vqvae-0: " in page
    assert "Not fitted yet, or not to the end: hbv-vqvae-0." in page
    for result_ in results.RESULTS:
        assert f'<article id="{result_.key}">' in page


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize("number", [signal.SIGINT])
def test_an_interrupted_fit_goes_on(tmp_path: Path, number: signal.Signals) -> None:
    words = ["hbv", "attractors", "fit"]
    only = [part for word in words for part in ("--only", word)]
    options = ["paper", "--out", str(tmp_path), "--preset", "smoke", *only]
    command = [sys.executable, "-m", "plot_attractors", *options]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command, env=environment, **pipes)  # type: ignore[call-overload]
    run = tmp_path / "runs/hbv-attractors-0"
    end = time.monotonic() + 120
    while not (run / "checkpoint.pt").is_file() and time.monotonic() < end:
        time.sleep(0.02)
    process.send_signal(number)
    _, told = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "Interrupted. Go on with:" in told
    position, total = Run(run).position
    assert position < total
    again = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert "hbv-attractors-0: done" in again.stdout
    assert plan.finished(run)
    steps = Run(run).metrics()["step"]
    assert steps.is_monotonic_increasing
    assert steps.is_unique


# What is asked for.


def test_what_cannot_be_made_gets_a_sentence(tmp_path: Path) -> None:
    for options, sentence in (
        (["--preset", "smok"], "there is no preset 'smok': did you mean 'smoke'?"),
        (["--only", "vqae"], "there is nothing called 'vqae' to choose: did you mean 'vqvae'?"),
        (
            ["--seeds", "4-0"],
            "such as 0-4 or 0,2,7-9, and '4-0' is not that",
        ),
        (
            ["--seeds", "a"],
            "such as 0-4 or 0,2,7-9, and 'a' is not that",
        ),
    ):
        result = call("--out", tmp_path, *options)
        assert result.exit_code == 2
        assert sentence in result.stderr
    fit("fully_compositional", preset="smoke", out=tmp_path / "runs/hbv-fully_compositional-0")
    result = call("--out", tmp_path, "--preset", "demo", "--only", "page")
    assert "holds a run of the preset smoke: give --preset smoke, or choose" in result.stderr
    changed = tmp_path / "runs/hbv-not_compositional-0"
    fit("not_compositional", preset="smoke", out=changed, settings={"bits": 32})
    result = call("--out", tmp_path, "--preset", "smoke", "--only", "fit")
    assert "holds a run with other settings (bits is 32 there and 16 here)" in result.stderr
    assert not (tmp_path / "index.html").exists()


def test_choices() -> None:
    assert plan.choose([]) == plan.Selection()
    assert plan.choose(["page"]).kinds == ()
    assert plan.choose(["dsprites", "analyze"]) == plan.Selection(("dsprites",), kinds=("analyze",))


@pytest.mark.parametrize("preset", fits.PRESETS)
def test_presets_set_what_programs_have(preset: str) -> None:
    of = fits.PRESETS[preset]
    for name, sizes in of.sizes.items():
        settings.from_table(registry.load("analyses", name).Config, sizes)
    for model in fits.MODELS.values():
        for data, name in model.programs.items():
            programs.plan(name, None, preset, 0, None, {}, data=data)


def test_what_is_not_fitted_is_not_analysed(tmp_path: Path) -> None:
    runs = plan.plan(tmp_path, "smoke", [0], plan.choose(["hbv", "vqvae"]))
    assert plan.work(runs, "smoke", ["analyze"]) == []
    (fitted,) = plan.work(runs, "smoke", ["fit"])
    assert fitted.analyses is None
    (both,) = plan.work(runs, "smoke", plan.KINDS)
    assert both.analyses is not None
    assert both.analyses["decodability"]["inputs"] == 100
    assert not both.draw
