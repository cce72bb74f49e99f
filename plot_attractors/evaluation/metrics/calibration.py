"""How close laws over listed sentences are to the exact posterior, and how good importance weights
are.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

__all__ = [
    "Drawn",
    "drawn_shares",
    "effective_sample_share",
    "in_use",
    "kl_divergence",
    "log_slope",
    "marginal_total_variation",
    "pareto_k",
    "pareto_smoothed",
    "reverse_kl_divergence",
    "smoothed",
    "total_variation",
    "total_variation_of_draws",
]


def total_variation(q: Tensor, p: Tensor) -> Tensor:
    """(…) ½ Σ_s |q(s) − p(s)| of laws (…, S)."""
    return 0.5 * (q - p).abs().sum(-1)


class Drawn(NamedTuple):
    """The different sentences drawn for inputs, one a row: `row` (m,) its input, `share` (m,) of
    that input's draws, `first` (m,) the number of a draw that is it, so that what is known of draws
    (B, n) is `known[row, first]`.
    """

    row: Tensor
    share: Tensor
    first: Tensor


def drawn_shares(key: Tensor) -> Drawn:
    """How often every sentence was drawn, of draws key (B, n), numbers that are equal for equal
    sentences.
    """
    b, n = key.shape
    row = torch.arange(b, device=key.device)[:, None].expand(b, n)
    ordered, order = key.sort(1)
    new = torch.ones_like(ordered, dtype=torch.bool)
    new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    start = new.flatten().nonzero()[:, 0]
    count = torch.cat([start[1:], start.new_tensor([b * n])]) - start
    return Drawn(row[new], count / n, order[new])


def total_variation_of_draws(key: Tensor, log_p: Tensor) -> Tensor:
    """(B,) ½ Σ_s |q̂(s) − p(s)| of the shares q̂ of draws key (B, n), whose log-probabilities are
    log p (B, n).

    As both laws sum to 1 it is Σ max(0, q̂(s) − p(s)) over the sentences drawn: no list of all
    sentences is needed.
    """
    row, share, first = drawn_shares(key)
    excess = (share - log_p[row, first].exp()).clamp(min=0)
    return torch.zeros(len(key), dtype=excess.dtype, device=key.device).index_add_(0, row, excess)


def marginal_total_variation(q: Tensor, p: Tensor) -> Tensor:
    """() ½ Σ_s |mean_x q(s | x) − mean_x p(s | x)| of laws (B, S)."""
    return total_variation(q.mean(0), p.mean(0))


def kl_divergence(q: Tensor, log_p: Tensor) -> Tensor:
    """(…) D_KL(q ‖ p) = Σ_s q(s) (log q(s) − log p(s)), nats; q (…, S) may hold zeros, but
    no NaN.
    """
    return (torch.xlogy(q, q) - torch.where(q > 0, q * log_p, 0.0)).sum(-1)


def smoothed(q: Tensor, draws: int) -> Tensor:
    """(…, S) (draws · q + 1/S) / (draws + 1): an estimated law with one more draw, spread evenly
    over all sentences.

    Sentences that no draw came near have a probability of nearly 0 in q, and its logarithm would be
    all that a logarithmic statistic shows; with `draws` draws no probability below about 1/draws is
    known.
    """
    return (draws * q + 1 / q.shape[-1]) / (draws + 1)


def reverse_kl_divergence(q: Tensor, log_p: Tensor, draws: int) -> Tensor:
    """(…) D_KL(p ‖ q'), nats, of the exact law p from the law q' = `smoothed`(q, draws) estimated
    from draws.
    """
    p = log_p.exp()
    return (p * (torch.where(p > 0, log_p, 0.0) - smoothed(q, draws).log())).sum(-1)


def log_slope(q: Tensor, log_p: Tensor, draws: int, least_count: float = 5.0) -> Tensor:
    """() slope of log q(s | x) on log R(s; x), 1 when the temperature is right, below 1 when q is
    too flat.

    Weighted least squares with an intercept for each input x (log Z(x) is not the slope's business,
    so that log p, the exact log-posterior, serves as log R), over the sentences that `draws` exact
    draws would hit at least `least_count` times on average, with the weights p(s | x); q, log p (B,
    S). The logarithm of a count n is taken as log(n + ½), nearly unbiased from `least_count` on,
    and finite for a sentence that was never drawn:

    slope = Σ_x Cov_p(log p, log(q + 1/(2 draws))) / Σ_x Var_p(log p); NaN where no input has two
    such sentences.
    """
    x, y = log_p.double(), (q.double() + 0.5 / draws).log()
    weight = torch.where(x.exp() * draws >= least_count, x.exp(), 0.0)
    total = weight.sum(-1, keepdim=True).clamp(min=1e-30)
    x = x - (weight * x).sum(-1, keepdim=True) / total
    y = y - (weight * y).sum(-1, keepdim=True) / total
    return (weight * x * y).sum() / (weight * x.square()).sum()


def in_use(q: Tensor, threshold: float) -> Tensor:
    """(S,) bool, which sentences have a mean probability over inputs above the threshold; q
    (B, S).
    """
    return q.mean(0) > threshold


def effective_sample_share(log_weight: Tensor) -> Tensor:
    """(…) (Σ w)² / (n Σ w²), between 1/n and 1 (all weights equal), of log-weights (…, n)."""
    n = log_weight.shape[-1]
    return (2 * log_weight.logsumexp(-1) - (2 * log_weight).logsumexp(-1)).exp() / n


def pareto_smoothed(log_weight: Tensor) -> tuple[Tensor, Tensor]:
    """Log-weights (…, n) smoothed, with Σ w = 1, and k̂ (…), the shape of the Pareto law of the
    greatest weights.

    Above 0.7 they cannot be trusted. By ArviZ. Source: Vehtari et al. (2024), "Pareto smoothed
    importance sampling".
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        warnings.simplefilter(
            "ignore", UserWarning
        )  # of single inputs with a k̂ above 0.7, which is reported here
        import arviz

        weights = log_weight.detach().double().cpu().numpy()
        if hasattr(arviz, "psislw"):
            smoothed, k = arviz.psislw(weights)
        else:  # since version 1, which takes minus the logarithms
            import xarray as xr

            smoothed, k = (-xr.DataArray(weights)).azstats.psislw(dim=f"dim_{weights.ndim - 1}")
    a, b = (
        torch.from_numpy(np.atleast_1d(np.asarray(part, dtype=np.float64)))
        for part in (smoothed, k)
    )
    return a, b


def pareto_k(log_weight: Tensor) -> Tensor:
    """(…) k̂ of log-weights (…, n): see `pareto_smoothed`."""
    return pareto_smoothed(log_weight)[1]
