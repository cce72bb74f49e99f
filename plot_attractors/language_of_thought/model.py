"""A Bayesian language of thought: expressions, what they are true of, and inputs that show it."""

from __future__ import annotations

import pyro
import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from plot_attractors.language import Language
from plot_attractors.language_of_thought.derivations import Derivations
from plot_attractors.language_of_thought.enumeration import Posterior, log_likelihood, posterior
from plot_attractors.language_of_thought.grammar import Grammar
from plot_attractors.language_of_thought.objects import Objects
from plot_attractors.model.protocols import Description

NOTHING = -100.0  # nats, log P(x | an expression that is true of nothing)

__all__ = ["GrammarModel"]


def log_shown(log_objects: Tensor, extension: Tensor, size_principle: bool = True) -> Tensor:
    """(…) log P(x | expression): an object that the expression is true of, seen through noise.

    See `log_likelihood`; of what is true of nothing it is −100, from which chains find
    their way. `log_objects` (…, O) are log P(x | object), `extension` (…, O) bool the objects that
    each expression is true of; with `size_principle` objects come from it, else from the whole
    world. Without, this sums to less than 1 over x: right for posteriors of expressions, but no
    distribution of inputs.
    """
    inside = torch.where(extension, log_objects, -torch.inf).logsumexp(-1)
    known = extension.sum(-1)
    size = known if size_principle else torch.tensor(extension.shape[-1])
    return (inside - size.clamp(min=1).log()).masked_fill(known == 0, NOTHING)


class GrammarModel(nn.Module):
    r"""Expressions with given primitives: P(expression | x) ∝ P(expression) P(x | expression).

    x shows an object that the expression is true of (`log_shown`): as the grammar's rules mean, of
    values (O,) bool, or, with `truth`, if all tokens of the expression are true of it. Nothing
    is learned: inference `grammar` says how sentences are drawn. Sentences are the expressions'
    rules, one feature for each place and rule, or, with `language`, their tokens; ẑ_s is s itself.

    Args:
        grammar: its terminals are the tokens of `language`, in their order, if there is one.
        prior: over derivations (its batch shape is ()).
        objects: the O objects, and the inputs that show them.
        language: the sentences; the grammar may yield a part of them.
        truth: (O, tokens) 0 or 1, which tokens are true of each object; with `language` only.
        exact: an expression is true only of an object of which it has all tokens.
        size_principle: x comes from the objects that the expression is true of, not from all.
    """

    truth: Tensor | None
    derivations: Tensor
    sentences: Tensor
    extension: Tensor
    log_prior: Tensor

    def __init__(
        self,
        grammar: Grammar,
        prior: Derivations,
        objects: Objects,
        language: Language | None = None,
        truth: Tensor | None = None,
        exact: bool = False,
        size_principle: bool = True,
    ) -> None:
        super().__init__()
        if language is not None and len(grammar.tokens) != language.width:
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

    def log_likelihood(self, x: Tensor) -> Tensor:
        """(…, E) log P(x | expression) in nats, float64, of inputs x (…, *input_shape)."""
        return log_likelihood(self.objects.log_prob(x), self.extension, self.size_principle)

    def posterior(self, x: Tensor) -> Posterior:
        """log P(expression | x) over `sentences`, and log P(x), of inputs x (…, *input_shape)."""
        return posterior(self.log_prior, self.log_likelihood(x))

    @torch.no_grad()
    def draw(self, x: Tensor, draws: int) -> Tensor:
        """(B, draws, max_rules) derivations drawn from the enumerated posterior."""
        index = self.posterior(x).log_p.exp().multinomial(draws, replacement=True)
        return self.derivations[index]

    def describe(self, x: Tensor, draws: int = 1) -> Description:
        """`draws` expressions for each of the inputs x (B, *input_shape), by `draw`."""
        s = self.sentence(self.draw(x, draws))
        return Description(self.embed(s), s)

    def embed(self, s: Tensor) -> Tensor:
        """(…, tokens) ẑ_s: the sentence s itself."""
        return s
