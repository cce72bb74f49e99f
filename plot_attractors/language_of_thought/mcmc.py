"""Metropolis-Hastings over expressions, for `pyro.infer.MCMC`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from pyro import poutine
from pyro.infer.mcmc.mcmc_kernel import MCMCKernel
from torch import Tensor

from plot_attractors.language_of_thought.enumeration import derivations_of, log_parts
from plot_attractors.language_of_thought.grammar import Grammar

__all__ = ["MetropolisHastings", "Proposal", "regenerate"]


class Proposal(NamedTuple):
    """Expressions proposed from others; the old ones, at −inf, where there is nothing to propose.

    - ``rules``: (…, max_rules) the derivations;
    - ``log_ratio``: (…) log q(old | new) − log q(new | old).
    """

    rules: Tensor
    log_ratio: Tensor


def regenerate(grammar: Grammar, rules: Tensor) -> Proposal:
    r"""Choose one of the n rules of each derivation (…, max_rules) uniformly, and draw its subtree
    anew, by the weights of the grammar's rules.

    With probabilities p of rules, an old subtree s and a new one s', and n' rules afterwards,

    .. math:: q(\text{old} | \text{new}) / q(\text{new} | \text{old}) = n \, p(s) / (n' \, p(s')).

    With rational rules as the prior this is the move of Goodman et al. (2008), Appendix; LOTlib3's
    and Fleet's `regenerate` are the same.
    """
    log_p, longest = grammar.log_p, grammar.max_rules
    n = grammar.length(rules)
    start = (torch.rand(n.shape) * n).long().clamp(max=longest - 1)[..., None]
    end = grammar.subtree_ends(rules).gather(-1, start)
    symbol = grammar.left[rules.gather(-1, start)[..., 0]]
    drawn, ended = grammar.grow(log_p, symbol, masked=False)
    size = grammar.length(drawn)[..., None]

    place = torch.arange(longest)
    of_drawn, of_old = place - start, place - size + end - start
    tail = torch.nn.functional.pad(rules, (0, 1), value=-1).gather(-1, of_old.clamp(0, longest))
    new = torch.where(of_drawn < size, drawn.gather(-1, of_drawn.clamp(min=0)), tail)
    new = torch.where(of_drawn < 0, rules, new)
    old = torch.where((of_drawn >= 0) & (place < end), rules, -1)

    length = n + (size - end + start)[..., 0]
    fits = ended & (length <= longest)
    log_ratio = grammar.counts(old) @ log_p - grammar.counts(drawn) @ log_p
    log_ratio = log_ratio + n.log() - length.log()
    return Proposal(
        torch.where(fits[..., None], new, rules), torch.where(fits, log_ratio, -torch.inf)
    )


class MetropolisHastings(MCMCKernel):
    r"""Metropolis-Hastings over the expressions of a grammar.

    A new expression, and what `regenerate` says of its way back, are accepted with probability

    .. math::
        \min(1, \frac{P(\text{new}, x)}{P(\text{old}, x)} \cdot
        \frac{q(\text{old} | \text{new})}{q(\text{new} | \text{old})}).

    `chains` independent ones, or a site's plate of them, are moved together.

    Args:
        program: a Pyro program whose only latent site is `site`, with a `Derivations`.
        chains: of a program whose site is in no plate; expressions are (chains, max_rules).
    """

    def __init__(
        self, program: Callable[..., Any], site: str = "expression", chains: int | None = None
    ) -> None:
        self.model, self.site, self.chains = program, site, chains
        self.transforms: dict[str, Any] = {}  # expressions have no unconstrained space to go to
        self._given: dict[str, Tensor] | None = None

    def setup(self, warmup_steps: int, *args: Any, **kwargs: Any) -> None:
        """Draw the first expressions from the prior, unless `initial_params` were given."""
        self._warmup_steps, self._steps, self._accepted = warmup_steps, 0, 0.0
        trace: Any = poutine.trace(self.model).get_trace(*args, **kwargs)
        distribution = derivations_of(trace, self.site)
        self.grammar = distribution.grammar
        if distribution.batch_shape and self.chains is not None:
            raise ValueError(
                f"The site {self.site!r} is in a plate, whose elements may have data of their own: "
                "chains= is for a program without one."
            )
        if self._given is not None:
            self._first = self._given
        elif self.chains is None:
            self._first = {self.site: trace.nodes[self.site]["value"]}
        else:
            self._first = {self.site: distribution.expand((self.chains,)).sample()}
        self._parts = lambda rules: log_parts(self.model, self.site, rules, *args, **kwargs)
        self._prior, self._likelihood = self._parts(self._first[self.site])

    @property
    def log_likelihood(self) -> Tensor:
        """(…) of the expressions that the chains are at, nats."""
        return self._likelihood

    @property
    def initial_params(self) -> dict[str, Tensor]:
        return self._first

    @initial_params.setter
    def initial_params(self, params: dict[str, Tensor]) -> None:
        self._given = self._first = params

    def sample(self, params: dict[str, Tensor]) -> dict[str, Tensor]:
        """One proposal for every chain."""
        rules = params[self.site]
        proposal = regenerate(self.grammar, rules)
        prior, likelihood = self._parts(proposal.rules)
        # of what is impossible, chains that are there find their way by the prior
        gain = torch.where(likelihood == self._likelihood, 0.0, likelihood - self._likelihood)
        ratio = prior - self._prior + gain + proposal.log_ratio
        accept = torch.rand(ratio.shape).log() < ratio
        self._prior = torch.where(accept, prior, self._prior)
        self._likelihood = torch.where(accept, likelihood, self._likelihood)
        self._steps += 1
        if self._steps > self._warmup_steps:
            self._accepted += float(accept.double().mean())
        return {self.site: torch.where(accept[..., None], proposal.rules, rules)}

    def diagnostics(self) -> dict[str, float]:
        """The share of proposals after the warm-up that were accepted."""
        return {"acceptance rate": self._accepted / max(self._steps - self._warmup_steps, 1)}
