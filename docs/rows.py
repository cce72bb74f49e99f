"""The numbers of runs for the tables of the pages: python docs/rows.py paper/runs/*

Writes docs/results/tables/runs.csv, a row for each run: data set, model program and preset, seed,
commit, minutes, every metric, features decoded from sentences, and the cells
below.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from plot_attractors.runs import Run
from plot_attractors.runs.numbers import feature_metrics, minutes, numbers

TABLE = Path(__file__).parent / "results" / "tables" / "runs.csv"
ORDER = (  # of the rows
    "attractor", "vqvae", "vqvae, modern", "emergent_communication", "grammar, paths", "grammar",
    "fully_compositional", "not_compositional",
)  # fmt: skip
Cells = dict[str, float]


def calibration(t: pd.DataFrame) -> Cells:
    """The learned discretizer, less exact reading, at T steps."""
    t = t[(t["split"] == "train") & (t["steps"] == t["steps"].min())].set_index("statistic")
    return {"discretizer": t["value"].get("tv_discretizer", math.nan) - t["value"]["tv"]}


def settling(t: pd.DataFrame) -> Cells:
    order = t["last_change"].rank().corr(t["entropy"].rank())
    return {"last_change": t["last_change"].median(), "settling_entropy": order}


def composition(t: pd.DataFrame) -> Cells:
    t = t[t["feature"] != "mean of 4"]  # which is the metric `composed`
    composed = t[(t["split"] == "train") & (t["source"] == "composed")]
    return {f"composed {f}": v for f, v in zip(composed["feature"], composed["value"], strict=True)}


def thought(t: pd.DataFrame) -> Cells:
    """Answers of sentences beside those of the grammars, of all training inputs."""
    t = t[(t["split"] == "train") & (t["source"] == "learned")].set_index(["measure", "baseline"])
    js, paths = t[t["feature"] == "node"]["value"]["js"], t["value"].xs("paths", level="baseline")
    cells = {f"js {name}": js[name] for name in ("paths", "node", "slots")}
    return cells | {name: paths[name] for name in ("residual", "residual_scrambled")}


MORE: dict[str, Callable[[pd.DataFrame], Cells]] = {
    "calibration/summary": calibration,
    "trajectories/settling": settling,
    "composition/summary": composition,
    "compare_language_of_thought/summary": thought,
    "neighbours/ends": lambda t: {"elsewhere": t["elsewhere"].item()},
}


def row(path: Path) -> dict[str, object]:
    run = Run(path)
    model = run.program_name + (f", {run.preset}" if run.preset != "full" else "")
    cells: dict[str, object] = {"data": run.data_name, "model": model, "seed": run.seed}
    cells |= {"commit": run.environment.get("commit", "")[:7], "minutes": minutes(run)}
    cells |= numbers(run) | numbers(run, feature_metrics(run))
    for name, read in MORE.items():
        file = path / "analyses" / f"{name}.csv"
        if file.is_file():
            cells |= read(pd.read_csv(file))
    return cells


if __name__ == "__main__":
    rows = [row(Path(path)) for path in sys.argv[1:]]
    rows.sort(key=lambda cells: (cells["data"], ORDER.index(cells["model"]), cells["seed"]))
    table = pd.DataFrame(rows).dropna(axis=1, how="all")
    table.columns = table.columns.str.replace(" ", "_")
    number = table.select_dtypes("number").columns
    table[number] = table[number].map(lambda value: f"{value:.4g}" if pd.notna(value) else "")
    table.to_csv(TABLE, index=False)
