"""Sentences: the language and its prior, and distributions over its sentences."""

from .language import MOST_SENTENCES, Language, pairs_to_fit

__all__ = ["MOST_SENTENCES", "Language", "pairs_to_fit"]
