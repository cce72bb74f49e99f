"""The sleep phase: maximum likelihood of the forward dynamics on bridges to sampled sentences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from plot_attractors.gflownet.trajectories import Trajectories
from plot_attractors.language.factored import FactoredSentences
from plot_attractors.model.attractor import AttractorModel, Encoding
from plot_attractors.ranges import Positive, Range, Size, check_ranges
from plot_attractors.training.bridge import Bridge
from plot_attractors.training.stay import (
    PERSISTENCE,
    OffSentence,
    Transitions,
    max_step,
    prior_transitions,
)

__all__ = ["Sleep", "bridge_of", "sleep_loss"]

STATIONARY_STEPS = 4  # of it that are scored, with the weight of all


@dataclass(frozen=True)
class Sleep:
    trajectories: Size = 96  # in an update
    steps: Size = 4  # of the walk
    first: Annotated[float, Range(0, 1, above=True)] = 0.8  # part of the way in the first of them
    noise: Positive = 0.12  # standard deviation of the walk
    # least and greatest sd of perturbed starts
    perturbed_sd: tuple[Positive, Positive] = (0.3, 0.6)
    exact: bool = False  # mean and variance of a walk's next state over all sentences, not the
    # sampled one's, where sentences factor: less noise, at 1.4 times the time

    def __post_init__(self) -> None:
        check_ranges(self)


def bridge_of(model: AttractorModel, c: Sleep) -> Bridge:
    """The backward kernel of the sleep phase.

    Raises ValueError where the walk or its parts are outside their range, exact moments are asked
    for of sentences that do not factor, or the forward dynamics have no `max_step`.
    """
    if c.exact and not model.posterior.factored:
        raise ValueError(
            "sleep.exact needs sentences that factor: set token_axes, without decodability and "
            "reward floor, or leave it out"
        )
    bridge = Bridge(model.steps, model.epsilon, c.steps, c.first, c.noise, PERSISTENCE)
    if model.steps > c.steps:
        max_step(model)  # restoring transitions need it
    return bridge


def sleep_loss(
    model: AttractorModel,
    kernel: Bridge,
    e: Encoding,
    s: Tensor,
    c: Sleep,
    off: Callable[[Encoding], OffSentence | None],
) -> Tensor:
    """−log P_F, nats a step, of bridges (`bridge_of`) from inputs e to sentences s (n, width), and
    of restoring transitions at sentences from the prior (*Wake-sleep*), and from states off all
    sentences, which `off` gives.
    """
    with torch.no_grad():
        z_hat = model.embed(s)
        path = kernel.sample(e.z0, z_hat)
        to = bridge_transitions(kernel, path, z_hat, STATIONARY_STEPS)
        if c.exact:
            to = exact_transitions(model, kernel, path, e, to)
        if model.steps > c.steps:
            to = to.join(prior_transitions(model, kernel, e, c.perturbed_sd, off))
    return to.cross_entropy(model.forward_step) / model.steps


def bridge_transitions(
    kernel: Bridge, trajectories: Trajectories, z_hat: Tensor, stationary: int
) -> Transitions:
    """The walk of bridges to ẑ (B, d), and so many of their stationary steps, drawn anew.

    Stationary steps are alike at all times, so a few stand for all. The weights are for the mean
    over trajectories of the sum over steps.
    """
    z, context = trajectories
    left = kernel.steps - kernel.walk
    few = min(stationary, left)
    t = torch.cat([torch.arange(kernel.walk), kernel.walk + torch.randperm(left)[:few]])
    weight = torch.tensor([1.0] * kernel.walk + [left / max(few, 1)] * few) / z.shape[1]
    to = kernel.forward_transition(t, z[t], z[0], z_hat)
    rows = [z[t], to.mean, to.stddev, t[:, None, None], context, weight[:, None, None]]
    return Transitions(*(r.to(z).expand(len(t), z.shape[1], -1).flatten(0, 1) for r in rows))


def exact_transitions(
    model: AttractorModel, kernel: Bridge, path: Trajectories, e: Encoding, to: Transitions
) -> Transitions:
    """The walk with mean and variance of the next state over all sentences, along each axis.

    P(s | z_t, x) ∝ R(s; x) N(z_t; E[z_t | z0, ẑ_s], v_t) factors, and these two moments are all
    that the likelihood of diagonal Gaussian steps asks for: the same expectation, less noise.
    """
    posterior, of = model.posterior(e.distribution), model.posterior.factors()
    assert of is not None
    assert isinstance(posterior, FactoredSentences)  # see `bridge_of`
    axes, p = model.posterior.along_axes(of)
    t = torch.arange(kernel.walk)
    v, z, z0 = kernel.variance.to(e.z0)[t, None, None], path.z[t][..., axes], e.z0[:, axes]
    off = z - kernel.mean(t, z0, p.loc)
    scores = posterior.scores - 0.5 * torch.where(v > 0, off.square() / v, 0.0)
    shares = FactoredSentences(posterior.language, posterior.factors, scores).marginals
    along = kernel.forward_transition(t, z, z0, p.loc).mean
    zero = torch.zeros(len(t), *e.z0.shape).to(z)
    middle = zero.index_add(-1, axes, shares * along)
    spread = zero.index_add(-1, axes, shares * (along - middle[..., axes]).square())
    mean, variance = to.mean.clone(), to.sd.square()
    rows, used = len(t) * len(e.z0), axes.unique()
    mean[:rows, used] = middle[..., used].flatten(0, 1)
    variance[:rows] += spread.flatten(0, 1)
    return to._replace(mean=mean, sd=variance.sqrt())
