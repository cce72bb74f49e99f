"""Calls of ArviZ that differ between its version 0.23 and its versions 1."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from plot_attractors.pareto import arviz


def rhat(quantities: xr.Dataset) -> xr.Dataset:
    """Rank-normalised R̂ of variables (chain, draw, …)."""
    with np.errstate(invalid="ignore", divide="ignore"):  # of quantities that never vary
        found: xr.Dataset = arviz().rhat(quantities)
    return found


def from_tree(tree: xr.DataTree) -> Any:
    """What functions of the installed ArviZ take: InferenceData in 0.23, the tree itself in 1."""
    az = arviz()
    return az.from_datatree(tree) if hasattr(az, "from_datatree") else tree
