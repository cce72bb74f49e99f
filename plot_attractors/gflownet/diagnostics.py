"""Whether a fit of a Pyro guide to a Pyro model can be trusted: weights, replicates, calibration.

Models and guides are any that `SVI` takes, trained by whatever loss. Needs xarray and SciPy.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyro
import torch
import xarray as xr
from numpy.typing import NDArray
from pyro import poutine
from pyro.poutine.messenger import Messenger
from scipy.stats import binom
from torch import Tensor

from plot_attractors.gflownet.log_ratios import LogRatioLoss, LogRatios
from plot_attractors.gflownet.programs import (
    FixedValues,
    Program,
    Programs,
    Values,
    counted,
    is_deterministic,
    latent_sites,
    log_prob_sum,
    quoted,
    sample_sites,
    side_run,
)
from plot_attractors.gflownet.simulation import (
    copied,
    observed_values,
    require_draws_to_act,
    simulatable,
    simulated,
)

__all__ = ["simulation_based_calibration", "to_datatree"]

LEVELS = (0.5, 0.8, 0.95)  # of central intervals
ERROR = 0.05  # of the test of all latents together
SIMULATIONS, PER_LATENT = 10_000, 200  # of uniform ranks: at least, and for each latent
ROWS = 1000  # of them held at once
Array = NDArray[Any]


def to_datatree(
    model: Program,
    guide: Program,
    *args: Any,
    draws: int = 1000,
    seed: int = 0,
    batch_plate: str | None = None,
    **kwargs: Any,
) -> xr.DataTree:
    """Draws of a guide in the layout of ArviZ, with their importance weights and replicates.

    The groups, of one chain whose draws are independent:

    - ``posterior``: every latent and `pyro.deterministic` site of the model, (chain, draw,
      ``<site>_dim_0``, …);
    - ``sample_stats`` (chain, draw), or (chain, draw, `batch_plate`): ``log_p`` = log p(z, x),
      ``log_q`` = log q(z) and ``log_weight``, their difference, nats;
    - ``posterior_predictive``: every observed site x ~ p(x | z), (chain, draw, ``<site>_dim_0``, …)
      and ``observed_data``: what was observed; absent where the model observes nothing.

    Args:
        model, guide: programs that take `args` and `kwargs`.
        draws: runs of the guide, all at once.
        seed: of torch's generator; the caller's random state is left alone.
        batch_plate: name of a plate each element of which has log-weights of its own.

    Raises ValueError: as `LogRatioLoss`, and for a subsampled plate and values observed in another
    shape than they are drawn in.
    """
    each = ("chain", "draw")
    with side_run():
        programs = Programs.bound(model, guide, guide, args, kwargs)
        trace = programs.score(programs.draw())[0]
        _require_whole_plates(trace)
        observed = observed_values(trace)
        torch.manual_seed(seed)
        loss = LogRatioLoss(draws, batch_plate=batch_plate)
        ratios = loss.log_ratios(model, guide, *args, **kwargs)
        posterior = _sites(ratios)
        rows = [{name: value[i] for name, value in posterior.items()} for i in range(draws)]
        program, replicates, computed = poutine.uncondition(model), [], []
        for values in rows:
            if observed:
                run = sample_sites(_run_on(values, program, args, kwargs))
                replicates.append({name: run[name]["value"] for name in observed})
            if _deterministic(trace):
                computed.append(_deterministic(_run_on(values, model, args, kwargs)))
    log_p, log_q = ratios.of_model, ratios.of_guide
    stats = {"log_p": log_p, "log_q": log_q, "log_weight": log_p - log_q}
    batch = [batch_plate] if batch_plate else []
    groups = {
        "posterior": _dataset(_chain(posterior) | _chain(_stacked(computed)), *each),
        "sample_stats": _dataset(_chain(stats), *each, *batch),
        "posterior_predictive": _dataset(_chain(_stacked(replicates)), *each),
        "observed_data": _dataset(observed),
    }
    tree = xr.DataTree.from_dict({name: group for name, group in groups.items() if group})
    tree.attrs = {"inference_library": "pyro", "sampling_seed": seed, "draws": draws}
    return tree


def simulation_based_calibration(
    model: Program,
    guide: Program | None,
    *args: Any,
    data: Callable[[Values], tuple[Any, ...]] | None = None,
    fit: Callable[..., Program] | None = None,
    simulations: int = 200,
    draws: int = 99,
    seed: int = 0,
    **kwargs: Any,
) -> xr.Dataset:
    """Whether a guide covers the truth as often as it says, over data simulated from the model.

    Each simulation draws z* and x from p(z, x) by a run of the model with nothing observed, and z_1
    … z_L from q(z | x). If q is the posterior, the rank of z* among them is uniform on 0 … L, for
    every scalar element of every latent site (a *latent* here). Over n simulations:

    - ``rank`` (simulation, latent): #{z_l < z*}, plus a uniform share of the ties, so that ranks of
      discrete latents are uniform too; pit = (rank + U) / (L + 1), U uniform on (0, 1), is uniform
      on (0, 1) then;
    - ``coverage`` (level, latent): the share of simulations with z* in the central interval of
      that level;
    - ``p_adjusted`` (latent): p-value of the ranks under uniformity, by the point at which their
      distribution function is least probable, times the number of latents (Bonferroni);
      ``calibrated``: p_adjusted ≥ 0.05.

    Args:
        model: what it draws is written into the tensors that it observes, for as long as a
            simulation lasts, so that ``prev = y[t]`` is what was drawn. What is masked stays as it
            was observed.
        guide: an amortised guide, called with what `data` returns and `kwargs`; None with `fit`.
        args, kwargs: of the model. Of observed values only the shapes matter.
        data: arguments of the guide made of simulated values of the observed sites, by name. By
            default these values, in the order of the model.
        fit: ``fit(*data)`` returns a guide fitted to the simulated data. Each fit starts from the
            present parameters in a copy of Pyro's store, which is left alone. Build modules
            inside it: parameters that a guide holds itself go on from the fit before.
        simulations, draws: n and L. L = 99 makes fractions of hundredths.
        seed: of torch's generator; the caller's random state is left alone.

    Raises ValueError: both or none of `guide` and `fit`, a model without observed sites, one that
    observes values of another shape than it draws, one with `pyro.factor`, `poutine.scale` or
    masked latents, which cannot be simulated, one that does not score what it draws as when it drew
    it, one whose latent sites differ between runs, and sites that model and guide do not share.

    Source: Talts et al. (2018), "Validating Bayesian inference algorithms with simulation-based
    calibration"; the p-value, Säilynoja, Bürkner & Vehtari (2022), "Graphical test for discrete
    uniformity and its applications in goodness-of-fit evaluation and multiple sample comparison".
    """
    with side_run():
        torch.manual_seed(seed)
        every = replicates(model, guide, args, kwargs, data, fit, simulations, draws)
        return calibration(every, draws, seed)


def calibration(every: Iterable[Replicate], draws: int, seed: int) -> xr.Dataset:
    """What `simulation_based_calibration` returns, of `replicates`."""
    ranks = []
    for one in every:
        pairs = [(value.cpu(), one.sites[name].cpu()) for name, value in one.truth.items()]
        ranks.append(torch.cat([randomised_rank(*pair).flatten() for pair in pairs]))
    rank = torch.stack(ranks)
    pit = ((rank + torch.rand(rank.shape, dtype=torch.float64)) / (draws + 1)).numpy()
    covered = (abs(pit - 0.5) <= np.reshape(LEVELS, (-1, 1, 1)) / 2).mean(1)
    return xr.Dataset(
        {
            "rank": (("simulation", "latent"), rank.numpy()),
            "coverage": (("level", "latent"), covered),
            "p_adjusted": ("latent", (p := p_adjusted(rank.numpy(), draws))),
            "calibrated": ("latent", p >= ERROR),
        },
        {
            "level": list(LEVELS),
            "latent": one.labels,
        },
        {"sampling_seed": seed, "simulations": len(ranks), "draws": draws},
    )


class _Seeds(Messenger):
    """Each site draws by random numbers of its own, whatever was drawn before it."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.seed = 1000 * seed

    def _pyro_sample(self, msg: Any) -> None:
        torch.manual_seed(self.seed)
        self.seed += 1


