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

from plot_attractors.analysis.sampling import is_listed, used_axes
from plot_attractors.runs import Run
from plot_attractors.runs.numbers import feature_metrics, minutes, numbers

TABLE = Path(__file__).parent / "results" / "tables" / "runs.csv"
ORDER = (  # of the rows
    "attractor", "vqvae", "vqvae, modern", "emergent_communication", "grammar, paths", "grammar",
    "fully_compositional", "not_compositional",
)  # fmt: skip
Cells = dict[str, float]


def calibration(t: pd.DataFrame) -> Cells:
    """The learned discretizer and the resampled policy at T steps, log q̂ on log R at 5T."""
    steps = t["steps"].min()
    t = t[t["split"] == "train"].set_index(["steps", "statistic"])
    value, floor = t["value"], t.loc[steps, "floor"]
    policy, read = "tv_policy_resampled", "tv_discretizer"
    return {
        "slope_5T": value.get((5 * steps, "slope"), math.nan),
        "discretizer": value.get((steps, read), math.nan) - value[steps, "tv"],
        "policy_64": value.get((steps, policy), math.nan) - floor.get(policy, math.nan),
    }


def settling(t: pd.DataFrame) -> Cells:
    middle = t["last_change"].median()
    order = t["last_change"].rank().corr(t["entropy"].rank())
    before = (t["last_change"] < 2).mean()
    return {"last_change": middle, "before_2": before, "settling_entropy": order}


def basins(t: pd.DataFrame) -> Cells:
    (row,) = t.to_dict("records")
    names = {
        "stable": "stable", "near": "fixed_near", "attracting_control": "random_near",
        "sentences_per_basin": "sentences_a_basin", "spectral_radius": "eigenvalue",
        "near_control": "near_random",
    }  # fmt: skip
    return {name: row[column] for column, name in names.items()}


def neighbours(t: pd.DataFrame) -> Cells:
    t = t[t["pairs"] == "all"]
    return {f"r {feature}": r for feature, r in zip(t["feature"], t["r"], strict=True)}


def composition(t: pd.DataFrame) -> Cells:
    t = t[t["feature"] != "mean of 4"]  # which is the metric `composed`
    composed = t[(t["split"] == "train") & (t["source"] == "composed")]
    return {f"composed {f}": v for f, v in zip(composed["feature"], composed["value"], strict=True)}


def thought(t: pd.DataFrame) -> Cells:
    """Answers of sentences beside those of the grammars, of all training inputs."""
    t = t[(t["split"] == "train") & (t["source"] == "learned")].set_index(["measure", "baseline"])
    js, paths = t[t["feature"] == "node"]["value"]["js"], t["value"].xs("paths", level="baseline")
    names = ("energy", "translation_tv", "residual", "residual_scrambled")
    cells = {f"js {name}": js[name] for name in ("paths", "node", "slots")}
    return cells | {name: paths[name] for name in names}


MORE: dict[str, Callable[[pd.DataFrame], Cells]] = {
    "calibration/summary": calibration,
    "trajectories/settling": settling,
    "basins/summary": basins,
    "neighbours/summary": neighbours,
    "composition/summary": composition,
    "perturbation/critical": lambda t: {"critical": t["critical"].item()},
    "perturbation/summary": lambda t: {
        "unpushed": t[(t["start"] == "used") & (t["factor"] == 0)]["recovered"].item()
    },
    "compare_language_of_thought/summary": thought,
    "neighbours/ends": lambda t: {"elsewhere": t["elsewhere"].item()},
}


def axes(run: Run) -> Cells:
    """How many latent axes embeddings use."""
    return {"axes": int(used_axes(run.model).sum())} if is_listed(run.model) else {}


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
    return cells | axes(run)


if __name__ == "__main__":
    rows = [row(Path(path)) for path in sys.argv[1:]]
    rows.sort(key=lambda cells: (cells["data"], ORDER.index(cells["model"]), cells["seed"]))
    table = pd.DataFrame(rows).dropna(axis=1, how="all")
    table.columns = table.columns.str.replace(" ", "_")
    number = table.select_dtypes("number").columns
    table[number] = table[number].map(lambda value: f"{value:.4g}" if pd.notna(value) else "")
    table.to_csv(TABLE, index=False)
