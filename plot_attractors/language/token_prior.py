"""Token costs in P(s): the rarer a token is, the more it costs."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from plot_attractors.language import Language
from plot_attractors.language.factored import FactoredSentences

__all__ = ["costs_by_share", "equal_costs"]

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
def costs_by_share(posterior: FactoredSentences, odds_cost: float, least_share: float) -> Tensor:
    r"""(tokens,) nats that tokens cost beside `length_cost`, by their shares at these costs:

    .. math:: c_w = \kappa \log\frac{1 - p_w}{p_w}, \qquad p_w = E_x[P(w \in s \mid x)],

    not below 0, and no more than leaves w its `least_share`. With κ = `odds_cost` = 1, no
    `length_cost`, no limits of length and no token at `least_share` this is a fixed point of EM for
    a P(s) of independent tokens: the code in which sentences are shortest. With κ > 1 costs are
    further apart, and several may agree with their shares: a token that costs more becomes rarer.

    The iteration starts at `equal_costs`, goes half of the way in every round, and ends when no
    cost changes by more than 0.01 nats.
    The costs of the language of `posterior`, P(s | x) of inputs, do not matter.
    """
    costs = equal_costs(posterior.language, odds_cost).to(posterior.scores[0])
    for _ in range(ROUNDS):
        language = replace(posterior.language, token_costs=tuple(costs.tolist()))
        share = FactoredSentences(language, posterior.factors, posterior.scores).mean
        p = share.flatten(0, -2).mean(0).clamp(SMALLEST, 1 - SMALLEST)
        enough = costs + (p / least_share).log()  # leaves a token about its least share
        change = (torch.minimum(odds_cost * torch.logit(1 - p), enough).clamp(min=0) - costs) / 2
        costs = costs + change
        if float(change.abs().max()) < TOLERANCE:
            break
    return costs