class Replicate(NamedTuple):
    """A simulated truth with its data, by site, and draws of the guide given these data; and
    a draw by the random numbers of the pair that two simulations are (`alike`).

    `log_p` (draws + 1,) is log p(z, x) of the truth, first, and of the draws, nats.
    """

    truth: Values
    given: Values
    sites: Values
    log_p: Tensor
    alike: Values

    @property
    def labels(self) -> list[str]:
        """Names of the latents, as ArviZ writes them."""
        every = [(name, i) for name, v in self.truth.items() for i in np.ndindex(*v.shape)]
        return [f"{name}[{', '.join(map(str, i))}]" if i else name for name, i in every]


def replicates(
    model: Program,
    guide: Program | None,
    args: Any,
    kwargs: Any,
    data: Callable[[Values], tuple[Any, ...]] | None,
    fit: Callable[..., Program] | None,
    simulations: int,
    draws: int,
) -> Iterator[Replicate]:
    """The simulations of `simulation_based_calibration`, one after the other."""
    if (guide is None) == (fit is None):
        raise ValueError(
            "Give either an amortised guide, or guide=None and a fit that returns a guide for each "
            f"data set: {'neither' if fit is None else 'both'} was given."
        )
    loss, labels, store = LogRatioLoss(draws), None, pyro.get_param_store()
    simulatable(poutine.trace(model).get_trace(*args, **kwargs))
    args, kwargs = copied(args, kwargs)
    require_draws_to_act(model, args, kwargs)
    given: Values = {}
    on_given = poutine.condition(model, given)

    def conditioned(*_: Any, **__: Any) -> Any:
        """The model with arguments of its own, whatever the guide is called with."""
        return on_given(*args, **kwargs)

    for i in range(simulations):
        with simulated(model, args, kwargs) as (latent, data_of, of_model), ExitStack() as stack:
            truth = {name: latent[name] for name in latent_sites(of_model)}
            given.clear()
            given.update(data_of)
            guide_args = tuple(given.values()) if data is None else data(dict(given))
            fitted: Any = guide
            if fit is not None:
                # a copy, in which the fit leaves its parameters: the next begins as it did
                stack.enter_context(store.scope(copy.deepcopy(store.get_state())))
                with torch.enable_grad():
                    fitted = fit(*guide_args)
            with torch.random.fork_rng(devices=[]), _Seeds(i // 2):
                alike = latent_sites(_run_on({}, fitted, guide_args, kwargs))
            ratios = loss.log_ratios(conditioned, fitted, *guide_args, **kwargs)
            log_p = log_prob_sum(of_model)
        if not all(bool(counted(site).all()) for site in latent_sites(of_model).values()):
            raise ValueError("The model masks latent sites, which have no truth then: mask none.")
        log_p = torch.cat([log_p.reshape(1), ratios.of_model])
        values = {name: site["value"] for name, site in alike.items()}
        one = Replicate(truth, dict(given), _sites(ratios), log_p, values)
        labels = one.labels if labels is None else labels
        if one.labels != labels:
            raise ValueError(
                "The latent sites of the model or the guide, or their shapes, differ between "
                "its runs: calibration needs programs whose latent sites are the same in each."
            )
        yield one


# -- runs of model and guide


def _sites(ratios: LogRatios) -> Values:
    """Latent sites of the model, each (draws, *shape in a run of its own)."""
    return {k: v for k, v in ratios.of_single_runs.items() if k in ratios.log_p}


def _run_on(values: Values, program: Any, args: Any, kwargs: Any) -> Any:
    return poutine.trace(FixedValues(values)(program)).get_trace(*args, **kwargs)


def _deterministic(trace: Any) -> Values:
    sites = {k: site for k, site in trace.nodes.items() if site["type"] == "sample"}
    return {k: v["value"] for k, v in sites.items() if is_deterministic(v)}


def _require_whole_plates(trace: Any) -> None:
    frames = [f for site in sample_sites(trace).values() for f in site["cond_indep_stack"]]
    if subsampled := {f.name for f in frames if f.full_size not in (None, f.size)}:
        raise ValueError(
            f"The plate {quoted(subsampled)} is subsampled, anew in every run, so that no table "
            "holds its sites: give subsample_size=None."
        )


# -- ranks


def randomised_rank(value: Tensor, drawn: Tensor) -> Tensor:
    """(…) int64 rank of values (…) among draws (draws, …), uniform among those it ties with."""
    less, ties = (drawn < value).sum(0), (drawn == value).sum(0)
    return less + (torch.rand(value.shape, dtype=torch.float64) * (ties + 1)).long()


def p_adjusted(rank: Array, draws: int) -> Array:
    """(latents,) p-values of ranks (n, latents) on 0 … draws under uniformity, times latents."""
    n, latents = rank.shape
    below = (rank[..., None] < np.arange(1, draws + 1)).sum(0)  # (latents, draws)
    null = _null(n, draws, max(SIMULATIONS, PER_LATENT * latents))
    least = _least_tail(below, _tails(n, draws)) * (1 + 1e-9)  # ties, but for rounding
    p = (1 + np.searchsorted(null, least, side="right")) / (len(null) + 1)
    return np.asarray(np.minimum(1, latents * p))


def _tails(n: int, draws: int) -> Array:
    """(n + 1, draws) min(P(N ≤ j), P(N ≥ j)) of N ~ Binomial(n, k / (draws + 1)), the number of n
    uniform ranks below k = 1 … draws, for every number j.
    """
    j, theory = np.arange(n + 1)[:, None], np.arange(1, draws + 1) / (draws + 1)
    return np.asarray(np.minimum(binom.cdf(j, n, theory), binom.sf(j - 1, n, theory)))


def _least_tail(below: Array, tails: Array) -> Array:
    """(…) the least tail probability over k, of numbers of ranks (…, draws) below each k."""
    return np.asarray(tails[below, np.arange(tails.shape[1])].min(-1))


@lru_cache(maxsize=8)
def _null(n: int, draws: int, simulations: int) -> Array:
    """Least tail probabilities of n uniform ranks on 0 … draws, in order."""
    tails = _tails(n, draws)
    random, uniform = np.random.default_rng(0), np.full(draws + 1, 1 / (draws + 1))
    samples = []
    for start in range(0, simulations, ROWS):
        counts = random.multinomial(n, uniform, min(ROWS, simulations - start))
        samples.append(_least_tail(counts.cumsum(1)[:, :-1], tails))
    return np.sort(np.concatenate(samples))


# -- layout


def _stacked(rows: list[Values]) -> Values:
    """Sites of every draw (draws, …)."""
    return {name: torch.stack([row[name] for row in rows]) for row in rows[:1] for name in row}


def _chain(values: Values) -> Values:
    return {name: value[None] for name, value in values.items()}


def _dataset(values: Mapping[str, Tensor], *lead: str) -> xr.Dataset:
    """Sites with the leading dimensions and further ones of their own."""
    variables = {
        name: ((*lead, *(f"{name}_dim_{i}" for i in range(value.ndim - len(lead)))), value.numpy())
        for name, value in ((name, value.detach().cpu()) for name, value in values.items())
    }
    dataset = xr.Dataset(variables)
    return dataset.assign_coords({dim: np.arange(size) for dim, size in dataset.sizes.items()})
