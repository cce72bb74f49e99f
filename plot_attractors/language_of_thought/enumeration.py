"""Exact posteriors over listed expressions, for a batch of inputs at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from pyro import poutine
from torch import Tensor

from plot_attractors.gflownet.programs import sample_sites
from plot_attractors.language_of_thought.derivations import Derivations

__all__ = ["Posterior", "exact_posterior", "log_likelihood", "log_parts", "posterior"]

AT_ONCE = 20_000  # expressions on which a program is run


class Posterior(NamedTuple):
    """Of B inputs over E expressions: ``log_p`` (B, E), ``log_evidence`` (B,) log P(x), in nats."""

    log_p: Tensor
    log_evidence: Tensor

    @property
    def entropy(self) -> Tensor:
        """(B,) nats."""
        return -(self.log_p.exp() * self.log_p.clamp(min=-1e3)).sum(-1)


def log_likelihood(log_objects: Tensor, extension: Tensor, size_principle: bool = True) -> Tensor:
    r"""log P(x | expression) where x shows one of the objects of which the expression is true.

    With the size principle (Tenenbaum 1999), examples are drawn uniformly from the concept,

    .. math:: P(x | h) = \frac{1}{|h|} \sum_{o \in h} P(x | o);

    without it from the whole world of O objects: 1/O in the place of 1/|h|.

    Args:
        log_objects: (…, O) log P(x | o) in nats.
        extension: (E, O) bool, which objects each expression is true of.

    Returns:
        (…, E) float64; −inf where an expression is true of nothing.
    """
    top = log_objects.double().amax(-1, keepdim=True)
    weights = (log_objects.double() - top).exp()
    member = extension.double()
    size = member.sum(-1) if size_principle else torch.full_like(member[:, 0], member.shape[-1])
    inside = (weights @ member.T).log() + top
    # an extension far from the best object has underflowed: again, from its own best
    lost = torch.isinf(inside)
    if bool(lost.any()):
        cells = lost.nonzero()
        own = []
        for part in cells.split(AT_ONCE):
            among = extension[part[:, -1]], log_objects.double()[(*part[:, :-1].T,)]
            own.append(torch.where(*among, -torch.inf).logsumexp(-1))
        inside = inside.index_put((*cells.T,), torch.cat(own))
    return inside - size.clamp(min=1).log()


def posterior(log_prior: Tensor, log_likelihood: Tensor) -> Posterior:
    """Bayes' rule, from log P(expression) (E,) and log P(x | expression) (…, E)."""
    joint = log_prior + log_likelihood
    log_evidence = joint.logsumexp(-1)
    return Posterior(joint - log_evidence[..., None], log_evidence)


def exact_posterior(
    program: Callable[..., Any], *args: Any, site: str = "expression", **kwargs: Any
) -> Posterior:
    """Of a Pyro program without plates whose only latent site follows a `Derivations`, over the
    E `Grammar.derivations`: ``log_p`` (E,), and ``log_evidence`` (), of the prior over expressions
    of at most `max_rules` rules.

    >>> import pyro
    >>> from plot_attractors.language_of_thought import Grammar, ProbabilisticGrammar, labels
    >>> grammar = Grammar({"bit": (("0", [False, True]), ("1", [True, False]))})
    >>> def program(y):
    ...     rules = pyro.sample("expression", ProbabilisticGrammar(grammar))
    ...     pyro.sample("y", labels(grammar.value(rules), noise=0.2), obs=y)
    >>> exact_posterior(program, torch.tensor([1.0, 1.0])).log_p.exp()
    tensor([0.5000, 0.5000], dtype=torch.float64)

    Raises ValueError as `log_parts`, where expressions are too many to list, the site is in a
    plate, or no expression explains the data.
    """
    trace: Any = poutine.trace(program).get_trace(*args, **kwargs)
    distribution = derivations_of(trace, site)
    if distribution.batch_shape:
        raise ValueError(f"The site {site!r} is in a plate: sum over expressions of one data set.")
    parts = [
        torch.stack(log_parts(program, site, rules, *args, **kwargs))
        for rules in distribution.grammar.derivations.split(AT_ONCE)
    ]
    prior, likelihood = torch.cat(parts, -1).double()
    result = posterior(prior - prior.logsumexp(-1), likelihood)
    if not bool(result.log_evidence.isfinite()):
        raise ValueError("No expression explains the data: give the likelihood noise.")
    return result


def derivations_of(trace: Any, site: str) -> Derivations:
    """The distribution of a program's site.

    Raises ValueError where there is no such site, or another kind of distribution.
    """
    if site not in trace.nodes:
        raise ValueError(f"The program has no site {site!r}.")
    distribution = trace.nodes[site]["fn"]
    if not isinstance(distribution, Derivations):
        raise ValueError(
            f"The site {site!r} must follow a distribution over derivations, not {distribution}."
        )
    return distribution


def log_parts(
    program: Callable[..., Any], site: str, rules: Tensor, *args: Any, **kwargs: Any
) -> tuple[Tensor, Tensor]:
    """Log-probabilities (…) of derivations (…, max_rules) of a site, and of all others together.

    Raises ValueError where another site is latent, or has log-probabilities of another shape.
    """
    trace: Any = poutine.trace(poutine.condition(program, {site: rules})).get_trace(*args, **kwargs)
    trace.compute_log_prob()
    prior = likelihood = torch.zeros(rules.shape[:-1])
    for name, node in sample_sites(trace).items():
        if name != site and not node["is_observed"]:
            raise ValueError(
                f"The program samples {name!r} besides {site!r}: sum out or observe it."
            )
        log_prob = node["log_prob"]  # scaled and masked as the program says
        if log_prob.shape != prior.shape:
            raise ValueError(
                f"The site {name!r} has log-probabilities of shape {tuple(log_prob.shape)}, not "
                f"{tuple(prior.shape)}, one for each expression of the site {site!r}."
            )
        if name == site:
            prior = prior + log_prob
        else:
            likelihood = likelihood + log_prob
    return prior, likelihood
