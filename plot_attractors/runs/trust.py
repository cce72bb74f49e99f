"""Whether the trajectories of a run are samples of its posterior: one yardstick, and its words."""

from __future__ import annotations

import math
from collections.abc import Mapping

from plot_attractors.pareto import MOST_DISTANCE, MOST_K

__all__ = ["doubts", "verdict"]

SLOPES = 0.85, 1.15  # of log q̂ on log R
LEAST_ESS = 0.05  # effective share of the trajectories


def verdict(numbers: Mapping[str, float]) -> str:
    """The sentence that says whether to trust it; empty where its total variation is not known."""
    if math.isnan(numbers["tv_excess"]):
        return ""
    how = f"{'not yet' if doubts(numbers) else 'yes'} (total variation {_distance(numbers)})"
    return f"To be trusted as samples of the posterior: {how}."


def doubts(numbers: Mapping[str, float]) -> list[str]:
    """A sentence for each number that is beyond the yardstick, NaN being none:

    - total variation from the posterior, extrapolated, or where that is not known above its noise
      floor, a lower bound: at most `MOST_DISTANCE`, as in `gflownet.diagnose`;
    - slope of log-frequency on log-reward: within `SLOPES`;
    - path weights: an effective share of `LEAST_ESS` or more, and a k̂ of `MOST_K` at most.
    """
    distance = numbers["tv_extrapolated"]
    distance = numbers["tv_excess"] if math.isnan(distance) else distance
    slope, share, k = (numbers[name] for name in ("slope", "ess_512", "k_hat_512"))
    told = {
        "Trajectories do not sample the posterior well: their total variation from it is "
        f"{_distance(numbers)} (good: at most {MOST_DISTANCE}).": distance > MOST_DISTANCE,
        f"Sentences are sampled {'too uniformly' if slope < 1 else 'too selectively'}: the slope "
        f"of log-frequency on log-reward is {slope:.2f} (good: {SLOPES[0]} to {SLOPES[1]}).": (
            slope < SLOPES[0] or slope > SLOPES[1]
        ),
        f"Importance weights are uneven: the effective sample size is {share:.1%} of the samples "
        f"(good: {LEAST_ESS:.0%} or more).": share < LEAST_ESS,
        f"Importance weights cannot be trusted: their Pareto k̂ is {k:.2f} (good: at most "
        f"{MOST_K}).": k > MOST_K,
    }
    return [sentence for sentence, beyond in told.items() if beyond]


def _distance(numbers: Mapping[str, float]) -> str:
    above = f"{numbers['tv_excess']:.2f} above its noise floor"
    if math.isnan(value := numbers["tv_extrapolated"]):
        return f"{above}, a lower bound"
    return f"about {value:.2f}; {above}"
