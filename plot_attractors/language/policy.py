"""Distributions over sentences: policies that build them token by token, tables that list them."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, ClassVar

import torch
from pyro.distributions import TorchDistribution
from torch import Tensor
from torch.distributions import constraints

from plot_attractors.language import Language

__all__ = ["SentencePolicy", "TabulatedSentences", "draw_prior", "prior_policy"]


IMPOSSIBLE = -1e30  # finite: the gradient of logsumexp over nothing but −inf is NaN


class SentencePolicy(TorchDistribution):
    """P(s | ·) = Π_i P(s_i | s_:i) · P(end | s): a sentence built token by token.

    With `canonical` a sentence has exactly one building order.
    Without, tokens come in any order, as in the paper; `log_prob` then sums over all orders by
    recursion over subsets (2^max_length network calls in one batch).

    Args:
        logits: partial sentences (…, *batch_shape, width) → (…, *batch_shape, width + 1), the last
        for the end token.
        language: which tokens may follow.
        batch_shape: shape of independent sentences.
        canonical: one building order for a bag of words, or any.
        explore: probability α_disc of a uniform choice among the allowed tokens at every token.
    """

    arg_constraints: ClassVar[dict[str, constraints.Constraint]] = {}
    support = constraints.independent(constraints.boolean, 1)

    def __init__(
        self,
        logits: Callable[[Tensor], Tensor],
        language: Language,
        batch_shape: torch.Size | tuple[int, ...] = (),
        canonical: bool = True,
        explore: float = 0.0,
        device: torch.device | str | None = None,
    ) -> None:
        self.logits, self.canonical, self.explore = logits, canonical, explore
        self.language, self.device = language, device
        super().__init__(torch.Size(batch_shape), torch.Size([language.width]), validate_args=False)

    def expand(self, batch_shape: Any, _instance: None = None) -> SentencePolicy:
        return SentencePolicy(
            self.logits, self.language, batch_shape, self.canonical, self.explore, self.device
        )

    def step_log_prob(self, partial: Tensor) -> Tensor:
        """(…, width + 1) log P(next token or end | partial sentence)."""
        allowed = self.language.allowed(partial, self.canonical)
        log_p = self.logits(partial).masked_fill(~allowed, -torch.inf)
        log_p = log_p - log_p.logsumexp(-1, keepdim=True)  # of few, faster than log_softmax
        if self.explore:
            uniform = -allowed.sum(-1, keepdim=True).to(log_p).log()
            finite = log_p.masked_fill(~allowed, 0.0)  # the gradient of logaddexp(−inf, ·) is NaN
            keep, explore = torch.tensor([1 - self.explore, self.explore]).log().tolist()
            mixed = torch.logaddexp(finite + keep, uniform + explore)
            log_p = mixed.masked_fill(~allowed, -torch.inf)
        return log_p

    def sample(self, sample_shape: Any = ()) -> Tensor:
        return self._build(sample_shape)[0]

    def draw(self, sample_shape: Any = ()) -> tuple[Tensor, Tensor]:
        """(*sample_shape, *batch_shape, width) sentences s, and (…) log P(s), nats; faster than
        `sample` and `log_prob`.
        """
        s, log_p = self._build(sample_shape)
        return s, log_p if self.canonical else self.log_prob(s)

    @torch.no_grad()
    def _build(self, sample_shape: Any) -> tuple[Tensor, Tensor]:
        """Sentences, and log Π P(s_i | s_:i) P(end | s) of the order in which each was built."""
        shape, width = (*sample_shape, *self.batch_shape), self.language.width
        s = torch.zeros(*shape, width, device=self.device)
        going = torch.ones(shape, dtype=torch.bool, device=self.device)
        # all sentences of an element of the batch begin alike
        log_p = self.step_log_prob(s[(0,) * len(sample_shape)]).expand(*shape, -1)
        total, features = log_p.new_zeros(shape), torch.arange(width, device=self.device)
        for position in range(self.language.longest):
            if position:
                log_p = self.step_log_prob(s)
            choice = _choose(log_p.exp())
            total = total + log_p.gather(-1, choice)[..., 0] * going
            going = going & (choice[..., 0] < width)
            s = s + ((choice == features) & going[..., None])
        return s, total  # what is as long as can be ends with probability 1

    def log_prob(self, s: Tensor) -> Tensor:
        shape = torch.broadcast_shapes(s.shape[:-1], self.batch_shape)
        s = s.expand(*shape, -1)
        if self.canonical:
            return self.log_prob_path(s, s.cumsum(-1) - s)  # in the order of features
        return self._log_prob_any_order(s)

    def log_prob_path(self, s: Tensor, ranks: Tensor) -> Tensor:
        """log Π P(s_i | s_:i) P(end | s) of the building order that `ranks` (…, width) numbers."""
        position = torch.arange(self.language.longest + 1, device=s.device).view(-1, *[1] * s.dim())
        # (longest + 1, …, width + 1): every prefix in one network call
        log_p = self.step_log_prob(s * (ranks < position))
        added = s * (ranks == position)
        ended = (position[..., 0] == s.sum(-1)).to(s)
        pick = torch.cat([added, ended[..., None]], -1)
        return torch.where(pick > 0, log_p, 0.0).sum((0, -1))

    def _log_prob_any_order(self, s: Tensor) -> Tensor:
        """log Σ over building orders, by recursion over subsets, smallest first."""
        longest = self.language.longest
        present, index = s.topk(longest, -1)  # the features of s, absent ones last
        slot = torch.arange(longest, device=s.device)
        masks = (torch.arange(2**longest, device=s.device)[:, None] >> slot) & 1
        grid = masks.to(s).view(2**longest, *[1] * (s.dim() - 1), longest) * present
        index = index.expand(grid.shape)
        subsets = s.new_zeros(2**longest, *s.shape).scatter_(-1, index, grid)
        log_p = self.step_log_prob(subsets).clamp(min=IMPOSSIBLE)
        add = log_p.gather(-1, index).masked_fill(present == 0, IMPOSSIBLE)  # (2^L, …, L)
        alpha = [torch.zeros_like(s[..., 0])]
        for m in range(1, 2**longest):
            last = [(m ^ (1 << i), i) for i in range(longest) if m >> i & 1]
            alpha.append(torch.stack([alpha[k] + add[k][..., i] for k, i in last]).logsumexp(0))
        length = s.sum(-1).long()
        whole = 2 ** length.clamp(max=longest) - 1  # the first |s| slots hold all tokens of s
        out = (torch.stack(alpha) + log_p[..., -1]).gather(0, whole[None])[0]
        return out.masked_fill((out < IMPOSSIBLE / 2) | (length > longest), -torch.inf)


def _choose(p: Tensor) -> Tensor:
    """(…, 1) a column drawn ∝ p (…, columns), by inversion: of few, faster than multinomial."""
    cumulative = p.cumsum(-1)
    u = (1 - torch.rand_like(p[..., :1])) * cumulative[..., -1:]  # above 0: none of probability 0
    return (cumulative < u).sum(-1, keepdim=True)


def prior_policy(
    language: Language, shape: tuple[int, ...], device: torch.device | str | None = None
) -> SentencePolicy:
    """Independent sentences from P(s), as a policy that builds them token by token."""
    return SentencePolicy(language.prior_logits, language, shape, device=device)


class TabulatedSentences(TorchDistribution):
    """P(s | ·) over a listed language, from log-probabilities (…, count).

    The exact discretizer is of this kind: P(s | z) ∝ N(z; ẑ_s, ε²) P(s), the relation under Eq.
    *mstep_loss*.
    """

    arg_constraints: ClassVar[dict[str, constraints.Constraint]] = {}
    support = constraints.independent(constraints.boolean, 1)

    def __init__(self, logits: Tensor, language: Language) -> None:
        self.log_p, self.language = logits.log_softmax(-1), language
        super().__init__(logits.shape[:-1], torch.Size([language.width]), validate_args=False)

    def expand(self, batch_shape: Any, _instance: None = None) -> TabulatedSentences:
        return TabulatedSentences(self.log_p.expand(*batch_shape, -1), self.language)

    def power(self, beta: float) -> TabulatedSentences:
        """The distribution ∝ P(s)^β."""
        return TabulatedSentences(beta * self.log_p, self.language)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        # by inversion, five times as fast as multinomial
        shape = torch.Size(sample_shape)
        cumulative = self.log_p.detach().exp().cumsum(-1)
        # in (0, 1]: no sentence of probability 0 is drawn
        u = 1 - torch.rand(*self.batch_shape, shape.numel(), device=self.log_p.device)
        index = torch.searchsorted(cumulative, u.to(cumulative) * cumulative[..., -1:])
        index = index.movedim(-1, 0).reshape(shape + self.batch_shape)
        return self.language.sentences.to(self.log_p.device)[index]

    def log_prob(self, s: Tensor) -> Tensor:
        row = self.language.row(s)
        listed = (self.language.sentences.to(s)[row] == s).all(-1)
        shape = torch.broadcast_shapes(row.shape, self.batch_shape)
        log_p = self.log_p.expand(*shape, -1).gather(-1, row.expand(shape)[..., None])[..., 0]
        return torch.where(listed.expand(shape), log_p, -torch.inf)


def draw_prior(language: Language, n: int, device: torch.device | str | None = None) -> Tensor:
    """(n, width) independent sentences from P(s), none listed: a length, which groups, a token of
    each; token by token (`prior_policy`) where groups differ in size.
    """
    size = language.groups[0]
    if set(language.groups) != {size}:
        return prior_policy(language, (n,), device).sample()
    length = torch.multinomial(_length_weights(language), n, replacement=True)
    # the order of random numbers is a uniform permutation of the groups
    group = torch.rand(n, len(language.groups)).argsort(-1)[:, : language.longest]
    feature = group * size + torch.randint(size, group.shape)
    position = torch.arange(language.longest)
    said = (position < length[:, None]).to(torch.get_default_dtype())
    return torch.zeros(n, language.width).scatter(1, feature, said).to(device or "cpu")


@lru_cache(maxsize=64)
def _length_weights(language: Language) -> Tensor:
    """(longest + 1,) ∝ the probability of every length under P(s), groups being of one size."""
    groups, size = len(language.groups), language.groups[0]
    length = torch.arange(language.longest + 1.0)
    count = [math.log(math.comb(groups, n) * size**n) for n in range(len(length))]
    p = (language.log_prior_of_length(length) + torch.tensor(count)).exp()
    return p * (length >= language.min_length)
