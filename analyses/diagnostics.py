"""Diagnostics of one run by ArviZ: importance weights of trajectories, and a predictive check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch

from plot_attractors.analysis import arviz, sampling, shape
from plot_attractors.gflownet import psis
from plot_attractors.ranges import Size, setting
from plot_attractors.runs import Run

TITLE = "Diagnostics"
NEEDS = shape.ATTRACTORS & shape.Needs(
    "inputs with a probability in what is decoded", sampling.has_likelihood
)


@dataclass(frozen=True)
class Config:
    """Sample sizes."""

    inputs: Size = 64
    draws: Size = setting(100, "draws of each input")


def measure(run: Run, config: Config) -> dict[str, Any]:
    """Samples of training inputs, and their diagnostics.

    ``posterior.nc``: the samples, as `arviz.sample_run` lays them out, for ``arviz.from_netcdf``.
    ``summary.csv``, a row an input (input, y, info_loss, length, log_reward, log_weight, pareto_k,
    ess): y, its class, row or image; means over draws of bits lost, tokens, log-rewards and
    log-weights in nats; k̂ of the weights, NaN where draws are too few, and their effective sample
    size. Of bits besides ``checks.csv`` (observed, replicated, p_total), see
    `arviz.predictive_check`.
    """
    seed = int(torch.randint(2**31, ()))
    tree: Any = arviz.sample_run(run, inputs=config.inputs, draws=config.draws, seed=seed)
    weights = psis(tree).isel(chain=0)
    columns = {name: tree["constant_data"][name] for name in ("input", "y")}
    means = arviz.label_free(tree).drop_vars("log_likelihood").isel(chain=0).mean("draw")
    columns |= {str(name): mean for name, mean in means.items()}
    columns |= {name: weights[name] for name in ("pareto_k", "ess")}
    summary = pd.DataFrame({name: np.asarray(column) for name, column in columns.items()})
    tables = {"posterior.nc": tree, "summary.csv": summary}
    if sampling.kind_of_inputs(run) == sampling.BITS:
        check = arviz.predictive_check(tree).isel(chain=0)
        columns = {name: [float(check[name])] for name in ("observed", "replicated", "p_total")}
        tables["checks.csv"] = pd.DataFrame(columns)
    return tables
