"""Models of all kinds are fitted, analysed and stand in one report."""

from __future__ import annotations

from pathlib import Path

import pytest

from plot_attractors.report import report
from plot_attractors.runs import Run, fit
from plot_attractors.runs.analyze import analyze
from plot_attractors.runs.compare import compare

from ..small import SETTINGS

NAMES = ("hbv", "vqvae", "emergent_communication", "fully_compositional", "grammar")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("comparison")
    return {name: fit(name, preset="smoke", out=folder / name) for name in NAMES}


@pytest.mark.parametrize("name", NAMES[1:])  # tests/analyses make all of an attractor model
def test_analyses_of_language_are_made_of_every_model(runs: dict[str, Path], name: str) -> None:
    run, names = Run(runs[name]), ["decodability", "composition", "language_measures"]
    results = analyze(run, names, settings={name: SETTINGS[name] for name in names})
    assert {r.name: r.error for r in results} == dict.fromkeys(names)


def test_all_stand_in_one_comparison_and_one_report(runs: dict[str, Path], tmp_path: Path) -> None:
    table = compare(runs.values())
    assert set(table["run"]) == set(runs)
    page = report(list(runs.values()), tmp_path / "all.html").read_text(encoding="utf-8")
    for name in runs:
        assert f">{name}</th>" in page or f"{name}, " in page or f", {name}<" in page
