"""A Bayesian language of thought: expressions, what they are true of, and inputs that show it."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pyro
import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from plot_attractors.language import Language
from plot_attractors.language_of_thought.derivations import Derivations, RulePolicy
from plot_attractors.language_of_thought.enumeration import Posterior, log_likelihood, posterior
from plot_attractors.language_of_thought.grammar import Grammar, Partial
from plot_attractors.language_of_thought.mcmc import MetropolisHastings, last_states
from plot_attractors.language_of_thought.objects import Objects
from plot_attractors.model.nn import MLP
from plot_attractors.model.protocols import Description

WAYS = "exact", "guide", "chain"  # to draw an expression
NOTHING = -100.0  # nats, log P(x | an expression that is true of nothing)

__all__ = ["ExpressionBuilder", "GrammarModel", "TrueOrBuilt"]


def log_shown(log_objects: Tensor, extension: Tensor, size_principle: bool = True) -> Tensor:
    """(…) log P(x | expression): an object that the expression is true of, seen through noise.

    See `log_likelihood`; of what is true of nothing it is −100, from which a guide that proposes it
    must learn. `log_objects` (…, O) are log P(x | object), `extension` (…, O) bool the objects that
    each expression is true of; with `size_principle` objects come from it, else from the whole
    world. Without, this sums to less than 1 over x: right for posteriors of expressions, but no
    distribution of inputs.
    """
    inside = torch.where(extension, log_objects, -torch.inf).logsumexp(-1)
    known = extension.sum(-1)
    size = known if size_principle else torch.tensor(extension.shape[-1])
    return (inside - size.clamp(min=1).log()).masked_fill(known == 0, NOTHING)


class ExpressionBuilder(RulePolicy):
    """The amortised guide of a grammar: P(next rule | rules so far, x), and log P(x).

    It sees an input as the probabilities P(o | x) of the objects, all alike before.
    """

    def __init__(self, grammar: Grammar, objects: Objects, units: int = 128) -> None:
        super().__init__(grammar, 2 * len(objects), units)
        self._objects = [objects]  # in a list: the model has it
        self.correction = MLP(2 * len(objects), 1, units)

    def recognised(self, x: Tensor) -> Tensor:
        """(…, 2 O) P(o | x), and its logarithm in tens of nats."""
        log_p = self._objects[0].log_prob(x).log_softmax(-1)
        return torch.cat([log_p.exp(), log_p / 10], -1)

    def of_input(self, x: Tensor) -> Derivations:
        """P(derivation | x) for inputs x (…, *input_shape)."""
        return self.derivations(self.recognised(x))

    def log_z(self, x: Tensor) -> Tensor:
        """(…) the estimate of log P(x) in nats: objects all alike, and a learned correction."""
        log_objects = self._objects[0].log_prob(x)
        alike = log_objects.logsumexp(-1) - math.log(log_objects.shape[-1])
        log_z: Tensor = alike + self.correction(self.recognised(x))[..., 0]
        return log_z


class TrueOrBuilt(Derivations):
    """A behaviour policy for learning off-policy; it is sampled from, and never scored.

    With probability `share` a derivation is of an object drawn from P(o | x), each rule uniform
    among those whose terminal is true of it; otherwise it is the guide's.

    Args:
        guide: the guide's derivations.
        objects: (…, O) P(o | x).
        truth: (R, O) bool, whether each rule's terminal, if it has one, is true of the object.
    """

    def __init__(self, guide: Derivations, objects: Tensor, truth: Tensor, share: float) -> None:
        self.objects, self.truth, self.share = objects, truth, share
        super().__init__(guide.grammar, guide.logits, guide.batch_shape)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        shape = (*sample_shape, *self.batch_shape)
        true = torch.rand(shape) < self.share
        seen = torch.distributions.Categorical(self.objects.expand(*shape, -1)).sample()
        uniform = torch.where(self.truth.T[seen], 0.0, -100.0)  # any where none is true
        logits = self.logits
        assert callable(logits)

        def mixed(partial: Partial) -> Tensor:
            return torch.where(true[..., None], uniform, logits(partial))

        return Derivations(self.grammar, mixed, shape).sample()


class GrammarModel(nn.Module):
    r"""Expressions with given primitives: P(expression | x) ∝ P(expression) P(x | expression).

    x shows an object that the expression is true of (`log_shown`): as the grammar's rules mean, of
    values (O,) bool, or, with `truth`, if all tokens of the expression are true of it. Only the
    guide is learned, by inference `grammar`. Sentences are the expressions' rules, one feature for
    each place and rule, or, with `language`, their tokens; ẑ_s is s itself.

    Args:
        grammar: its terminals are the tokens of `language`, in their order, if there is one.
        prior: over derivations (its batch shape is ()).
        objects: the O objects, and the inputs that show them.
        language: the sentences; the grammar may yield a part of them.
        truth: (O, tokens) 0 or 1, which tokens are true of each object; with `language` only.
        exact: an expression is true only of an object of which it has all tokens.
        size_principle: x comes from the objects that the expression is true of, not from all.
        units: of the guide's perceptrons; None: there is no guide.
    """

    truth: Tensor | None
    derivations: Tensor
    sentences: Tensor
    extension: Tensor
    log_prior: Tensor
    draws: Tensor
    builder: Any  # an ExpressionBuilder, or None

    def __init__(
        self,
        grammar: Grammar,
        prior: Derivations,
        objects: Objects,
        language: Language | None = None,
        truth: Tensor | None = None,
        exact: bool = False,
        size_principle: bool = True,
        units: int | None = None,
    ) -> None:
        super().__init__()
        if language is not None and (len(grammar.tokens) != language.width or language.ordered):
            raise ValueError(
                f"The grammar has {len(grammar.tokens)} tokens and the language {language.width} "
                "features: they must be the same, in the same order."
            )
        self.grammar, self.prior, self.exact = grammar, prior, exact
        self.of_tokens = language is not None
        self.language = language or Language((len(grammar.rules),) * grammar.max_rules)
        self.latent, self.size_principle = self.language.width, size_principle
        self.objects = objects
        self.register_buffer("truth", None if truth is None else truth.float(), persistent=False)
        self.register_buffer("derivations", grammar.derivations, persistent=False)
        self.register_buffer("sentences", self.sentence(self.derivations), persistent=False)
        extension = self.true_of(self.derivations)
        if extension.dtype != torch.bool or extension.shape[1:] != (len(objects),):
            raise ValueError(
                f"Expressions must be true or false of each of {len(objects)} objects, not "
                f"{extension.dtype} of shape {tuple(extension.shape[1:])}."
            )
        self.register_buffer("extension", extension, persistent=False)
        log_prior = prior.log_prob(self.derivations).double().log_softmax(-1)
        self.register_buffer("log_prior", log_prior, persistent=False)
        builder = None if units is None else ExpressionBuilder(grammar, objects, units)
        self.register_module("builder", builder)
        self.register_buffer("draws", torch.zeros(2, dtype=torch.int64))  # see `draw_by`

    @property
    def device(self) -> torch.device:
        return self.extension.device

    def sentence(self, rules: Tensor) -> Tensor:
        """(…, width) sentences of derivations (…, max_rules)."""
        if self.of_tokens:
            return self.grammar.sentence(rules)
        return one_hot(rules + 1, len(self.grammar.rules) + 1)[..., 1:].flatten(-2).float()

    def true_of(self, rules: Tensor) -> Tensor:
        """(…, O) bool: the extensions of derivations (…, max_rules)."""
        if self.truth is None:
            return self.grammar.value(rules)
        s = self.grammar.sentence(rules)
        fits = s @ (1 - self.truth).T == 0
        return fits & (s.sum(-1, keepdim=True) == self.truth.sum(-1)) if self.exact else fits

    def model(self, x: Tensor) -> None:
        """expression ~ grammar, x ~ P(x | expression), for a batch x (B, *input_shape)."""
        with pyro.plate("inputs", len(x)):
            rules = pyro.sample("expression", self.prior)
            extension = self.true_of(rules)
            pyro.factor("x", log_shown(self.objects.log_prob(x), extension, self.size_principle))

    def guide(self, x: Tensor) -> None:
        """expression ~ the builder, rule by rule."""
        with pyro.plate("inputs", len(x)):
            pyro.sample("expression", self.builder.of_input(x))

    def behaviour(self, x: Tensor, share: float = 0.5) -> None:
        """The guide, and a share of random true expressions, which it would not draw yet."""
        if self.truth is None:
            truth = self.grammar.constants(len(self.objects))
        else:
            single = self.grammar.sentence(torch.arange(len(self.grammar.rules))[:, None])
            truth = (single @ (1 - self.truth).T) == 0
        objects = self.objects.log_prob(x).softmax(-1)
        with pyro.plate("inputs", len(x)):
            guide = self.builder.of_input(x)
            pyro.sample("expression", TrueOrBuilt(guide, objects, truth, share))

    def log_likelihood(self, x: Tensor) -> Tensor:
        """(…, E) log P(x | expression) in nats, float64, of inputs x (…, *input_shape)."""
        return log_likelihood(self.objects.log_prob(x), self.extension, self.size_principle)

    def posterior(self, x: Tensor) -> Posterior:
        """log P(expression | x) over `sentences`, and log P(x), of inputs x (…, *input_shape)."""
        return posterior(self.log_prior, self.log_likelihood(x))

    @torch.no_grad()
    def exact_draws(self, x: Tensor, draws: int) -> Tensor:
        """(B, draws, max_rules) derivations drawn from the enumerated posterior."""
        index = self.posterior(x).log_p.exp().multinomial(draws, replacement=True)
        return self.derivations[index]

    @torch.no_grad()
    def guide_draws(self, x: Tensor, draws: int) -> Tensor:
        """(B, draws, max_rules) derivations drawn from the guide."""
        return self.builder.of_input(x[:, None].expand(-1, draws, -1)).sample()

    @torch.no_grad()
    def chain_draws(self, x: Tensor, draws: int, steps: int) -> Tensor:
        """(B, draws, max_rules) last states of independent chains after `steps` proposals."""
        rules = last_states(MetropolisHastings(self.model), steps, x.repeat_interleave(draws, 0))
        return rules.unflatten(0, (len(x), draws))

    def draw_by(self, way: str, steps: int = 0) -> None:
        """How `describe` draws from now on, as the model's state keeps it; `steps` of chains."""
        self.draws.copy_(torch.tensor([WAYS.index(way), steps]))

    @property
    def draw(self) -> Callable[[Tensor, int], Tensor]:
        """Inputs and a number of draws → derivations (B, draws, max_rules), as `draw_by` says."""
        way, steps = self.draws.tolist()
        chains = partial(self.chain_draws, steps=steps)
        return (self.exact_draws, self.guide_draws, chains)[way]

    def describe(self, x: Tensor, draws: int = 1) -> Description:
        """`draws` expressions for each of the inputs x (B, *input_shape), by `draw`."""
        s = self.sentence(self.draw(x, draws))
        return Description(self.embed(s), s)

    def embed(self, s: Tensor) -> Tensor:
        """(…, tokens) ẑ_s: the sentence s itself."""
        return s
