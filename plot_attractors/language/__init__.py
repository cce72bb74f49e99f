"""Sentences: the language and its prior, and distributions over its sentences."""

from .language import MOST_SENTENCES, USAGE_INPUTS, Language, in_use_threshold, pairs_to_fit, usage

__all__ = [
    "MOST_SENTENCES",
    "USAGE_INPUTS",
    "Language",
    "in_use_threshold",
    "pairs_to_fit",
    "usage",
]
