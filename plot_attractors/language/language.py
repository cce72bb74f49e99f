"""The language: tokens, exclusive groups, sentences as multi-hot vectors, and the prior P(s)."""

from __future__ import annotations

import itertools
import math
import string
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import torch
from torch import Tensor

__all__ = [
    "MOST_SENTENCES",
    "USAGE_INPUTS",
    "Language",
    "in_use_threshold",
    "pairs_to_fit",
    "usage",
]

MOST_SENTENCES = 100_000  # that are listed
USAGE_INPUTS = 4096  # on which it is counted what is in use

_LETTERS = string.ascii_uppercase + string.ascii_lowercase


@dataclass(frozen=True)
class Language:
    """All sentences, each a 0/1 vector of `width` features, and their prior P(s).

    A sentence is a *bag of words* (the paper's simplification), with one feature a token. Tokens
    come in exclusive groups: a sentence holds at most one token of a group (Section *Hierarchical
    binary vectors*: 6 pairs, "a sequence may contain one or neither of tokens A and B", so 3⁶ − 1 =
    728 sentences of at least one token).

    P(s) ∝ exp(−length_cost · length): uniform where tokens cost nothing, a Gricean preference for
    short sentences with a length_cost above 0. A subclass with another `log_weight` has another
    prior of lengths, in rewards as in what is sampled.

    Args:
        groups: the number of tokens in each exclusive group; a group of one is a free token.
        min_length, max_length: fewest and most tokens in a sentence (`None`: one of every group).
        length_cost: nats that every token costs in log P(s).
        exponent: the power β that P(s) is raised to and normalised again (`power`).

    Example:
        >>> language = Language(groups=(2,) * 6)
        >>> language.tokens, language.count
        (12, 728)
        >>> language.name(language.sentences[-1])
        'B·D·F·H·J·L'
    """

    groups: tuple[int, ...]
    min_length: int = 1
    max_length: int | None = None
    length_cost: float = 0.0
    exponent: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.min_length <= self.longest <= len(self.groups):
            raise ValueError(
                f"Lengths must satisfy 0 <= min_length <= max_length <= {len(self.groups)} groups, "
                f"not min_length={self.min_length}, max_length={self.max_length}."
            )

    @property
    def longest(self) -> int:
        """The most tokens that a sentence may hold."""
        return len(self.groups) if self.max_length is None else self.max_length

    @property
    def tokens(self) -> int:
        """The number of tokens."""
        return sum(self.groups)

    @property
    def width(self) -> int:
        """The number of 0/1 features of a sentence: one a token."""
        return self.tokens

    @cached_property
    def token_group(self) -> Tensor:
        """(tokens,) the group of every token."""
        return torch.arange(len(self.groups)).repeat_interleave(torch.tensor(self.groups))

    @cached_property
    def count(self) -> int:
        """The number of sentences, by recursion over groups, without listing them."""
        uniform = Language(self.groups, self.min_length, self.max_length)
        return round(float(_weights(uniform)[0, 0]))

    @cached_property
    def sentences(self) -> Tensor:
        """(count, width) every sentence, shortest first; ValueError beyond `MOST_SENTENCES`."""
        if self.count > MOST_SENTENCES:
            raise ValueError(
                f"{self.count:,} sentences are too many to list (at most {MOST_SENTENCES:,}): "
                "take sampled flows or a smaller language."
            )
        members = [t.tolist() for t in torch.arange(self.tokens).split(self.groups)]
        blocks = []
        for length in range(self.min_length, self.longest + 1):
            rows = [
                tokens
                for chosen in itertools.combinations(members, length)
                for tokens in itertools.product(*chosen)
            ]
            index = torch.tensor(rows).long().view(len(rows), length)
            blocks.append(torch.zeros(len(rows), self.width).scatter_(1, index, 1.0))
        return torch.cat(blocks)

    def chunks(self, rows: int = 65_536) -> Iterator[Tensor]:
        """All sentences, at most `rows` at a time (n, width), shortest first, never held at once.

        Example:
            >>> sum(len(part) for part in Language((1,) * 32, max_length=7).chunks())
            4514872
        """
        group = self.token_group
        after = torch.searchsorted(group, group, right=True)  # first token of a later group
        s = torch.zeros(1, 0, dtype=torch.int16)  # the tokens of all sentences of one length
        first = torch.zeros(1, dtype=torch.long)  # token that may follow each of them
        for length in range(self.longest + 1):
            if length:
                count = self.tokens - first
                parent = torch.repeat_interleave(count)
                token = torch.arange(len(parent)) + (first - count.cumsum(0) + count)[parent]
                s = torch.cat([s[parent], token[:, None].to(s)], 1)
                first = after[token]
            for part in s.split(rows) if length >= self.min_length else ():
                yield torch.zeros(len(part), self.width).scatter_(1, part.long(), 1.0)

    def key(self, s: Tensor) -> Tensor:
        """(...) int64 hash of sentences (..., width); of k different ones two have the same with a
        probability of about k² / 2⁶⁴.
        """
        generator = torch.Generator().manual_seed(0)
        weights = torch.randint(-(2**62), 2**62, s.shape[-1:], generator=generator)
        return (s.long() * weights.to(s.device)).sum(-1)

    def row(self, s: Tensor) -> Tensor:
        """(...) row numbers in `sentences` of the sentences s (..., width)."""
        sentences = self.sentences.to(s)
        return (2 * s @ sentences.T - sentences.sum(-1)).argmax(-1)

    def power(self, beta: float) -> Language:
        """The language with the prior ∝ P(s)^β."""
        return self if beta == 1 else _power(self, beta)

    def log_weight(self, length: Tensor) -> Tensor:
        """(...) log P(s) in nats, up to a constant, of sentences of so many tokens (...).

        The one place where P(s) is defined: `log_prior`, the policy of `prior_logits`, exact sums
        and draws follow it.
        """
        return -self.length_cost * length

    def _log_weight(self, length: Tensor) -> Tensor:
        return self.exponent * self.log_weight(length.double())

    def without(self, s: Tensor, token: Tensor) -> Tensor:
        """(..., width) s without a token (...)."""
        return s - (token[..., None] == torch.arange(self.width, device=s.device)).to(s)

    def log_prior(self, s: Tensor) -> Tensor:
        """log P(s) in nats, normalised over all sentences; (..., width) → (...)."""
        return self.log_prior_of_length(s.sum(-1))

    def log_prior_of_length(self, length: Tensor) -> Tensor:
        """(...) log P(s) in nats of sentences of so many tokens (...)."""
        dtype = length.dtype if length.is_floating_point() else torch.get_default_dtype()
        return (self._log_weight(length) - _weights(self)[0, 0].log()).to(dtype)

    def log_prior_of_additions(self, s: Tensor) -> Tensor:
        """(tokens + 1, …) log P(s) of bags s (…, tokens) with each token added, and of s; what is
        too long counts as if it were not.
        """
        length = s.sum(-1)
        longer, own = self.log_prior_of_length(torch.stack([length + 1, length]))
        return torch.cat([longer.expand(self.tokens, *length.shape), own[None]])

    def allowed(self, partial: Tensor, canonical: bool = True) -> Tensor:
        """(..., width + 1) what may be added to a partial sentence; the last column is the end.

        With `canonical` a bag is built group by group, in exactly one order; without, in any order.
        """
        groups, group = len(self.groups), self.token_group.to(partial.device)
        length = partial.sum(-1)
        filled = partial.new_zeros(*length.shape, groups).index_add_(-1, group, partial)
        if canonical:  # a group at or before the last filled one is closed
            filled = filled.flip(-1).cumsum(-1).flip(-1)
        free = (filled == 0)[..., group] & (length < self.longest)[..., None]
        if canonical:  # enough groups must stay open for the shortest sentence
            free = free & (length[..., None] + groups - group >= self.min_length)
        return torch.cat([free, (length >= self.min_length)[..., None]], -1)

    def prior_logits(self, partial: Tensor) -> Tensor:
        """(..., width + 1) logits of the canonical policy whose sentences follow P(s) exactly."""
        log_weights = _weights(self).log().to(partial)
        length = partial.sum(-1).long()
        after = (length + 1).clamp(max=self.longest)
        grow = log_weights[self.token_group.to(partial.device) + 1][..., after].movedim(0, -1)
        stop = torch.where(length >= self.min_length, self._log_weight(length), -torch.inf)
        return torch.cat([grow, stop[..., None].to(grow)], -1)

    def token_name(self, token: int) -> str:
        """A letter for up to 52 tokens, w0, w1, ... beyond."""
        return _LETTERS[token] if self.tokens <= len(_LETTERS) else f"w{token}"

    def name(self, s: Tensor) -> str:
        """A readable sentence, such as 'A·D·F'; '∅' for the empty one."""
        return "·".join(self.token_name(int(j)) for j in s.nonzero().flatten()) or "∅"


