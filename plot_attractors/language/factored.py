"""Distributions over sentences that factor over groups of tokens: exact sums and draws, no list."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import torch
from pyro.distributions import TorchDistribution
from torch import Tensor
from torch.distributions import Categorical, constraints

from plot_attractors.language import Language
from plot_attractors.language.policy import IMPOSSIBLE

__all__ = ["Factor", "FactoredSentences", "factors"]

MOST_SUBSETS = 4096  # of a factor's tokens
MOST_TOKENS = 62  # of a factor, whose subsets have numbers of 64 bits


@dataclass(frozen=True, eq=False)
class Factor:
    """The tokens of a sentence that one part of its log-probability depends on."""

    tokens: Tensor  # (n,) int64, their numbers
    subsets: Tensor  # (U, width) 0/1, all that a sentence may hold of them, shortest first
    starts: tuple[int, ...]  # rows at which the next length starts, from length 0 on, and U
    numbers: Tensor  # (U,) int64, the binary numbers of the subsets in increasing order
    rows: Tensor  # (U,) int64, their rows in `subsets`

    def index(self, s: Tensor) -> Tensor:
        """(…) row of the subset that sentences s (…, width) hold, −1 for none."""
        power = 2 ** torch.arange(len(self.tokens), device=s.device)
        number = (s[..., self.tokens.to(s.device)].long() * power).sum(-1)
        numbers = self.numbers.to(s.device)
        place = torch.searchsorted(numbers, number).clamp(max=len(numbers) - 1)
        return torch.where(numbers[place] == number, self.rows.to(s.device)[place], -1)


def factors(language: Language, part: tuple[int, ...]) -> tuple[Factor, ...] | None:
    """The factors of a language whose token j belongs to part[j], in the order of the parts.

    None where sentences are sequences, an exclusive group of tokens belongs to several parts, or
    one part has too many subsets.
    """
    return _factors(language.power(0.0), part)


@lru_cache(maxsize=64)
def _factors(language: Language, part: tuple[int, ...]) -> tuple[Factor, ...] | None:
    group = language.token_group.tolist()
    split = len(set(zip(group, part, strict=True))) > len(language.groups)
    if language.ordered or split:
        return None
    found = []
    for of in sorted(set(part)):
        tokens = [j for j, p in enumerate(part) if p == of]
        if len(tokens) > MOST_TOKENS:
            return None
        rows, starts = [], [0]
        for length in range(min(len(tokens), language.longest) + 1):
            chosen = itertools.combinations(tokens, length)
            rows += [c for c in chosen if len({group[j] for j in c}) == length]
            if len(rows) == starts[-1]:  # all groups are taken
                break
            if len(rows) > MOST_SUBSETS:
                return None
            starts.append(len(rows))
        subsets = torch.zeros(len(rows), language.width)
        for k, c in enumerate(rows):
            subsets[k, list(c)] = 1.0
        numbers, order = torch.tensor([sum(2 ** tokens.index(j) for j in c) for c in rows]).sort()
        found.append(Factor(torch.tensor(tokens), subsets, tuple(starts), numbers, order))
    return tuple(found)


class FactoredSentences(TorchDistribution):
    r"""P(s) ∝ exp(log P_L(s) + Σ_j f_j(s_j)), with P_L the prior, s_j what s holds of factor j.

    Only the length, from the fewest tokens to the most, ties the factors together: the sum over all
    sentences is a recursion over factors and lengths, and draws go the same way back,

    .. math:: C_j(\ell) = \log \sum_k \exp(C_{j-1}(\ell - k) + A_j(k)), \qquad
        A_j(k) = \log \sum_{|s_j| = k} \exp f_j(s_j).

    4,514,872 sentences of 32 tokens in 7 factors of 4 or 5 take 7 · 32 terms and 7 · 64 more.

    Args:
        language: of bags of words.
        of: its factors, see `factors`.
        scores: for each factor f_j (…, U_j), nats, by rows of its `subsets`.

    Example:
        >>> language = Language((1,) * 4, max_length=2)
        >>> parts = factors(language, (0, 0, 1, 1))
        >>> scores = [torch.zeros(len(f.subsets)) for f in parts]
        >>> FactoredSentences(language, parts, scores).mean  # of 10 sentences each token is in 4
        tensor([0.4000, 0.4000, 0.4000, 0.4000])
    """

    arg_constraints: ClassVar[dict[str, constraints.Constraint]] = {}
    support = constraints.independent(constraints.boolean, 1)

    def __init__(self, language: Language, of: Sequence[Factor], scores: Sequence[Tensor]) -> None:
        self.language, self.factors, self.scores = language, tuple(of), tuple(scores)
        batch = torch.broadcast_shapes(*(score.shape[:-1] for score in scores))
        super().__init__(batch, torch.Size([language.width]), validate_args=False)

    # The recursion runs once, when it is asked for, with gradients even if that is under no_grad.

    @cached_property
    @torch.enable_grad()
    def _lengths(self) -> list[Tensor]:
        """A_j (…, longest + 1)."""
        found = []
        for factor, score in zip(self.factors, self.scores, strict=True):
            sizes = [score[..., a:b].logsumexp(-1) for a, b in itertools.pairwise(factor.starts)]
            found.append(self._padded(sizes, IMPOSSIBLE))
        return found

    def _padded(self, of_size: Sequence[Tensor], value: float = 0.0) -> Tensor:
        """(…, longest + 1) of one tensor for each number of tokens."""
        pad = (0, self.language.longest + 1 - len(of_size))
        return torch.nn.functional.pad(torch.stack(list(of_size), -1), pad, value=value)

    @cached_property
    @torch.enable_grad()
    def _sums(self) -> list[Tensor]:
        """C_j (…, longest + 1), from that of no factor on."""
        start = self.scores[0].new_full((*self.batch_shape, self.language.longest + 1), IMPOSSIBLE)
        start[..., 0] = 0.0
        sums = [start]
        for lengths in self._lengths:
            sums.append(_ways(sums[-1], lengths).logsumexp(-1))
        return sums

    @cached_property
    def _prior(self) -> Tensor:
        """(longest + 1,) log P_L of a sentence of each length."""
        length = torch.arange(self.language.longest + 1).to(self.scores[0])
        log_p = self.language.log_prior_of_length(length)
        return log_p.masked_fill(length < self.language.min_length, -torch.inf)

    @cached_property
    @torch.enable_grad()
    def _of_length(self) -> Tensor:
        """(…, longest + 1) log Σ_s of each length."""
        return self._sums[-1] + self._prior

    @property
    def log_z(self) -> Tensor:
        """(…) log Σ_s P_L(s) exp Σ_j f_j(s_j), nats, exact."""
        return self._of_length.logsumexp(-1)

    def expand(self, batch_shape: Any, _instance: None = None) -> FactoredSentences:
        scores = [score.expand(*batch_shape, score.shape[-1]) for score in self.scores]
        return FactoredSentences(self.language, self.factors, scores)

    def power(self, beta: float | Sequence[float]) -> FactoredSentences:
        """The distribution ∝ P(s)^β, or with a β of its own for each factor and its tokens, where
        these cost `length_cost` each.
        """
        if not isinstance(beta, Sequence):
            scores = [beta * score for score in self.scores]
            return FactoredSentences(self.language.power(beta), self.factors, scores)
        cost = self.language.exponent * self.language.length_cost  # in the prior, which stays
        scores = [
            b * score - (b - 1) * cost * factor.subsets.to(score).sum(-1)
            for b, factor, score in zip(beta, self.factors, self.scores, strict=True)
        ]
        return FactoredSentences(self.language, self.factors, scores)

    def log_prob(self, s: Tensor) -> Tensor:
        total = self.language.log_prior(s.to(self.scores[0]))
        length = self.language.length(s)
        possible = (length >= self.language.min_length) & (length <= self.language.longest)
        for factor, score in zip(self.factors, self.scores, strict=True):
            row = factor.index(s)
            shape = torch.broadcast_shapes(row.shape, score.shape[:-1])
            possible = possible & (row >= 0)
            row = row.clamp(min=0).expand(shape)
            total = total + score.expand(*shape, -1).gather(-1, row[..., None])[..., 0]
        return torch.where(possible, total - self.log_z, -torch.inf)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with torch.no_grad():
            shape = torch.Size(sample_shape) + self.batch_shape
            left = _categorical(self._of_length).sample(torch.Size(sample_shape))
            s = torch.zeros(*shape, self.language.width, device=left.device)
            for j in reversed(range(len(self.factors))):
                factor = self.factors[j]
                ways = _ways(self._sums[j], self._lengths[j]).expand(*shape, -1, -1)
                size = _categorical(_row(ways, left)).sample()
                sizes = factor.subsets.sum(-1).to(left)
                score = self.scores[j].masked_fill(sizes != size[..., None], -torch.inf)
                row = _categorical(score).sample()
                s = s + factor.subsets.to(s)[row]
                left = left - size
            return s

    @property
    def marginals(self) -> tuple[Tensor, ...]:
        """(…, U_j) for each factor: exact probabilities of its subsets, d log Z / d scores."""
        with torch.enable_grad():
            scores = [s.detach().expand(*self.batch_shape, -1).clone() for s in self.scores]
            scores = [score.requires_grad_() for score in scores]
            log_z = FactoredSentences(self.language, self.factors, scores).log_z
            return torch.autograd.grad(log_z.sum(), scores)

    @property
    def mean(self) -> Tensor:
        """(…, width) exact probability that each token is present."""
        of = zip(self.marginals, self.factors, strict=True)
        return torch.stack([p @ factor.subsets.to(p) for p, factor in of]).sum(0)

    @property
    def mode(self) -> Tensor:
        """(…, width) the likeliest sentence: the same recursion with maxima instead of sums."""
        with torch.no_grad():
            best, rows, lengths = [self._sums[0]], [], []
            for factor, score in zip(self.factors, self.scores, strict=True):
                parts = [(a, score[..., a:b].max(-1)) for a, b in itertools.pairwise(factor.starts)]
                rows.append(self._padded([top.indices + a for a, top in parts]))
                lengths.append(self._padded([top.values for _, top in parts], -torch.inf))
                best.append(_ways(best[-1], lengths[-1]).amax(-1))
            left = (best[-1] + self._prior).argmax(-1)
            s = torch.zeros(*self.batch_shape, self.language.width, device=left.device)
            for j in reversed(range(len(self.factors))):
                size = _row(_ways(best[j], lengths[j]), left).argmax(-1)
                row = rows[j].expand(*self.batch_shape, -1).gather(-1, size[..., None])[..., 0]
                s = s + self.factors[j].subsets.to(s)[row]
                left = left - size
            return s


def _categorical(logits: Tensor) -> Categorical:
    return Categorical(logits=logits, validate_args=False)


def _row(ways: Tensor, length: Tensor) -> Tensor:
    """(…, L) the row of `ways` (…, L, L) for each length (…)."""
    return ways.gather(-2, length[..., None, None].expand(*length.shape, 1, ways.shape[-1]))[
        ..., 0, :
    ]


def _ways(before: Tensor, lengths: Tensor) -> Tensor:
    """(…, L, L) C(ℓ − k) + A(k) for each ℓ and k ≤ ℓ, −∞ elsewhere; before and lengths (…, L)."""
    steps = torch.arange(lengths.shape[-1], device=lengths.device)
    rest = steps[:, None] - steps
    ways = before[..., rest.clamp(min=0)] + lengths[..., None, :]
    return ways.masked_fill(rest < 0, -torch.inf)
