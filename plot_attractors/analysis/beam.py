"""Beam search for the sentences of highest reward, where they are too many to list."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from plot_attractors.language import Language


class BestSentences(NamedTuple):
    """The best K sentences that were visited for each of B inputs, best first.

    - ``s``: (B, K, width), all different for an input;
    - ``log_reward``: (B, K) log R(s; x), nats; −inf where fewer than K were visited.
    """

    s: Tensor
    log_reward: Tensor


@torch.no_grad()
def beam_search(
    log_reward: Callable[[Tensor], Tensor],
    language: Language,
    inputs: int,
    beams: int = 8,
    keep: int = 64,
    device: torch.device | str | None = None,
) -> BestSentences:
    """The `keep` best sentences visited while the `beams` best of each length grow by a token.

    A partial sentence is a sentence too, and judged by its own reward. A token may be added
    anywhere: a sentence has many ways to be found, and counts once. The cost is `beams` · width
    rewards a token. Where embeddings are sums of tokens this is matching pursuit with several
    hypotheses.

    `log_reward` takes s (B, n, width), B being `inputs`, to (B, n) log R(s; x), nats.

    Example:
        >>> language = Language(groups=(1,) * 8, max_length=3)
        >>> wanted = torch.tensor([1., 0., 0., 1., 0., 0., 1., 0.])
        >>> found = beam_search(lambda s: s @ wanted - s.sum(-1) / 2, language, inputs=1)
        >>> language.name(found.s[0, 0]), float(found.log_reward[0, 0])
        ('A·D·G', 1.5)
    """
    width = language.width
    s = torch.zeros(inputs, 1, width, device=device)
    score = torch.zeros(inputs, 1, device=device)
    tokens = torch.eye(width, device=device)
    visited = [(s, log_reward(s))] if language.min_length == 0 else []
    for length in range(1, language.longest + 1):
        allowed = language.allowed(s, canonical=False)[..., :-1] & score.isfinite()[..., None]
        never = ~allowed.flatten(1)
        grown = (s[:, :, None] + tokens).clamp(max=1).flatten(1, 2)  # (B, beams · width, width)
        score = log_reward(grown).masked_fill(never, -torch.inf)
        # of equal sentences the first counts; those never allowed sort before all
        key, order = language.key(grown).masked_fill(never, 0).sort(1)
        repeated = torch.zeros_like(key, dtype=torch.bool)
        repeated[:, 1:] = key[:, 1:] == key[:, :-1]
        score = score.gather(1, order).masked_fill(repeated, -torch.inf)
        score, best = score.topk(min(max(beams, keep), score.shape[1]), 1)
        s = _rows(grown, order.gather(1, best))
        if length >= language.min_length:
            visited.append((s, score))
        s, score = s[:, :beams], score[:, :beams]
    s, score = (torch.cat(part, 1) for part in zip(*visited, strict=True))
    score, best = score.topk(min(keep, score.shape[1]), 1)
    return BestSentences(_rows(s, best), score)


def _rows(s: Tensor, index: Tensor) -> Tensor:
    """(B, k, width) rows `index` (B, k) of s (B, n, width)."""
    return s.gather(1, index[..., None].expand(-1, -1, s.shape[-1]))
