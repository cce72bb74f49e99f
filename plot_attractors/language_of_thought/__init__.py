"""A Bayesian language of thought: grammars with given priors, and three kinds of inference."""

from plot_attractors.language_of_thought.concepts import examples, labels
from plot_attractors.language_of_thought.derivations import (
    Derivations,
    ProbabilisticGrammar,
    RationalRules,
    RulePolicy,
)
from plot_attractors.language_of_thought.enumeration import (
    exact_posterior,
    log_likelihood,
    posterior,
)
from plot_attractors.language_of_thought.grammar import Grammar, conjunctions, literals, paths
from plot_attractors.language_of_thought.inference import in_use, measure
from plot_attractors.language_of_thought.mcmc import MetropolisHastings
from plot_attractors.language_of_thought.model import GrammarModel
from plot_attractors.language_of_thought.objects import BitObjects, SpriteObjects

__all__ = [
    "BitObjects", "Derivations", "Grammar", "GrammarModel", "MetropolisHastings",
    "ProbabilisticGrammar", "RationalRules", "RulePolicy", "SpriteObjects", "conjunctions",
    "exact_posterior", "examples", "in_use", "labels", "literals",
    "log_likelihood", "measure", "paths", "posterior",
]  # fmt: skip
