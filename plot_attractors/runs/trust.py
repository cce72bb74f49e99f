"""Whether the trajectories of a run are samples of its posterior: one yardstick, and its words."""

from __future__ import annotations

import math
from collections.abc import Mapping

from plot_attractors.pareto import MOST_DISTANCE, MOST_K
from plot_attractors.runs import Run, store
from plot_attractors.runs.settings import flatten

__all__ = ["LEAST_ESS", "SLOPES", "doubts", "lost_onset", "trusted", "verdict"]

SLOPES = 0.85, 1.15  # of log q̂ on log R
LEAST_ESS = 0.05  # effective share of the trajectories


def trusted(numbers: Mapping[str, float]) -> bool | None:
    """Whether a run with these metrics passes; None where its total variation is not known."""
    return None if math.isnan(numbers["tv_excess"]) else not doubts(numbers)


def verdict(numbers: Mapping[str, float]) -> str:
    """The sentence that says whether to trust it; empty where its total variation is not known."""
    if (passes := trusted(numbers)) is None:
        return ""
    how = f"{'yes' if passes else 'not yet'} (total variation {_distance(numbers)})"
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
    warned = []
    if distance > MOST_DISTANCE:
        warned.append(
            "Trajectories do not sample the posterior well: their total variation from it is "
            f"{_distance(numbers)} (good: at most {MOST_DISTANCE})."
        )
    if not math.isnan(slope := numbers["slope"]) and not SLOPES[0] <= slope <= SLOPES[1]:
        how = "too uniformly" if slope < 1 else "too selectively"
        warned.append(
            f"Sentences are sampled {how}: the slope of log-frequency on log-reward is "
            f"{slope:.2f} (good: {SLOPES[0]} to {SLOPES[1]})."
        )
    if numbers["ess_512"] < LEAST_ESS:
        warned.append(
            "Importance weights are uneven: the effective sample size is "
            f"{numbers['ess_512']:.1%} of the samples (good: {LEAST_ESS:.0%} or more)."
        )
    if numbers["k_hat_512"] > MOST_K:
        warned.append(
            "Importance weights cannot be trusted: their Pareto k̂ is "
            f"{numbers['k_hat_512']:.2f} (good: at most {MOST_K})."
        )
    return warned


def _distance(numbers: Mapping[str, float]) -> str:
    above = f"{numbers['tv_excess']:.2f} above its noise floor"
    if math.isnan(value := numbers["tv_extrapolated"]):
        return f"{above}, a lower bound"
    return f"about {value:.2f}; {above}"


def lost_onset(run: Run) -> list[str]:
    """The sentence on a finished run whose settings ask for an onset that its model has not."""
    if not (norm := flatten(run.config["model"]).get("dynamics.onset", 0.0)):
        return []
    checkpoint = store.load_checkpoint(run.path)
    vector = checkpoint.get("inference", {}).get("model", {}).get("onset.vector")
    if vector is None or vector.any() or checkpoint["position"] < checkpoint["total"]:
        return []
    return [
        f"The onset is lost (dynamics.onset={norm:g}): trajectories begin at z0 itself, where "
        "others may have settled. Either inputs or embeddings vary in all latent axes (set latent "
        "to one more), or the inference program has none (set dynamics.onset=0)."
    ]
