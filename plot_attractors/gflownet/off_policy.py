"""Where particles come from, beside the guide: tempering, replay, local search, Langevin moves.

A GFlowNet loss is zero on every trajectory at its solution, so that particles may come from
anywhere. `tempered` makes a behaviour policy; the others change what was drawn:

    VarGrad(16, behaviour=tempered(guide, 2.0), off_policy=[Replay(1000), LocalSearch(5)])
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import torch
from pyro import poutine
from pyro.distributions import (
    Bernoulli,
    Categorical,
    Delta,
    MaskedDistribution,
    MultivariateNormal,
    Normal,
)
from pyro.poutine.messenger import Messenger
from pyro.poutine.util import site_is_subsample
from torch import Tensor
from torch.distributions import Independent

from plot_attractors.gflownet.exploration import mala
from plot_attractors.gflownet.programs import Program, Values, quoted
from plot_attractors.gflownet.ratios import LogRatios

__all__ = ["Langevin", "LocalSearch", "Move", "Particles", "Replay", "temper", "tempered"]


@dataclass(frozen=True, eq=False)
class Particles:
    """What was drawn, and what may be asked of it.

    Attributes:
        values: latent sites, (K, …) where particles are run at once, else of one particle.
        score: log p and log q of other values.
        redraw: the guide run with some values given, the rest drawn anew.
        at_once: whether dimension 0 of values is that of particles.
    """

    values: Values
    score: Callable[[Values], LogRatios]
    redraw: Callable[[Values], Values]
    at_once: bool


Move = Callable[[Particles], Values]
"""Changes what was drawn: values of the same sites."""


# -- tempering


@singledispatch
def temper(fn: Any, temperature: float) -> Any:
    """A distribution ∝ p^(1/temperature); `temper.register(Kind)` teaches it another kind."""
    raise ValueError(
        f"{type(fn).__name__} cannot be tempered: give a behaviour policy of your own, or say how "
        f"with temper.register({type(fn).__name__})."
    )


@temper.register
def _(fn: Normal, temperature: float) -> Any:
    return Normal(fn.loc, fn.scale * temperature**0.5)


@temper.register
def _(fn: Categorical, temperature: float) -> Any:
    return Categorical(logits=fn.logits / temperature)


@temper.register
def _(fn: Bernoulli, temperature: float) -> Any:
    return Bernoulli(logits=fn.logits / temperature)


@temper.register
def _(fn: Delta, temperature: float) -> Any:
    return fn


@temper.register
def _(fn: Independent, temperature: float) -> Any:
    return temper(fn.base_dist, temperature).to_event(fn.reinterpreted_batch_ndims)


@temper.register
def _(fn: MultivariateNormal, temperature: float) -> Any:
    return MultivariateNormal(fn.loc, scale_tril=fn.scale_tril * temperature**0.5)


@temper.register
def _(fn: MaskedDistribution, temperature: float) -> Any:
    return temper(fn.base_dist, temperature).mask(fn._mask)


class _Tempered(Messenger):
    def __init__(self, temperature: float | Callable[[], float]) -> None:
        super().__init__()
        self.temperature = temperature

    def _pyro_sample(self, msg: Any) -> None:
        if not msg["is_observed"] and not site_is_subsample(msg):
            of = self.temperature() if callable(self.temperature) else self.temperature
            if not 0 < of < math.inf:
                raise ValueError(f"A temperature must be a positive number, not {of}.")
            msg["fn"] = temper(msg["fn"], of)


def tempered(program: Program, temperature: float | Callable[[], float]) -> Program:
    """The program with every latent site's distribution raised to 1/temperature and normalised.

    Categorical and Bernoulli logits are divided by the temperature, variances of normal sites
    multiplied by it; a Delta stays. A callable gives the temperature of the moment, so that
    exploration can decay.
    """

    def behaviour(*args: Any, **kwargs: Any) -> Any:
        with _Tempered(temperature):
            return program(*args, **kwargs)

    return behaviour


# -- replay


class Replay:
    """Replaces a share of the particles by earlier ones, prioritised by reward, ∝ p(z, x)^power.

    It fills while gradients are on, as in training. For one set of data: earlier particles are
    scored on the data of today.

    Args:
        capacity: particles kept; the oldest go first.
        share: of the particles of a step, from 0 to 1, rounded.
        power: exponent of the reward at the time of storing; 0 draws uniformly.

    Raises ValueError for programs whose particles cannot be run at once, a single particle, other
    shapes than before, and a `batch_plate`, whose elements have other data at the next step.
    """

    def __init__(self, capacity: int = 1000, share: float = 0.5, power: float = 0.0) -> None:
        if capacity < 1 or not 0 <= share <= 1:
            raise ValueError(
                "Replay needs a capacity of at least 1 and a share between 0 and 1, "
                f"not {capacity} and {share}."
            )
        if not 0 <= power < math.inf:
            raise ValueError(f"Replay needs a power of 0 or more, not {power}.")
        self.capacity, self.share, self.power = capacity, share, power
        self.values: Values = {}
        self.log_p = torch.zeros(0)

    def __call__(self, particles: Particles) -> Values:
        with torch.no_grad():
            ratios = particles.score(particles.values)
        if not particles.at_once or ratios.layout.batch_dim is not None:
            raise ValueError(
                "Replay needs two particles or more that run at once, of the same data at every "
                "step: raise num_particles, or drop vectorize_particles=False and batch_plate."
            )
        if any(v.shape[1:] != ratios.values[k].shape[1:] for k, v in self.values.items()):
            raise ValueError(
                "Replay holds particles of other shapes: make one for each program and data set."
            )
        drawn, log_p = dict(particles.values), ratios.of_model.detach()
        n = int(self.share * len(log_p) + 0.5)
        if n and len(self.log_p):
            chosen = torch.multinomial((self.power * self.log_p).softmax(0), n, replacement=True)
            for name, old in self.values.items():
                drawn[name] = torch.cat([old[chosen], drawn[name][n:]])
        if torch.is_grad_enabled():
            possible, kept = log_p.isfinite(), slice(-self.capacity, None)
            held = self.values or {k: v[:0] for k, v in ratios.values.items()}
            self.values = {
                k: torch.cat([v, ratios.values[k][possible]])[kept] for k, v in held.items()
            }
            self.log_p = torch.cat([self.log_p.to(log_p), log_p[possible]])[kept]
        return drawn


# -- local search


class LocalSearch:
    """Metropolis moves that keep the first sites of the guide and draw the others anew.

    Proposal: z' is z up to a site that is drawn uniformly, and the guide's from there on; accepted
    with min(1, p(z', x) q(z) / p(z, x) q(z')), so that the posterior is left invariant. Source: the
    back-and-forth search of Kim et al. (2024), "Local search GFlowNets", with its exact acceptance.
    """

    def __init__(self, steps: int = 1) -> None:
        if steps < 1:
            raise ValueError(f"LocalSearch needs at least one step, not {steps}.")
        self.steps = steps

    @torch.no_grad()
    def __call__(self, particles: Particles) -> Values:
        values, of = particles.values, particles.score(particles.values)
        log_ratio = of.total
        for _ in range(self.steps):
            names = list(of.log_q)
            anew = names[int(torch.randint(len(names), ())) :]
            proposed = particles.redraw({k: v for k, v in values.items() if k not in anew})
            to = particles.score(proposed)
            # of programs with more sites, each is less likely to be the first that is drawn anew
            sites = math.log(len(names) / len(to.log_q))
            accept = torch.rand_like(log_ratio).log() < to.total - log_ratio + sites
            if accept.ndim == 0:  # one particle, whose sites may be others
                values, of = (proposed, to) if accept else (values, of)
            else:
                chosen = {
                    k: torch.where(to.aligned(accept, k), v, values[k])
                    for k, v in to.values.items()
                }
                values = {**values, **chosen}
            log_ratio = torch.where(accept, to.total, log_ratio)
        return values


class Langevin:
    """Metropolis-adjusted Langevin moves (`mala`) on log p(z, x) of all real-valued latent sites.

    Sites of other support stay as they are, and so do those that the model does not have.
    """

    def __init__(self, step_size: float, steps: int = 1) -> None:
        if steps < 1 or not step_size > 0:
            raise ValueError(
                "Langevin needs a positive step size and at least one step, "
                f"not {step_size} and {steps}."
            )
        self.step_size, self.steps = step_size, steps

    def __call__(self, particles: Particles) -> Values:
        of = particles.score(particles.values)
        names = [name for name in of.values if name in of.layout.real]
        if not names:
            raise ValueError(
                "Langevin moves need a real-valued latent site, and the model has none: "
                "take LocalSearch."
            )
        if auxiliary := of.log_q.keys() - of.log_p.keys():
            raise ValueError(
                "Langevin moves sites of the model, which in this guide follow from "
                f"{quoted(auxiliary)}, as in AutoNormal: take LocalSearch, or a guide that samples "
                "the model's sites."
            )
        parts = {name: of.flat(particles.values[name], name) for name in names}
        sizes = [part.shape[-1] for part in parts.values()]

        def values(z: Tensor) -> Values:
            moved = zip(names, z.split(sizes, -1), strict=True)
            return {**particles.values, **{k: of.unflat(part, k) for k, part in moved}}

        def log_density(z: Tensor) -> Tensor:
            with poutine.block():
                return particles.score(values(z)).of_model

        start = torch.cat(list(parts.values()), -1).detach()
        return values(mala(start, log_density, self.step_size, self.steps)[0])
