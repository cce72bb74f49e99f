"""The critical perturbation: the norm from which on perturbed states do not return."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.optimize import isotonic_regression
from torch import Tensor

from plot_attractors.measures.bootstrap import resample

BACK = 2.0  # median distances of unperturbed states within which a state has returned


class Critical(NamedTuple):
    """The critical perturbation: its norm and 95 % interval, NaN where `reason` says why; `radius`,
    the distance within which a state has returned; `kept`, the share of unperturbed states that do.
    """

    norm: float
    low: float
    high: float
    radius: float
    kept: float
    reason: str


def critical_perturbation(norms: Tensor, distance: Tensor, sentence: Tensor) -> Critical:
    r"""The norm at which half of the states that return when unperturbed do no more.

    .. math:: p(\nu) = P(\|z'_{T'} - \hat z_s\| \le r), \qquad p(\nu^*) = p(0) / 2

    This is the median radius of a basin, over starts and directions, and the inflection point of
    the median distance (Section *Attractor dynamics*, Fig. *perturbation*): the median jumps when
    half of the states have left. p is made to fall by isotonic regression, and linear between
    norms. r is twice the median distance at ‖ν‖ = 0, and not less than the least norm above 0.

    On wells of known boundaries ν* is off by 0.05 or less, the steepest point of a monotone fit of
    the median by up to 0.11. With a larger r, states at other embeddings would count as returned:
    trained models have embeddings three medians apart.

    Args:
        norms: (K,) from 0 on, increasing.
        distance: (K, n) of the last states to the embedding where they started.
        sentence: (n,) number of the sentence where each started. The interval is from a bootstrap
            over sentences, as starts at one share a basin; a bound of ∞ is beyond the largest norm.
            One sentence alone has no interval (NaN, with a reason).

    The norm is NaN, with a reason, where the median has no inflection: half of the states or more
    return after the largest perturbation; fewer than half do after the second smallest; or those
    that return are only on their way, the farther from ẑ_s the larger ‖ν‖ (three quarters of them,
    just below ν*, are beyond r/2).
    """
    x, d = norms.double().numpy(), distance.double().numpy()
    times = resample(sentence[:, None]).numpy()
    once = np.ones(d.shape[1])
    radius = _radius(x, d, once)
    back = d <= radius
    norm = _half_way(x, back @ once / len(once))
    at = int(np.searchsorted(x, norm)) - 1  # the last norm below it
    reason = ""
    if norm == math.inf:
        reason = (
            "half of the states or more end as near after the largest perturbation as after none"
        )
    elif at <= 1:
        reason = "half of the states are gone after the two smallest perturbations of the grid"
    elif np.quantile(d[at][back[at]], 0.25) > radius / 2:
        reason = (
            "the median distance has no inflection: states end the farther, the farther they start"
        )
    kept = float(back[0].mean())
    if reason:
        return Critical(math.nan, math.nan, math.nan, radius, kept, reason)
    if len(sentence.unique()) == 1:
        return Critical(
            norm, math.nan, math.nan, radius, kept, "all states start at one sentence: no interval"
        )
    again = [_half_way(x, (d <= _radius(x, d, w)) @ w / w.sum()) for w in times]
    low, high = np.quantile(again, [0.025, 0.975], method="inverted_cdf")
    return Critical(norm, float(low), float(high), radius, kept, reason)


def _radius(norms: np.ndarray, distance: np.ndarray, weight: np.ndarray) -> float:
    """Within which a state is back, from distances (K, n) of states that count `weight`
    (n,) times.
    """
    order = np.argsort(distance[0])
    middle = np.searchsorted(np.cumsum(weight[order]), weight.sum() / 2)
    return max(BACK * float(distance[0][order[middle]]), float(norms[1]))


def _half_way(norms: np.ndarray, share: np.ndarray) -> float:
    """The norm at which a share (K,), made to fall, is half of what it is at first; ∞ where it
    stays above.
    """
    falling = isotonic_regression(share, increasing=False).x
    below = np.flatnonzero(falling < falling[0] / 2)
    if not len(below):
        return math.inf
    k = below[0]
    step = (falling[k - 1] - falling[0] / 2) / (falling[k - 1] - falling[k])
    return float(norms[k - 1] + step * (norms[k] - norms[k - 1]))
