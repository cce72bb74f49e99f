"""The numbers of the page: each number of the map, its median and its spread over seeds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import pandas as pd

from plot_attractors.measures.registry import Paper
from plot_attractors.paper.fits import MODELS
from plot_attractors.paper.plan import PlannedRun, finished
from plot_attractors.paper.results import RESULTS, Number, Result, of_paper
from plot_attractors.runs import Run
from plot_attractors.runs import numbers as numbers_

__all__ = ["Cell", "collect", "runs_table", "write"]


class Cell(NamedTuple):
    """A number of a model: its value of each seed that has one."""

    result: Result
    number: Number
    model: str
    values: Mapping[int, float]

    @property
    def known(self) -> list[float]:
        return list(self.values.values())

    @property
    def median(self) -> float:
        return median(self.known) if self.known else math.nan

    @property
    def least(self) -> float:
        return min(self.known, default=math.nan)

    @property
    def greatest(self) -> float:
        return max(self.known, default=math.nan)

    @property
    def paper(self) -> Paper | str | None:
        return self.number.paper.get(self.model)


def collect(runs: Iterable[PlannedRun]) -> tuple[list[Cell], list[str]]:
    """The cells of all results, and a sentence on every table that cannot be read."""
    values_by_cell: dict[tuple[str, str, str], dict[int, float]] = {}
    problems: dict[str, None] = {}
    for planned in runs:
        if not finished(planned.path):
            continue
        run = Run(planned.path)
        for result in RESULTS:
            metrics = {
                number.name: number.metric
                for number in result.numbers
                if number.data == planned.data and planned.model in number.models
            }
            try:
                values = numbers_.numbers(run, metrics)
            except ValueError as error:
                problems[f"{error}."] = None
                continue
            for name, value in values.items():
                if not math.isnan(value):
                    seeds = values_by_cell.setdefault((result.key, name, planned.model), {})
                    seeds[planned.seed] = value
    cells = [
        Cell(result, number, model, values_by_cell.get((result.key, number.name, model), {}))
        for result in RESULTS
        for number in result.numbers
        for model in number.models
    ]
    return cells, list(problems)


def runs_table(runs: Sequence[PlannedRun]) -> pd.DataFrame:
    """A row for each run: what was fitted, and how long that took."""
    rows: list[dict[str, Any]] = []
    for planned in runs:
        row: dict[str, Any] = {"run": planned.name, "data": planned.data, "model": planned.model}
        row |= {"seed": planned.seed, "finished": finished(planned.path)}
        if row["finished"]:
            run = Run(planned.path)
            row |= {"program": run.program_name, "inference": run.inference_name}
            row |= {"minutes": numbers_.minutes(run)}
        rows.append(row)
    names = "run data model seed finished program inference minutes"
    return pd.DataFrame(rows, columns=names.split())


def write(folder: Path, cells: Sequence[Cell], runs: pd.DataFrame) -> None:
    """Write every number of the page: ``<result>.csv``, ``seeds.csv`` and ``runs.csv``.

    - ``<result>.csv``: a row for each number and model: the paper's value, as text; median, least
      and greatest over seeds, and how many these are; and where it is read from.
    - ``seeds.csv``: the value of every seed. ``runs.csv``: see `runs_table`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for result in RESULTS:
        rows = [_row(cell) for cell in cells if cell.result is result]
        if rows:
            pd.DataFrame(rows).to_csv(folder / f"{result.key}.csv", index=False)
    seeds = [
        {
            "result": c.result.key, "data": c.number.data, "number": c.number.metric.name,
            "model": c.model, "seed": seed, "value": value,
        }
        for c in cells for seed, value in c.values.items()
    ]  # fmt: skip
    columns = ["result", "data", "number", "model", "seed", "value"]
    pd.DataFrame(seeds, columns=columns).to_csv(folder / "seeds.csv", index=False)
    runs.to_csv(folder / "runs.csv", index=False)


def _row(cell: Cell) -> dict[str, Any]:
    metric = cell.number.metric
    return {
        "section": cell.result.section,
        "place": cell.result.place,
        "data": cell.number.data,
        "number": metric.name,
        "title": metric.title,
        "unit": metric.unit,
        "model": MODELS[cell.model].title,
        "paper": "" if cell.paper is None else of_paper(cell.paper),
        "median": cell.median,
        "least": cell.least,
        "greatest": cell.greatest,
        "seeds": len(cell.known),
        "file": f"analyses/{metric.analysis}/{metric.table}.csv",
        "column": metric.column,
        "where": ", ".join(f"{key} {value}" for key, value in metric.where.items()),
    }
