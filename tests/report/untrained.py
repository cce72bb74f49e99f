"""Runs that were never trained: their settings and the tables of their analyses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import tomlkit
from PIL import Image

from plot_attractors.runs.run import plan

__all__ = ["add_loss", "add_picture", "add_table", "untrained"]


def untrained(
    run: Path, seed: int = 0, preset: str = "full", program: str = "hbv", **changed: Any
) -> Path:
    """The directory of a run with a config.toml."""
    config = plan(program, preset=preset, seed=seed, settings=changed).config
    run.mkdir(parents=True)
    (run / "config.toml").write_text(tomlkit.dumps(config))
    return run


def add_table(run: Path, analysis: str, rows: Sequence[Mapping[str, Any]]) -> Path:
    folder = run / "analyses" / analysis
    folder.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(rows).to_csv(folder / "summary.csv", index=False)
    return folder


def add_loss(run: Path, kl: float, p: float) -> Path:
    """A table and a figure."""
    rest = {"mean": 1.0, "p_negative": 0.1, "kl_exact": 0.01}
    splits = (("train", kl, p), ("held_out", 2 * kl, p / 2))
    rows = [{"split": s, "steps": 20, "p": q, "kl": k, **rest} for s, k, q in splits]
    return add_picture(add_table(run, "information_loss", rows), "loss")


def add_picture(folder: Path, stem: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (20, 9)).save(folder / f"{stem}.png")
    return folder
