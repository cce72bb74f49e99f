"""Analyses of a run: their settings, their figures, and what is left where one fails."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from plot_attractors.runs import fit
from plot_attractors.runs.analyze import AnalysisResult, analyze

TOYS = Path(__file__).parents[1] / "toy_programs"
ANALYSIS = TOYS / "toy_analysis.py"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fit(TOYS / "toy_model.py", preset="smoke", out=tmp_path_factory.mktemp("run") / "run")


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "run"))


def outcomes(results: list[AnalysisResult]) -> list[tuple[str, type]]:
    return [(result.name, type(result.error)) for result in results]


def test_an_analysis_that_fails_leaves_its_earlier_results_and_the_others(run: Path) -> None:
    analyze(run, [ANALYSIS])
    folder = run / "analyses" / "toy_analysis"
    alone = (folder / "summary.csv").read_text()
    shutil.rmtree(folder)
    earlier = run / "analyses" / "calibration"
    earlier.mkdir()
    (earlier / "summary.csv").write_text("whole\n")
    torch.manual_seed(99)
    results = analyze(run, ["calibration", ANALYSIS, str(ANALYSIS)])  # one twice
    assert outcomes(results) == [("calibration", ValueError), ("toy_analysis", type(None))]
    assert (earlier / "summary.csv").read_text() == "whole\n"
    assert (folder / "summary.csv").read_text() == alone  # whatever was made before
    assert all((folder / f"predictions.{end}").is_file() for end in ("png", "svg", "pdf"))
    assert {path.name for path in (run / "analyses").iterdir()} == {earlier.name, folder.name}


def test_figures_that_fail_lose_no_table(run: Path, tmp_path: Path) -> None:
    blot = tmp_path / "blot.py"
    blot.write_text(f"{ANALYSIS.read_text()}\n\ndef draw(tables):\n    1 / 0\n")
    results = analyze(run, [blot, ANALYSIS])
    assert outcomes(results) == [("blot", ZeroDivisionError), ("toy_analysis", type(None))]
    assert len({(result.out / "summary.csv").read_text() for result in results}) == 1


def test_settings_of_what_is_not_made_are_refused(run: Path) -> None:
    with pytest.raises(ValueError, match="settings of 'toys', which is not made"):
        analyze(run, [ANALYSIS], settings={"toys": {"draws": 5}})
    assert not (run / "analyses").exists()


def test_what_is_missing_and_applies_is_made_and_the_rest_left_out_with_the_reason(
    run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "plot_attractors")
    names = [ANALYSIS, "trajectories"]
    (first,) = analyze(run, names, missing=True)
    before = (first.out / "summary.csv").stat().st_mtime_ns
    assert analyze(run, names, missing=True) == []
    assert (first.out / "summary.csv").stat().st_mtime_ns == before
    message, _ = caplog.messages
    assert message.startswith("left out: trajectories needs a model with attractors")
