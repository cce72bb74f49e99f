"""Every model program is fitted, analysed and stands in one report with the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from plot_attractors.model.attractor import AttractorModel
from plot_attractors.report import report
from plot_attractors.runs import Run, fit, registry
from plot_attractors.runs.analyze import analyze
from plot_attractors.runs.compare import compare

from ..small import SETTINGS

NAMES = sorted({*registry.names("models"), *registry.names("datasets")})


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, files: Any) -> dict[str, Path]:
    """A run of every model, of its own data, and of all ways to draw from a grammar."""
    folder = tmp_path_factory.mktemp("comparison")
    given = {name: (name, files.get(name, {})) for name in NAMES}
    given["chain"] = ("grammar", {"draw_by": "chain"})
    return {
        name: fit(program, preset="smoke", out=folder / name, settings=settings)
        for name, (program, settings) in given.items()
    }


@pytest.mark.parametrize("name", NAMES)
def test_analyses_of_language_are_made_of_every_model(runs: dict[str, Path], name: str) -> None:
    run = Run(runs[name])
    dynamic = isinstance(run.model, AttractorModel)  # tests/analyses make all of one
    names = ["decodability"]
    if not dynamic:
        names += ["composition", "diversity", "language_measures", "training"]
    settings = {name: SETTINGS[name] for name in names if name in SETTINGS}
    results = analyze(run, names, settings=settings)
    assert {r.name: r.error for r in results} == dict.fromkeys(names)
    assert (
        pd.read_csv(run.path / "analyses" / "decodability" / "summary.csv")["value"].notna().all()
    )


def test_all_stand_in_one_comparison_and_one_report(runs: dict[str, Path], tmp_path: Path) -> None:
    table = compare(runs.values())
    assert set(table["run"]) == set(runs)
    page = report(list(runs.values()), tmp_path / "all.html").read_text(encoding="utf-8")
    for name in runs:
        assert f">{name}</th>" in page or f"{name}, " in page or f", {name}<" in page
