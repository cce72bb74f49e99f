"""The calls of ArviZ that differ between its version 0.23 and its versions 1."""

from __future__ import annotations

import warnings
from types import ModuleType
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy.special import logsumexp

FLAT = 1e-3  # nats between weights that are as good as equal: rounding, values that recur
LEAST_DRAWS = 25  # fewer leave a tail of less than five weights, too short to fit a Pareto tail to


def _arviz() -> ModuleType:
    """ArviZ, imported when first needed, without the announcement of its version 1 once a day."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        import arviz
    return arviz  # type: ignore[no-any-return]


def psislw(log_weight: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Pareto-smoothed log-weights of log-weights (…, n), Σ w = 1, and k̂ (…).

    Fewer than `LEAST_DRAWS` are not smoothed, and have a k̂ of NaN. A tail of equal weights is
    bounded, and has a k̂ of −∞.
    """
    normalised = log_weight - logsumexp(log_weight, -1, keepdims=True)
    n = log_weight.shape[-1]
    if n < LEAST_DRAWS:
        return normalised, np.full(log_weight.shape[:-1], np.nan)
    # ArviZ fits nothing to a tail of ties: 0.23 calls its k̂ infinite, as if it were the heaviest,
    # and version 1 raises. It gets other weights instead. A k̂ that version 1 cannot fit is NaN.
    tail = np.sort(log_weight, -1)[..., -int(np.ceil(min(n / 5, 3 * n**0.5))) - 1 :]
    flat = tail[..., -1] - tail[..., 0] < FLAT
    log_weight = np.where(flat[..., None], np.linspace(0, 1, n), log_weight)
    az = _arviz()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of single inputs with a k̂ above 0.7
        if hasattr(az, "psislw"):
            smoothed, k = az.psislw(log_weight)
        else:  # version 1 takes minus the logarithms
            weights = -xr.DataArray(log_weight)
            smoothed, k = weights.azstats.psislw(dim=weights.dims[-1])
    smoothed = np.where(flat[..., None], normalised, np.asarray(smoothed, dtype=np.float64))
    k = np.nan_to_num(np.asarray(k, dtype=np.float64), nan=np.inf, posinf=np.inf, neginf=-np.inf)
    return smoothed, np.where(flat, -np.inf, k)


def rhat(quantities: xr.Dataset) -> xr.Dataset:
    """Rank-normalised R̂ of variables (chain, draw, …)."""
    with np.errstate(invalid="ignore", divide="ignore"):  # of quantities that never vary
        found: xr.Dataset = _arviz().rhat(quantities)
    return found


def from_tree(tree: xr.DataTree) -> Any:
    """What functions of the installed ArviZ take: InferenceData in 0.23, the tree itself in 1."""
    az = _arviz()
    return az.from_datatree(tree) if hasattr(az, "from_datatree") else tree
