"""A Bayesian language of thought: grammars with stated priors, and three ways to infer
expressions.
"""

from plot_attractors.language_of_thought.enumeration import Posterior, log_likelihood, posterior
from plot_attractors.language_of_thought.grammar import (
    Derivations,
    Grammar,
    Partial,
    ProbabilisticGrammar,
    RationalRules,
    conjunctions,
    paths,
)
from plot_attractors.language_of_thought.inference import GrammarInference, sentence_shares
from plot_attractors.language_of_thought.mcmc import (
    Proposal,
    SubtreeRegeneration,
    last_states,
    log_joint,
    regenerate,
)
from plot_attractors.language_of_thought.model import ExpressionBuilder, GrammarModel, Shown
from plot_attractors.language_of_thought.objects import BitObjects, Objects, SpriteObjects

__all__ = [
    "BitObjects",
    "Derivations",
    "ExpressionBuilder",
    "Grammar",
    "GrammarInference",
    "GrammarModel",
    "Objects",
    "Partial",
    "Posterior",
    "ProbabilisticGrammar",
    "Proposal",
    "RationalRules",
    "Shown",
    "SpriteObjects",
    "SubtreeRegeneration",
    "conjunctions",
    "last_states",
    "log_joint",
    "log_likelihood",
    "paths",
    "posterior",
    "regenerate",
    "sentence_shares",
]
