"""A Bayesian language of thought: grammars with given priors, and three kinds of inference."""

from plot_attractors.language_of_thought.derivations import (
    Derivations,
    ProbabilisticGrammar,
    RationalRules,
)
from plot_attractors.language_of_thought.enumeration import log_likelihood, posterior
from plot_attractors.language_of_thought.grammar import Grammar, conjunctions, literals, paths
from plot_attractors.language_of_thought.inference import (
    grammar_inputs,
    in_use,
    measure,
    sentence_shares,
)
from plot_attractors.language_of_thought.mcmc import SubtreeRegeneration
from plot_attractors.language_of_thought.model import GrammarModel
from plot_attractors.language_of_thought.objects import BitObjects, SpriteObjects

__all__ = [
    "BitObjects", "Derivations", "Grammar", "GrammarModel",
    "ProbabilisticGrammar", "RationalRules", "SpriteObjects", "SubtreeRegeneration",
    "conjunctions", "grammar_inputs", "in_use", "literals", "log_likelihood", "measure", "paths",
    "posterior", "sentence_shares",
]  # fmt: skip
