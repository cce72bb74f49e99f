"""What discretisation loses of real-valued inputs, in variance explained."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from plot_attractors.analysis.parts import MOST_NAMED, steps_name
from plot_attractors.analysis.sampling import (
    LENGTHS,
    REAL,
    exact_states,
    is_listed,
    states_at,
)
from plot_attractors.analysis.shape import Needs, needs_inputs
from plot_attractors.analysis.style import BLUE, GREY, SPLIT_COLOURS, plain
from plot_attractors.data import Vectors
from plot_attractors.measures.bootstrap import resample
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.model.protocols import decodes_sentences
from plot_attractors.ranges import Size
from plot_attractors.runs import Run
from plot_attractors.split_names import split_name

TITLE = "Variance explained"
CAPTIONS = {
    "variance_explained": (
        "What is left of real-valued inputs in the states that sentences are read from. (A) The "
        "share of the variance of all columns that the decoder explains: from the initial state "
        "z0, from the states after T, 2T and 5T steps, and from exact samples of the same model's "
        "posterior; lines are 95 % intervals over inputs, and a guess has 0. What is between z0 "
        "and T is lost by discretisation; what is between T and exact samples, by the sampler. "
        "(B) Variance explained of each column, from z0 and at T, the columns in order of the "
        "latter. A model without dynamics discretises at once, and has no exact samples."
    )
}


@dataclass(frozen=True)
class Config:
    """Sample sizes."""

    inputs: Size = 1000  # in each split
    draws: Size = 16  # trajectories of each input


NEEDS = needs_inputs(REAL) & Needs(
    "a model of vectors that samples sentences",
    lambda run: isinstance(run.data, Vectors) and decodes_sentences(run.model),
)


# -- measures --------------------------------------------------------------------------------------


CELLS = 4_000_000  # numbers that are decoded at once


@torch.no_grad()
def errors(model: Any, x: Tensor, draws: int) -> tuple[Tensor, dict[int, Tensor], Tensor | None]:
    """Squared errors (B, D) of inputs x (B, D), means over draws: from z0; from `draws` states at
    T, 2T and 5T steps, or at 0 steps without dynamics; and from exact samples, None where sentences
    cannot be listed.
    """
    start = (model.reconstruct(x).mean - x).square()
    if not isinstance(model, AttractorModel):
        return start, {0: _errors(model.decoder, x, model.describe(x, draws).z)}, None
    encoding, times = model.encode(x), [k * model.steps for k in LENGTHS]
    states = states_at(model, encoding, draws, times)
    after = {t: _errors(model.decoder, x, z) for t, z in zip(times, states, strict=True)}
    if not is_listed(model):
        return start, after, None
    return start, after, _errors(model.decoder, x, exact_states(model, encoding, draws)[0])


def _errors(decoder: Callable[[Tensor], Any], x: Tensor, z: Tensor) -> Tensor:
    """Of states z (B, draws, d)."""
    rows = max(1, CELLS // (z.shape[1] * x.shape[1]))
    parts = zip(x.split(rows), z.split(rows), strict=True)
    return torch.cat([(decoder(z_).mean - x_[:, None]).square().mean(1) for x_, z_ in parts])


def summarise(
    x: Tensor, start: Tensor, after: dict[int, Tensor], exact: Tensor | None
) -> list[dict[str, float]]:
    r"""A row for each number of steps: variance explained of inputs x (B, D), by their squared
    errors (B, D), with 95 % bootstrap intervals over inputs.

    .. math:: R^2 = 1 - \frac{\sum_{x,k} (x_k - \mu_k(z))^2}{\sum_{x,k} x_k^2}

    Columns of x have mean 0 and variance 1 over the training rows, so that a guess has R² = 0.
    """
    times = resample(x)
    whole = x.square().sum(-1).double()

    def explained(name: str, errors: Tensor | None) -> dict[str, float]:
        values: tuple[float, ...] = (torch.nan,) * 3
        if errors is not None:
            error = errors.sum(-1).double()
            share = 1 - (times @ error) / (times @ whole)
            bounds = share.quantile(torch.tensor([0.025, 0.975], dtype=torch.float64)).tolist()
            values = (float(1 - error.sum() / whole.sum()), *bounds)
        return dict(zip((name, f"{name}_low", f"{name}_high"), values, strict=True))

    beside = explained("explained_z0", start) | explained("explained_exact", exact)
    return [
        {"steps": steps, "n": len(x)} | explained("explained", by_input) | beside
        for steps, by_input in after.items()
    ]


def of_columns(
    names: tuple[str, ...], x: Tensor, start: Tensor, after: dict[int, Tensor]
) -> pd.DataFrame:
    """(column, explained_z0, explained) variance of each column that is explained from z0, and
    after the fewest steps.
    """
    whole, first = x.square().sum(0), next(iter(after.values()))
    explained = [(1 - error.sum(0) / whole).numpy() for error in (start, first)]
    return pd.DataFrame({"column": names, "explained_z0": explained[0], "explained": explained[1]})


def measure(run: Run, config: Config) -> dict[str, Any]:
    """Tables of real-valued inputs, of each split.

    - ``summary.csv``: see `summarise`;
    - ``columns.csv``: of training inputs, see `of_columns`.

    Raises ValueError: inputs are no real numbers, or the model has no sentences or no decoder.
    """
    rows: list[dict[str, Any]] = []
    for split in run.data.splits:
        x = run.data.batch(config.inputs, split).x
        pair = errors(run.model, x, config.draws)
        rows += [{"split": split, **row} for row in summarise(x, *pair)]
        if split == "train":
            columns = of_columns(run.data.columns, x, *pair[:2])
    return {"summary.csv": pd.DataFrame(rows), "columns.csv": columns}


# -- figures ---------------------------------------------------------------------------------------


def draw(tables: Mapping[str, Any]) -> dict[str, Figure]:
    """Figure ``variance_explained``."""
    summary, columns = tables["summary.csv"], tables["columns.csv"]
    figure = Figure(figsize=(12, 9), layout="constrained")
    above, below = figure.subplots(2, 1)
    _draw_shares(above, summary)
    _draw_columns(below, columns)
    return {"variance_explained": figure}


def _draw_shares(axes: Axes, summary: pd.DataFrame) -> None:
    first = summary.drop_duplicates("split")
    places = ["from z0", *(steps_name(t, summary) for t in summary["steps"].unique())]
    exact = bool(summary["explained_exact"].notna().any())
    places += ["exact samples"] if exact else []
    for k, split in enumerate(first["split"]):
        part = summary[summary["split"] == split]
        sources = [
            (part.iloc[0], "explained_z0"),
            *((row, "explained") for _, row in part.iterrows()),
        ]
        sources += [(part.iloc[0], "explained_exact")] if exact else []
        value, low, high = (
            np.array([row[f"{name}{end}"] for row, name in sources])
            for end in ("", "_low", "_high")
        )
        x = np.arange(len(sources)) + 0.12 * (k - (len(first) - 1) / 2)
        colour = SPLIT_COLOURS.get(split, BLUE)
        axes.vlines(x, low, high, color=colour)  # bootstrap intervals may leave their value out
        axes.plot(x, value, "o", color=colour, label=split_name(split))
    axes.set(title="A  Variance explained", ylim=(min(0, axes.get_ylim()[0]), 1), ylabel="R²")
    axes.set_xticks(range(len(places)), places)
    axes.legend()


def _draw_columns(axes: Axes, columns: pd.DataFrame) -> None:
    table = columns.sort_values("explained", ascending=False, kind="stable")
    x = np.arange(len(table))
    look: dict[str, Any] = {"linestyle": "none" if len(table) <= MOST_NAMED else "-"}
    look["marker"] = "o" if len(table) <= MOST_NAMED else None
    axes.plot(x, table["explained_z0"], color=GREY, label="from z0", **look)
    axes.plot(
        x, table["explained"], color=BLUE, label="from states that sentences are read from", **look
    )
    axes.axhline(0, color=GREY, linewidth=0.8)
    axes.set(title="B  Variance explained of each column", ylabel="R²")
    if len(table) <= MOST_NAMED:
        axes.set_xticks(x, [plain(str(name)) for name in table["column"]], rotation=90, fontsize=7)
    else:
        axes.set_xlabel("columns, in order")
    axes.legend()
