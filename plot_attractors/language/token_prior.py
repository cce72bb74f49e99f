"""Token costs in P(s): the rarer a token is, the more it costs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from plot_attractors.language import Language
from plot_attractors.language.factored import FactoredSentences

__all__ = ["costs_by_share", "equal_costs", "shares_of_draws", "shares_of_factors"]

Shares = Callable[[Tensor], Tensor]
"""Costs (tokens,) nats → (tokens,) how often sentences hold each token at these."""

TOLERANCE = 0.01  # nats
ROUNDS = 200  # at most
SMALLEST = 1e-6  # share that is told from none


def equal_costs(language: Language, odds_cost: float) -> Tensor:
    """(tokens,) κ log((1 − p) / p) nats, not below 0, of tokens of one share p = longest / tokens.

    >>> equal_costs(Language((1,) * 32, max_length=7), 2.0)[:2]
    tensor([2.5459, 2.5459])
    """
    p = min(language.longest / language.tokens, 0.5)
    return torch.full((language.tokens,), odds_cost * math.log((1 - p) / p))


@torch.no_grad()
def costs_by_share(
    language: Language, shares: Shares, odds_cost: float, least_share: float
) -> Tensor:
    r"""(tokens,) nats that tokens cost beside `length_cost`, by their shares at these costs:

    .. math:: c_w = \kappa \log\frac{1 - p_w}{p_w}, \qquad p_w = E_x[P(w \in s \mid x)],

    not below 0, and no more than leaves w its `least_share`. With κ = `odds_cost` = 1, no
    `length_cost`, no limits of length and no token at `least_share` this is a fixed point of EM for
    a P(s) of independent tokens: the code in which sentences are shortest. With κ > 1 costs are
    further apart, and several may agree with their shares: a token that costs more becomes rarer.

    The iteration starts at `equal_costs`, goes half of the way in every round, and ends when no
    cost changes by more than 0.01 nats.
    """
    costs = equal_costs(language, odds_cost)
    for _ in range(ROUNDS):
        p = shares(costs).clamp(SMALLEST, 1 - SMALLEST)
        costs = costs.to(p)
        enough = costs + (p / least_share).log()  # leaves a token about its least share
        change = (torch.minimum(odds_cost * torch.logit(1 - p), enough).clamp(min=0) - costs) / 2
        costs = costs + change
        if float(change.abs().max()) < TOLERANCE:
            break
    return costs


def shares_of_factors(posterior: FactoredSentences) -> Shares:
    """Exact shares, of P(s | x) of inputs; the token costs of its language do not matter."""

    def shares(costs: Tensor) -> Tensor:
        language = replace(posterior.language, token_costs=tuple(costs.tolist()))
        mean = FactoredSentences(language, posterior.factors, posterior.scores).mean
        return mean.flatten(0, -2).mean(0)

    return shares


def shares_of_draws(s: Tensor, drawn_at: Tensor) -> Shares:
    """Shares in draws s (K, B, tokens), K of each of B inputs, drawn at the costs `drawn_at`
    (tokens,), by self-normalised weights exp(−Σ_w (c_w − drawn_at_w)) at other costs c.
    """

    def shares(costs: Tensor) -> Tensor:
        weight = (s @ (drawn_at - costs.to(s))).softmax(0)
        return (weight[..., None] * s).sum(0).mean(0)

    return shares
