"""A Bayesian language of thought: grammars with given priors, and three kinds of inference."""

from plot_attractors.language_of_thought.concepts import examples, labels
from plot_attractors.language_of_thought.derivations import (
    Derivations,
    ProbabilisticGrammar,
    RationalRules,
)
from plot_attractors.language_of_thought.enumeration import (
    exact_posterior,
    log_joint,
    log_likelihood,
    posterior,
)
from plot_attractors.language_of_thought.grammar import Grammar, conjunctions, literals, paths
from plot_attractors.language_of_thought.inference import (
    grammar_inputs,
    in_use,
    measure,
    sentence_shares,
)
from plot_attractors.language_of_thought.mcmc import Best, MetropolisHastings
from plot_attractors.language_of_thought.model import GrammarModel
from plot_attractors.language_of_thought.moves import insert_or_delete, regenerate, swap
from plot_attractors.language_of_thought.objects import BitObjects, SpriteObjects
from plot_attractors.language_of_thought.policy import ExpressionSearch, RulePolicy

__all__ = [
    "Best", "BitObjects", "Derivations", "ExpressionSearch", "Grammar", "GrammarModel",
    "MetropolisHastings", "ProbabilisticGrammar", "RationalRules", "RulePolicy", "SpriteObjects",
    "conjunctions", "exact_posterior", "examples", "grammar_inputs", "in_use", "insert_or_delete",
    "labels", "literals", "log_joint", "log_likelihood", "measure", "paths", "posterior",
    "regenerate", "sentence_shares", "swap",
]  # fmt: skip
