"""Feature-wise composition: sentences built one token for one feature, as a decoder reads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from plot_attractors.language import Language

if TYPE_CHECKING:
    from plot_attractors.analysis.probes import Prediction

Embedding = Callable[[Tensor], Tensor]  # sentences (…, width) → (…, d)
Listener = Callable[[Tensor], "Prediction"]  # (…, d) → its prediction of the features
CELLS = 200_000  # sentences scored at once


def combinations(values: Tensor) -> tuple[Tensor, Tensor]:
    """The distinct rows (m, F) of feature values (n, F), where all NaN are alike, and the row (n,)
    of each.
    """
    key = torch.cat([values.nan_to_num(), values.isnan().to(values)], -1)
    distinct, row = key.unique(dim=0, return_inverse=True)
    value, missing = distinct.chunk(2, -1)
    return torch.where(missing > 0, torch.nan, value), row


@torch.no_grad()
def compose(
    language: Language,
    embed: Embedding,
    listener: Listener,
    values: Tensor,
    order: Tensor,
) -> Tensor:
    r"""(n, width) sentences that describe features one at a time, each by the token that a listener
    understands best.

    Starts with the empty sentence. At step i the token w_i is added that minimises the joint loss
    of the features considered so far,

    .. math:: w_i = \arg\min_w \sum_{j \le i} \ell_{o_j}(\hat z_{w_1 \ldots w_{i-1} w}),

    with o (n, K) the order of the features and ℓ the listener's loss, −log P(y_j | w_1 … w_i) for
    categorical ones: for them this is the paper's maximum of P(y_1, …, y_i | w_1, …, w_i). Tokens
    come in any order that the language allows. A missing feature (NaN) takes no token. Where no
    token may be added, as groups are used up or the sentence is as long as it may be, none is. A
    sentence that is too short after all features gets tokens that minimise the joint loss of all.
    Source: Section *Feature-wise composition*.

    Args:
        values: (n, F) feature values.
        order: (n, K) int64, the numbers of the K ≤ F features to describe, first to last; others
            are not considered.
    """
    rows = max(1, CELLS // (language.width + 1))
    return torch.cat([
        _compose(language, embed, listener, v, o)
        for v, o in zip(values.split(rows), order.split(rows), strict=True)
    ])  # fmt: skip


def _compose(
    language: Language,
    embed: Embedding,
    listener: Listener,
    values: Tensor,
    order: Tensor,
) -> Tensor:
    n, features = order.shape
    sentence = torch.zeros(n, language.width, device=values.device)
    token = torch.eye(language.width + 1, language.width).to(sentence)  # the last adds none
    considered = torch.zeros_like(values, dtype=torch.bool)
    for step in range(features + language.min_length):
        if step < features:
            now = order[:, step : step + 1]
            considered = considered.scatter(1, now, True)
            takes = ~values.gather(1, now)[:, 0].isnan()
        else:
            takes = sentence.sum(-1) < language.min_length
            if not takes.any():
                break
        allowed = language.allowed(sentence, canonical=False)
        allowed[:, :-1] &= takes[:, None]
        allowed[:, -1] = ~allowed[:, :-1].any(-1)
        loss = listener(embed(sentence[:, None] + token)).loss(values[:, None])
        joint = torch.where(considered[:, None], loss.nan_to_num(), 0.0).sum(-1)
        choice = torch.where(allowed, joint, torch.inf).argmin(-1)
        sentence = sentence + token[choice]
    return sentence


def shuffled(language: Language, embed: Embedding) -> Embedding:
    """The embedding of a language that is not compositional: sentences of equal length exchange
    their meanings.

    The same meanings can be expressed, in as many tokens, but what a token adds is arbitrary. Uses
    torch's global random number generator. Raises ValueError where sentences are too many to list.
    """
    sentences = language.sentences
    length = sentences.sum(-1)
    meaning = torch.empty(len(sentences), dtype=torch.int64)
    for number in length.unique():
        rows = torch.nonzero(length == number).flatten()
        meaning[rows] = rows[torch.randperm(len(rows))]
    key, row = language.key(sentences).sort()
    table = embed(sentences)[meaning[row]]
    return lambda s: table[torch.searchsorted(key, language.key(s)).clamp(max=len(key) - 1)]
