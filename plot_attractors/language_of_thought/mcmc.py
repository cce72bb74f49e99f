"""Metropolis-Hastings over expressions by subtree regeneration, for `pyro.infer.MCMC`."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from pyro import poutine
from pyro.infer import MCMC
from pyro.infer.mcmc.mcmc_kernel import MCMCKernel
from torch import Tensor

from plot_attractors.gflownet.programs import sample_sites
from plot_attractors.language_of_thought.derivations import Derivations, ProbabilisticGrammar
from plot_attractors.language_of_thought.grammar import Grammar

__all__ = ["Proposal", "SubtreeRegeneration", "last_states", "log_joint", "regenerate"]


class Proposal(NamedTuple):
    """Expressions proposed from others; the old ones, at −inf, where the new ones are too long.

    - ``rules``: (…, max_rules) the derivations;
    - ``log_ratio``: (…) log q(old | new) − log q(new | old).
    """

    rules: Tensor
    log_ratio: Tensor


def regenerate(grammar: Grammar, log_p: Tensor, rules: Tensor) -> Proposal:
    r"""Choose one of the n rules of each derivation uniformly, and draw its subtree anew.

    With probabilities p of rules, an old subtree s and a new one s', and n' rules afterwards,

    .. math:: q(\text{old} | \text{new}) / q(\text{new} | \text{old}) = n \, p(s) / (n' \, p(s')),

    also where there are several ways to the same expression: each is balanced by its own way back.
    `log_p` (R,) are log-probabilities of the rules in new subtrees, of derivations `rules`
    (…, max_rules).
    """
    n, longest = grammar.length(rules), grammar.max_rules
    where = (torch.rand(n.shape) * n).long().clamp(max=longest - 1)[..., None]
    end = grammar.subtree_ends(rules).gather(-1, where)
    root = grammar.left[rules.gather(-1, where)[..., 0]]
    new, ended = grammar.grow(log_p, root, masked=False)
    size = grammar.length(new)[..., None]
    place = torch.arange(longest)
    inside = (place >= where) & (place < where + size)
    source = place - size - where + end  # where the rules behind the subtree come from
    tail = torch.where(source < n[..., None], rules.gather(-1, source.clamp(0, longest - 1)), -1)
    proposed = torch.where(place < where, rules, tail)
    proposed = torch.where(inside, new.gather(-1, (place - where).clamp(0, longest - 1)), proposed)
    n_new = n + (size - (end - where))[..., 0]
    fits = ended & (n_new <= longest)
    old = torch.where((place >= where) & (place < end), rules, -1)
    log_ratio = n.log() - n_new.log() + (grammar.counts(old) - grammar.counts(new)) @ log_p
    kept = torch.where(fits[..., None], proposed, rules)
    return Proposal(kept, torch.where(fits, log_ratio, -torch.inf))


def log_joint(
    program: Callable[..., Any], site: str, rules: Tensor, *args: Any, **kwargs: Any
) -> Tensor:
    """(…) log of a Pyro program's joint density, of derivations (…, max_rules) of a site.

    Raises ValueError where another site is latent, or has log-probabilities of another shape.
    """
    trace: Any = poutine.trace(poutine.condition(program, {site: rules})).get_trace(*args, **kwargs)
    trace.compute_log_prob()
    total = torch.zeros(rules.shape[:-1])
    for name, node in sample_sites(trace).items():
        if name != site and not node["is_observed"]:
            raise ValueError(
                f"The program samples {name!r} besides {site!r}: sum out or observe it."
            )
        log_prob = node["log_prob"]  # scaled and masked as the program says
        if log_prob.shape != total.shape:
            raise ValueError(
                f"The site {name!r} has log-probabilities of shape {tuple(log_prob.shape)}, not "
                f"{tuple(total.shape)}, one for each expression of the site {site!r}."
            )
        total = total + log_prob
    return total


class SubtreeRegeneration(MCMCKernel):
    r"""Metropolis-Hastings over the expressions of a grammar, by subtree regeneration.

    A new subtree at a rule chosen uniformly (`regenerate`) is accepted with probability

    .. math::
        \min(1, \frac{P(\text{new}, x)}{P(\text{old}, x)} \cdot \frac{n \, p(s)}{n' \, p(s')}).

    With rational rules as the prior this is the sampler of Goodman et al. (2008), Appendix. A site
    inside a plate is a batch of independent chains, moved together.

    Args:
        program: a Pyro program whose only latent site is `site`, with a `Derivations`.
        log_p: (R,) log-probabilities of rules in proposals; by default `Grammar.indifferent`.
    """

    def __init__(
        self, program: Callable[..., Any], site: str = "expression", log_p: Tensor | None = None
    ) -> None:
        self.model, self.site, self.log_p = program, site, log_p
        self.transforms: dict[str, Any] = {}  # expressions have no unconstrained space to go to
        self._given: dict[str, Tensor] | None = None
        self._warmup_steps = self._steps = 0
        self._accepted = self._proposed = 0.0

    def setup(self, warmup_steps: int, *args: Any, **kwargs: Any) -> None:
        """Draw the first expressions from the prior, unless `initial_params` were given."""
        self._warmup_steps, self._steps = warmup_steps, 0
        self._accepted = self._proposed = 0.0
        trace: Any = poutine.trace(self.model).get_trace(*args, **kwargs)
        if self.site not in trace.nodes:
            raise ValueError(f"The program has no site {self.site!r}.")
        distribution = trace.nodes[self.site]["fn"]
        if not isinstance(distribution, Derivations):
            raise ValueError(
                f"The site {self.site!r} must follow a distribution over derivations, not "
                f"{distribution}."
            )
        self.grammar = distribution.grammar
        self.proposal = ProbabilisticGrammar(self.grammar, self.log_p).log_p
        drawn = {self.site: trace.nodes[self.site]["value"]}
        self._first = drawn if self._given is None else self._given
        self._log_joint = lambda rules: log_joint(self.model, self.site, rules, *args, **kwargs)
        self._energy = self._log_joint(self._first[self.site])

    @property
    def initial_params(self) -> dict[str, Tensor]:
        return self._first

    @initial_params.setter
    def initial_params(self, params: dict[str, Tensor]) -> None:
        self._given = self._first = params

    def sample(self, params: dict[str, Tensor]) -> dict[str, Tensor]:
        """One proposal for every chain."""
        rules = params[self.site]
        proposal = regenerate(self.grammar, self.proposal, rules)
        energy = self._log_joint(proposal.rules)
        accept = torch.rand(energy.shape).log() < energy - self._energy + proposal.log_ratio
        self._energy = torch.where(accept, energy, self._energy)
        self._steps += 1
        if self._steps > self._warmup_steps:
            self._accepted += float(accept.double().mean())
            self._proposed += 1
        return {self.site: torch.where(accept[..., None], proposal.rules, rules)}

    def logging(self) -> OrderedDict[str, str]:
        return OrderedDict([("acc. rate", f"{self.acceptance_rate:.3f}")])

    def diagnostics(self) -> dict[str, float]:
        return {"acceptance rate": self.acceptance_rate}

    @property
    def acceptance_rate(self) -> float:
        """Share of proposals after the warm-up that were accepted; NaN before the first."""
        return self._accepted / self._proposed if self._proposed else float("nan")


def last_states(kernel: SubtreeRegeneration, steps: int, *args: Any) -> Tensor:
    """The expressions of all chains of the program's plate after `steps` proposals."""
    quiet: dict[str, Any] = {"disable_progbar": True, "disable_validation": None}
    mcmc = MCMC(kernel, num_samples=1, warmup_steps=max(steps - 1, 0), **quiet)
    mcmc.run(*args)
    rules: Tensor = mcmc.get_samples()[kernel.site][0]
    return rules
