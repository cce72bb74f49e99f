"""Diagnostics of one run by ArviZ: importance weights, predictive checks, information loss."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from plot_attractors.analysis.arviz import sample_runs
from plot_attractors.analysis.diagnostics import label_free, predictive_checks
from plot_attractors.analysis.parts import note, write
from plot_attractors.analysis.sampling import has_likelihood, shows_bits
from plot_attractors.analysis.shape import ATTRACTORS, Needs
from plot_attractors.analysis.style import BLUE, GREY, LIGHT_BLUE, ORANGE, RED
from plot_attractors.measures.information_loss import ecdf_difference
from plot_attractors.pareto import MOST_K, psis
from plot_attractors.ranges import Size
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
        "0 large ones. Of images and other inputs than bits there is (A) alone."
    )
}


@dataclass(frozen=True)
class Config:
    """Sample sizes."""

    inputs: Size = 64
    draws: Size = 100  # draws of each input
    wide_inputs: Size = 1000  # with one draw each, so that losses are independent


NEEDS = ATTRACTORS & Needs("inputs with a probability in what is decoded", has_likelihood)


# -- measures --------------------------------------------------------------------------------------


REPLICATES = 50  # lines in the predictive check


def measure(run: Run, config: Config) -> dict[str, Any]:
    """Samples of training inputs, and their diagnostics.

    ``posterior.nc``: the samples, as `arviz.sample_runs` lays them out, for ``arviz.from_netcdf``.
    ``summary.csv``, a row an input (input, y, info_loss, length, log_reward, log_weight, pareto_k,
    ess): y, its class, row or image; means over draws of bits lost, tokens, log-rewards and
    log-weights in nats; k̂ of the weights, NaN where draws are too few, and their effective sample
    size. Inputs that are bits have besides
    ``checks.csv`` (statistic, observed, replicated, p_total), means over inputs and draws and the
    p-value of the sum over inputs; ``ones.npz``, the numbers of 1s; ``ecdf.csv`` (d, difference,
    low, high) by `ecdf_difference`, and ``losses.csv`` (kept, negative), how many draws it is of,
    and how many with d < 0 it leaves out. See `analysis.diagnostics` for the formulas.
    """
    seed, other = (int(part) for part in torch.randint(2**31, (2,)))
    tree: Any = sample_runs(run, inputs=config.inputs, draws=config.draws, seed=seed)
    weights = psis(tree).isel(chain=0)
    means = label_free(tree).isel(chain=0).mean("draw")
    columns = {name: tree["constant_data"][name] for name in ("input", "y")}
    names = ("info_loss", "length", "log_reward", "log_weight")
    columns |= {name: means[name] for name in names if name in means}
    columns |= {name: weights[name] for name in ("pareto_k", "ess")}
    tables: dict[str, Any] = {}
    if shows_bits(run):
        checks = predictive_checks(tree).isel(chain=0)
        kept = ["observed", "replicated", "p_total"]
        wide: Any = sample_runs(run, inputs=config.wide_inputs, draws=1, seed=other)
        loss = wide["posterior"]["info_loss"].values
        ones = {
            "observed": tree["observed_data"]["ones"].values,
            "replicated": tree["posterior_predictive"]["ones"].values[0, :REPLICATES],
        }
        tables = {
            "checks.csv": checks[kept].to_dataframe()[kept].rename_axis("statistic").reset_index(),
            "ones.npz": ones,
            "ecdf.csv": ecdf_difference(loss),
            "losses.csv": pd.DataFrame([{"kept": (loss >= 0).sum(), "negative": (loss < 0).sum()}]),
        }
    summary = pd.DataFrame({name: np.asarray(column) for name, column in columns.items()})
    return {"posterior.nc": tree, "summary.csv": summary, **tables}


# -- figures ---------------------------------------------------------------------------------------


def draw(tables: Mapping[str, Any]) -> dict[str, Figure]:
    """Figure ``diagnostics``: three panels of bits, one of others, which have no ``ones.npz``."""
    bits = "ones.npz" in tables
    figure = Figure(figsize=(12 if bits else 5, 4), layout="constrained")
    panels = figure.subplots(1, 3 if bits else 1, squeeze=False)[0]
    _draw_weights(panels[0], tables["summary.csv"])
    if bits:
        checks = tables["checks.csv"].set_index("statistic")
        _draw_ones(panels[1], **tables["ones.npz"], p=checks.loc["ones", "p_total"])
        _draw_loss(panels[2], tables["ecdf.csv"], tables["losses.csv"].iloc[0])
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


def _draw_loss(axes: Axes, ecdf: pd.DataFrame, number: pd.Series) -> None:
    axes.set(title="C  Information loss against Geometric(½)", xlabel="d, bits lost")
    axes.set_ylabel("ECDF − Geometric(½)")
    axes.axhline(0, color=ORANGE, linewidth=1.4, linestyle="--")
    if ecdf.empty:
        write(axes, "every draw has d < 0")
        return
    band: dict[str, Any] = {"step": "post", "color": GREY, "alpha": 0.25, "linewidth": 0}
    axes.fill_between(ecdf["d"], ecdf["low"], ecdf["high"], **band)
    axes.step(ecdf["d"], ecdf["difference"], where="post", color=BLUE, linewidth=2)
    note(axes, f"{number['kept']} draws with d ≥ 0, {number['negative']} with d < 0")
