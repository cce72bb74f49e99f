"""Distributions over sentences with Pyro's interface: the sentence policy, and a table over listed
sentences.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from pyro.distributions import TorchDistribution
from torch import Tensor
from torch.distributions import constraints

from plot_attractors.language import Language

__all__ = ["SentencePolicy", "TabulatedSentences"]


class SentencePolicy(TorchDistribution):
    """P(s | ·) = Π_i P(s_i | s_:i) · P(end | s): a sentence built token by token; its value is the
    set of its features.

    With `canonical=True` (and always for ordered sequences) every sentence has exactly one building
    order, so that `log_prob` is one masked softmax per token and the backward token policy has one
    choice. With `canonical=False` tokens come in any order, as in the paper; `log_prob` then sums
    over all orders by recursion over subsets (2^max_length network calls in one batch), and
    `log_prob_path` scores one given order.

    Args:
        logits: partial sentences (…, *batch_shape, width) → (…, *batch_shape, width + 1), the last
        for the end token.
        language: which tokens may follow.
        batch_shape: shape of independent sentences.
        canonical: one building order for a bag of words, or any.
        explore: probability α_disc of a uniform choice among the allowed tokens at every token step
        (off-policy).
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
        self.logits, self.language, self.canonical, self.explore = (
            logits,
            language,
            canonical,
            explore,
        )
        self.device = device
        super().__init__(torch.Size(batch_shape), torch.Size([language.width]), validate_args=False)

    def expand(self, batch_shape: Any, _instance: None = None) -> SentencePolicy:
        return SentencePolicy(
            self.logits, self.language, batch_shape, self.canonical, self.explore, self.device
        )

    def step_log_prob(self, partial: Tensor) -> Tensor:
        """(…, width + 1) log P(next token or end | partial sentence)."""
        allowed = self.language.allowed(partial, self.canonical)
        log_p = self.logits(partial).masked_fill(~allowed, -torch.inf).log_softmax(-1)
        if self.explore:
            uniform = -allowed.sum(-1, keepdim=True).to(log_p).log()
            finite = log_p.masked_fill(~allowed, 0.0)  # the gradient of logaddexp(−inf, ·) is NaN
            keep, explore = torch.tensor([1 - self.explore, self.explore]).log().tolist()
            mixed = torch.logaddexp(finite + keep, uniform + explore)
            log_p = mixed.masked_fill(~allowed, -torch.inf)
        return log_p

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with torch.no_grad():
            s = torch.zeros(
                *sample_shape, *self.batch_shape, self.language.width, device=self.device
            )
            going = torch.ones(s.shape[:-1], dtype=torch.bool, device=self.device)
            for _ in range(self.language.longest):
                p = self.step_log_prob(s).exp()
                choice = (
                    p.flatten(0, -2).multinomial(1).reshape(going.shape)
                    if p.dim() > 1
                    else p.multinomial(1)[0]
                )
                going = going & (choice < self.language.width)
                new = torch.nn.functional.one_hot(choice, self.language.width + 1)[..., :-1]
                s = s + new.to(s) * going[..., None]
            return s

    def log_prob(self, s: Tensor) -> Tensor:
        shape = torch.broadcast_shapes(s.shape[:-1], self.batch_shape)
        s = s.expand(*shape, -1)
        if self.canonical or self.language.ordered:
            return self.log_prob_path(s, canonical_ranks(s))
        return self._log_prob_any_order(s)

    def log_prob_path(self, s: Tensor, ranks: Tensor) -> Tensor:
        """log Π P(s_i | s_:i) P(end | s) of one building order; `ranks` (…, width) numbers the
        features of s from 0.
        """
        positions = torch.arange(self.language.longest + 1, device=s.device)
        before = s.unsqueeze(0) * (ranks.unsqueeze(0) < positions.view(-1, *[1] * s.dim()))
        log_p = self.step_log_prob(
            before
        )  # (longest + 1, …, width + 1): every prefix in one network call
        added = s.unsqueeze(0) * (ranks.unsqueeze(0) == positions.view(-1, *[1] * s.dim()))
        ended = (positions.view(-1, *[1] * (s.dim() - 1)) == self.language.length(s)).to(s)
        pick = torch.cat([added, ended[..., None]], -1)
        return torch.where(pick > 0, log_p, 0.0).sum((0, -1))

    def _log_prob_any_order(self, s: Tensor) -> Tensor:
        """log Σ over building orders, by recursion over subsets, smallest first."""
        longest = self.language.longest
        present, index = s.topk(longest, -1)  # the features of s, absent ones last
        masks = (
            torch.arange(2**longest, device=s.device)[:, None]
            >> torch.arange(longest, device=s.device)
        ) & 1
        subsets = torch.zeros(2**longest, *s.shape, device=s.device, dtype=s.dtype)
        grid = masks.to(s).view(2**longest, *[1] * (s.dim() - 1), longest) * present
        subsets.scatter_(-1, index.expand(grid.shape), grid)
        impossible = -1e30  # finite: the gradient of logsumexp over nothing but −inf is NaN
        log_p = self.step_log_prob(subsets).clamp(min=impossible)
        add = log_p.gather(-1, index.expand(grid.shape)).masked_fill(
            present == 0, impossible
        )  # (2^L, …, L)
        alpha: list[Tensor] = [torch.zeros(s.shape[:-1], device=s.device, dtype=s.dtype)]
        for m in range(1, 2**longest):
            terms = [
                alpha[m ^ (1 << i)] + add[m ^ (1 << i)][..., i]
                for i in range(longest)
                if m >> i & 1
            ]
            alpha.append(torch.stack(terms).logsumexp(0))
        length = self.language.length(s).long()
        whole = (2 ** length.clamp(max=longest) - 1)[
            None
        ]  # the first |s| slots hold all tokens of s
        out = (torch.stack(alpha) + log_p[..., -1]).gather(0, whole)[0]
        return out.masked_fill((out < impossible / 2) | (length > longest), -torch.inf)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        s = self.language.sentences.to(self.device or "cpu")
        s = s.view(-1, *[1] * len(self.batch_shape), self.language.width)
        return s.expand(-1, *self.batch_shape, -1) if expand else s

    has_enumerate_support = True


