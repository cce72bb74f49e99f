"""A participant who names morphs of a continuum: free parameters → choices and response times, for
simulation-based inference (sbi, BayesFlow, HSSM).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from plot_attractors.analysis.responses import choices_of, lasting, radius
from plot_attractors.analysis.sampling import nearest_sentence, require_attractors
from plot_attractors.model.attractor import ROWS
from plot_attractors.runs import Run, pretrained, registry

QUANTILES = (0.1, 0.5, 0.9)  # of times, in summaries


class Parameter(NamedTuple):
    """The bounds of a free parameter, for a uniform prior, and the value of the model itself."""

    low: float
    high: float
    own: float


PARAMETERS = {
    "noise": Parameter(0.5, 2.0, 1.0),  # multiplies the standard deviation of every step
    "beta": Parameter(0.5, 2.0, 1.0),  # multiplies its mean: inverse temperature of Langevin's R^β
    "threshold": Parameter(1.0, 4.0, 2.0),  # ε√d, from an embedding at which a response comes
    "deadline": Parameter(6.0, 40.0, 40.0),  # steps, after which the nearest sentence is chosen
    "bias": Parameter(-0.5, 0.5, 0.0),  # of the start, to a (negative) or b, parts of the way
    "t0": Parameter(0.0, 0.6, 0.2),  # seconds besides: the non-decision time
    "step": Parameter(0.01, 0.2, 0.05),  # seconds that a step takes
}


class Simulator:
    r"""Trials of a participant: morphs between two inputs are named as the one or the other.

    Args:
        run: a trained attractor model.
        between: the two inputs, as of the analysis `continuum`.
        points: morphs, in even steps from a to b.

    Called with parameters (n, 7), in the order of `PARAMETERS`, it returns (n, points, trials, 2):
    the choice, 0 for a and 1 for b, and the time of the response in seconds, by torch's global
    random number generator. A response is that of `responses.respond` at the participant's
    threshold, or, at the deadline, whatever is nearest. One after τ steps comes at

    .. math:: t_0 + \mathrm{step} \cdot (\tau + u), \quad u \sim \mathrm{Uniform}(0, 1),

    since a step has a length and a response comes at any time in it.

    Raises ValueError for parameters of another number or beyond the bounds.
    """

    def __init__(self, run: Run, between: Sequence[str] = (), points: int = 7) -> None:
        self.model = require_attractors(run.model)
        continuum: Any = registry.load("analyses", "continuum")
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(run.seed)
            ends = continuum.find_ends(run, tuple(between))
            x = continuum.morphs(run, ends.x, points, 1)[:, 0]
            self.names = tuple(ends.names)
            self.z0 = self.model.encode(x).z0
            self.ends = self.model.encode(ends.x).z0
            self.category = continuum.between(self.model, ends.x).category
        self.low, self.high, self.own = torch.tensor(list(PARAMETERS.values())).T

    @torch.no_grad()
    def __call__(self, parameters: Tensor, trials: int = 20) -> Tensor:
        theta = torch.as_tensor(parameters, dtype=torch.float32)
        if theta.dim() != 2 or theta.shape[1] != len(PARAMETERS):
            names = ", ".join(PARAMETERS)
            raise ValueError(f"parameters are rows of {names}, not of the shape {(*theta.shape,)}")
        if bool(((theta < self.low) | (theta > self.high)).any()):
            bounds = ", ".join(f"{k} {p.low:g} to {p.high:g}" for k, p in PARAMETERS.items())
            raise ValueError(f"some parameters are beyond their bounds: {bounds}")
        each = len(self.z0) * trials
        rows = theta.repeat_interleave(each, 0)
        z0 = self.z0.repeat_interleave(trials, 0).repeat(len(theta), 1)
        parts = zip(z0.split(ROWS), rows.split(ROWS), strict=True)
        results = torch.cat([self._trials(*part) for part in parts])
        return results.view(len(theta), len(self.z0), trials, 2)

    def _trials(self, z0: Tensor, rows: Tensor) -> Tensor:
        """(N, 2) of states z0 (N, d) with parameters (N, 7)."""
        model = self.model
        noise, beta, threshold, deadline, bias, t0, step = (column[:, None] for column in rows.T)
        end = torch.where(bias > 0, self.ends[1], self.ends[0])
        z = [model.initial(z0 + bias.abs() * (end - z0))]
        for t in range(int(self.high[3])):
            to = model.transition(z[-1], float(t), z0)
            move = torch.where(model.onset.axis, 1.0, beta) * (to.mean - z[-1])
            z.append(z[-1] + move + noise * (to.sample() - to.mean))
        near = nearest_sentence(model, torch.stack(z))
        choice = choices_of(model, near.s, self.category)
        stays = lasting(near.distance <= threshold[:, 0] * radius(model, 1.0), choice)
        last = deadline[:, 0].round().long()
        times = torch.arange(len(z))[:, None]
        stays &= times < last
        first = torch.where(stays, times, last).amin(0)
        time = t0[:, 0] + step[:, 0] * (first + torch.rand(len(first)))
        return torch.stack([choice.gather(0, first[None])[0].float(), time], -1)


def summaries(trials: Tensor) -> Tensor:
    """(n, points · 4) of trials (n, points, trials, 2): the share of b, and quantiles of times, of
    every morph; what a neural posterior is conditioned on.
    """
    choice, time = trials.unbind(-1)
    quantiles = time.quantile(torch.tensor(QUANTILES), -1).movedim(0, -1)
    return torch.cat([choice.mean(-1, keepdim=True), quantiles], -1).flatten(1)


PROGRAM = '''"""A participant: simulator(parameters) → choices and times (n, {points}, trials, 2).

Parameters (n, {count}) are {names}.
"""

from plot_attractors.analysis.simulator import PARAMETERS, Simulator, summaries
from plot_attractors.runs import Run

simulator = Simulator(Run({path!r}), between={between!r}, points={points})
low, high = simulator.low, simulator.high  # bounds of uniform priors
'''


def program(run: Run, between: Sequence[str] = (), points: int = 7) -> str:
    """The text of a program that makes the simulator of a run."""
    simulator = Simulator(run, between, points)
    shown = str(pretrained.shown(run.path))
    shown = shown if shown.startswith(pretrained.PREFIX) else str(run.path.resolve())
    return PROGRAM.format(
        path=shown, between=simulator.names, points=points, count=len(PARAMETERS),
        names=", ".join(PARAMETERS),
    )  # fmt: skip
