"""A policy that builds expressions rule by rule, and the local search that trains it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from plot_attractors.gflownet.off_policy import Particles
from plot_attractors.gflownet.programs import Values
from plot_attractors.language_of_thought.derivations import Derivations
from plot_attractors.language_of_thought.grammar import Grammar, Partial
from plot_attractors.language_of_thought.moves import Move, regenerate
from plot_attractors.model.nn import MLP

__all__ = ["ExpressionSearch", "RulePolicy"]


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


class ExpressionSearch:
    """Metropolis moves of expressions, of the kind `off_policy=[…]` takes.

    Each step is one of `moves`, as in `MetropolisHastings`, so that the posterior is left invariant
    and a policy learns from expressions that it does not draw yet. Source: Kim et al. (2024),
    "Local search GFlowNets", with the exact acceptance.

    Args:
        grammar: of the expressions.
        steps: a particle makes.
        site: of the expressions; other latent sites stay as they are.
        moves: of which each step makes one, drawn uniformly.
    """

    def __init__(
        self,
        grammar: Grammar,
        steps: int = 1,
        site: str = "expression",
        moves: Sequence[Move] = (regenerate,),
    ) -> None:
        if steps < 1 or not moves:
            raise ValueError(f"ExpressionSearch needs at least one step and one move, not {steps}.")
        self.grammar, self.steps, self.site, self.moves = grammar, steps, site, tuple(moves)

    @torch.no_grad()
    def __call__(self, particles: Particles) -> Values:
        values = dict(particles.values)
        log_p = particles.score(values).of_model
        for _ in range(self.steps):
            move = self.moves[int(torch.randint(len(self.moves), ()))]
            proposal = move(self.grammar, self.grammar.log_p, values[self.site])
            to = particles.score({**values, self.site: proposal.rules}).of_model
            if proposal.log_ratio.numel() != log_p.numel():
                raise ValueError(
                    f"There are {proposal.log_ratio.numel()} expressions for {log_p.numel()} "
                    "log-probabilities: name the plate of a batch to the loss, batch_plate=."
                )
            gain = torch.where(to == log_p, 0.0, to - log_p)
            ratio = gain + proposal.log_ratio.view(log_p.shape)
            accept = torch.rand(ratio.shape).log() < ratio
            chosen = accept.view(*proposal.log_ratio.shape, 1)
            values[self.site] = torch.where(chosen, proposal.rules, values[self.site])
            log_p = torch.where(accept, to, log_p)
        return values
