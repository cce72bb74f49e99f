"""A small model that is trained, analysed and exported, for tests of what comes out."""

from __future__ import annotations

from pathlib import Path

from plot_attractors.report import export
from plot_attractors.runs import Run, fit
from plot_attractors.runs.analyze import analyze
from tests.small import SETTINGS

__all__ = ["ANALYSES", "FILES", "make"]

ANALYSES = ("information_loss", "calibration", "language_measures")
FILES = {"card.md", "config.toml", "environment.json", "numbers.json", "weights.safetensors"}


def make(folder: Path, name: str = "tiny") -> tuple[Run, Path]:
    """A run of binary vectors in `folder`, and its export into `folder`/pretrained/`name`."""
    path = fit("hbv", preset="smoke", out=folder / "run")
    settings = {analysis: SETTINGS[analysis] for analysis in ANALYSES}
    settings["calibration"] = {"inputs": 8, "wide_inputs": 8, "wide_draws": 1}  # as many draws
    settings["information_loss"] = {"inputs": 1000, "lines": 1, "line_draws": 1}
    results = analyze(path, ANALYSES, settings=settings)
    assert [result.error for result in results] == [None] * len(ANALYSES)
    run = Run(path)
    return run, export.export(run, folder / "pretrained" / name)
