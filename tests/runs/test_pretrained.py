"""Trained models in the package: found by name, read there, copied before anything is written."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from plot_attractors import cli
from plot_attractors.gflownet import certificate
from plot_attractors.report import report
from plot_attractors.runs import Run, pretrained
from plot_attractors.runs.analyze import analyze
from plot_attractors.runs.compare import compare
from plot_attractors.runs.numbers import numbers
from tests.small import SETTINGS

NAME = "pretrained:tiny"


@pytest.fixture(autouse=True)
def package(
    made: tuple[Run, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, int]:
    """A package with one trained model, seen from another directory; its files and their times."""
    folder = made[1].parent
    monkeypatch.setattr(pretrained, "FOLDER", folder.resolve())
    monkeypatch.chdir(tmp_path)
    return times(folder)


def times(folder: Path) -> dict[str, int]:
    return {str(file): file.stat().st_mtime_ns for file in sorted(folder.rglob("*"))}


def call(*arguments: object) -> str:
    result = CliRunner().invoke(cli.app, [*map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result.output


def test_it_is_opened_by_name_and_reading_writes_nothing(
    made: tuple[Run, Path], package: dict[str, int], tmp_path: Path
) -> None:
    run = Run(NAME)
    assert run.path == made[1].resolve()
    assert repr(run) == "Run('pretrained:tiny')"
    assert run.model.language.count == made[0].model.language.count
    (row,) = compare([NAME]).to_dict("records")
    assert row["p"] == numbers(made[0])["p"]
    assert row["tv"] == numbers(made[0])["tv"]
    page = report([NAME, made[0].path], tmp_path / "both.html").read_text()
    assert "its card has the numbers of analyses not made here" in page
    assert [file.name for file in tmp_path.iterdir()] == ["both.html"]
    assert times(made[1].parent) == package
    assert NAME in call("list")


def test_report_card_and_answers_have_one_yardstick(made: tuple[Run, Path], tmp_path: Path) -> None:
    page = report(made[0].path, tmp_path / "page.html").read_text()
    for text in (page, (made[1] / "card.md").read_text(), call("ask", NAME, "L", "--draws", 9)):
        told = " ".join(text.split())
        assert "Trajectories do not sample the posterior well" in told
        assert f"(good: at most {certificate.MOST_DISTANCE})" in told


def test_analyses_and_reports_go_to_a_copy(
    made: tuple[Run, Path], package: dict[str, int], tmp_path: Path
) -> None:
    sizes = [f"{key}={value}" for key, value in SETTINGS["information_loss"].items()]
    chosen = [word for size in sizes for word in ("--set", size)]
    said = call("analyze", NAME, "information_loss", *chosen)
    assert "copied pretrained:tiny to pretrained-tiny, which is a run as any other" in said
    copy = Path("pretrained-tiny")
    assert [folder.name for folder in (copy / "analyses").iterdir()] == ["information_loss"]
    assert Run(NAME).path == copy  # from now on
    assert numbers(Run(NAME))["tv"] == numbers(made[0])["tv"]
    file = copy / "analyses" / "information_loss" / "summary.csv"
    file.write_text(pd.read_csv(file).assign(kl=5.0).to_csv())
    assert numbers(Run(NAME))["kl"] == 5.0, "of the new analysis"
    assert call("report", NAME).strip() == str(copy / "report.html")
    assert "pretrained-tiny" in (copy / "report.html").read_text()
    assert len(compare([NAME, copy])) == 1
    assert times(made[1].parent) == package


def test_what_needs_the_record_of_the_training_does_not_apply() -> None:
    (result,) = analyze(Run(NAME), ["training"])
    assert "training needs a record of the training" in str(result.error)


def test_what_is_not_there_or_in_the_way_gets_a_sentence(tmp_path: Path) -> None:
    sentence = r"no trained model 'pretrained:tine' .*: did you mean 'tiny'\? It holds pretrained:t"
    with pytest.raises(ValueError, match=sentence):
        Run("pretrained:tine")
    Path("pretrained-tiny").mkdir()
    Path("pretrained-tiny", "config.toml").write_text("mine")
    assert Run(NAME).path.parent == pretrained.FOLDER
    with pytest.raises(FileExistsError):
        analyze(NAME, ["information_loss"])
    assert Path("pretrained-tiny", "config.toml").read_text() == "mine"
