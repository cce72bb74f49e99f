"""Models that can be simulated: what they observe, and whether draws act in its place."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from pyro import poutine
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten

from plot_attractors.gflownet.programs import (
    FixedValues,
    Program,
    Values,
    drawn,
    is_factor,
    quoted,
    sample_sites,
    side_run,
)

__all__ = ["observed_values", "require_draws_to_act", "simulatable"]

ATTEMPTS = 5  # draws that arguments are tried with: discrete ones may be what was observed


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
    if not (observed := observed_values(trace)):
        raise ValueError(
            "The model observes nothing: call it with data, of which only the shapes matter, or "
            "wrap it by pyro.condition, so that it is known which sites to simulate."
        )
    return observed


def require_draws_to_act(model: Program, args: Any, kwargs: Any) -> None:
    """ValueError where sites depend on observed values as arguments, and not on what is drawn.

    By scoring draws of all sites twice: with the arguments as they are, and with the draws in place
    of the observed values in them. Observed values are looked for in tensors, arrays and numbers,
    also in lists, tuples and dictionaries: as views of them, as what is computed from them (by
    gradients), or as a run of numbers in them. Those that a program holds itself are not
    found.
    """
    for _ in range(ATTEMPTS):
        with side_run():
            trace: Any = poutine.trace(poutine.uncondition(model)).get_trace(*args, **kwargs)
            seen = _observed(poutine.trace(model).get_trace(*args, **kwargs))
            draws = {name: trace.nodes[name]["value"] for name in seen if name in trace.nodes}
            replaced = _with_draws(model, (args, kwargs), seen, draws)
            program = FixedValues(drawn(trace))(poutine.condition(model, draws))
            before = _scores(poutine.trace(program).get_trace(*args, **kwargs))
            try:
                after = _scores(poutine.trace(program).get_trace(*replaced[0], **replaced[1]))
            except Exception:  # whatever a program does with other values
                after = {}
        moved = [k for k, v in before.items() if k not in after or not _close(v, after[k])]
        if moved or before.keys() != after.keys():
            raise ValueError(
                f"Site {quoted(moved or after.keys() - before.keys())} of the model depends on "
                "observed values that it takes from its arguments, as in prev = y[t], so that what "
                "is drawn in their place has no effect: write prev = pyro.sample(..., obs=y[t]), "
                "which is y[t] where it is observed and the draw in a simulation."
            )


def _observed(trace: Any) -> Values:
    """Values of observed sites as they were given."""
    sites = {k: site for k, site in sample_sites(trace).items() if site["is_observed"]}
    return {k: torch.as_tensor(v["value"]) for k, v in sites.items() if not is_factor(v)}


def _scores(trace: Any) -> Values:
    return {k: site["fn"].log_prob(site["value"]) for k, site in sample_sites(trace).items()}


def _close(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and torch.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True)


def _with_draws(model: Program, arguments: Any, seen: Values, draws: Values) -> Any:
    """The arguments with draws in place of observed values; NaN stays, as what is missing."""
    leaves, layout = tree_flatten(arguments)
    arrays = {i: v for i, v in enumerate(leaves) if isinstance(v, np.ndarray) and v.dtype != object}
    numbers = [i for i, v in enumerate(leaves) if type(v) in (int, float)]
    tensors = {i: v.detach() for i, v in enumerate(leaves) if isinstance(v, Tensor)}
    tensors |= {i: torch.from_numpy(v) for i, v in arrays.items()}
    tensors[-1] = torch.tensor([float(leaves[i]) for i in numbers], dtype=torch.float64)
    filled = {i: v.clone() for i, v in tensors.items()}

    def fill(i: int, mask: Tensor, draw: Tensor, at: Tensor | None = None) -> None:
        at = torch.arange(int(mask.sum())) % draw.numel() if at is None else at
        filled[i][mask] = draw.flatten()[at.to(draw.device)].to(filled[i])

    computed = {}
    for name, draw in draws.items():
        shared = {i: _shared(v, seen[name]) for i, v in tensors.items()}
        for i, at in shared.items():
            fill(i, at >= 0, _in_shape(draw, seen[name]), at[at >= 0])
        if not any(bool((at >= 0).any()) for at in shared.values()):
            computed[name] = seen[name]
    if computed:
        values = torch.cat([value.flatten().double() for value in computed.values()])
        draw = torch.cat([_in_shape(draws[k], v).flatten().double() for k, v in computed.items()])
        for i, mask in _sources(model, leaves, layout, computed).items():
            fill(i, mask, draw)
        copied = {i: v for i, v in tensors.items() if i < 0 or i in arrays}
        copied |= {i: v for i, v in tensors.items() if not v.is_floating_point()}
        runs = {i: _run(v, values) for i, v in copied.items()}
        if sum(bool(mask.any()) for mask in runs.values()) == 1:  # else it is not known which
            for i, mask in runs.items():
                fill(i, mask, draw)
    for i, v in tensors.items():
        if i >= 0:
            filler = torch.where(v.isnan(), v, filled[i])
            leaves[i] = filler.numpy() if i in arrays else filler
    for i, number in zip(numbers, filled[-1].tolist(), strict=True):
        leaves[i] = type(leaves[i])(number)
    return tree_unflatten(leaves, layout)


def _in_shape(draw: Tensor, value: Tensor) -> Tensor:
    """A draw in the shape of what is observed, which either may be broadcast to."""
    whole = draw.expand(torch.broadcast_shapes(draw.shape, value.shape))
    return whole.flatten()[: value.numel()].reshape(value.shape)


def _shared(leaf: Tensor, value: Tensor) -> Tensor:
    """In the shape of the leaf, which element of the value each is in memory; else −1."""
    storage = leaf.untyped_storage()
    same = storage.data_ptr() == value.untyped_storage().data_ptr() and storage.nbytes() > 0
    if not same or leaf.dtype != value.dtype:
        return torch.full(leaf.shape, -1)
    n = storage.nbytes() // leaf.element_size()
    index, which = torch.arange(n), torch.full((n,), -1)
    at = index.as_strided(value.shape, value.stride(), value.storage_offset())
    which[at.flatten()] = torch.arange(value.numel())
    return which[index.as_strided(leaf.shape, leaf.stride(), leaf.storage_offset())]


def _sources(model: Program, leaves: list[Any], layout: Any, computed: Values) -> dict[int, Tensor]:
    """Elements of real tensors that observed values are computed from."""
    real = {i: v for i, v in enumerate(leaves) if isinstance(v, Tensor) and v.is_floating_point()}
    inputs = {i: v.detach().clone().requires_grad_() for i, v in real.items()}
    try:
        with torch.enable_grad():
            # times 1, so that a program may write into them
            given = [inputs[i] * 1 if i in inputs else v for i, v in enumerate(leaves)]
            args, kwargs = tree_unflatten(given, layout)
            trace = _observed(poutine.trace(model).get_trace(*args, **kwargs))
            numbers = torch.cat([trace[name].flatten().double() for name in computed])
            total = (torch.rand_like(numbers) * numbers).sum()
            slopes = torch.autograd.grad(total, list(inputs.values()), allow_unused=True)
    except Exception:  # a program that leaves autograd, or no real tensor
        return {}
    return {i: d != 0 for i, d in zip(inputs, slopes, strict=True) if d is not None}


def _run(leaf: Tensor, values: Tensor) -> Tensor:
    """Where the values stand in a leaf, two or more side by side, once."""
    flat, n = leaf.flatten().double(), len(values)
    mask = torch.zeros(len(flat), dtype=torch.bool)
    if 2 <= n <= len(flat):
        starts = (flat.unfold(0, n, 1) == values).all(-1).nonzero().flatten()
        if len(starts) == 1:
            mask[starts[0] : starts[0] + n] = True
    return mask.reshape(leaf.shape)
