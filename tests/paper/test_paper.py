"""The paper in one command: numbers and figures that exist, nothing is done twice, what fails is
told, and the page shows the numbers of the analyses.
"""

from __future__ import annotations

import os
import re
from html import unescape
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner, Result

from plot_attractors import cli
from plot_attractors.measures.registry import HELD_OUT
from plot_attractors.paper import make_paper, plan, results
from plot_attractors.paper.plan import planned
from plot_attractors.report.builder import anchor
from plot_attractors.report.tables import fixed
from plot_attractors.runs import Run, fit, registry, settings
from plot_attractors.runs.analyze import analyze, applies


def call(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli.app, ["paper", *map(str, arguments)])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything of the preset smoke: what .ci/run has made, or else made in this process."""
    if there := os.environ.get("PLOT_ATTRACTORS_PAPER"):
        return Path(there)
    out = tmp_path_factory.mktemp("paper") / "paper"
    for run in planned(out, "smoke"):
        fit(**run.arguments, out=run.path)
        sizes = run.analyses or {}
        found = analyze(run.path, list(sizes), settings=sizes, missing=True)
        assert [result.error for result in found] == [None] * len(found)
    return out


@pytest.fixture(scope="module")
def page(made: Path) -> str:
    """The page, of which everything is there already."""
    result = call("--out", made, "--preset", "smoke")
    assert result.exit_code == 0, result.output
    return (made / "index.html").read_text(encoding="utf-8")


def folder_of(made: Path, data: str, model: str, analysis: str) -> Path:
    """An analysis of a run; of an analysis that does not apply there is none."""
    path = made / "runs" / f"{data}-{model}-0"
    folder = path / "analyses" / analysis
    assert folder.is_dir() == applies(registry.load("analyses", analysis), Run(path))
    return folder


def test_numbers_and_figures_exist(made: Path) -> None:
    for number in results.NUMBERS:
        metric = number.metric
        for model in number.models:
            folder = folder_of(made, number.data, model, metric.analysis)
            if folder.is_dir():  # some smoke tree has no two meanings
                table = pd.read_csv(folder / "summary.csv")
                assert {*metric.column.split("-"), *metric.where} <= {*table.columns}, metric.name
                for column, value in metric.where.items():
                    assert value == HELD_OUT or (table[column] == value).any(), metric.name
    for result in results.RESULTS:
        for data, analysis, stem in result.shown:
            folder = folder_of(made, data, results.ATTRACTORS, analysis)
            assert (folder / f"{stem}.svg").is_file() or not folder.is_dir()
            assert stem in registry.load("analyses", analysis).CAPTIONS


def test_nothing_is_done_twice(made: Path, page: str) -> None:
    patterns = "runs/*/checkpoint.pt", "runs/*/analyses/*/*.csv"
    files = [file for pattern in patterns for file in made.glob(pattern)]
    before = {file: file.stat().st_mtime_ns for file in files}
    assert len(before) > 60
    assert make_paper(made, "smoke", only=["dsprites", "hbv"])[1] == []
    assert {file: file.stat().st_mtime_ns for file in files} == before


def test_the_page_has_every_result_and_the_numbers_of_the_analyses(made: Path, page: str) -> None:
    text = " ".join(unescape(re.sub(r"<style>.*?</style>|<[^>]+>", " ", page, flags=re.S)).split())
    for result in results.RESULTS:
        assert f'<article id="{anchor(result.title)}">' in page
        assert result.says in text
    assert "no number of it means anything" in text
    assert "side_by_side, described below" in page
    table = pd.read_csv(made / "numbers.csv").set_index(["data", "number", "model"])
    loss = pd.read_csv(made / "runs/hbv-attractors-0/analyses/information_loss/summary.csv")
    for name, split in (("p", "train"), ("p_held_out", "held_out")):
        value = loss[(loss["split"] == split) & (loss["steps"] == 20)]["p"].item()
        shown = table["value"]["hbv", name, "attractors"]
        assert shown == pytest.approx(value, abs=1e-12)
        assert f"{fixed(value, '.3f')} paper: " in text
    for model, of_paper in (("vqvae", "0.314"), ("attractors", "0.525")):
        rows = pd.read_csv(made / f"runs/dsprites-{model}-0/analyses/language_measures/summary.csv")
        rows = rows[(rows["measure"] == "topographic_similarity") & (rows["split"] == "train")]
        shown = table["value"]["dsprites", "topographic_similarity", model]
        assert shown == pytest.approx(rows["value"].item(), abs=1e-12)
        assert f"{fixed(shown, '.3f')} paper: {of_paper}" in text
    for value in ("0.480", "0.041", "0.621", "0.183", "0.525", "0.156", "0.314"):
        assert page.count(f"<small>paper: {value}</small>") == 1
    assert "<small>paper: −173.660 [−218.620, −62.666]</small>" in page


def test_a_step_that_fails_is_named_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = (
        registry.find("models", "vqvae").read_text().replace("return VQVAE", "raise ValueError")
    )
    (tmp_path / "broken.py").write_text(program)
    broken = plan.MODELS["vqvae"]._replace(program=str(tmp_path / "broken.py"))
    monkeypatch.setitem(plan.MODELS, "vqvae", broken)
    monkeypatch.setattr(plan, "analyses_of", lambda data, model: [])
    words = "hbv", "vqvae", "fully_compositional"
    chosen = [part for word in words for part in ("--only", word)]
    result = call("--out", tmp_path, "--preset", "smoke", "--jobs", "2", *chosen)
    assert result.exit_code == 1
    assert re.search(r"hbv-vqvae-0 failed: ", result.stderr)
    states = [run.status().state for run in planned(tmp_path, "smoke", only=words)]
    assert states == ["failed", "done"]
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "Failed: hbv-vqvae-0: " in page
    assert "Not fitted yet, or not to the end: hbv-vqvae-0." in page


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--preset", "smok"], "there is no preset 'smok': did you mean 'smoke'?"),
        (["--only", "vqae"], "there is nothing called 'vqae' to choose: did you mean 'vqvae'?"),
        (
            ["--preset", "full"],
            "holds a run with other settings (run.preset: 'smoke', not 'full'",
        ),
    ],
)
def test_what_cannot_be_made_gets_a_sentence(
    tmp_path: Path, options: list[str], sentence: str
) -> None:
    fit("fully_compositional", preset="smoke", out=tmp_path / "runs/hbv-fully_compositional-0")
    result = call("--out", tmp_path, *options)
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert not (tmp_path / "index.html").exists()


@pytest.mark.parametrize("preset", plan.PRESETS)
def test_presets_set_what_programs_have(preset: str, tmp_path: Path) -> None:
    runs = planned(tmp_path, preset, [3])
    assert [run.name for run in runs][::6] == ["hbv-attractors-3", "dsprites-attractors-3"]
    for run in runs:
        assert run.plan().config["run"]["seed"] == 3
        for name, sizes in (run.analyses or {}).items():
            settings.from_table(registry.load("analyses", name).Config, sizes)
