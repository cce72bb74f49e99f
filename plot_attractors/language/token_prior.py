"""What tokens cost in P(s): the rarer a token is said, the dearer it is."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from plot_attractors.language import Language
from plot_attractors.language.factored import FactoredSentences

__all__ = ["costs_by_share", "equal_costs"]

TOLERANCE = 0.01  # nats that a price still changes in a round
SMALLEST = 1e-6  # share that is told from none


def equal_costs(language: Language, odds_cost: float) -> Tensor:
    """(tokens,) κ log((1 − p) / p) nats, not below 0, for each of n tokens that are said alike in
    the longest sentences: p = longest / n.

    >>> equal_costs(Language((1,) * 32, max_length=7), 2.0)[:2]
    tensor([2.5459, 2.5459])
    """
    p = min(language.longest / language.tokens, 0.5)
    return torch.full((language.tokens,), odds_cost * math.log((1 - p) / p))


@torch.no_grad()
def costs_by_share(
    law: FactoredSentences, odds_cost: float, least_share: float, rounds: int = 200
) -> Tensor:
    r"""(tokens,) nats that tokens cost beside `length_cost`, by how often they are said when they
    cost that much:

    .. math:: c_w = \kappa \log\frac{1 - p_w}{p_w}, \qquad p_w = E_x[P(w \in s \mid x)],

    or less where w would else be said in less than `least_share` of sentences, as much as leaves it
    that share; never below 0. With κ = `odds_cost` = 1, no `length_cost`, no limits of length and
    no token at `least_share` this is a fixed point of EM for a P(s) of independent tokens: the code
    in which sentences are shortest. With κ above 1 prices are further apart, and a token that is
    dear because it is rare becomes rarer: several prices may agree with their shares. These are
    found from equal ones (`equal_costs`), half of the way a round, p exact, until none changes by
    more than 0.01 nats in a round.

    Args:
        law: P(s | x) of inputs, in a language whose tokens may have any costs.
        odds_cost, least_share: κ, and the least share.
        rounds: at most.
    """
    costs = equal_costs(law.language, odds_cost).to(law.scores[0])
    for _ in range(rounds):
        language = replace(law.language, token_costs=tuple(costs.tolist()))
        said = FactoredSentences(language, law.factors, law.scores).mean
        p = said.flatten(0, -2).mean(0).clamp(SMALLEST, 1 - SMALLEST)
        enough = (
            costs + (p / least_share).log()
        )  # at which a token is said about as often as it must
        change = (torch.minimum(odds_cost * torch.logit(1 - p), enough).clamp(min=0) - costs) / 2
        costs = costs + change
        if float(change.abs().max()) < TOLERANCE:
            break
    return costs
