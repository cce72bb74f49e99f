"""Tempered programs to draw particles from, `VarGrad(16, behaviour=tempered(guide, 2.0))`: a
GFlowNet loss is zero on every trajectory at its solution, wherever it comes from.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial, singledispatch
from typing import Any

from pyro.distributions import (
    Bernoulli,
    Categorical,
    Delta,
    LogNormal,
    MaskedDistribution,
    MultivariateNormal,
    Normal,
    OneHotCategorical,
    Uniform,
)
from pyro.poutine.messenger import Messenger
from pyro.poutine.util import site_is_subsample
from torch.distributions import Independent

from plot_attractors.gflownet.programs import Program

__all__ = ["temper", "tempered"]


@singledispatch
def temper(fn: Any, temperature: float) -> Any:
    """The distribution ∝ p^(1/temperature); `temper.register(Kind)` teaches it another kind.

    Normal, LogNormal, Categorical, one-hot and Bernoulli ones stay of their kind, a Delta and a
    Uniform as they are. Raises ValueError for another kind.
    """
    raise ValueError(
        f"{type(fn).__name__} cannot be tempered: give a behaviour policy of your own, or say how "
        f"with temper.register({type(fn).__name__})."
    )


def _log_normal(fn: LogNormal, temperature: float) -> LogNormal:
    """x^(−1/T), of the Jacobian, moves the mean of log x."""
    return LogNormal(fn.loc + (temperature - 1) * fn.scale**2, fn.scale * temperature**0.5)


_TEMPERED: dict[Any, Callable[[Any, float], Any]] = {
    Normal: lambda fn, t: Normal(fn.loc, fn.scale * t**0.5),
    MultivariateNormal: lambda fn, t: MultivariateNormal(fn.loc, scale_tril=fn.scale_tril * t**0.5),
    LogNormal: _log_normal,
    Uniform: lambda fn, t: fn,
    Categorical: lambda fn, t: Categorical(logits=fn.logits / t),
    OneHotCategorical: lambda fn, t: OneHotCategorical(logits=fn.logits / t),
    Bernoulli: lambda fn, t: Bernoulli(logits=fn.logits / t),
    Delta: lambda fn, t: fn,
    Independent: lambda fn, t: temper(fn.base_dist, t).to_event(fn.reinterpreted_batch_ndims),
    MaskedDistribution: lambda fn, t: temper(fn.base_dist, t).mask(fn._mask),
}
for _kind, _law in _TEMPERED.items():
    temper.register(_kind, _law)


class _Tempered(Messenger):
    def __init__(self, temperature: float) -> None:
        super().__init__()
        self.temperature = temperature

    def _pyro_sample(self, msg: Any) -> None:
        if not msg["is_observed"] and not site_is_subsample(msg):
            msg["fn"] = temper(msg["fn"], self.temperature)


def tempered(program: Program, temperature: float) -> Program:
    """The program with every latent site's distribution raised to 1/temperature and normalised.

    See `temper` for the kinds. Each site is tempered given those before it, not all sites together.
    """
    if not 0 < temperature < math.inf:
        raise ValueError(f"A temperature must be a positive number, not {temperature}.")
    return partial(_run_tempered, program, temperature)


def _run_tempered(program: Program, temperature: float, *args: Any, **kwargs: Any) -> Any:
    with _Tempered(temperature):
        return program(*args, **kwargs)
