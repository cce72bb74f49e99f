"""Diagnostics of one run by ArviZ: importance weights of trajectories, predictive checks,
information loss's ECDF.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from scipy.stats import geom

from plot_attractors.evaluation import arviz as diagnostics
from plot_attractors.evaluation.sampling import shows_bits
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.plots.style import BLUE, GREY, LIGHT_BLUE, ORANGE, RED, save, style

if TYPE_CHECKING:
    from plot_attractors.runs import Run

__all__ = ["CAPTIONS", "TITLE", "analyze", "applies"]

TITLE = "Diagnostics"
CAPTIONS = {
    "diagnostics": (
        "Three checks of the sampler and the decoder. (A) Whether the trajectories of an input can "
        "be weighted into "
        "exact ones: each dot is an input, k̂ the weight of the tail of its importance weights, "
        "the effective sample "
        "size what its trajectories are worth, in exact draws. Right of the dashed line, at 0.7, "
        "the weights cannot "
        "be trusted. (B) A predictive check: the share of inputs with at most so many 1s. Black: "
        "the inputs; blue: "
        "what the decoder gives back for them from the end states of their trajectories, a line "
        "for each draw. Where "
        "the black line leaves the blue ones, sentences change how many 1s there are. (C) The "
        "distribution function of "
        "the bits lost, given that none are won, minus that of Geometric(½), from one trajectory "
        "of each of many "
        "inputs. Grey: where a sample of that law stays in 94 of 100 cases. Above 0 small losses "
        "are too frequent, "
        "below 0 large ones."
    )
}

INPUTS, DRAWS = 64, 100  # of the samples that are kept
WIDE_INPUTS = 1000  # with one draw each, so that draws of the distribution function are independent
REPLICATES = 50  # lines in the predictive check
UNTRUSTED = 0.7  # k̂ above which weights cannot be trusted
SHOWN = 12  # greatest loss in the figure, bits


def applies(run: Run) -> bool:
    """Whether inputs are bits, and the run's model has trajectories and path weights."""
    return isinstance(run.model, AttractorModel) and shows_bits(run.data)


def analyze(run: Run, out: Path) -> None:
    """Write ``posterior.nc``, ``summary.csv``, ``checks.csv`` and the figure ``diagnostics`` into
    ``out``.

    ``posterior.nc``: the samples, as `diagnostics.to_datatree` lays them out, for
    ``arviz.from_netcdf``. Training inputs. ``summary.csv``, a row an input (input, y, info_loss,
    length, log_weight, pareto_k, ess, p_ones, p_correct, p_log_likelihood): y, its class or row of
    the table; means over draws of bits lost, tokens, and log-weights in nats; k̂ of the weights,
    NaN where draws are too few, and their effective sample size; Bayesian p-values. ``checks.csv``
    (statistic, observed, replicated, p_total): means over inputs and draws, and the p-value of the
    sum over inputs. See `diagnostics.psis` and `diagnostics.predictive_checks` for the formulas.
    """
    seed, other = (int(part) for part in torch.randint(2**31, (2,)))
    tree = diagnostics.to_datatree(run, inputs=INPUTS, draws=DRAWS, seed=seed)
    diagnostics.save(tree, out / "posterior.nc")
    weights = diagnostics.psis(tree).isel(chain=0)
    checks = diagnostics.predictive_checks(tree).isel(chain=0)
    means = diagnostics.label_free(tree).isel(chain=0).mean("draw")
    summary = pd.DataFrame(
        {
            "input": tree["constant_data"]["input"].values,
            "y": tree["constant_data"]["y"].values,
            **{name: means[name].values for name in ("info_loss", "length", "log_weight")},
            **{name: weights[name].values for name in ("pareto_k", "ess")},
            **{
                f"p_{name}": checks["p_value"].sel(statistic=name).values
                for name in checks["statistic"].values
            },
        }
    )
    summary.to_csv(out / "summary.csv", index=False)
    columns = ["observed", "replicated", "p_total"]
    checks[columns].to_dataframe()[columns].to_csv(out / "checks.csv", index_label="statistic")
    wide = diagnostics.to_datatree(run, inputs=WIDE_INPUTS, draws=1, seed=other)
    with style():
        figure = Figure(figsize=(12, 4), layout="constrained")
        first, second, third = figure.subplots(1, 3)
        _draw_weights(first, summary)
        _draw_ones(second, tree, checks)
        _draw_loss(third, diagnostics.label_free(wide)["info_loss"].values)
        save(figure, out / "diagnostics")


