"""A Bayesian language of thought: grammars with stated priors, and three ways to infer expressions."""

from .enumeration import Posterior, log_likelihood, posterior
from .grammar import Derivations, Grammar, Partial, ProbabilisticGrammar, RationalRules, conjunctions, paths
from .inference import GrammarInference, sentence_shares
from .mcmc import Proposal, SubtreeRegeneration, last_states, log_joint, regenerate
from .model import ExpressionBuilder, GrammarModel, Shown
from .objects import BitObjects, Objects, SpriteObjects

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
