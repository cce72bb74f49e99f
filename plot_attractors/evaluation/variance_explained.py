"""What discretisation loses of real-valued inputs: variance explained, and nats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pandas as pd
import torch
from torch import Tensor

from plot_attractors.evaluation.metrics.bootstrap import bootstrap, resample
from plot_attractors.evaluation.sampling import LENGTHS, exact_states, is_listed, states_at
from plot_attractors.model.attractor import AttractorModel

CELLS = 4_000_000  # numbers that are decoded at once


class Fit(NamedTuple):
    """How well states decode to B inputs, means over draws.

    - ``error``: (B, D) squared error of each column; ``log_p``: (B,) log P(x | z), nats.
    """

    error: Tensor
    log_p: Tensor


@torch.no_grad()
def fits(model: Any, x: Tensor, draws: int) -> tuple[Fit, dict[int, Fit], Fit | None]:
    """Of inputs x (B, D): from z0; from `draws` states at T, 2T and 5T steps, or at 0 steps without
    dynamics; and from exact samples, None where sentences cannot be listed.
    """
    before = model.reconstruct(x)
    start = Fit((before.mean - x).square(), before.log_prob(x).sum(-1))
    if not isinstance(model, AttractorModel):
        return start, {0: _fit(model.decoder, x, model.describe(x, draws).z)}, None
    encoding, times = model.encode(x), [k * model.steps for k in LENGTHS]
    states = states_at(model, encoding, draws, times)
    after = {t: _fit(model.decoder, x, z) for t, z in zip(times, states, strict=True)}
    if not is_listed(model):
        return start, after, None
    return start, after, _fit(model.decoder, x, exact_states(model, encoding, draws)[0])


def _fit(decoder: Callable[[Tensor], Any], x: Tensor, z: Tensor) -> Fit:
    """Of states z (B, draws, d)."""
    rows = max(1, CELLS // (z.shape[1] * x.shape[1]))
    parts = []
    for x_, z_ in zip(x.split(rows), z.split(rows), strict=True):
        p, seen = decoder(z_), x_[:, None]
        parts.append(
            Fit(
                (p.mean - seen).square().mean(1), p.log_prob(seen.expand_as(p.mean)).sum(-1).mean(1)
            )
        )
    return Fit(*(torch.cat(part) for part in zip(*parts, strict=True)))


def summarise(
    x: Tensor, start: Fit, after: dict[int, Fit], exact: Fit | None
) -> list[dict[str, float]]:
    r"""A row for each number of steps: variance explained of inputs x (B, D), and nats lost, with
    95 % bootstrap intervals over inputs.

    .. math:: R^2 = 1 - \frac{\sum_{x,k} (x_k - \mu_k(z))^2}{\sum_{x,k} x_k^2}, \qquad
        \text{nats} = E_x[\log P(x \mid z_0) - \log P(x \mid z_t)].

    Columns of x have mean 0 and variance 1 over the training rows, so that a guess has R² = 0.
    """
    times = resample(x)
    whole = x.square().sum(-1).double()

    def explained(of: Fit) -> tuple[float, float, float]:
        error = of.error.sum(-1).double()
        share = 1 - (times @ error) / (times @ whole)
        low, high = share.quantile(torch.tensor([0.025, 0.975], dtype=torch.float64)).tolist()
        return float(1 - error.sum() / whole.sum()), low, high

    def nats(of: Fit) -> tuple[float, ...]:
        return tuple(map(float, bootstrap((start.log_p - of.log_p)[:, None], times)))

    def named(name: str, value: tuple[float, ...]) -> dict[str, float]:
        return dict(zip((name, f"{name}_low", f"{name}_high"), value, strict=True))

    none = (torch.nan,) * 3
    before = named("explained_z0", explained(start))
    before |= named("explained_exact", none if exact is None else explained(exact))
    lost = named("nats_exact", none if exact is None else nats(exact))
    return [
        {"steps": steps, "n": len(x)}
        | named("explained", explained(of)) | before | named("nats", nats(of)) | lost
        for steps, of in after.items()
    ]  # fmt: skip


def of_inputs(y: Tensor, start: Fit, after: dict[int, Fit], exact: Fit | None) -> pd.DataFrame:
    """(input, steps, nats, nats_exact) of every input, whose numbers are y (B,)."""
    lost = {} if exact is None else {"nats_exact": (start.log_p - exact.log_p).numpy()}
    parts = [
        pd.DataFrame({"input": y, "steps": t, "nats": (start.log_p - of.log_p).numpy(), **lost})
        for t, of in after.items()
    ]
    return pd.concat(parts)


def of_columns(
    names: tuple[str, ...], x: Tensor, start: Fit, after: dict[int, Fit]
) -> pd.DataFrame:
    """(column, explained_z0, explained) variance of each column that is explained from z0, and
    after the fewest steps.
    """
    whole, first = x.square().sum(0), next(iter(after.values()))
    explained = [(1 - of.error.sum(0) / whole).numpy() for of in (start, first)]
    return pd.DataFrame({"column": names, "explained_z0": explained[0], "explained": explained[1]})
