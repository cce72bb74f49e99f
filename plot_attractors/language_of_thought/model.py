"""A Bayesian language of thought: expressions of a grammar, what they are true of, and inputs that
show it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

import pyro
import torch
from pyro.distributions import TorchDistribution, constraints
from torch import Tensor, nn

from plot_attractors.language import Language
from plot_attractors.language_of_thought.enumeration import Posterior, log_likelihood, posterior
from plot_attractors.language_of_thought.grammar import Derivations, Grammar, Partial
from plot_attractors.language_of_thought.mcmc import SubtreeRegeneration, last_states
from plot_attractors.language_of_thought.objects import Objects
from plot_attractors.model.nn import MLP
from plot_attractors.model.protocols import Description

__all__ = ["ExpressionBuilder", "GrammarModel", "Shown", "TrueOrBuilt"]


class Shown(TorchDistribution):
    """P(x | expression): one of the objects that the expression is true of, seen through noise; see
    `log_likelihood`.

    Without the size principle it is the probability that an object of the whole world fits the
    expression and shows x, which sums to less than 1 over x: right for posteriors of expressions,
    and no law that inputs follow.

    Args:
        extension: (…, O) bool, the objects that each expression is true of.
        objects: of the world.
        size_principle: objects come from the extension, not from the world.
    """

    arg_constraints: ClassVar[dict[str, constraints.Constraint]] = {}

    def __init__(self, extension: Tensor, objects: Objects, size_principle: bool = True) -> None:
        self.extension, self.objects, self.size_principle = extension, objects, size_principle
        super().__init__(extension.shape[:-1], torch.Size(objects.input_shape), validate_args=False)

    @property
    def support(self) -> constraints.Constraint:
        return constraints.independent(constraints.unit_interval, len(self.event_shape))

    def expand(self, batch_shape: Any, _instance: None = None) -> Shown:
        return Shown(self.extension.expand(*batch_shape, -1), self.objects, self.size_principle)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        weights = self.extension.float().expand(*sample_shape, *self.extension.shape)
        return self.objects.sample(torch.distributions.Categorical(weights).sample())

    def log_prob(self, value: Tensor) -> Tensor:
        inside = torch.where(self.extension, self.objects.log_prob(value), -torch.inf).logsumexp(-1)
        size = (
            self.extension.sum(-1)
            if self.size_principle
            else torch.tensor(self.extension.shape[-1])
        )
        return inside - size.clamp(min=1).log()


class ExpressionBuilder(nn.Module):
    """The amortised guide of a grammar: P(next rule | rules so far, x), and log P(x).

    It sees an input as the probabilities P(o | x) of the objects, all alike before, which a learner
    who knows its primitives knows as well; what it learns is to put them into expressions.

    Args:
        grammar: of the expressions.
        objects: what they are true of.
        units: of the perceptrons.
    """

    def __init__(self, grammar: Grammar, objects: Objects, units: int = 128) -> None:
        super().__init__()
        self.grammar, self.count = grammar, len(grammar.rules)
        self._objects = [objects]  # in a list: the model has it
        self.input = MLP(2 * len(objects), units, units, layers=2)
        self.rules = MLP(grammar.max_rules * self.count, units, units, layers=2)
        self.output = MLP(units, self.count, units)
        self.correction = MLP(2 * len(objects), 1, units)

    def recognised(self, x: Tensor) -> Tensor:
        """(…, 2 O) P(o | x), and its logarithm in tens of nats."""
        log_p = self._objects[0].log_prob(x).log_softmax(-1)
        return torch.cat([log_p.exp(), log_p / 10], -1)

    def law(self, x: Tensor) -> Derivations:
        """The law over derivations for inputs x (…, *input_shape)."""
        seen = self.input(self.recognised(x))

        def logits(partial: Partial) -> Tensor:
            so_far = (
                nn.functional.one_hot(partial.rules + 1, self.count + 1)[..., 1:].flatten(-2).to(x)
            )
            out: Tensor = self.output(seen + self.rules(so_far))
            return out

        return Derivations(self.grammar, logits, seen.shape[:-1])

    def log_z(self, x: Tensor) -> Tensor:
        """(…) the estimate of log P(x) in nats: that of objects all alike, and a learned
        correction.
        """
        log_objects = self._objects[0].log_prob(x)
        alike = log_objects.logsumexp(-1) - math.log(log_objects.shape[-1])
        log_z: Tensor = alike + self.correction(self.recognised(x))[..., 0]
        return log_z


class TrueOrBuilt(Derivations):
    """A behaviour policy for learning off-policy: random true things to say, among what the guide
    builds.

    With probability `share` a derivation is one of an object drawn from P(o | x), each rule drawn
    uniformly among those whose terminal is true of it; otherwise it is the guide's. It is sampled
    from, and never scored.

    Args:
        law: the guide's.
        objects: (…, O) P(o | x).
        truth: (R, O) bool, whether each rule's terminal, if it has one, is true of the object.
        share: as above.
    """

    def __init__(self, law: Derivations, objects: Tensor, truth: Tensor, share: float) -> None:
        self.law, self.objects, self.truth, self.share = law, objects, truth, share
        super().__init__(law.grammar, law.logits, law.batch_shape)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        shape = (*sample_shape, *self.batch_shape)
        true = torch.rand(shape) < self.share
        seen = torch.distributions.Categorical(self.objects.expand(*shape, -1)).sample()
        uniform = torch.where(self.truth.T[seen], 0.0, -torch.inf)
        logits = self.law.logits
        assert callable(logits)
        mixed = Derivations(
            self.grammar,
            lambda partial: torch.where(true[..., None], uniform, logits(partial)),
            shape,
        )
        return mixed.sample()

    def log_prob(self, value: Tensor) -> Tensor:
        raise NotImplementedError("A behaviour policy is sampled from, and never scored.")


class GrammarModel(nn.Module):
    r"""Expressions with predetermined primitives, and Bayes' rule: P(expression | x) ∝
    P(expression) P(x | expression).

    An expression is a conjunction of tokens, true of an object if all of them are; x shows an
    object that it is true of (`Shown`). Nothing is learned but, with the inference
    `grammar_gflownet`, the guide. It is a `Speaker`: its sentences are the expressions' tokens, and
    ẑ_s is s itself, a symbol without a geometry of its own.

    Args:
        grammar: its terminals are the tokens of `language`, in their order.
        prior: the law over derivations (its batch shape is ()).
        language: the sentences; the grammar may yield a part of them.
        truth: (O, tokens) 0 or 1, which tokens are true of each object.
        objects: the O objects, and the inputs that show them.
        exact: an expression is true of an object only if it says all of its tokens, so that it
        names it.
        size_principle: x comes from the objects that the expression is true of; otherwise from all,
        and happens to fit.
        units: of the guide's perceptrons.
    """

    truth: Tensor
    derivations: Tensor
    sentences: Tensor
    extension: Tensor
    log_prior: Tensor

    def __init__(
        self,
        grammar: Grammar,
        prior: Derivations,
        language: Language,
        truth: Tensor,
        objects: Objects,
        exact: bool = False,
        size_principle: bool = True,
        units: int = 128,
    ) -> None:
        super().__init__()
        if len(grammar.tokens) != language.width or language.ordered:
            raise ValueError(
                f"The grammar has {len(grammar.tokens)} tokens and the language {language.width} "
                f"features: "
                "they must be the same, in the same order."
            )
        self.grammar, self.prior, self.language = grammar, prior, language
        self.exact, self.size_principle = exact, size_principle
        self.latent = language.width
        self.register_buffer("truth", truth.float(), persistent=False)
        self.objects = objects
        derivations = grammar.derivations
        self.register_buffer("derivations", derivations, persistent=False)
        self.register_buffer("sentences", grammar.sentence(derivations), persistent=False)
        self.register_buffer("extension", self.true_of(self.sentences), persistent=False)
        log_prior = prior.log_prob(derivations).double()
        self.register_buffer("log_prior", log_prior - log_prior.logsumexp(-1), persistent=False)
        self.builder = ExpressionBuilder(grammar, objects, units)
        self.draw: Callable[[Tensor, int], Tensor] = self.exact_draws  # what `describe` draws with

    @property
    def device(self) -> torch.device:
        return self.truth.device

    def true_of(self, s: Tensor) -> Tensor:
        """(…, O) bool: the extensions of sentences s (…, tokens)."""
        fits = s @ (1 - self.truth).T == 0
        return fits & (s.sum(-1, keepdim=True) == self.truth.sum(-1)) if self.exact else fits

    # -- the Pyro programs

    def model(self, x: Tensor) -> None:
        """expression ~ grammar, x ~ P(x | expression), for a batch x (B, *input_shape)."""
        with pyro.plate("inputs", len(x)):
            rules = pyro.sample("expression", self.prior)
            extension = self.true_of(self.grammar.sentence(rules))
            pyro.sample("x", Shown(extension, self.objects, self.size_principle), obs=x)

    def guide(self, x: Tensor) -> None:
        """expression ~ the builder, rule by rule."""
        with pyro.plate("inputs", len(x)):
            pyro.sample("expression", self.builder.law(x))

    def behaviour(self, x: Tensor, share: float = 0.5) -> None:
        """The guide, and `share` of random true things to say, so that it learns of what it would
        not say yet.
        """
        spoken = self.grammar.sentence(
            torch.arange(len(self.grammar.rules))[:, None]
        )  # (R, tokens) of single rules
        truth = (spoken @ (1 - self.truth).T) == 0
        objects = self.objects.log_prob(x).softmax(-1)
        with pyro.plate("inputs", len(x)):
            pyro.sample("expression", TrueOrBuilt(self.builder.law(x), objects, truth, share))

    # -- the exact posterior

    def log_likelihood(self, x: Tensor) -> Tensor:
        """(…, E) log P(x | expression) in nats, float64, of inputs x (…, *input_shape)."""
        return log_likelihood(self.objects.log_prob(x), self.extension, self.size_principle)

    def posterior(self, x: Tensor) -> Posterior:
        """log P(expression | x) over `sentences`, and log P(x), in nats, of inputs x (…,
        *input_shape).
        """
        return posterior(self.log_prior, self.log_likelihood(x))

    @torch.no_grad()
    def exact_draws(self, x: Tensor, draws: int) -> Tensor:
        """(B, draws, max_rules) derivations drawn from the enumerated posterior."""
        index = self.posterior(x).log_p.exp().multinomial(draws, replacement=True)
        return self.derivations[index]

    @torch.no_grad()
    def guide_draws(self, x: Tensor, draws: int) -> Tensor:
        """(B, draws, max_rules) derivations drawn from the guide."""
        return self.builder.law(x[:, None].expand(-1, draws, -1)).sample()

    @torch.no_grad()
    def chain_draws(self, x: Tensor, draws: int, steps: int) -> Tensor:
        """(B, draws, max_rules) derivations at which independent chains of Metropolis-Hastings are
        after `steps`.
        """
        rules = last_states(SubtreeRegeneration(self.model), steps, x.repeat_interleave(draws, 0))
        return rules.unflatten(0, (len(x), draws))

    # -- the speaker

    def describe(self, x: Tensor, draws: int = 1) -> Description:
        """`draws` expressions for each of the inputs x (B, *input_shape), as the inference program
        draws them.
        """
        s = self.grammar.sentence(self.draw(x, draws))
        return Description(self.embed(s), s)

    def embed(self, s: Tensor) -> Tensor:
        """(…, tokens) ẑ_s: the sentence s itself."""
        return s
