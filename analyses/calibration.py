"""The sampler's distribution of sentences against the exact posterior, at T, 2T and 5T steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from plot_attractors.evaluation import calibration
from plot_attractors.evaluation.sampling import require_attractors
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.plots.calibration import LEAST
from plot_attractors.plots.calibration import plot as plot
from plot_attractors.runs import Run

TITLE = "Calibration"
CAPTIONS = {
    "calibration": (
        "Is each sentence sampled in proportion to its reward? Upper row: probability of every "
        "sentence for every input, as estimated from sampled trajectories of T, 2T and 5T steps, "
        "against the exact posterior; a perfect sampler lies on the diagonal, within the noise of "
        "the draws. Colour: how many (input, sentence) pairs; probabilities below 10⁻⁴ are drawn "
        "there. Of sentences too many to list, those that were drawn. Lower row: total-variation "
        "distance of the two distributions for each input; dotted, the noise floor, is the same "
        "for as many draws from the exact posterior. Vertical lines are means; the distance at "
        "infinitely many draws, with its standard error, is more than their difference, which is "
        "a lower bound. First for inputs "
        "like those of training, then for what training never showed."
    )
}

Config = calibration.Sizes


def applies(run: Run) -> bool:
    """Whether the run's model has a posterior to draw from."""
    return isinstance(run.model, AttractorModel)


def measure(run: Run, config: Config) -> dict[str, Any]:
    """``summary.csv`` (split, steps, statistic, value, floor), and what the figure shows.

    The statistics are those of `evaluation.calibration`, means over the inputs of a split unless
    said otherwise there, in nats.

    ``inputs.csv`` (split, steps, input, tv, tv_exact). ``pairs.npz``: p, q̂ and the number of such
    pairs of an input and a sentence.

    Raises ValueError: no attractor model.
    """
    model = require_attractors(run.model)
    summary, inputs, pairs = [], [], {}
    for split in run.data.splits:
        found = calibration.calibrate(model, run.data, split, config)
        table = calibration.tabulate(found)
        table.insert(0, "split", split)
        summary.append(table)
        pairs[f"{split} size"] = np.array(found.control.p.numel())
        exact = found.control.distance.numpy()
        for steps, of in found.estimates.items():
            pairs[f"{split} {steps}"] = calibration.count_pairs(of, LEAST)
            columns = {"input": range(len(exact)), "tv": of.distance.numpy(), "tv_exact": exact}
            inputs.append(pd.DataFrame({"split": split, "steps": steps, **columns}))
    return {"summary.csv": pd.concat(summary), "inputs.csv": pd.concat(inputs), "pairs.npz": pairs}
