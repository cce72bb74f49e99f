"""Distributions over sentences that factor over groups of tokens: exact sums and draws, no list."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any, ClassVar

import torch
from pyro.distributions import TorchDistribution
from torch import Tensor
from torch.distributions import constraints

from plot_attractors.language import Language
from plot_attractors.language.policy import IMPOSSIBLE

__all__ = ["Factor", "FactoredSentences", "factors", "all_subsets"]

MOST_SUBSETS = 4096  # of a factor's tokens
MOST_TOKENS = 62  # of a factor, whose subsets have numbers of 64 bits


@dataclass(frozen=True, eq=False)
class Factor:
    """The tokens of a sentence that one part of its log-probability depends on."""

    tokens: Tensor  # (n,) int64, their numbers
    subsets: Tensor  # (U, width) 0/1, all that a sentence may hold of them, shortest first
    numbers: Tensor  # (U,) int64, the binary numbers of the subsets in increasing order
    rows: Tensor  # (U,) int64, their rows in `subsets`

    def index(self, s: Tensor) -> Tensor:
        """(…) row of the subset that sentences s (…, width) hold, −1 for none."""
        power = 2 ** torch.arange(len(self.tokens), device=s.device)
        number = (s[..., self.tokens.to(s.device)].long() * power).sum(-1)
        numbers = self.numbers.to(s.device)
        place = torch.searchsorted(numbers, number).clamp(max=len(numbers) - 1)
        return torch.where(numbers[place] == number, self.rows.to(s.device)[place], -1)


@lru_cache(maxsize=64)
def factors(language: Language, part: tuple[int, ...]) -> tuple[Factor, ...] | None:
    """The factors of a language whose token j belongs to part[j], in the order of the parts.

    None where an exclusive group of tokens belongs to several parts, or one part has too many
    subsets.
    """
    group = language.token_group.tolist()
    if len(set(zip(group, part, strict=True))) > len(language.groups):
        return None
    factors = []
    for number in sorted(set(part)):
        tokens = [j for j, p in enumerate(part) if p == number]
        if len(tokens) > MOST_TOKENS:
            return None
        rows = list[tuple[int, ...]]()
        for length in range(min(len(tokens), language.longest) + 1):
            chosen = itertools.combinations(tokens, length)
            more = [c for c in chosen if len({group[j] for j in c}) == length]
            rows += more
            if not more:  # all groups are taken
                break
            if len(rows) > MOST_SUBSETS:
                return None
        subsets = torch.zeros(len(rows), language.width)
        for k, c in enumerate(rows):
            subsets[k, list(c)] = 1.0
        numbers, order = torch.tensor([sum(2 ** tokens.index(j) for j in c) for c in rows]).sort()
        factors.append(Factor(torch.tensor(tokens), subsets, numbers, order))
    return tuple(factors)


@dataclass(frozen=True, eq=False)
class Subsets:
    """All subsets of all factors, those of the first factor first, as U rows."""

    subsets: Tensor  # (U, width) 0/1
    factor: Tensor  # (U,) int64, the factor of each
    starts: Tensor  # (J,) int64, the first row of each factor
    by_size: Tensor  # (J, K, M) int64, rows of factor j with k tokens, then U where none is left


@lru_cache(maxsize=64)
def all_subsets(factors: tuple[Factor, ...]) -> Subsets:
    """Those of these factors."""
    subsets = torch.cat([f.subsets for f in factors])
    sizes = torch.tensor([len(f.subsets) for f in factors])
    factor = torch.arange(len(factors)).repeat_interleave(sizes)
    row, length = torch.arange(len(subsets)), subsets.sum(-1).long()
    longest = int(length.max())
    cell = factor * (longest + 1) + length  # in increasing order
    place = row - torch.searchsorted(cell, cell)  # among those of its factor and length
    by_size = torch.full((len(factors), longest + 1, int(place.max()) + 1), len(subsets))
    by_size[factor, length, place] = row
    return Subsets(subsets, factor, sizes.cumsum(0) - sizes, by_size)


class FactoredSentences(TorchDistribution):
    r"""P(s) ∝ exp(log P_L(s) + Σ_j f_j(s_j)), with P_L the prior, s_j what s holds of factor j.

    Only the length, from the fewest tokens to the most, ties the factors together: the sum over all
    sentences is a recursion over factors and lengths, and draws go the same way back,

    .. math:: C_j(\ell) = \log \sum_k \exp(C_{j-1}(\ell - k) + A_j(k)), \qquad
        A_j(k) = \log \sum_{|s_j| = k} \exp f_j(s_j).

    4,514,872 sentences of 32 tokens in 7 factors of 4 or 5 take 7 · 32 terms and 7 · 64 more.

    Args:
        language: of bags of words.
        parts: its factors, see `factors`.
        scores: f_j of all subsets of all factors (…, U), nats: the rows of `subsets` of the first
            factor, then those of the next.

    Example:
        >>> language = Language((1,) * 4, max_length=2)
        >>> parts = factors(language, (0, 0, 1, 1))
        >>> scores = torch.zeros(sum(len(f.subsets) for f in parts))
        >>> FactoredSentences(language, parts, scores).sample((5,)).shape
        torch.Size([5, 4])
    """

    arg_constraints: ClassVar[dict[str, constraints.Constraint]] = {}
    support = constraints.independent(constraints.boolean, 1)

    def __init__(self, language: Language, parts: Sequence[Factor], scores: Tensor) -> None:
        self.language, self.factors, self.scores = language, tuple(parts), scores
        self._subsets = all_subsets(self.factors)
        super().__init__(scores.shape[:-1], torch.Size([language.width]), validate_args=False)

    # The recursion runs once, when it is asked for, with gradients even if that is under no_grad.

    @cached_property
    @torch.enable_grad()
    def _by_size(self) -> Tensor:
        """(…, J, K, M) the scores of each factor's subsets, by their numbers of tokens."""
        return _select(self.scores, self._subsets.by_size, IMPOSSIBLE)

    @cached_property
    @torch.enable_grad()
    def _ways(self) -> tuple[list[Tensor], Tensor]:
        """The recursion of sums."""
        return self._recursion(self._by_size.logsumexp(-1), partial(torch.logsumexp, dim=-1))

    def _recursion(
        self, sizes: Tensor, total: Callable[[Tensor], Tensor]
    ) -> tuple[list[Tensor], Tensor]:
        """(…, L, L) C_{j−1}(ℓ − k) + A_j(k), −∞ for k > ℓ, for each j, by ℓ and k, and C_J (…, L),
        of A (…, J, K); without a factor, C_0, a sentence has no token.
        """
        lengths = self.language.longest + 1
        padding = (0, lengths - sizes.shape[-1])
        sizes = torch.nn.functional.pad(sizes, padding, value=IMPOSSIBLE)
        sums, ways = self.scores.new_full((*self.batch_shape, lengths), IMPOSSIBLE), []
        sums[..., 0] = 0.0
        for size in sizes.unbind(-2):
            ways.append(_select(sums, _before(lengths), -torch.inf) + size[..., None, :])
            sums = total(ways[-1])
        return ways, sums

    def _back(
        self, ways: list[Tensor], length: Tensor, choose: Callable[[Tensor], Tensor]
    ) -> Tensor:
        """(…, J) the number of tokens of each factor in sentences of a length (…)."""
        sizes = []
        for each in reversed(ways):
            sizes.append(choose(_take(each.expand(*length.shape, -1, -1), length)))
            length = length - sizes[-1]
        return torch.stack(sizes[::-1], -1)

    @cached_property
    def _prior(self) -> Tensor:
        """(L,) log P_L of a sentence of each length."""
        length = torch.arange(self.language.longest + 1).to(self.scores)
        log_p = self.language.log_prior_of_length(length)
        return log_p.masked_fill(length < self.language.min_length, -torch.inf)

    @cached_property
    @torch.enable_grad()
    def _of_length(self) -> Tensor:
        """(…, L) log Σ_s of each length."""
        return self._ways[1] + self._prior

    @property
    def log_z(self) -> Tensor:
        """(…) log Σ_s P_L(s) exp Σ_j f_j(s_j), nats, exact."""
        return self._of_length.logsumexp(-1)

    def expand(self, batch_shape: Any, _instance: None = None) -> FactoredSentences:
        scores = self.scores.expand(*batch_shape, -1)
        return FactoredSentences(self.language, self.factors, scores)

    def power(self, beta: float) -> FactoredSentences:
        """The distribution ∝ P(s)^β."""
        return FactoredSentences(self.language.power(beta), self.factors, beta * self.scores)

    def log_prob(self, s: Tensor) -> Tensor:
        length = s.sum(-1)
        of_factor = torch.stack([factor.index(s) for factor in self.factors], -1)
        possible = (length >= self.language.min_length) & (length <= self.language.longest)
        possible = possible & (of_factor >= 0).all(-1)
        rows = of_factor.clamp(min=0) + self._subsets.starts.to(s.device)
        shape = torch.broadcast_shapes(s.shape[:-1], self.batch_shape)
        rows, scores = rows.expand(*shape, -1), self.scores.expand(*shape, -1)
        total = self.language.log_prior(s.to(self.scores)) + scores.gather(-1, rows).sum(-1)
        return torch.where(possible, total - self.log_z, -torch.inf)

    @torch.no_grad()
    def sample(self, sample_shape: Any = ()) -> Tensor:
        shape = torch.Size(sample_shape) + self.batch_shape
        length = _draw(self._of_length.softmax(-1).expand(*shape, -1))
        size = self._back(self._ways[0], length, lambda scores: _draw(scores.softmax(-1)))
        scores = _take(self._by_size.expand(*shape, -1, -1, -1), size)
        return self._sentences(size, _draw(scores.softmax(-1)))

    def _sentences(self, size: Tensor, place: Tensor) -> Tensor:
        """(…, width) of the size (…, J) of each part, and its place among those of its size."""
        every = self._subsets
        j = torch.arange(len(self.factors), device=size.device)
        row = every.by_size.to(size.device)[j, size, place]
        return every.subsets.to(size.device)[row].sum(-2)

    @property
    @torch.no_grad()
    def mode(self) -> Tensor:
        """(…, width) the likeliest sentence: the same recursion with maxima instead of sums."""
        top = self._by_size.max(-1)
        ways, best = self._recursion(top.values, partial(torch.amax, dim=-1))
        size = self._back(ways, (best + self._prior).argmax(-1), partial(torch.argmax, dim=-1))
        return self._sentences(size, _take(top.indices[..., None], size)[..., 0])


@lru_cache(maxsize=64)
def _before(lengths: int) -> Tensor:
    """(L, L) int64, ℓ − k, and L where that is below 0."""
    rest = torch.arange(lengths)[:, None] - torch.arange(lengths)
    return torch.where(rest < 0, lengths, rest)


def _select(values: Tensor, index: Tensor, missing: float) -> Tensor:
    """(…, *index) the values (…, n) at each index, `missing` for n."""
    padded = torch.nn.functional.pad(values, (0, 1), value=missing)
    flat = padded.index_select(-1, index.to(values.device).flatten())
    return flat.unflatten(-1, index.shape)


def _take(matrices: Tensor, row: Tensor) -> Tensor:
    """(…, n) the row (…) of each matrix (…, m, n)."""
    row = row[..., None, None].expand(*row.shape, 1, matrices.shape[-1])
    return matrices.gather(-2, row)[..., 0, :]


def _draw(p: Tensor) -> Tensor:
    """(…) a draw from probabilities (…, n): the first of waiting times Exp(1) / p."""
    return (p / p.new_empty(p.shape).exponential_()).argmax(-1)
