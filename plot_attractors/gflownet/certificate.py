"""One certificate for a fit of any Pyro guide: what the weights, a wider guide and simulated truths
say of it, as a verdict in words.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch
import xarray as xr
from numpy.typing import NDArray
from pyro import poutine
from pyro.distributions import Bernoulli, Categorical, MaskedDistribution, OneHotCategorical
from pyro.poutine.messenger import Messenger
from pyro.poutine.util import site_is_subsample
from scipy.stats import norm
from torch import Tensor
from torch.distributions import Independent

from plot_attractors.gflownet.diagnostics import (
    ERROR,
    Replicate,
    calibration,
    p_adjusted,
    randomised_rank,
    replicates,
    to_datatree,
)
from plot_attractors.gflownet.pareto import MOST_DISTANCE, MOST_K, psis
from plot_attractors.gflownet.programs import Program, Values, latent_sites, quoted, side_run
from plot_attractors.gflownet.tempering import tempered

__all__ = ["Certificate", "diagnose"]

TEMPERATURE = 2.0  # of the wider guide
FLIPS = 999  # random choices of the draw that takes the place of the truth
PARTS = 6  # numbers of z, and of x, whose products are compared: more are projected at random

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Certificate:
    """What `diagnose` returns; printed, the verdict and its tables.

    Attributes:
        verdict: in words.
        checks: a row a check: `result` (passes, fails, or cannot tell), `value`, `p_value`, what
            they say, and of which `data`: these, or simulated ones.
        bounds: of log Z(x) and of the distance from the posterior, nats but for the total
            variation, with standard errors.
        tree: the draws, for ArviZ.
        calibration: that of `simulation_based_calibration`; None without.
    """

    verdict: str
    checks: pd.DataFrame
    bounds: pd.DataFrame
    tree: Any
    calibration: xr.Dataset | None

    def __str__(self) -> str:
        tables = (self.checks.to_string(), self.bounds.round(3).to_string())
        return "\n\n".join((self.verdict, *tables))


def diagnose(
    model: Program,
    guide: Program,
    *args: Any,
    fit: Callable[..., Program] | None = None,
    data: Callable[[Values], tuple[Any, ...]] | None = None,
    draws: int = 1000,
    simulations: int = 200,
    seed: int = 0,
    **kwargs: Any,
) -> Certificate:
    r"""Whether a guide is the posterior of a model, by all that can be computed without it.

    Of these data, with log-weights log w = log p(z, x) − log q(z):

    - *weights*: Pareto's k̂ is at most 0.7 (`psis`);
    - *total variation* ½ E_q|w/Ẑ − 1| from the posterior is at most 0.1, where k̂ allows to know;
    - *wider guide*: log Ẑ by draws of the guide at temperature 2 (`tempered`) is no greater. If it
      is, there is mass that the guide does not draw, and whose share of the posterior is at least
      1 − Ẑ_q / Ẑ_wide. Discrete sites there are uniform now and then, by one element in two draws:
      a label that the guide never draws has no share at any temperature.

    Of data that the model simulates, with their truths z*, where the guide reads data, or `fit`
    makes one for each (where a site of the guide reads none, what fails may be what its parameters
    say of these data, and cannot tell):

    - *ranks of latents*: `simulation_based_calibration`;
    - *rank of log p*: of log p(z*, x) among those of the draws, which a guide that returns the
      prior does not keep uniform. Source: Modrák et al. (2025), "Simulation-based calibration
      checking for Bayesian computation";
    - *moments of (z, x)*: products of two of z, or of z and x, of truths and of draws, by the best
      linear classifier of the two (Hotelling's T²), among `FLIPS` random choices of a draw to stand
      for the truth: an exact test, as truths and draws of the posterior are exchangeable.

    A check fails where its p-value is below 0.05 over the number of checks that have one: an exact
    guide fails any with probability of about 0.05 (measured, with two checks more: 14 of 240). What
    no check can see: an error on these data alone that the weights of the guide and of the wider
    one do not show.

    `bounds`: ELBO ≤ log Z; log Z by smoothed weights, `cannot tell` above k̂ = 0.7; the total
    variation ½ E_q|w/Ẑ − 1| from the posterior, by the same condition, and else likely more.

    Args:
        model, guide, args, kwargs: as `to_datatree` takes them.
        fit, data, simulations: as in `simulation_based_calibration`.
        draws: of the guide on these data; a tenth of it, less one, on each simulated data set.
        seed: of torch's generator; the caller's random state is left alone.

    Raises ValueError: as `to_datatree`; of the simulated data the reason is a row of `checks`.
    """
    tree = to_datatree(model, guide, *args, draws=draws, seed=seed, **kwargs)
    wide = partial(_run_wider, guide)
    wider: Any = None
    try:
        wider = to_datatree(model, wide, *args, draws=draws, seed=seed + 1, **kwargs)
    except ValueError as reason:
        wider = str(reason)
    rows, bounds = _of_these_data(tree, wider)
    ranks, other, unread = None, dict[str, Row](), set[str]()
    try:
        with side_run():
            torch.manual_seed(seed)
            given, few = None if fit else guide, draws // 10 - 1
            every = list(replicates(model, given, args, kwargs, data, fit, simulations, few))
            unread = set() if fit else _unread(every)
            if len(every) > 1 and unread >= every[0].truth.keys():
                raise ValueError(
                    "the guide draws the same whatever the data are: give fit=, which returns a "
                    "guide for each simulated data set"
                )
            ranks = calibration(every, few, seed)
            other = _of_simulated_data(every, ranks, few)
    except (TypeError, ValueError) as error:  # of guides that do not take what is observed, too
        other = {"simulated data": ("cannot tell", np.nan, np.nan, str(error))}
    checks = _judged(rows, other, unread)
    table = pd.DataFrame(bounds, index=["value", "error", "holds"]).T
    return Certificate(_verdict(checks), checks, table, tree, ranks)


Row = tuple[str, float, float, str]  # result or "" for that of its p-value, value, p-value, words


def _of_these_data(tree: Any, wider: Any) -> tuple[dict[str, Row], dict[str, Any]]:
    """The checks and bounds by draws of the guide, and by those of a wider one, or why none are."""
    own = _evidence(tree)
    k, log_z, error = own["pareto_k"], own["log_z"], own["log_z_error"]
    if k <= MOST_K:
        weights: Row = ("passes", k, np.nan, f"the weights have a tail of k̂ = {k:.2f}")
    elif k > MOST_K:
        words = f"k̂ = {k:.2f}: the guide is too narrow, at the wrong place, or of the wrong shape"
        weights = ("fails", k, np.nan, words)
    else:  # few different weights, which is no reason to doubt
        weights = ("cannot tell", k, np.nan, "few weights differ, or none is a number: read log Z")
    known = weights[0] != "fails"
    log_weight = tree["sample_stats"]["log_weight"].values.astype(float).ravel()
    distance = 0.5 * np.abs(np.exp(log_weight - log_z) - 1)
    total = float(np.minimum(1.0, distance.mean()))  # above, where weights are smoothed
    result = "passes" if total <= MOST_DISTANCE else "fails" if known else "cannot tell"
    share = f"a share of {total:.2f} of the draws would have to be others"
    rows: dict[str, Row] = {
        "weights": weights,
        "wider guide": (
            ("cannot tell", np.nan, np.nan, wider)
            if isinstance(wider, str)
            else _wider(own, _evidence(wider))
        ),
        "total variation": (result, total, np.nan, share),
    }
    more = "" if known else "likely more"
    spread = distance.std() / len(distance) ** 0.5
    bounds: dict[str, Any] = {
        "ELBO": (own["elbo"], own["elbo_error"], "below log Z"),
        "log Z": (log_z, error, "" if known else "cannot tell, k̂ > 0.7"),
        "KL(q ‖ posterior)": (log_z - own["elbo"], error, more),
        "total variation": (total, spread, more),
    }
    return rows, bounds


class _Flattened(Messenger):
    """Finite distributions of latent sites, mixed with uniform ones: one element in two draws."""

    def __init__(self, elements: int) -> None:
        super().__init__()
        self.share = 0.5 / max(elements, 1)

    def _pyro_sample(self, msg: Any) -> None:
        if not msg["is_observed"] and not site_is_subsample(msg):
            msg["fn"] = self.flat(msg["fn"])

    def flat(self, fn: Any) -> Any:
        if isinstance(fn, Independent):
            return self.flat(fn.base_dist).to_event(fn.reinterpreted_batch_ndims)
        if isinstance(fn, MaskedDistribution):
            return self.flat(fn.base_dist).mask(fn._mask)
        if isinstance(fn, Bernoulli):
            return Bernoulli((1 - self.share) * fn.probs + self.share / 2)
        if isinstance(fn, Categorical | OneHotCategorical):
            return type(fn)((1 - self.share) * fn.probs + self.share / fn.probs.shape[-1])
        return fn


def _run_wider(guide: Program, *args: Any, **kwargs: Any) -> Any:
    """The guide at a higher temperature, and with labels that it never draws."""
    with side_run():
        sites = latent_sites(poutine.trace(guide).get_trace(*args, **kwargs)).values()
    finite = [site for site in sites if getattr(site["fn"], "has_enumerate_support", False)]
    with _Flattened(sum(site["fn"].batch_shape.numel() for site in finite)):
        return tempered(guide, TEMPERATURE)(*args, **kwargs)


def _evidence(tree: Any) -> dict[str, float]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of a k̂ that is none: the check says it
        return {str(k): float(v.values.ravel()[0]) for k, v in psis(tree).data_vars.items()}


def _wider(own: dict[str, float], wider: dict[str, float]) -> Row:
    """More log Z by the wider guide's draws than by its own, and its p-value."""
    more = wider["log_z"] - own["log_z"]
    if wider["pareto_k"] > MOST_K:
        words = f"weights of the guide at temperature 2 have a k̂ of {wider['pareto_k']:.2f}"
        return ("cannot tell", more, np.nan, words)
    error = float(np.hypot(own["log_z_error"], wider["log_z_error"]))
    rounding = 1e-4 + 1e-6 * abs(own["log_z"])  # of weights that are all alike
    p = float(norm.sf(more / max(error, rounding)))
    words = f"it adds {more:.2f} ± {error:.2f} nats to log Z"
    if p < ERROR:
        words += f": {max(0.0, 1 - float(np.exp(-more))):.0%} of the posterior is missed"
    return ("", more, p, words)


def _of_simulated_data(every: list[Replicate], ranks: xr.Dataset, draws: int) -> dict[str, Row]:
    log_p = torch.stack([one.log_p for one in every])
    likelier = randomised_rank(log_p[:, 0], log_p[:, 1:].T)
    p_likelier = float(p_adjusted(likelier.numpy()[:, None], draws)[0])
    z = torch.stack([_flat(one) for one in every])  # (simulations, draws + 1, n)
    x = torch.stack([torch.cat([v.flatten() for v in o.given.values()]) for o in every])
    statistic, p_moments = _moments(z.double(), x.double())
    worst = ranks.isel(latent=int(ranks["p_adjusted"].values.argmin()))
    low, covered = float(worst["p_adjusted"]), float(worst["coverage"].sel(level=0.8))
    rows: dict[str, Row] = {
        "ranks of latents": (
            "", low, low, f"80 % intervals of {worst['latent'].item()} hold {covered:.0%} of truths"
        ),
        "rank of log p": (
            "", float(likelier.double().mean()) / draws, p_likelier,
            "mean rank of the truth, ½ where draws are as likely",
        ),
        "moments of (z, x)": ("", statistic, p_moments, "T² of products of z and x"),
    }  # fmt: skip
    return rows


def _unread(every: list[Replicate]) -> set[str]:
    """Sites that a guide draws alike, by the same random numbers, of other data."""
    unread = set(every[0].truth)
    for one, other in zip(every[::2], every[1::2], strict=False):
        unread -= {k for k, v in one.alike.items() if not torch.equal(v, other.alike[k])}
    return unread


def _flat(one: Replicate) -> Tensor:
    """(draws + 1, n) all latents, of the truth first."""
    parts = []
    for name, value in one.truth.items():
        drawn = one.sites[name]
        parts.append(torch.cat([value[None], drawn]).reshape(1 + len(drawn), -1).float())
    return torch.cat(parts, 1)


def _moments(z: Tensor, x: Tensor) -> tuple[float, float]:
    """T² of products and its p-value; z (n, draws + 1, …) with the truth first, x (n, …)."""

    def parts(v: Tensor) -> Tensor:
        """Standardised, at most PARTS numbers."""
        v = v - v.flatten(0, -2).mean(0)
        v = v / v.flatten(0, -2).std(0).clamp(min=1e-12)
        v = v.clamp(-5, 5)
        if v.shape[-1] <= PARTS:
            return v
        return v @ torch.randn(v.shape[-1], PARTS, dtype=v.dtype) / v.shape[-1] ** 0.5

    u, w = parts(z), parts(x)
    one, i = torch.ones_like(u[..., :1]), torch.triu_indices(u.shape[-1], u.shape[-1])
    w = w[:, None].expand(-1, u.shape[1], -1)
    second = u[..., i[0]] * u[..., i[1]]
    mixed = (u[..., :, None] * torch.cat([one, w], -1)[..., None, :]).flatten(-2)
    features = torch.cat([second, mixed], -1)
    features = features - features.mean(1, keepdim=True)  # of truth and draws of one simulation
    n, k, width = features.shape
    flat = features.reshape(-1, width)
    covariance = flat.T @ flat / len(flat)
    ridge = 1e-6 * covariance.diagonal().mean() * torch.eye(width, dtype=z.dtype)
    root = torch.linalg.cholesky(covariance + ridge)

    def statistic(chosen: Tensor) -> Tensor:
        """(…) of (…, n) which row of each simulation stands for the truth."""
        mean = features[torch.arange(n), chosen].mean(-2)
        return n * torch.linalg.solve_triangular(root, mean[..., None], upper=False).square().sum(
            (-1, -2)
        )

    own = float(statistic(torch.zeros(1, n, dtype=torch.long))[0])
    null = torch.cat([statistic(torch.randint(k, (37, n))) for _ in range(FLIPS // 37)])
    return own, float((1 + (null >= own).sum()) / (1 + len(null)))


def _judged(these: dict[str, Row], other: dict[str, Row], unread: set[str]) -> pd.DataFrame:
    """The checks, each that has a p-value by its share of the error."""
    rows = these | other
    tested = sum(row[0] == "" for row in rows.values())
    table = {}
    for name, (result, value, p, says) in rows.items():
        result = result or ("fails" if p < ERROR / tested else "passes")
        if result == "fails" and name in other and unread:
            result = "cannot tell"
            says += f", but the guide draws {quoted(unread)} the same whatever the data: give fit="
        table[name] = (result, value, p, says, "these" if name in these else "simulated")
    return pd.DataFrame(table, index=["result", "value", "p_value", "says", "data"]).T


def _verdict(checks: pd.DataFrame) -> str:
    text = ""
    for data, words in (("these", "these data"), ("simulated", "data that the model simulates")):
        failed = checks[(checks["result"] == "fails") & (checks["data"] == data)]
        if len(failed):
            faults = "; ".join(f"{name}: {row['says']}" for name, row in failed.iterrows())
            text += f"The guide is not the posterior of {words}. {faults}. "
    passed = list(checks.index[checks["result"] == "passes"])
    unknown = list(checks.index[checks["result"] == "cannot tell"])
    if not text:
        text = f"No fault found by {', '.join(passed)}. " if passed else "Nothing is known. "
    return text + (f"Not known: {', '.join(unknown)}." if unknown else "")