def canonical_ranks(s: Tensor) -> Tensor:
    """(…, width) position of every feature in the canonical building order, the order of the
    features.
    """
    return s.cumsum(-1) - s


class TabulatedSentences(TorchDistribution):
    """P(s | ·) over a listed language, from log-probabilities (…, count); its value is the
    multi-hot sentence.

    The exact discretizer is of this kind: P(s | z) ∝ N(z; ẑ_s, ε²) P(s), the relation under Eq.
    *mstep_loss*.
    """

    arg_constraints: ClassVar[dict[str, constraints.Constraint]] = {}
    support = constraints.independent(constraints.boolean, 1)
    has_enumerate_support = True

    def __init__(self, logits: Tensor, language: Language) -> None:
        self.language = language
        self.log_p = logits.log_softmax(-1)
        super().__init__(logits.shape[:-1], torch.Size([language.width]), validate_args=False)

    def expand(self, batch_shape: Any, _instance: None = None) -> TabulatedSentences:
        return TabulatedSentences(self.log_p.expand(*batch_shape, -1), self.language)

    def power(self, power: float) -> TabulatedSentences:
        """The law ∝ P(s)^power."""
        return TabulatedSentences(power * self.log_p, self.language)

    def sample_index(self, sample_shape: torch.Size | tuple[int, ...] = ()) -> Tensor:
        """Row numbers in `language.sentences`, by inversion: five times as fast as a multinomial
        draw from each row.
        """
        shape = torch.Size(sample_shape)
        cumulative = self.log_p.detach().exp().cumsum(-1)
        u = 1 - torch.rand(
            *self.batch_shape, shape.numel(), device=self.log_p.device
        )  # in (0, 1]: no empty row is hit
        index = torch.searchsorted(cumulative, u.to(cumulative) * cumulative[..., -1:])
        return index.movedim(-1, 0).reshape(shape + self.batch_shape)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        return self.language.sentences.to(self.log_p.device)[self.sample_index(sample_shape)]

    def log_prob(self, s: Tensor) -> Tensor:
        sentences = self.language.sentences.to(s)
        match = (
            s @ sentences.T * 2 - s.sum(-1, keepdim=True) - sentences.sum(-1)
        )  # 0 where equal, below elsewhere
        index = match.argmax(-1)
        shape = torch.broadcast_shapes(index.shape, self.batch_shape)
        log_p = self.log_p.expand(*shape, -1).gather(-1, index.expand(shape)[..., None])[..., 0]
        return torch.where(match.amax(-1).expand(shape) == 0, log_p, -torch.inf)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        s = self.language.sentences.to(self.log_p.device)
        s = s.view(-1, *[1] * len(self.batch_shape), self.language.width)
        return s.expand(-1, *self.batch_shape, -1) if expand else s
