"""Information lost by discretisation, d = c0 − cT, against Geometric(½), at T, 2T and 5T steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from plot_attractors.evaluation import information_loss
from plot_attractors.evaluation.sampling import refuse_inputs, shows_bits
from plot_attractors.model.protocols import decodes_sentences
from plot_attractors.plots.information_loss import plot as plot
from plot_attractors.ranges import Size
from plot_attractors.runs import Run

TITLE = "Information loss"
CAPTIONS = {
    "information_loss": (
        "The number of bits d lost by discretisation: bits of the input that the decoder predicts "
        "right from the initial state, less those that it predicts right from the state after T, "
        "2T and 5T steps. Light lines: single inputs; dark line: all inputs; dashed: the "
        "Geometric(½) distribution that follows from sentences in proportion to their information; "
        "dotted: what exact samples of the same model's posterior lose. Where the dark line leaves "
        "the dotted one the sampler is wrong, where the dotted one leaves the dashed one the "
        "target itself is not geometric. Lower rows: the same on a log₂ scale, on which theory is "
        "a line of slope −1. All is conditioned on d ≥ 0; the share of d < 0 is given in each "
        "panel. A model without dynamics discretises at once, and has no exact samples to compare "
        "with."
    )
}
STATISTICS = (
    "mean p p_low p_high kl kl_low kl_high p_clamped p_clamped_low p_clamped_high kl_clamped "
    "kl_clamped_low kl_clamped_high p_all p_all_low p_all_high tv_geometric p_zero p_negative"
)


@dataclass(frozen=True)
class Config:
    """Sample sizes: draws for one input are alike, so precision comes from the inputs."""

    inputs: Size = 5000  # in each split
    draws: Size = 4  # trajectories of each input
    lines: Size = 60  # inputs with a line of their own in the figure
    line_draws: Size = 32  # trajectories of each of these


def applies(run: Run) -> bool:
    """Whether inputs are bits, decoded as Bernoulli from states, and the model has sentences."""
    return decodes_sentences(run.model) and shows_bits(run)


def measure(run: Run, config: Config) -> dict[str, Any]:
    """Tables of d, with a row for each split and number of steps.

    ``summary.csv`` (split, steps, n, mean, p, p_low, p_high, kl, kl_low, kl_high, the same of
    p_clamped, kl_clamped and p_all, tv_geometric, p_zero, p_negative, kl_exact): n draws over all
    inputs; the statistics of `metrics.information_loss.InformationLoss` with 95 % bootstrap
    intervals over inputs; kl_exact,
    the KL of z_T ~ N(ẑ_s, ε²) with s from the exact posterior and as many draws, NaN where
    sentences cannot be listed. ``distribution.csv``: P(d) of the sampler, of the exact samples, and
    of theory. ``inputs.csv`` (input, d, draws): counts of a few inputs, of draws of their own. A
    model without dynamics has 0 steps. Source: Section *Sample diversity*.

    Raises ValueError: inputs are no vectors of bits, or the model has no sentences or no decoder.
    """
    if not applies(run):
        refuse_inputs(
            run, "vectors of bits, decoded as Bernoulli by a model that samples sentences"
        )
    rows, distributions, inputs = [], [], []
    for split in run.data.splits:
        x = run.data.batch(config.inputs, split).x
        found = information_loss.losses(run.model, x, config.draws)
        single = information_loss.losses(run.model, x[: config.lines], config.line_draws)
        exact = information_loss.describe(found.exact)
        for steps, counts in found.by_steps.items():
            of = information_loss.describe(counts)
            at = {"split": split, "steps": steps}
            shown = {name: of[name] for name in STATISTICS.split()}
            n, kl_exact = config.inputs * config.draws, exact.get("kl", np.nan)
            rows.append(at | {"n": n} | shown | {"kl_exact": kl_exact})
            table = information_loss.tabulate_distribution(counts, found.exact)
            distributions.append(pd.DataFrame(at, table.index).join(table))
            table = information_loss.tabulate_inputs(single.by_steps[steps])
            inputs.append(pd.DataFrame(at, table.index).join(table))
    return {
        "summary.csv": pd.DataFrame(rows),
        "distribution.csv": pd.concat(distributions),
        "inputs.csv": pd.concat(inputs),
    }
