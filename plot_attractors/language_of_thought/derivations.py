"""Distributions of Pyro over the derivations of a grammar, given or learned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from pyro.distributions import TorchDistribution, constraints
from torch import Tensor, nn

from plot_attractors.language_of_thought.grammar import Grammar, Partial
from plot_attractors.model.nn import MLP

__all__ = ["Derivations", "ProbabilisticGrammar", "RationalRules", "RulePolicy"]


class Derivations(TorchDistribution):
    """A distribution over derivations (max_rules,), Π_t P(rule_t | rules before, next symbol).

    With `masked`, rules that would not end within `max_rules` are left out at every step, so that
    it sums to 1. Without, over-long derivations are thrown away, and `log_prob` is that of the
    unlimited grammar, larger by the constant log P(at most max_rules rules).

    Args:
        grammar: of the derivations.
        logits: partial derivations → (…, R), of any scale; or (R,) log-probabilities that depend on
            nothing.
        batch_shape: shape of independent derivations.
    """

    arg_constraints: ClassVar[dict[str, constraints.Constraint]] = {}
    support = constraints.independent(constraints.integer, 1)

    def __init__(
        self,
        grammar: Grammar,
        logits: Callable[[Partial], Tensor] | Tensor,
        batch_shape: torch.Size | tuple[int, ...] = (),
        masked: bool = True,
    ) -> None:
        self.grammar, self.logits, self.masked = grammar, logits, masked
        event = torch.Size([grammar.max_rules])
        super().__init__(torch.Size(batch_shape), event, validate_args=False)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Derivations:
        new = type(self).__new__(type(self)) if _instance is None else _instance
        new.__dict__.update({k: v for k, v in self.__dict__.items() if not k.startswith("_batch")})
        shape = torch.Size(batch_shape)
        TorchDistribution.__init__(new, shape, self.event_shape, validate_args=False)
        return new

    def _scores(self, partial: Partial) -> Tensor:
        """(…, R) logits, of rules that depend on nothing, too."""
        logits = self.logits if isinstance(self.logits, Tensor) else self.logits(partial)
        return logits.expand(*partial.symbol.shape, -1)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        symbol = torch.full((*sample_shape, *self.batch_shape), self.grammar.start_symbol)
        logits = self._scores if self.masked else self.logits  # which alone are drawn unmasked
        with torch.no_grad():
            rules, ended = self.grammar.grow(logits, symbol, self.masked)
            while not bool(ended.all()):  # only without `masked`
                again, now = self.grammar.grow(logits, symbol, self.masked)
                rules = torch.where(ended[..., None], rules, again)
                ended = ended | now
        return rules

    def log_prob(self, value: Tensor) -> Tensor:
        rules = value.expand(*torch.broadcast_shapes(value.shape[:-1], self.batch_shape), -1)
        partial, steps = self.grammar.prefixes(rules), rules.movedim(-1, 0)
        rewrites = self.grammar.left == partial.symbol[..., None]
        allowed = self.grammar.allowed(partial) if self.masked else rewrites
        allowed = allowed | (steps < 0)[..., None]
        log_p = self._scores(partial).masked_fill(~allowed, -torch.inf).log_softmax(-1)
        picked = log_p.gather(-1, steps.clamp(min=0)[..., None])[..., 0]
        return self._of_complete(rules, torch.where(steps >= 0, picked, 0.0).sum(0))

    def _of_complete(self, value: Tensor, log_p: Tensor) -> Tensor:
        """log_p in the shape of the batch, −inf where a row is no whole derivation."""
        log_p = log_p.masked_fill(~self.grammar.complete(value), -torch.inf)
        return log_p.expand(torch.broadcast_shapes(value.shape[:-1], self.batch_shape))


class ProbabilisticGrammar(Derivations):
    r"""A probabilistic context-free grammar: P(derivation) = Π_rules p(rule)^count.

    `log_p` (R,) is by default `Grammar.log_p`, the weights of rules; `Grammar.uniform` makes all
    expressions equally likely. Probabilities of a nonterminal's rules sum to 1.
    """

    def __init__(self, grammar: Grammar, log_p: Tensor | None = None) -> None:
        self.log_p = grammar.log_p if log_p is None else log_p
        total = torch.zeros(len(grammar.nonterminals))
        total.index_add_(0, grammar.left, self.log_p.exp().float())
        if not torch.allclose(total, torch.ones(()), atol=1e-4):
            raise ValueError("The probabilities of the rules of every nonterminal must sum to 1.")
        super().__init__(grammar, self.log_p, masked=False)

    def log_prob(self, value: Tensor) -> Tensor:
        return self._of_complete(value, self.grammar.counts(value) @ self.log_p)


class RationalRules(Derivations):
    r"""The rational-rules prior: Dirichlet(α) probabilities of each nonterminal Y, integrated out,

    .. math:: P(\text{derivation}) = \prod_Y \frac{B(\alpha_Y + C_Y)}{B(\alpha_Y)},

    with the counts C_Y of Y's rules and the multivariate Beta function B. Source: Goodman,
    Tenenbaum, Feldman and Griffiths (2008), *A rational analysis of rule-based concept learning*,
    Cognitive Science 32, 108-154. `alpha` is the pseudo-count of a rule of weight 1.
    """

    def __init__(self, grammar: Grammar, alpha: float = 1.0) -> None:
        if not alpha > 0:
            raise ValueError(f"alpha, a pseudo-count, must be positive, not {alpha}.")
        self.alpha = alpha

        def urn(partial: Partial) -> Tensor:  # Pólya's: the next rule in proportion to α + count
            return (alpha * grammar.weights + grammar.counts(partial.rules)).log()

        super().__init__(grammar, urn, masked=False)

    def log_prob(self, value: Tensor) -> Tensor:
        left, counts = self.grammar.left, self.grammar.counts(value)
        alpha = self.alpha * self.grammar.weights
        summed = torch.zeros(*counts.shape[:-1], len(self.grammar.nonterminals))
        total = summed.index_add(-1, left, counts)
        prior = torch.zeros(len(self.grammar.nonterminals)).index_add_(0, left, alpha)
        log_p = (torch.lgamma(alpha + counts) - torch.lgamma(alpha)).sum(-1)
        log_p = log_p - (torch.lgamma(prior + total) - torch.lgamma(prior)).sum(-1)
        return self._of_complete(value, log_p)


class RulePolicy(nn.Module):
    """A forward policy over derivations: P(next rule | rules so far, what is seen), of perceptrons.

    The guide of a program of expressions, which any loss of `plot_attractors.gflownet` trains:

        policy = RulePolicy(grammar)

        def guide(*data):
            pyro.sample("expression", policy.derivations())

    Args:
        grammar: of the derivations; all that end within `max_rules` are drawn, and no others.
        inputs: numbers that are seen, of an amortised guide; 0 for one of fixed data.
        units: of the perceptrons.
    """

    def __init__(self, grammar: Grammar, inputs: int = 0, units: int = 128) -> None:
        super().__init__()
        self.grammar, self.count = grammar, len(grammar.rules)
        self.input = MLP(inputs, units, units, layers=2) if inputs else None
        self.rules = MLP(grammar.max_rules * self.count, units, units, layers=2)
        self.output = MLP(units, self.count, units)

    def derivations(self, seen: Tensor | None = None) -> Derivations:
        """P(derivation | seen) of seen (…, inputs), or of nothing."""
        if (seen is None) != (self.input is None):
            raise ValueError("A policy with inputs= is given what is seen, and no other one is.")
        given = torch.zeros(()) if seen is None or self.input is None else self.input(seen)

        def logits(partial: Partial) -> Tensor:
            one_hot = nn.functional.one_hot(partial.rules + 1, self.count + 1)
            so_far = one_hot[..., 1:].flatten(-2).float()
            out: Tensor = self.output(given + self.rules(so_far))
            return out

        return Derivations(self.grammar, logits, given.shape[:-1])
