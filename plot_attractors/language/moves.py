"""Monte Carlo over sentences: Gibbs moves of single tokens, and populations that are annealed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import NamedTuple

import torch
from torch import Tensor

from plot_attractors.language.language import Language

__all__ = ["Population", "additions", "anneal", "gibbs_step"]

LogDensity = Callable[[Tensor], Tensor]
"""Sentences (…, B, width) → (…, B) nats, up to a constant for each of B inputs."""


@torch.no_grad()
def gibbs_step(
    language: Language, s: Tensor, log_p: LogDensity, log_options: LogDensity | None = None
) -> Tensor:
    """One token of every sentence s (…, B, width) is added, taken away or exchanged, by its exact
    conditional probability under p, which the step leaves invariant.

    The k tokens of a sentence lie in k of L = `longest` slots, all n(k) = L!/(L − k)! ways being
    equally likely. What is in a random slot, nothing or a token, is drawn anew ∝ p(s′) / n(k′).
    log_p is called once, on all sentences that this may give.

    `log_options` may take its place, which may be faster: s (…, B, width) →
    (tokens + 1, …, B) log p of s with each token added, and of s.
    """
    base = _emptied_slot(language, s)
    scores = (log_options or partial(additions, log_p))(base)
    allowed = language.allowed(base, canonical=False)
    length = base.sum(-1).long().clamp(max=language.longest - 1)
    gain = _way_gains(language).to(s)[length][..., None].expand(*length.shape, language.tokens)
    gain = torch.nn.functional.pad(gain, (0, 1))  # of no token none
    logits = torch.where(allowed, scores.movedim(0, -1) + gain, -torch.inf)
    above = logits.softmax(-1).cumsum(-1)  # by inversion, faster than a categorical distribution
    u = torch.rand_like(above[..., :1]) * above[..., -1:]
    chosen = torch.searchsorted(above, u, right=True)[..., 0].clamp(max=language.tokens)
    return base + (chosen[..., None] == torch.arange(language.tokens, device=s.device))


def _emptied_slot(language: Language, s: Tensor) -> Tensor:
    """(…, B, tokens) bags s without what is in a random slot."""
    filled = torch.rand_like(s[..., 0]) < s.sum(-1) / language.longest
    feature = (torch.rand_like(s) * s).argmax(-1)
    return torch.where(filled[..., None], language.without(s, feature), s)


def additions(log_p: LogDensity, base: Tensor) -> Tensor:
    """(tokens + 1, …, B) log p of bags with each token added, and of the bags themselves."""
    tokens = base.shape[-1]
    every = torch.eye(tokens, device=base.device).view(tokens, *[1] * (base.dim() - 1), tokens)
    return log_p(torch.cat([(base + every).clamp(max=1), base[None]]))


@lru_cache(maxsize=64)
def _way_gains(language: Language) -> Tensor:
    """(longest,) log n(k) − log n(k + 1), of a token more."""
    most = torch.tensor(float(language.longest))
    k = torch.arange(language.longest + 1.0)
    log_n = torch.lgamma(most + 1) - torch.lgamma(most - k + 1)
    return -log_n.diff()


class Population(NamedTuple):
    """Sentences s (K, B, width), K equally likely ones for each of B inputs; an estimate (B,) of
    log Σ_s p(s)^β at the last power β, nats, whose exponential is unbiased; and the least effective
    sample size (B,) met on the way, as a share of K.
    """

    s: Tensor
    log_z: Tensor
    effective: Tensor


@torch.no_grad()
def anneal(
    language: Language,
    s: Tensor,
    log_q: Tensor,
    log_p: LogDensity,
    powers: Sequence[float] = (1.0,),
    steps: int = 2,
    log_options: LogDensity | None = None,
    from_prior: bool = False,
) -> Population:
    """Sequential Monte Carlo from draws s (K, B, width) of q, with log q(s) (K, B), to p.

    The population is weighted and resampled from q to p^β for every β of `powers`, and moved by
    Gibbs steps after each. As K grows its law becomes p to the last power; with `powers` (1,) and
    no steps it is sampling-importance-resampling. `log_options` is as in `gibbs_step`, of p.

    With `from_prior` the way is P(s)^(1−β) p^β while β < 1, P being the language's prior. From
    draws of P this estimates log Z far better: p^β with a small β is flat, so that few draws of P
    count. But sentences stay as short as P has them on the way, and are moved less: draws were
    worse (docs/notebook.md). Source: Del Moral, Doucet and Jasra (2006), "Sequential Monte Carlo
    samplers".
    """

    def between(p: LogDensity, prior: LogDensity, power: float) -> LogDensity:
        if power >= 1 or not from_prior:
            return lambda s: power * p(s)
        return lambda s: power * p(s) + (1 - power) * prior(s)

    log_z, options = torch.zeros_like(log_q[0]), None
    effective = torch.ones_like(log_z)
    for power in powers:
        target = between(log_p, language.log_prior, power)
        if log_options is not None:
            options = between(log_options, language.log_prior_of_additions, power)
        log_w = target(s) - log_q
        log_z = log_z + log_w.logsumexp(0) - math.log(len(s))
        w = log_w.softmax(0)
        effective = torch.minimum(effective, 1 / (len(s) * w.square().sum(0)))
        s = _resample(s, w)
        for _ in range(steps):
            s = gibbs_step(language, s, target, options)
        log_q = target(s)
    return Population(s, log_z, effective)


def _resample(s: Tensor, w: Tensor) -> Tensor:
    """Systematically: a sentence of weight w is kept ⌊K w⌋ or ⌈K w⌉ times."""
    n = len(s)
    u = (torch.arange(n, device=s.device)[:, None] + torch.rand_like(w[:1])) / n
    above = w.cumsum(0).clamp(max=1.0).T.contiguous()
    index = torch.searchsorted(above, u.T.contiguous()).clamp(max=n - 1).T
    return s.gather(0, index[..., None].expand_as(s))
