"""Measures d = c0 − cT, bits lost by discretisation, of a model and of its exact posterior."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from plot_attractors.evaluation.metrics.information_loss import (
    Counts,
    bootstrap_interval,
    correct_bits,
    geometric,
    information_loss,
    tabulate,
)
from plot_attractors.evaluation.sampling import LENGTHS, exact_states, is_listed, states_at
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.model.protocols import Reconstructs

CELLS = 500_000  # bits that the decoder predicts at once


class Losses(NamedTuple):
    """Losses of B inputs: the counts of d by number of steps; those of exact samples, None where
    sentences cannot be listed.
    """

    by_steps: dict[int, Counts]
    exact: Counts | None


@torch.no_grad()
def losses(model: Any, x: Tensor, draws: int) -> Losses:
    """Losses of inputs x (B, bits) at T, 2T and 5T steps, or at 0 steps without dynamics.

    The model has sentences and decodes inputs from states (`SentenceModel` and `Reconstructs`).
    """
    c0 = correct_bits(model.reconstruct(x).logits, x)
    if not isinstance(model, AttractorModel):
        return Losses({0: _count(model, x, c0, model.describe(x, draws).z)}, None)
    encoding, times = model.encode(x), [k * model.steps for k in LENGTHS]
    states = states_at(model, encoding, draws, times)
    by_steps = {t: _count(model, x, c0, z) for t, z in zip(times, states, strict=True)}
    if not is_listed(model):
        return Losses(by_steps, None)
    return Losses(by_steps, _count(model, x, c0, exact_states(model, encoding, draws)[0]))


def _count(model: Reconstructs, x: Tensor, c0: Tensor, z: Tensor) -> Counts:
    """Counts of d = c0 − c for states z (B, draws, d); the decoder sees a few inputs at once."""
    rows = max(1, CELLS // (z.shape[1] * x.shape[1]))
    parts = zip(z.split(rows), x.split(rows), strict=True)
    correct = torch.cat([correct_bits(model.decoder(z_).logits, x_[:, None]) for z_, x_ in parts])
    return tabulate(c0[:, None] - correct)


def describe(of: Counts | None) -> dict[str, float]:
    """Every statistic of all inputs together, with bootstrap bounds as name_low and name_high."""
    if of is None:
        return {}
    low, high = bootstrap_interval(*of)
    parts = {"": information_loss(of.values, of.total), "_low": low, "_high": high}
    return {f"{k}{end}": float(v) for end, part in parts.items() for k, v in part._asdict().items()}


def tabulate_distribution(of: Counts, exact: Counts | None) -> pd.DataFrame:
    """P(d) for every d: of the sampler, of the exact posterior (NaN where unknown), of theory."""

    def series(of: Counts) -> pd.Series[float]:
        return pd.Series((of.total / of.counts.sum()).numpy(), index=of.values.numpy())

    columns = {"sampler": series(of)} | ({} if exact is None else {"exact": series(exact)})
    table = pd.DataFrame(columns).fillna(0.0)
    if exact is None:
        table["exact"] = np.nan
    table["geometric"] = geometric(torch.tensor(list(table.index))).numpy()
    return table.rename_axis("d").reset_index()


def tabulate_inputs(of: Counts) -> pd.DataFrame:
    """How often (draws) each input has which d; values that do not occur left out."""
    row, column = of.counts.nonzero().T
    draws = of.counts[row, column].long()
    return pd.DataFrame({"input": row, "d": of.values[column], "draws": draws})
