"""Pareto-smoothed importance sampling of log-weights, without torch, by ArviZ.

Source: Vehtari et al. (2024), "Pareto smoothed importance sampling".
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy.special import logsumexp

MOST_K = 0.7  # of k̂, above which weights tell nothing
MOST_DISTANCE = 0.1  # total variation from a posterior of draws that are trusted as its samples
LEAST_DRAWS = 30  # fewer leave a tail of less than six weights, too short to fit a Pareto tail to
LEAST_VALUES = 10  # that differ, in a tail of more: a smooth curve is fitted to no fewer steps

Array = NDArray[np.float64]


def psislw(log_weight: Array) -> tuple[Array, Array]:
    """Smoothed log-weights of log-weights (…, n), and k̂ (…).

    Weights are the same where they differ by no more than single precision leaves of them. What
    has no fit is not smoothed, and has a k̂ of NaN: see `psis`.
    """
    n = log_weight.shape[-1]
    tail = int(np.ceil(min(n / 5, 3 * n**0.5)))
    greatest = -np.sort(-log_weight, -1)[..., : tail + 1]  # and the first that is not smoothed
    top = greatest[..., :1]
    with np.errstate(invalid="ignore"):
        steps = np.round((top - greatest) / (1e-5 + 1e-6 * abs(top)))
        differ = (np.diff(steps, axis=-1) > 0).sum(-1)
    fitted = (log_weight < np.inf).all(-1) & np.isfinite(greatest[..., -1])
    fitted &= (differ >= min(LEAST_VALUES, tail)) & (n >= LEAST_DRAWS)
    smoothed, k = log_weight.copy(), np.full(log_weight.shape[:-1], np.nan)
    if fitted.any():
        smoothed[fitted], k[fitted] = _by_arviz(log_weight[fitted], tail)
    return smoothed, k


def _by_arviz(log_weight: Array, tail: int) -> tuple[Array, Array]:
    """Of log-weights (rows, n), whose tail has a fit, by any version of ArviZ."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # the announcement of ArviZ 1
        warnings.simplefilter("ignore", UserWarning)  # of single inputs with a k̂ above 0.7
        import arviz as az  # slow

        if hasattr(az, "psislw"):  # before ArviZ 1
            return az.psislw(log_weight, normalize=False)  # type: ignore[no-any-return]
    from arviz_stats.base import array_stats

    normalised, k = array_stats.psislw(-log_weight)
    k = np.where(np.isnan(k), np.inf, k)  # next to all of the weight is on one draw
    same = np.argsort(-log_weight, -1)[:, tail : tail + 1]  # the greatest that is not smoothed
    with np.errstate(invalid="ignore"):  # of weights of 0
        shift = np.take_along_axis(log_weight - normalised, same, -1)
    return np.where(np.isinf(k)[..., None], log_weight, normalised + shift), k


def psis(tree: Any) -> xr.Dataset:
    """Pareto-smoothed importance sampling with the log-weights, for every chain and input.

    Of log-weights (chain, draw, input), or (chain, draw, …) with other dimensions or none:

    - ``pareto_k`` (chain, input): k̂, the shape of the Pareto tail of the weights. Up to 0.5 the
      weights have a finite variance; above 0.7 neither they nor ``ess`` can be trusted. Infinite
      where next to all of the weight lies on fewer than five draws.
    - ``ess`` (chain, input): 1 / Σ w² of the smoothed weights, Σ w = 1: between 1 and the number of
      draws.
    - ``elbo`` (chain, input): the mean log-weight, a lower bound of log Z, nats, and its standard
      error ``elbo_error``.
    - ``log_z`` (chain, input): the logarithm of the mean smoothed weight, nats, and its standard
      error ``log_z_error``, √(1 / ess − 1 / n) of n draws (delta method).

    k̂ is NaN, with a warning, below 30 draws; and where fewer than 10 weights in the tail differ, as
    those of discrete guides, which are not smoothed then. A guide that is exact has one weight
    throughout, but so has a guide that draws a part of the posterior exactly, and lost the rest:
    its draws cannot tell. ``log_z`` can, beside an evidence known otherwise, that of a wider guide
    (`tempered`) say: it is too low by −log of the share that is left.

    Log-weights that are NaN or +∞ make all numbers of their input NaN, with a warning. One of −∞ is
    a draw that is impossible under the model: a weight of 0, and an ELBO of −∞.

    Weights are p(z, x) / q(z) of a model and its guide, or, of fitted runs,
    R(z_T, s; x) P←(path) / P(path, s). Those of different chains are never pooled. Source: Vehtari
    et al. (2024), "Pareto smoothed importance sampling".
    """
    log_weight = tree["sample_stats"]["log_weight"].astype(np.float64).drop_attrs()
    sound = (log_weight < np.inf).all("draw")  # which NaN is not
    log_weight = log_weight.where(sound)
    smoothed, k = xr.apply_ufunc(
        psislw, log_weight, input_core_dims=[["draw"]], output_core_dims=[["draw"], []]
    )
    draws, bad, few = log_weight.sizes["draw"], ~sound, k.isnull() & sound
    if bad.any():
        warnings.warn(
            f"k-hat, ess, elbo and log_z are NaN for {int(bad.sum())} of {bad.size} inputs: "
            "log-weights are NaN or infinite, so look for log_p and log_q that are no numbers",
            stacklevel=2,
        )
    if few.any():
        warnings.warn(
            f"k-hat is NaN for {int(few.sum())} of {few.size} inputs: {draws} draws of each have "
            "no tail to fit, for they are few, or few of their weights differ. Equal weights are "
            "those of an exact guide, and of one that draws a part of the posterior only, which "
            "its own draws cannot tell apart: compare log_z with the evidence known otherwise",
            stacklevel=2,
        )
    with np.errstate(invalid="ignore"):  # of weights that are all 0
        norm = smoothed.reduce(logsumexp, "draw")
        ess = np.exp(2 * norm - (2 * smoothed).reduce(logsumexp, "draw"))
        error = log_weight.std("draw", ddof=1, skipna=False)
    values = {
        "pareto_k": k,
        "ess": ess,
        "elbo": log_weight.mean("draw", skipna=False),
        "elbo_error": error / draws**0.5,
        "log_z": norm - np.log(draws),
        "log_z_error": (1 / ess - 1 / draws).clip(min=0) ** 0.5,
    }
    return xr.Dataset(values)
