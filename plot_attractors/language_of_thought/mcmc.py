"""Metropolis-Hastings over expressions, for `pyro.infer.MCMC`."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
from pyro import poutine
from pyro.infer import MCMC
from pyro.infer.mcmc.mcmc_kernel import MCMCKernel
from torch import Tensor

from plot_attractors.language.language import row_key
from plot_attractors.language_of_thought.derivations import ProbabilisticGrammar
from plot_attractors.language_of_thought.enumeration import derivations_of, log_parts
from plot_attractors.language_of_thought.moves import Move, regenerate

__all__ = ["Best", "MetropolisHastings", "last_states"]


class Best:
    """The distinct expressions of greatest log joint density among all that were proposed.

    Renormalised over them, the joint density is the posterior up to the share of what was never
    proposed, or does not fit. `rules` (n, max_rules) and `log_joint` (n,), n ≤ `capacity`, are the
    likeliest first.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.clear()

    def clear(self) -> None:
        """Of all expressions."""
        self.rules, self.log_joint = torch.empty(0, 0, dtype=torch.int64), torch.empty(0)

    def add(self, rules: Tensor, log_joint: Tensor) -> None:
        """Of derivations (…, max_rules) and their log joint densities (…), of one set of data."""
        longest, log_joint = rules.shape[-1], log_joint.flatten()
        full = len(self.rules) == self.capacity
        possible = log_joint > (self.log_joint[-1] if full else -torch.inf)
        rules = torch.cat([self.rules.view(-1, longest), rules.view(-1, longest)[possible]])
        log_joint = torch.cat([self.log_joint, log_joint[possible]])
        order = row_key(rules).sort(stable=True)
        first = torch.cat([torch.ones(1, dtype=torch.bool), order.values.diff() != 0])[: len(rules)]
        distinct = order.indices[first]
        best = log_joint[distinct].sort(descending=True, stable=True).indices[: self.capacity]
        self.rules, self.log_joint = rules[distinct[best]], log_joint[distinct[best]]


