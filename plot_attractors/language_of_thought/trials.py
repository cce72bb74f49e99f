"""Learning trial by trial: sequential Monte Carlo over expressions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from plot_attractors.gflownet.sequential import systematic
from plot_attractors.language_of_thought.enumeration import log_parts
from plot_attractors.language_of_thought.mcmc import MetropolisHastings
from plot_attractors.language_of_thought.moves import Move, regenerate

__all__ = ["LearningCurve", "learn"]


class LearningCurve(NamedTuple):
    """K particles after each of T trials.

    - ``rules``: (T, K, max_rules); ``log_weight``: (T, K), normalised;
    - ``log_evidence``: (T,) log P(trials so far), nats, of the prior over expressions of at most
      max_rules rules: an estimate whose exponential is unbiased.
    """

    rules: Tensor
    log_weight: Tensor
    log_evidence: Tensor

    def mean(self, values: Callable[[Tensor], Tensor]) -> Tensor:
        """(T, …) posterior means after each trial, of derivations (K, max_rules) → (K, …)."""
        rows = zip(self.rules, self.log_weight, strict=True)
        return torch.stack([
            torch.tensordot(log_w.exp(), values(rules).to(log_w), 1) for rules, log_w in rows
        ])  # fmt: skip


@torch.no_grad()
def learn(
    program: Callable[..., Any],
    trials: Sequence[tuple[Any, ...]],
    particles: int = 1000,
    steps: int = 10,
    least: float = 0.5,
    site: str = "expression",
    moves: Sequence[Move] = (regenerate,),
) -> LearningCurve:
    r"""Posteriors over expressions after each trial, by particles that begin as draws of the prior.

    With each trial a particle's weight is multiplied by P(x_t | h, x_{<t}). Where the effective
    share of particles falls below `least`, they are resampled in proportion to their weights
    (systematically), and make `steps` Metropolis moves on the posterior so far: resample-move,
    Gilks and Berzuini (2001). LOTlib3 and Fleet have no such learner.

    Args:
        program: a Pyro program without plates whose only latent site is `site`.
        trials: what it is called with after each trial: all data so far.
        particles, steps, least, moves: as above; draws are by torch's global generator.

    Raises ValueError as `log_joint`, and where all particles have become impossible.
    """
    if particles < 2:
        raise ValueError(f"learn needs two particles or more, not {particles}.")
    if not trials or not all(isinstance(data, tuple) for data in trials):
        raise ValueError("trials are one tuple or more of what the program is called with.")
    kernel = MetropolisHastings(program, site, chains=particles, moves=moves)
    kernel.setup(0, *trials[0])
    rules = kernel.initial_params[site]
    before, log_w = torch.zeros(particles), torch.full((particles,), -math.log(particles))
    kept, weights, evidence = [], [], []
    log_z = torch.zeros(())
    for t, data in enumerate(trials):
        likelihood = log_parts(program, site, rules, *data)[1]
        lost = before == -torch.inf
        log_w = torch.where(lost, -torch.inf, log_w + likelihood - before)
        if not bool((gain := log_w.logsumexp(0)).isfinite()):
            raise ValueError(
                f"No particle can explain trial {t + 1}: give the likelihood noise, or more "
                "particles."
            )
        log_z, log_w, before = log_z + gain, log_w - gain, likelihood
        if float(1 / (2 * log_w).exp().sum()) < least * particles:
            rules = rules[systematic(log_w.exp())]
            log_w = torch.full_like(log_w, -math.log(particles))
            kernel.initial_params = {site: rules}
            kernel.setup(0, *data)
            for _ in range(steps):
                rules = kernel.sample({site: rules})[site]
            before = kernel.log_likelihood
        kept.append(rules)
        weights.append(log_w)
        evidence.append(log_z)
    return LearningCurve(torch.stack(kept), torch.stack(weights), torch.stack(evidence))
