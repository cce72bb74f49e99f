"""Models that can be simulated: what they draw takes the place of what they observe, in memory."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from pyro import poutine
from pyro.poutine.messenger import Messenger
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten

from plot_attractors.gflownet.programs import (
    FixedValues,
    Program,
    Site,
    Values,
    counted,
    drawn,
    is_deterministic,
    is_factor,
    is_one,
    quoted,
    sample_sites,
    side_run,
)

__all__ = [
    "copied",
    "observed_values",
    "require_draws_to_act",
    "simulatable",
    "simulated",
]


class _Draws(Messenger):
    """Writes what observed sites draw into what they observe; what is masked stays as it is."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[tuple[Tensor, Tensor]] = []

    def _pyro_post_sample(self, msg: Site) -> None:
        if not msg["infer"].get("was_observed") or is_deterministic(msg):
            return
        seen = torch.as_tensor(msg["infer"]["obs"])
        if not bool((counts := counted(msg)).all()):
            msg["value"] = torch.where(counts, msg["value"], seen.expand(counts.shape))
        if seen.shape == msg["value"].shape:
            before = seen.clone()
            try:
                seen.copy_(msg["value"])
            except RuntimeError:  # of one number that several elements observe
                return
            self.kept.append((seen, before))


def copied(args: Any, kwargs: Any) -> Any:
    """Arguments whose tensors and arrays can be written, and share memory as they did."""
    leaves, layout = tree_flatten((args, kwargs))
    memo: dict[int, Any] = {}
    leaves = [v.detach() if isinstance(v, Tensor) else v for v in leaves]
    leaves = [copy.deepcopy(v, memo) if hasattr(v, "__array__") else v for v in leaves]
    return tree_unflatten(leaves, layout)


@contextmanager
def simulated(model: Program, args: Any, kwargs: Any) -> Iterator[tuple[Values, Values, Any]]:
    """Latent and observed values that the model draws, and its trace when they are given.

    Until the end, what was drawn stands where observed values do: in tensors of the arguments, of
    objects, of the guide. So `prev = y[t]` is what was drawn. ValueError where the model scores
    what it drew otherwise than when it drew it.
    """
    draws = _Draws()
    try:
        with draws, torch.no_grad():
            try:
                trace: Any = poutine.trace(poutine.uncondition(model)).get_trace(*args, **kwargs)
            except NotImplementedError as error:
                raise ValueError(f"The model cannot be simulated: {error}.") from error
        sites = sample_sites(trace).items()
        observed = {k: v["value"] for k, v in sites if v["infer"].get("was_observed")}
        latent = {k: v for k, v in drawn(trace).items() if k not in observed}
        with side_run():
            program = FixedValues(latent)(poutine.condition(model, observed))
            again = poutine.trace(program).get_trace(*args, **kwargs)
            _require_alike(_scores(trace), _scores(again))
        yield latent, observed, again
    finally:
        with torch.no_grad():
            for memory, before in reversed(draws.kept):
                memory.copy_(before)


def observed_values(trace: Any) -> Values:
    """Of observed sites, in the shape of what they draw: `pyro.factor` draws nothing."""
    values = {}
    for name, site in sample_sites(trace).items():
        if not site["is_observed"] or is_factor(site):
            continue
        value = torch.as_tensor(site["value"])
        shape = torch.Size((*site["fn"].batch_shape, *site["fn"].event_shape))
        sizes = zip(reversed(value.shape), reversed(shape), strict=False)
        if value.ndim > len(shape) or any(size not in (1, full) for size, full in sizes):
            raise ValueError(
                f"Site {name!r} observes values of shape {tuple(value.shape)} and draws values of "
                f"shape {tuple(shape)}: put it into a plate, so that it draws what it observes."
            )
        values[name] = value.expand(shape)
    return values


def simulatable(trace: Any) -> Values:
    """The same of a model that can be simulated; a ValueError says why it cannot."""
    if factors := [k for k, site in sample_sites(trace).items() if is_factor(site)]:
        raise ValueError(
            f"The model has the factor {quoted(factors)}, so that a run of it draws no sample of "
            "its distribution: simulation needs a model of pyro.sample alone."
        )
    for name, site in sample_sites(trace).items():
        scale = site["scale"]
        for frame in site["cond_indep_stack"]:
            scale = scale * frame.size / (frame.full_size or frame.size)
        if not is_one(scale):
            raise ValueError(
                f"Site {name!r} has a scale, as of poutine.scale, so that the model draws from "
                "another distribution than it scores: simulation needs a model without."
            )
    if not (observed := observed_values(trace)):
        raise ValueError(
            "The model observes nothing: call it with data, of which only the shapes matter, or "
            "wrap it by pyro.condition, so that it is known which sites to simulate."
        )
    return observed


def _require_alike(before: Values, after: Values) -> None:
    if moved := [k for k, v in before.items() if k not in after or not _close(v, after[k])]:
        raise ValueError(
            f"Site {quoted(moved)} of the model depends on observed values that it takes from "
            "elsewhere, as in prev = y[t], so that what is drawn in their place has no effect: "
            "write prev = pyro.sample(..., obs=y[t]), which is y[t] where it is observed and the "
            "draw in a simulation."
        )


def require_draws_to_act(model: Program, args: Any, kwargs: Any) -> None:
    """ValueError where the model computes what it observes, anew in each run.

    Draws are written into tensors that are observed (`simulated`), not into what these are computed
    from, which other sites may depend on: numbers, other types.
    """
    with side_run():
        first, again = (
            observed_values(poutine.trace(model).get_trace(*args, **kwargs)) for _ in range(2)
        )
    where = [{k: v.untyped_storage().data_ptr() for k, v in of.items()} for of in (first, again)]
    computed = [k for k in first.keys() & again.keys() if where[0][k] != where[1][k]]
    if computed:
        raise ValueError(
            f"Site {quoted(computed)} observes what each run of the model computes anew, so that "
            "what is drawn in its place has no effect on what else depends on it: observe a tensor "
            "from outside of the model as it is, as in obs=y[t]."
        )


def _scores(trace: Any) -> Values:
    return {k: site["fn"].log_prob(site["value"]) for k, site in sample_sites(trace).items()}


def _close(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and torch.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True)
