"""Every model program is fitted, analysed and stands in one report with the others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
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
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run of every model, on hierarchical binary vectors; of a user's own table, on one of twelve
    traits, some of them missing, and of a user's images, on grey ones of two kinds.
    """
    folder = tmp_path_factory.mktemp("comparison")
    cells = [[*format(k * 37 % 4096, "012b"), "ab"[k % 2]] for k in range(1, 65)]
    for k in range(0, 64, 3):
        cells[k][k % 12] = ""
    rows = "\n".join(map(",".join, cells))
    (folder / "table.csv").write_text(
        ",".join([*(f"trait{k}" for k in range(12)), "kind"]) + f"\n{rows}\n"
    )
    np.save(folder / "vectors.npy", np.random.default_rng(0).normal(size=(64, 8)))
    np.save(folder / "images.npy", np.random.default_rng(0).random((64, 16, 16)))
    (folder / "images.csv").write_text("\n".join(["kind", *("ab"[k % 2] for k in range(64))]))
    table = {"path": folder / "table.csv", "labels": "kind", "missing": "ignore"}
    own = {
        "table": table,
        "images": {"path": folder / "images.npy", "table": folder / "images.csv"},
        "vectors": {"path": folder / "vectors.npy", "table": folder / "images.csv"},
    }
    result = {
        name: fit(name, preset="smoke", out=folder / name, settings=own.get(name, {}))
        for name in NAMES
    }
    for way, units in (("chain", {}), ("guide", {"units": 32})):
        given = {"draw_by": way, **units}
        result[way] = fit("grammar", preset="smoke", out=folder / way, settings=given)
    return result


@pytest.mark.parametrize("name", NAMES)
def test_analyses_of_language_are_made_of_every_model(runs: dict[str, Path], name: str) -> None:
    run = Run(runs[name])
    dynamic = isinstance(run.model, AttractorModel)  # tests/analyses make all of one
    names = (
        ["decodability"]
        if dynamic
        else [
            "composition",
            "decodability",
            "diversity",
            "language_measures",
            "training",
        ]
    )
    settings = {name: SETTINGS[name] for name in names if name in SETTINGS}
    results = analyze(run, names, settings=settings)
    assert {r.name: r.error for r in results} == dict.fromkeys(names)
    assert (
        pd.read_csv(run.path / "analyses" / "decodability" / "summary.csv")["value"].notna().all()
    )


def test_all_stand_in_one_comparison_and_one_report(runs: dict[str, Path], tmp_path: Path) -> None:
    table = compare(runs.values())
    assert set(table.loc[table["kind"] == "run", "run"]) == set(runs)
    page = report(list(runs.values()), tmp_path / "all.html").read_text(encoding="utf-8")
    for name in runs:
        assert f">{name}</th>" in page or f"{name}, " in page or f", {name}<" in page
    assert "receiver&#x27;s accuracy" in page or "receiver's accuracy" in page
