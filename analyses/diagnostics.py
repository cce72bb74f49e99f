"""Diagnostics of one run by ArviZ: importance weights, predictive checks, information loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch

from plot_attractors.evaluation import arviz as diagnostics
from plot_attractors.evaluation.diagnostics import Compressed
from plot_attractors.evaluation.metrics.information_loss import ecdf_difference
from plot_attractors.evaluation.sampling import has_likelihood, shows_bits
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.plots.diagnostics import plot as plot
from plot_attractors.ranges import Count, Size
from plot_attractors.runs import Run

TITLE = "Diagnostics"
CAPTIONS = {
    "diagnostics": (
        "Checks of the sampler and the decoder. (A) Whether the trajectories of an input can be "
        "weighted into exact ones: each dot is an input, k̂ the shape of the tail of its importance "
        "weights, the effective sample size the number of exact draws that its trajectories are as "
        "good as. Right of the dashed line, at 0.7, the weights cannot be trusted. (B) A "
        "predictive check: the share of inputs with at most so many 1s. Black: the inputs; blue: "
        "what the decoder gives back for them from the end states of their trajectories, a line "
        "for each draw. Where the black line leaves the blue ones, sentences change how many 1s "
        "there are. (C) The distribution function of the bits lost, given that none are won, minus "
        "that of Geometric(½), from one trajectory of each of many inputs. Grey: where a sample of "
        "that distribution stays in 94 of 100 cases. Above 0 small losses are too frequent, below "
        "0 large ones. Of images and other inputs than bits, (B) shows the mean reward of an "
        "input's sentences against their mean length instead, and there is no (C)."
    )
}


@dataclass(frozen=True)
class Config:
    """Sample sizes."""

    inputs: Size = 64
    draws: Size = 100
    wide_inputs: Size = 1000  # with one draw each, so that losses are independent
    replicates: Count = 50  # lines in the predictive check


def applies(run: Run) -> bool:
    """Whether the run's model has trajectories and path weights, and inputs a probability in what
    it decodes.
    """
    return isinstance(run.model, AttractorModel) and has_likelihood(run)


def measure(run: Run, config: Config) -> dict[str, Any]:
    """Samples of training inputs, and their diagnostics.

    ``posterior.nc``: the samples, as `arviz.to_datatree` lays them out, for ``arviz.from_netcdf``.
    ``summary.csv``, a row an input (input, y, info_loss, length, log_reward, log_weight, pareto_k,
    ess, p_ones, p_correct, p_log_likelihood): y, its class, row or image; means over draws of bits
    lost, tokens, log-rewards and log-weights in nats; k̂ of the weights, NaN where draws are too
    few, and their effective sample size; Bayesian p-values. Inputs that are bits have besides
    ``checks.csv`` (statistic, observed, replicated, p_total), means over inputs and draws and the
    p-value of the sum over inputs; ``ones.npz``, the numbers of 1s; ``ecdf.csv`` (d, difference,
    low, high) by `ecdf_difference`. See `evaluation.diagnostics` for the formulas.
    """
    seed, other = (int(part) for part in torch.randint(2**31, (2,)))
    tree: Any = diagnostics.to_datatree(run, inputs=config.inputs, draws=config.draws, seed=seed)
    weights = diagnostics.psis(tree).isel(chain=0)
    means = diagnostics.label_free(tree).isel(chain=0).mean("draw")
    columns = {name: tree["constant_data"][name] for name in ("input", "y")}
    names = ("info_loss", "length", "log_reward", "log_weight")
    columns |= {name: means[name] for name in names if name in means}
    columns |= {name: weights[name] for name in ("pareto_k", "ess")}
    tables: dict[str, Any] = {}
    if shows_bits(run):
        checks = diagnostics.predictive_checks(tree).isel(chain=0)
        columns |= {
            f"p_{k}": checks["p_value"].sel(statistic=k) for k in checks["statistic"].values
        }
        kept = ["observed", "replicated", "p_total"]
        wide: Any = diagnostics.to_datatree(run, inputs=config.wide_inputs, draws=1, seed=other)
        loss = wide["posterior"]["info_loss"].values
        ones = {
            "observed": tree["observed_data"]["ones"].values,
            "replicated": tree["posterior_predictive"]["ones"].values[0, : config.replicates],
        }
        tables = {
            "checks.csv": checks[kept].to_dataframe()[kept].rename_axis("statistic").reset_index(),
            "ones.npz": ones,
            "ecdf.csv": ecdf_difference(loss),
            "losses.csv": pd.DataFrame([{"kept": (loss >= 0).sum(), "negative": (loss < 0).sum()}]),
        }
    summary = pd.DataFrame({name: np.asarray(column) for name, column in columns.items()})
    return {"posterior.nc": Compressed(tree), "summary.csv": summary, **tables}