@lru_cache(maxsize=64)
def _power(language: Language, beta: float) -> Language:
    return replace(language, exponent=beta * language.exponent)


@lru_cache(maxsize=64)
def _weights(language: Language) -> Tensor:
    """(groups + 1, longest + 1): summed weight of all ways to go on after group k − 1 as l-th."""
    k_max, l_max = len(language.groups), language.longest
    of_group = torch.tensor(language.groups, dtype=torch.float64)
    weights = torch.zeros(k_max + 1, l_max + 1, dtype=torch.float64)
    of_length = language._log_weight(torch.arange(l_max + 1)).exp().tolist()
    for length in range(l_max, -1, -1):
        stop = of_length[length] if length >= language.min_length else 0.0
        for k in range(k_max, -1, -1):
            total = stop
            if length < l_max:
                total += float(of_group[k:] @ weights[k + 1 :, length + 1])
            weights[k, length] = total
    return weights


def pairs_to_fit(inputs: int) -> tuple[int, ...]:
    """2 to 6 pairs of tokens, so that full sentences are as many as different inputs, or more.

    >>> pairs_to_fit(20)
    (2, 2, 2, 2, 2)
    """
    return (2,) * min(max(math.ceil(math.log2(max(inputs, 2))), 2), 6)


def usage(language: Language, s: Tensor) -> dict[str, float]:
    """Sentences in use among the samples s (n, width), and tokens of these."""
    different, times = s.unique(dim=0, return_counts=True)
    used = different[times / len(s) > in_use_threshold(language.count)]
    tokens = used.sum(0) if len(used) else torch.zeros(1)
    return {"sentences_in_use": float(len(used)), "tokens_in_use": float((tokens > 0).sum())}


def in_use_threshold(sentences: int) -> float:
    """The share of probability from which a sentence is in use: a tenth of an equal share."""
    return 0.1 / sentences
