"""Pareto-smoothed importance sampling of log-weights, without torch, by ArviZ 0.23.

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
LEAST_DRAWS = 25  # fewer leave a tail of less than five weights, too short to fit a Pareto tail to
LEAST_VALUES = 10  # that differ, in a tail of more: a smooth curve is fitted to no fewer steps

Array = NDArray[np.float64]


def psislw(log_weight: Array) -> tuple[Array, Array, NDArray[np.int64]]:
    """Smoothed log-weights of log-weights (…, n), k̂ (…), and the numbers of different weights (…).

    Weights are the same where they differ by no more than single precision leaves of them. What
    has no fit is not smoothed, and has a k̂ of NaN: see `psis`.
    """
    n = log_weight.shape[-1]
    order = np.argsort(-log_weight, -1, kind="stable")
    descending = np.take_along_axis(log_weight, order, -1)
    top, sound = descending[..., :1], _sound(log_weight)
    with np.errstate(invalid="ignore"):
        steps = np.round((top - descending) / (1e-5 + 1e-6 * abs(top)))
        new = np.diff(steps, axis=-1) > 0
    distinct = np.where(sound, 1 + new.sum(-1), 0)
    k = np.full(log_weight.shape[:-1], np.nan)
    if n < LEAST_DRAWS:
        return log_weight, k, distinct
    tail = int(np.ceil(min(n / 5, 3 * n**0.5)))
    fitted = sound & (new[..., :tail].sum(-1) >= min(LEAST_VALUES, tail))
    fitted &= np.isfinite(descending[..., tail])
    if not fitted.any():
        return log_weight, k, distinct
    rows = log_weight[fitted]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # the announcement of ArviZ 1
        warnings.simplefilter("ignore", UserWarning)  # of single inputs with a k̂ above 0.7
        import arviz as az  # slow

        smoothed, shape = az.psislw(rows.copy())
    k[fitted] = np.asarray(shape, float)
    at = order[fitted][:, tail, None]  # the greatest that is never smoothed tells the norm
    smoothed = np.asarray(smoothed, float)
    norm = np.take_along_axis(rows, at, -1) - np.take_along_axis(smoothed, at, -1)
    result = log_weight.copy()
    result[fitted] = smoothed + norm
    return result, k, distinct


def _sound(log_weight: Array) -> NDArray[np.bool_]:
    """Whether log-weights (…, n) are numbers; −∞, a weight of 0, is one."""
    return np.asarray((log_weight < np.inf).all(-1))  # which NaN is not


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
    - ``distinct`` (chain, input): how many different weights there are.

    k̂ is NaN, with a warning, below 25 draws; and where fewer than 10 weights in the tail differ, as
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
    log_weight = log_weight.transpose(..., "draw")
    smoothed, shape, distinct = psislw(log_weight.values)
    k = log_weight.isel(draw=0, drop=True).copy(data=shape)
    draws, sound = log_weight.sizes["draw"], _sound(log_weight.values)
    bad, few = ~sound, np.isnan(shape) & sound
    if bad.any():
        warnings.warn(
            f"k-hat, ess, elbo and log_z are NaN for {bad.sum()} of {bad.size} inputs: log-weights "
            "are NaN or infinite, so look for log_p and log_q that are no numbers",
            stacklevel=2,
        )
    if few.any():
        warnings.warn(
            f"k-hat is NaN for {few.sum()} of {few.size} inputs: {draws} draws of each, with "
            f"{distinct[few].min()} to {distinct[few].max()} different weights, have no tail to "
            "fit. Equal weights are those of an exact guide, and of one that draws a part of the "
            "posterior only, which its own draws cannot tell apart: compare log_z with the "
            "evidence known otherwise",
            stacklevel=2,
        )
    with np.errstate(invalid="ignore"):  # of weights that are all 0
        norm = np.where(bad, np.nan, logsumexp(smoothed, -1))
        ess = np.exp(2 * norm - logsumexp(2 * smoothed, -1))
        elbo = np.where(bad, np.nan, log_weight.values.mean(-1))
        error = log_weight.values.std(-1, ddof=1) if draws > 1 else np.full(k.shape, np.nan)
    values = {
        "pareto_k": shape,
        "ess": ess,
        "elbo": elbo,
        "elbo_error": np.where(bad, np.nan, error) / draws**0.5,
        "log_z": norm - np.log(draws),
        "log_z_error": (1 / ess - 1 / draws).clip(min=0) ** 0.5,
        "distinct": distinct,
    }
    return xr.Dataset({name: k.copy(data=value) for name, value in values.items()})
