"""Diagnostics of samples in ArviZ's layout, without torch: weights, seeds, predictive checks.

All take a tree made by `arviz.sample_runs`, or what ArviZ reads from its file; `save` takes that of
`gflownet.to_datatree`, of any Pyro model and guide, too.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from plot_attractors.pareto import arviz

__all__ = ["LABEL_FREE", "label_free", "label_free_rhat", "predictive_checks", "save"]

LABEL_FREE = {
    "info_loss": ("posterior", "info_loss"),
    "length": ("sample_stats", "length"),
    "log_reward": ("sample_stats", "log_reward"),
    "log_weight": ("sample_stats", "log_weight"),
    "log_likelihood": ("log_likelihood", "x"),
}
"""Quantities that mean the same in every training seed, and where they are: (group, variable)."""


def save(tree: xr.DataTree, path: str | Path) -> Path:
    """Write a tree as netCDF, as ``arviz.from_netcdf(path)`` reads it; returns the path.

    A file that is there, and may be open, is replaced at once; no reader ever sees a part.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        tree.to_netcdf(temporary, engine="h5netcdf")
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


def label_free(tree: Any) -> xr.Dataset:
    """The quantities (chain, draw, input) of `LABEL_FREE` that the tree has.

    They do not change when tokens are renamed or the latent space is transformed; ``log_q``, a
    density of states, does.
    """
    return xr.Dataset(
        {
            name: tree[group][variable]
            for name, (group, variable) in LABEL_FREE.items()
            if variable in tree[group]
        }
    )


def label_free_rhat(tree: Any) -> xr.Dataset:
    """(input) rank-normalised R̂ across training seeds, by ``arviz.rhat``, of label-free quantities.

    Near 1 where the seeds agree on how an input is described: how much is lost, in how many tokens,
    how well. This compares trained models and is no test of mixing, as draws of a chain are
    independent. Of five chains of one distribution, one input in twenty exceeds 1.02 at 50 draws,
    and 1.006 at 200. Not offered for ``z`` and ``tokens``: a seed is free to rotate its latent
    space and to exchange its tokens.

    NaN for a single chain, with a warning (ArviZ would compare its halves, which are draws of one
    distribution), where a quantity never varies, and below 4 draws.
    """
    quantities = label_free(tree).drop_attrs()
    if quantities.sizes["chain"] > 1:
        with np.errstate(invalid="ignore", divide="ignore"):  # of quantities that never vary
            rhat: xr.Dataset = arviz().rhat(quantities)
        return rhat
    warnings.warn(
        "R-hat across seeds is NaN for a single chain: give runs of two or more training seeds",
        stacklevel=2,
    )
    return xr.full_like(quantities.isel(chain=0, draw=0, drop=True), np.nan, dtype=np.float64)


def predictive_checks(tree: Any) -> xr.Dataset:
    """Bayesian p-values of test statistics T: P(T(replicate) < T(x)) + ½ P(T(replicate) = T(x)).

    A replicate is drawn from P(x | z_T), z_T from the sampler for the same input, so a p-value near
    0 or 1 means that what is decoded from z_T differs from the input in T. Statistics (dimension
    ``statistic``):

    - ``ones``: the number of 1s;
    - ``correct``: bits that the decoder at z_T predicts right. T depends on z_T, so it is compared
      draw by draw; p near 0 means that the decoder is surer of the bits than it is right;
    - ``log_likelihood``: log P(· | z_T), nats; read as ``correct``.

    Returns:
        ``p_value`` (statistic, chain, input); ``p_total`` (statistic, chain), of T summed over
        inputs; ``observed`` and ``replicated`` (statistic, chain), means over inputs and draws.
        ArviZ's own predictive checks draw what does not depend on z_T: the variables ``x`` and
        ``ones``.

    Raises ValueError: the tree has no replicates, as that of images.
    """
    if "posterior_predictive" not in (getattr(tree, "children", None) or tree.groups()):
        raise ValueError("there are no replicates to check: samples of images hold none")
    replicates = tree["posterior_predictive"]
    replicates = xr.Dataset({k: replicates[k] for k in ("ones", "correct", "log_likelihood")})
    originals = xr.Dataset(
        {
            "ones": tree["observed_data"]["ones"],
            "correct": tree["constant_data"]["c0"] - tree["posterior"]["info_loss"],
            "log_likelihood": tree["log_likelihood"]["x"],
        }
    )
    replicated, observed = (
        part.to_dataarray("statistic").astype(np.float64).drop_attrs()
        for part in (replicates, originals)
    )

    def p_value(replicate: xr.DataArray, observed: xr.DataArray) -> xr.DataArray:
        return ((replicate < observed) + 0.5 * (replicate == observed)).mean("draw")

    return xr.Dataset(
        {
            "p_value": p_value(replicated, observed),
            "p_total": p_value(replicated.sum("input"), observed.sum("input")),
            "observed": observed.mean(["draw", "input"]),
            "replicated": replicated.mean(["draw", "input"]),
        }
    )