class MetropolisHastings(MCMCKernel):
    r"""Metropolis-Hastings over the expressions of a grammar.

    Each step makes one of `moves` for all chains. A new expression, and what the
    move says of its way back (`Proposal`), are accepted with probability

    .. math::
        \min(1, \frac{P(\text{new}, x)}{P(\text{old}, x)} \cdot
        \frac{q(\text{old} | \text{new})}{q(\text{new} | \text{old})}).

    `chains` independent ones, or a site's plate of them, are moved together. With `temperatures`,
    chain c of the first dimension is at temperature T_k, k = c mod K: of P(h) P(x | h)^(1/T), and
    after each step neighbours of one ladder may exchange their expressions (parallel tempering,
    Geyer 1991). Draws of the posterior are those of the chains `cold`, where T = 1.

    Args:
        program: a Pyro program whose only latent site is `site`, with a `Derivations`.
        chains: of a program whose site is in no plate; expressions are (chains, max_rules).
        log_p: (R,) log-probabilities of rules in proposals; by default `Grammar.log_p`.
        moves: of which each step makes one, drawn uniformly.
        temperatures: 1, and greater ones in their order.
        best: where the best expressions are kept, of chains that see the same data.
    """

    def __init__(
        self,
        program: Callable[..., Any],
        site: str = "expression",
        chains: int | None = None,
        log_p: Tensor | None = None,
        moves: Sequence[Move] = (regenerate,),
        temperatures: Sequence[float] = (1.0,),
        best: Best | None = None,
    ) -> None:
        self.model, self.site, self.chains = program, site, chains
        self.log_p, self.moves = log_p, tuple(moves)
        if temperatures[0] != 1 or any(a >= b for a, b in pairwise(temperatures)):
            raise ValueError(
                f"temperatures are 1 and greater ones in their order, not {tuple(temperatures)}."
            )
        if not self.moves or (chains is not None and chains < 1):
            raise ValueError("Give one move or more, and one chain or more.")
        self._beta, self.best = 1 / torch.tensor(temperatures), best
        self.transforms: dict[str, Any] = {}  # expressions have no unconstrained space to go to
        self._given: dict[str, Tensor] | None = None
        self._warmup_steps = self._steps = 0
        self._accepted = self._proposed = 0.0

    def setup(self, warmup_steps: int, *args: Any, **kwargs: Any) -> None:
        """Draw the first expressions from the prior, unless `initial_params` were given."""
        self._warmup_steps, self._steps = warmup_steps, 0
        self._accepted = self._proposed = 0.0
        trace: Any = poutine.trace(self.model).get_trace(*args, **kwargs)
        distribution = derivations_of(trace, self.site)
        self.grammar = distribution.grammar
        self.proposal = ProbabilisticGrammar(self.grammar, self.log_p).log_p
        if not bool(self.proposal.isfinite().all()):
            raise ValueError("log_p must be finite: no rule may be impossible in proposals.")
        if distribution.batch_shape and (
            self.chains is not None or self.best is not None or len(self._beta) > 1
        ):
            raise ValueError(
                f"The site {self.site!r} is in a plate, whose elements may have data of their own: "
                "chains=, temperatures= and best= are for a program without one."
            )
        if self._given is not None:
            self._first = self._given
        elif self.chains is None:
            self._first = {self.site: trace.nodes[self.site]["value"]}
        else:
            self._first = {self.site: distribution.expand((self.chains,)).sample()}
        if self.best is not None:
            self.best.clear()
        self._parts = lambda rules: log_parts(self.model, self.site, rules, *args, **kwargs)
        self._prior, self._likelihood = self._parts(self._first[self.site])
        chains, ladder = (*self._prior.shape, 1)[0], len(self._beta)
        if chains % ladder:
            raise ValueError(
                f"{chains} chains are no multiple of {ladder} temperatures: take another number."
            )
        beta = self._beta.repeat(chains // ladder)
        self._betas = beta.view(-1, *[1] * (self._prior.ndim - 1)) if self._prior.ndim else beta[0]
        self.cold = torch.arange(0, chains, ladder)
        self._keep(self._first[self.site], self._prior, self._likelihood)

    def _keep(self, rules: Tensor, prior: Tensor, likelihood: Tensor) -> None:
        if self.best is not None:
            self.best.add(rules, prior + likelihood)

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
        """One proposal for every chain, and one for every second pair of neighbours of a ladder."""
        rules = params[self.site]
        move = self.moves[int(torch.randint(len(self.moves), ()))]
        proposal = move(self.grammar, self.proposal, rules)
        prior, likelihood = self._parts(proposal.rules)
        self._keep(proposal.rules, prior, likelihood)
        # of what is impossible, chains that are there find their way by the prior
        gain = torch.where(likelihood == self._likelihood, 0.0, likelihood - self._likelihood)
        ratio = prior - self._prior + self._betas * gain
        accept = torch.rand(ratio.shape).log() < ratio + proposal.log_ratio
        rules = self._take(accept, rules, (proposal.rules, prior, likelihood))
        if len(self._beta) > 1:
            rules = self._exchanged(rules)
        self._steps += 1
        if self._steps > self._warmup_steps:
            self._accepted += float(accept.double().mean())
            self._proposed += 1
        return {self.site: rules}

    def _take(self, accept: Tensor, rules: Tensor, new: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        self._prior = torch.where(accept, new[1], self._prior)
        self._likelihood = torch.where(accept, new[2], self._likelihood)
        return torch.where(accept[..., None], new[0], rules)

    def _exchanged(self, rules: Tensor) -> Tensor:
        """Of neighbours in a ladder, in turns those from the first rung on and from the second."""
        chain, last = torch.arange(len(rules)), len(self._beta) - 1
        rung = chain % (last + 1)
        lower = (rung + self._steps) % 2 == 0
        alone = torch.where(lower, rung == last, rung == 0)
        partner = torch.where(alone, chain, torch.where(lower, chain + 1, chain - 1))
        other = self._likelihood[partner]
        ratio = (self._betas - self._betas[partner]) * (other - self._likelihood)
        u = torch.rand(ratio.shape)[torch.minimum(chain, partner)]  # one number for a pair
        accept = (u.log() < ratio) & (chain != partner).view(-1, *[1] * (ratio.ndim - 1))
        return self._take(accept, rules, (rules[partner], self._prior[partner], other))

    def logging(self) -> OrderedDict[str, str]:
        return OrderedDict([("acc. rate", f"{self.acceptance_rate:.3f}")])

    def diagnostics(self) -> dict[str, float]:
        return {"acceptance rate": self.acceptance_rate}

    @property
    def acceptance_rate(self) -> float:
        """Share of proposals after the warm-up that were accepted; NaN before the first."""
        return self._accepted / self._proposed if self._proposed else float("nan")


def last_states(kernel: MetropolisHastings, steps: int, *args: Any) -> Tensor:
    """The expressions of all chains after `steps` proposals.

    Raises ValueError where a chain has found none that is possible, which would be no draw.
    """
    quiet: dict[str, Any] = {"disable_progbar": True, "disable_validation": None}
    mcmc = MCMC(kernel, num_samples=1, warmup_steps=max(steps - 1, 0), **quiet)
    mcmc.run(*args)
    if lost := int((kernel.log_likelihood == -torch.inf).sum()):
        raise ValueError(
            f"{lost} of {kernel.log_likelihood.numel()} chains found no expression that explains "
            "the data: give the likelihood noise, or chains more steps."
        )
    rules: Tensor = mcmc.get_samples()[kernel.site][0]
    return rules
