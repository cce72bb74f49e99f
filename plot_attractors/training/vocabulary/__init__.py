"""How tokens get their embeddings where each moves the sentence embedding along one latent axis."""

from .phases import Vocabulary, VocabularyLearning

__all__ = ["Vocabulary", "VocabularyLearning"]
