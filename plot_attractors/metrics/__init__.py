"""Measures of what a model has learned, as pure functions of tensors."""

from __future__ import annotations

from .calibration import (
    effective_sample_share,
    in_use,
    kl_divergence,
    log_slope,
    marginal_total_variation,
    pareto_k,
    reverse_kl_divergence,
    smoothed,
    total_variation,
)
from .information_loss import (
    InformationLoss,
    bootstrap_interval,
    correct_bits,
    geometric,
    geometric_kl,
    information_loss,
    tabulate,
)

__all__ = [
    "InformationLoss",
    "bootstrap_interval",
    "correct_bits",
    "effective_sample_share",
    "geometric",
    "geometric_kl",
    "in_use",
    "information_loss",
    "kl_divergence",
    "log_slope",
    "marginal_total_variation",
    "pareto_k",
    "reverse_kl_divergence",
    "smoothed",
    "tabulate",
    "total_variation",
]
