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
from plot_attractors.language_of_thought.people import (
    compare_answers,
    exemplar_answers,
    given_answers,
    grammar_answers,
    prototype_answers,
    read_answers,
)
from plot_attractors.language_of_thought.policy import ExpressionSearch, RulePolicy
from plot_attractors.language_of_thought.trials import LearningCurve, learn

__all__ = [
    "Best", "BitObjects", "Derivations", "ExpressionSearch", "Grammar", "GrammarModel",
    "LearningCurve", "MetropolisHastings", "ProbabilisticGrammar", "RationalRules", "RulePolicy",
    "SpriteObjects", "compare_answers", "conjunctions", "exact_posterior", "examples",
    "exemplar_answers", "given_answers", "grammar_answers", "grammar_inputs", "in_use",
    "insert_or_delete", "labels", "learn", "literals", "log_joint", "log_likelihood", "measure",
    "paths", "posterior", "prototype_answers", "read_answers", "regenerate", "sentence_shares",
    "swap",
]  # fmt: skip
