"""Diagnostics of one run by ArviZ: importance weights of trajectories, and a predictive check."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from plot_attractors.analysis import arviz, sampling, shape
from plot_attractors.analysis.parts import note
from plot_attractors.analysis.style import BLUE, LIGHT_BLUE, RED
from plot_attractors.pareto import MOST_K, psis
from plot_attractors.ranges import Size, setting
from plot_attractors.runs import Run

TITLE = "Diagnostics"
CAPTIONS = {
    "diagnostics": (
        "(A) Whether the trajectories of an input can be weighted into exact ones: each dot is an "
        "input, k̂ the shape of the tail of its importance weights, the effective sample size the "
        "number of exact draws that its trajectories are as good as. Right of the dashed line, at "
        "0.7, the weights cannot be trusted. (B) Of bits, a predictive check: the share of inputs "
        "with at most so many 1s. Black: the inputs; blue: what the decoder gives back for them "
        "from the end states of their trajectories, a line for each draw. Where the black line "
        "leaves the blue ones, sentences change how many 1s there are."
    )
}
NEEDS = shape.ATTRACTORS & shape.Needs(
    "inputs with a probability in what is decoded", sampling.has_likelihood
)


@dataclass(frozen=True)
class Config:
    """Sample sizes."""

    inputs: Size = 64
    draws: Size = setting(100, "draws of each input")


REPLICATES = 50  # lines in the predictive check


def measure(run: Run, config: Config) -> dict[str, Any]:
    """Samples of training inputs, and their diagnostics.

    ``posterior.nc``: the samples, as `arviz.sample_run` lays them out, for ``arviz.from_netcdf``.
    ``summary.csv``, a row an input (input, y, info_loss, length, log_reward, log_weight, pareto_k,
    ess): y, its class, row or image; means over draws of bits lost, tokens, log-rewards and
    log-weights in nats; k̂ of the weights, NaN where draws are too few, and their effective sample
    size. Of bits besides ``checks.csv`` (observed, replicated, p_total), see
    `arviz.predictive_check`, and ``ones.npz``, the numbers of 1s.
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
        tables["ones.npz"] = {
            "observed": tree["observed_data"]["ones"].values,
            "replicated": tree["posterior_predictive"]["ones"].values[0, :REPLICATES],
        }
    return tables


def draw(tables: Mapping[str, Any]) -> dict[str, Figure]:
    """Figure ``diagnostics``: two panels of bits, one of others, which have no ``ones.npz``."""
    bits = "ones.npz" in tables
    figure, panels = shape.panels(1 + bits, 1 + bits)
    _draw_weights(panels[0], tables["summary.csv"])
    if bits:
        _draw_ones(panels[1], **tables["ones.npz"], p=tables["checks.csv"]["p_total"].iloc[0])
    return {"diagnostics": figure}


def _draw_weights(axes: Axes, summary: pd.DataFrame) -> None:
    known = summary[np.isfinite(summary["pareto_k"])]
    axes.scatter(known["pareto_k"], known["ess"], s=22, color=BLUE, alpha=0.7, linewidths=0)
    axes.axvline(MOST_K, ymax=0.87, color=RED, linewidth=1.4, linestyle="--")
    axes.set_ylim(0, 1.25 * summary["ess"].max())
    middle = summary[["pareto_k", "ess"]].median()
    text = f"median k̂ {middle['pareto_k']:.2f}, median size {middle['ess']:.1f}"
    if len(known) < len(summary):
        text += f"\n{len(summary) - len(known)} inputs without a finite k̂"
    note(axes, text)
    axes.set(title="A  Importance weights", xlabel="k̂, tail of the weights of an input")
    axes.set_ylabel("effective sample size")


def _draw_ones(axes: Axes, observed: np.ndarray, replicated: np.ndarray, p: float) -> None:
    for k, ones in enumerate(replicated):
        label = "_" * (k > 0) + "replicates"  # one of them in the legend
        axes.ecdf(ones, color=LIGHT_BLUE, linewidth=0.7, alpha=0.35, label=label)
    axes.ecdf(observed, color="black", linewidth=1.8, label="inputs")
    axes.set(xlim=(0, 1.05 * max(observed.max(), replicated.max())), ylim=(0, 1.02))
    axes.legend(loc="lower right", title=f"p-value of the sum {p:.2f}", title_fontsize=9)
    axes.set(title="B  Predictive check", xlabel="number of 1s")
    axes.set_ylabel("share of inputs with at most as many")
