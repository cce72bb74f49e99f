"""A policy that builds expressions rule by rule."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from plot_attractors.language_of_thought.derivations import Derivations
from plot_attractors.language_of_thought.grammar import Grammar, Partial
from plot_attractors.model.nn import MLP

__all__ = ["RulePolicy"]


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
