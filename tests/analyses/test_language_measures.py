"""The analysis of language measures: known languages, and the corpus that it leaves."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from typer.testing import CliRunner, Result

from plot_attractors import cli
from plot_attractors.runs import fit, registry
from plot_attractors.runs.analyze import analyze

from ..small import SETTINGS, Untrained, measured
from .test_similarity import DATA, LANGUAGE, Mute, Namer, Speller

SMALL = SETTINGS["language_measures"]
HOW_TO = Path(__file__).parents[2] / "docs" / "how-to" / "measure-a-language.md"


def summary(model: Any) -> pd.DataFrame:
    torch.manual_seed(0)  # the same inputs
    tables = measured("language_measures", Untrained(model, DATA), **SMALL)
    registry.load("analyses", "language_measures").draw(tables)
    table = tables["summary.csv"]
    assert list(table["split"].unique()) == ["train", "held_out"]
    return table[table["split"] == "train"].set_index("measure")


def call(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments])


def test_a_spelled_language_reaches_the_ceiling_and_names_do_not() -> None:
    best, worst = summary(Speller(LANGUAGE)), summary(Namer(LANGUAGE))
    tested = ["language_compositionality"]
    assert list(best.index[best["p_value"].notna()]) == tested
    np.testing.assert_allclose(best.loc[tested, "value"], best.loc[tested, "spelled"], rtol=1e-6)
    assert (best.loc[tested, "value"] > best.loc[tested, "holistic_mean"]).all()
    assert (worst.loc[tested, "value"] < 0.6 * best.loc[tested, "value"]).all()
    ratio, length, rest = best["value"].iloc[:3]
    assert ratio * rest == pytest.approx(length)
    assert length == worst.loc["code_length", "value"]


def test_a_language_of_one_sentence_tells_nothing() -> None:
    table = summary(Mute(LANGUAGE))
    assert table.loc["language_compositionality", "value"] == pytest.approx(1, abs=0.02)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = fit("hbv", preset="smoke", out=tmp_path_factory.mktemp("language") / "run")
    (result,) = analyze(path, ["language_measures"], settings={"language_measures": SMALL})
    assert result.error is None
    return path


def test_a_run_and_its_corpus_have_the_same_measures(run: Path, tmp_path: Path) -> None:
    folder = run / "analyses" / "language_measures"
    result = call("measure", folder / "corpus.csv", "-o", tmp_path / "found.csv")
    assert result.exit_code == 0, result.output
    keys = ["split", "measure"]
    own = pd.read_csv(folder / "summary.csv").set_index(keys)
    results = pd.read_csv(tmp_path / "found.csv").set_index(keys)
    np.testing.assert_allclose(own["value"], results.loc[own.index, "value"], rtol=1e-9)
    assert own["value"].notna().sum() == 6
    assert set(results.index.get_level_values("measure")) > {"topographic_similarity"}


def test_a_malformed_corpus_gets_a_sentence(tmp_path: Path) -> None:
    file = tmp_path / "theirs.csv"
    file.write_text("words\na b\n")
    result = call("measure", file)
    assert result.exit_code == 2
    assert "has no column 'sentence'" in result.stderr
    assert call("measure", tmp_path / "none.csv").exit_code == 2
    assert "is not" in call("measure", file, "-o", "x.txt").stderr


def test_the_how_to_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```(\w+)\n(.*?)```", HOW_TO.read_text(encoding="utf-8"), re.DOTALL)
    assert {kind for kind, _ in blocks} == {"sh", "text"}
    for kind, text in blocks:
        if kind == "text":
            (tmp_path / "theirs.csv").write_text(text, encoding="utf-8")
        for line in text.splitlines() if kind == "sh" else ():
            program, *arguments = shlex.split(line, comments=True)
            assert program == "plot-attractors"
            result = call(*arguments)
            assert result.exit_code == 0, result.output