def _draw_weights(axes: Axes, summary: pd.DataFrame) -> None:
    known = summary[np.isfinite(summary["pareto_k"])]
    axes.scatter(known["pareto_k"], known["ess"], s=22, color=BLUE, alpha=0.7, linewidths=0)
    axes.axvline(UNTRUSTED, ymax=0.87, color=RED, linewidth=1.4, linestyle="--")
    axes.set_ylim(0, 1.25 * summary["ess"].max())
    note = f"median k̂ {summary['pareto_k'].median():.2f}, median size {summary['ess'].median():.1f} of {DRAWS}"
    if len(known) < len(summary):
        note += f"\n{len(summary) - len(known)} inputs without a finite k̂"
    axes.text(0.97, 0.97, note, transform=axes.transAxes, ha="right", va="top", fontsize=8.5)
    axes.set_title("A  Importance weights")
    axes.set_xlabel("k̂, tail of the weights of an input")
    axes.set_ylabel("effective sample size")


def _draw_ones(axes: Axes, tree: Any, checks: Any) -> None:
    observed = np.sort(tree["observed_data"]["ones"].values)
    replicates = np.sort(tree["posterior_predictive"]["ones"].values[0, :REPLICATES], axis=-1)
    share = (1 + np.arange(len(observed))) / len(observed)
    steps = [
        np.column_stack([np.repeat(ones, 2), np.append(0, np.repeat(share, 2)[:-1])])
        for ones in replicates
    ]
    axes.add_collection(LineCollection(steps, colors=LIGHT_BLUE, linewidths=0.7, alpha=0.35))
    axes.step(
        np.append(observed[0], observed),
        np.append(0, share),
        where="post",
        color="black",
        linewidth=1.8,
    )
    axes.set_xlim(0, 1.05 * max(observed[-1], replicates.max()))
    axes.set_ylim(0, 1.02)
    p = float(checks["p_total"].sel(statistic="ones"))
    handles = [
        Line2D([], [], color="black", linewidth=1.8, label="inputs"),
        Line2D([], [], color=LIGHT_BLUE, linewidth=1.4, label="replicates"),
    ]
    axes.legend(
        handles=handles, loc="lower right", title=f"p-value of the sum {p:.2f}", title_fontsize=9
    )
    axes.set_title("B  Predictive check")
    axes.set_xlabel("number of 1s")
    axes.set_ylabel("share of inputs with at most as many")


def _draw_loss(axes: Axes, loss: np.ndarray) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", FutureWarning
        )  # ArviZ announces its next version once a day
        import arviz as az
    theory = geom(0.5, loc=-1)
    axes.set_title("C  Information loss against Geometric(½)")
    axes.set_xlabel("d, bits lost")
    axes.set_ylabel("ECDF − Geometric(½)")
    axes.axhline(0, color=ORANGE, linewidth=1.4, linestyle="--")
    kept = loss[loss >= 0]
    if not len(kept):
        axes.text(0.5, 0.5, "every draw has d < 0", transform=axes.transAxes, ha="center")
        return
    az.plot_ecdf(
        kept,
        cdf=theory.cdf,
        rvs=theory.rvs,
        random_state=0,
        eval_points=np.arange(SHOWN + 1),
        difference=True,
        confidence_bands="simulated",
        ci_prob=0.94,
        ax=axes,
        plot_kwargs={"color": BLUE, "linewidth": 2},
        fill_kwargs={"color": GREY, "alpha": 0.25},
    )
    note = f"{len(kept)} draws with d ≥ 0, {len(loss.ravel()) - len(kept)} with d < 0"
    axes.text(0.97, 0.97, note, transform=axes.transAxes, ha="right", va="top", fontsize=8.5)
