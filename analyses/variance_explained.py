"""What discretisation loses of real-valued inputs, in variance explained and in nats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from plot_attractors.data import Vectors
from plot_attractors.evaluation import variance_explained
from plot_attractors.evaluation.sampling import REAL, kind_of_inputs, refuse_inputs
from plot_attractors.model.protocols import decodes_sentences
from plot_attractors.plots.variance_explained import plot as plot
from plot_attractors.ranges import Size
from plot_attractors.runs import Run

TITLE = "Variance explained"
CAPTIONS = {
    "variance_explained": (
        "What is left of real-valued inputs in the states that sentences are read from. (A) The "
        "share of the variance of all columns that the decoder explains: from the initial state "
        "z0, from the states after T, 2T and 5T steps, and from exact samples of the same model's "
        "posterior; lines are 95 % intervals over inputs, and a guess has 0. What is between z0 "
        "and T is lost by discretisation; what is between T and exact samples, by the sampler. "
        "(B) Nats lost by an input, log P(x | z0) − log P(x | z_T): the share of inputs that lose "
        "at most so much, of training inputs and of held-out ones; dotted: exact samples. (C) "
        "Variance explained of each column, from z0 and at T; the columns stand in order of the "
        "latter. A model without dynamics discretises at once, and has no exact samples."
    )
}


@dataclass(frozen=True)
class Config:
    """Sample sizes."""

    inputs: Size = 1000  # in each split
    draws: Size = 16  # trajectories of each input


def applies(run: Run) -> bool:
    """Whether inputs are real numbers, decoded as such, and the model has sentences."""
    decoded = isinstance(run.data, Vectors) and decodes_sentences(run.model)
    return decoded and kind_of_inputs(run) == REAL


def measure(run: Run, config: Config) -> dict[str, Any]:
    """Tables of real-valued inputs, of each split.

    - ``summary.csv``: see `variance_explained.summarise`;
    - ``inputs.csv``: see `variance_explained.of_inputs`;
    - ``columns.csv``: of training inputs, see `variance_explained.of_columns`.

    Raises ValueError: inputs are no real numbers, or the model has no sentences or no decoder.
    """
    if not applies(run):
        refuse_inputs(
            run,
            "vectors of real numbers that a file holds, decoded as a density with a mean, such as "
            "Normal, by a model that samples sentences",
        )
    rows, inputs, columns = [], [], []
    for split in run.data.splits:
        batch = run.data.batch(config.inputs, split)
        found = variance_explained.fits(run.model, batch.x, config.draws)
        rows += [{"split": split, **row} for row in variance_explained.summarise(batch.x, *found)]
        table = variance_explained.of_inputs(batch.y, *found)
        inputs.append(
            pd.DataFrame({"split": split}, table.index).join(table.reset_index(drop=True))
        )
        if split == "train":
            columns.append(variance_explained.of_columns(run.data.columns, batch.x, *found[:2]))
    return {
        "summary.csv": pd.DataFrame(rows),
        "inputs.csv": pd.concat(inputs),
        "columns.csv": pd.concat(columns),
    }
